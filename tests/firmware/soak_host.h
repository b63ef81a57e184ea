/* A host on a bad line to the board of harness_loop.c, for soak.c: frames go out signed, and get lost, doubled, damaged,
 * forged or overtaken by chance; what the board sends is checked, counted and hashed. */
#ifndef SOAK_HOST_H
#define SOAK_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller.h"
#include "harness_loop.h"
#include "sm_link.h"

#define SOAK_STATES 8U
#define SOAK_REASONS 32U
#define SOAK_EVENTS 20U

/* What may become of a frame on its way to the board. */
enum { LOST, DOUBLED, FLIPPED, CUT_OFF, NOISE, OVERTAKEN, FORGED, BARE, ELSEWHERE, RECORDED, LINE_FAULTS };

/* Counters since soak_open; soak.py reads them in this order. */
typedef struct {
  uint64_t ticks;  /* TELEMETRY messages */
  uint64_t frames; /* of the board, with a right checksum */
  uint64_t bytes;  /* that the board sent */
  uint64_t sent;   /* frames of the host */
  uint64_t damaged;
  uint64_t runs;
  uint64_t real_runs; /* of them, with the board's own clock and motors */
  uint64_t failed_starts;
  uint64_t resets;
  uint64_t restarts;
  uint64_t power_losses; /* in a write or an erase of flash */
  uint64_t stamp_wraps;
  uint64_t clock_wraps;
  uint64_t uptime_wraps;
  uint64_t events[SOAK_EVENTS]; /* what happened at ticks, by soak.c */
  uint64_t line[LINE_FAULTS];
  uint64_t states[SOAK_STATES]; /* of ticks */
  uint64_t ends[SOAK_REASONS];  /* of runs: why the board was in its state */
} soak_counts;

extern soak_counts soak_counted;
extern const char *soak_failed; /* the first promise that was broken; NULL: none */

/* Notes a promise that is broken. */
#define SOAK_CHECK(promise)                                                                                            \
  do {                                                                                                                 \
    if (!(promise) && soak_failed == NULL) {                                                                           \
      soak_failed = #promise;                                                                                          \
    }                                                                                                                  \
  } while (0)

/* Chance: the same numbers for the same seed on every machine. */
void chance_seed(uint64_t seed);
uint32_t chance_below(uint32_t limit);
bool chance_of(uint32_t per_million);
int32_t chance_around(int32_t sigma); /* nearly normal */

typedef struct {
  mavlink_command_ack_t answer; /* the last one */
  uint32_t sequence;            /* of the last measurement that was meant for the board */
  uint64_t stamp;               /* 10 µs: of the last frame, as signed */
  bool is_jammed;               /* the line takes not all that the board sends */
  bool is_quiet;                /* no faults of the line for now */
} soak_host;

extern soak_host host;

void host_open(const uint8_t *key);
void host_started(void); /* the board began anew */
void host_digest(uint8_t digest[32]);

/* Sends the mavlink_..._t of an id through the line. */
void host_send(uint32_t id, const void *payload);

/* Puts bytes that belong to no frame on the line. */
void host_noise(void);

/* Takes what the board has sent. */
void host_hear(void);

/* The signatures' clock goes on. */
void host_pass(uint32_t us);

#endif
