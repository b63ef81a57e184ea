/* Set-points that come while a board runs: sm_follow.h has how references follow them from the end of the schedule on.
 *
 * Where no SET_POINT comes for SM_STREAM_HOLD_US the board slows down and stays where it is. Main loop only. */
#ifndef SM_STREAM_H
#define SM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sm_follow.h"
#include "sm_link.h"

typedef struct sm_loop sm_loop; /* sm_loop.h */

#if SM_STREAMS > 0

/* Other files read it; written by sm_stream.c. */
typedef struct {
  sm_follow follow;  /* value and target */
  uint32_t sequence; /* of the last set-point; 0 before the first */
  uint32_t heard_us; /* µs, loop clock: when it came; only where is_heard */
  bool is_heard;     /* one has come within SM_STREAM_HOLD_US */
  uint8_t state;     /* STEPMAP_STREAM_… */
} sm_stream;

/* Starts at the last schedule entry, with no set-point heard. */
void sm_stream_start(sm_loop *l);

/* Handles a SET_POINT. */
void sm_stream_on_set_point(sm_loop *l, const sm_message *message);

/* Moves the value by a tick and adds what it changes to c->row, which holds schedule entry k. Nothing moves before the
 * last entry, nor while the supervisor does not let the motors follow. Before a run it does nothing. */
void sm_stream_step(sm_loop *l, uint32_t k, sm_controller *c);

/* Sends SET_POINT_STATUS while running. */
void sm_stream_report(sm_loop *l);

#else

static inline void sm_stream_start(const sm_loop *l) { (void)l; }
static inline void sm_stream_step(const sm_loop *l, uint32_t k, const sm_controller *c) {
  (void)l;
  (void)k;
  (void)c;
}
static inline void sm_stream_report(const sm_loop *l) { (void)l; }

#endif

#endif
