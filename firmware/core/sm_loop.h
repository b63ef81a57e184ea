/* The robot: measurement → gate → filter update → state feedback → prediction → telemetry, and the motors in
 * between.
 *
 *     port_init();
 *     sm_loop_start(&loop, &sm_loop_defaults);
 *     for (;;) {
 *       sm_loop_turn(&loop);
 *     }
 *
 * A tick is run when a measurement arrives, or half a period after its sample time without one. The filter runs
 * while armed, running, holding and stopped; the state feedback moves motors while running only.
 *
 * On a bench motors and encoders can be those of messages (virtual IO), and with them time can be that of their
 * stamps (virtual time): then the board does the same for the same messages however long they take, bit for bit.
 *
 * sm_loop holds all of the firmware's state, one struct per concern; the header that defines the struct says who
 * writes it. Everything runs in the main loop: interrupts are the port's, and none of them sees it. */
#ifndef SM_LOOP_H
#define SM_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "sm_axes.h"
#include "sm_clock.h"
#include "sm_gait.h"
#include "sm_host.h"
#include "sm_link.h"
#include "sm_report.h"
#include "sm_select.h"
#include "sm_store.h"
#include "sm_stream.h"
#include "sm_supervisor.h"
#include "sm_tick.h"
#include "sm_upload.h"

#define SM_LOOP_CHUNK                                                                                                  \
  64U /* bytes taken off the line at once: 1.4 ms at 460 800 baud, a little more than the board sleeps */

typedef struct {
  const uint8_t *key;       /* 32 bytes, or NULL: no message is accepted */
  uint32_t sensor_delay_us; /* µs from a measurement to its arrival: camera, tracker, link */
  uint32_t watchdog_ms;     /* ms without a turn until the board resets */
  uint8_t system;           /* MAVLink system id, 1 … 254 */
} sm_loop_config;

/* Bytes off the line, and when the host was heard. Times are µs of the board clock. Written by sm_loop.c. */
typedef struct {
  uint8_t chunk[SM_LOOP_CHUNK];
  uint8_t chunk_size;     /* bytes in it */
  uint8_t chunk_parsed;   /* of them, bytes that the link has taken */
  bool is_linked;         /* the link could be started */
  uint32_t chunk_us;      /* when they were taken off the line */
  uint32_t frame_us;      /* when the frame that the link waits for was begun … */
  uint32_t frame_dropped; /* … told from others by link.dropped at that time */
  uint32_t heard_us;      /* last message */
} sm_loop_receiver;

struct sm_loop {
  const sm_loop_config *config;
  sm_supervisor supervisor; /* state, and what it allows */
  sm_clock clock;           /* real or virtual time */
  sm_tick_timing timing;    /* when ticks are run */
  sm_tick_control control;  /* filter, state feedback, commands */
  sm_selection selection;   /* the schedule in use */
#if SM_STREAMS > 0
  sm_stream stream; /* set-points that come while it runs */
#endif
#if SM_GAIT
  sm_walk gait; /* landings of a robot that walks */
#endif
  sm_axes axes;              /* motors, encoders, their calibration */
  sm_host host;              /* commands and their answers */
  sm_report report;          /* heartbeats, status messages, counters */
  sm_loop_receiver receiver; /* bytes off the line */
  uint32_t poll_us;          /* µs, board clock: last poll of the supervisor */
  uint16_t erase_wait;       /* heartbeats from a failed erase of flash to the next try; 0 after one that worked */
  uint16_t erase_left;       /* of them, those still to come */
  sm_upload upload;          /* a schedule on its way into flash */
  sm_store store;            /* flash storage */
  sm_link link;              /* MAVLink frames */
};

extern const sm_loop_config sm_loop_defaults;

/* Opens flash storage, runs the self-test, starts the link and the watchdog, and sends a heartbeat. *config is kept by
 * reference. A failed self-test leads to the state fault; its reason goes out with every tenth heartbeat. */
void sm_loop_start(sm_loop *l, const sm_loop_config *config);

/* Handles at most one message, does what is due, and sleeps if there was nothing to do. */
void sm_loop_turn(sm_loop *l);

/* For the files that share sm_loop
 * ------------------------------------------------------------------------------------ */

/* Hands an event without fields to the supervisor, with the time of the loop. sm_axes_apply_supervisor applies what it
 * decides. */
void sm_loop_event(sm_loop *l, sm_event_kind kind);

/* Erases a flash log ahead of its use; a failure counts as a fault and is tried again later: erasing stops the processor
 * for up to seconds, so it waits twice as long each time, up to an hour of heartbeats. Only while motors are off. */
void sm_loop_erase_ahead(sm_loop *l);

#endif
