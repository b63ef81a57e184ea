/* Set-points that come while a board runs: from the end of the schedule on it follows them.
 *
 * A set-point s has an entry per streamed quantity, each of them a coordinate of the model, in the format of its
 * reference. Its value moves towards the last SET_POINT message, as fast as it can without overshoot: at most
 * SM_STREAM_STEP per tick, which changes by at most SM_STREAM_CHANGE, and never beyond SM_STREAM_LOW … SM_STREAM_HIGH.
 * Where no message comes for SM_STREAM_HOLD_US it slows down and stays where it is.
 *
 * The last schedule entry holds an equilibrium, x0 and u0 at s0. Near it the equilibria are a plane, and a motion along
 * that plane at constant speed is one of the model, too. The schedule has the slopes of both, two rows per quantity:
 *
 *   x_ref = x0 + D (s - s0) + E (s_next - s),   u_ref likewise
 *
 * Raw words of D have SM_STREAM_POSITION_BITS more fraction bits than those of what they are added to have beyond those
 * of s; raw words of E have SM_STREAM_SPEED_BITS more. Main loop only. */
#ifndef SM_STREAM_H
#define SM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "robot.h"
#include "sm_link.h"

/* How many quantities are streamed; jobs without a stream define nothing. */
#ifndef SM_STREAMS
#define SM_STREAMS 0
#endif

#define SM_STREAM_POSITION_BITS                                                                                        \
  28                            /* a set-point at its limit moves nothing by more than 8 times what its format holds */
#define SM_STREAM_SPEED_BITS 18 /* steps of a tick are a small part of a range, so their factors are larger */

typedef struct sm_loop sm_loop; /* sm_loop.h */

#if SM_STREAMS > 0

/* Other files read it; written by sm_stream.c. */
typedef struct {
  sm_real target[SM_STREAMS]; /* last set-point, within its limits of value */
  sm_real value[SM_STREAMS];  /* followed in this tick */
  sm_real next[SM_STREAMS];   /* followed in the next one */
  uint32_t sequence;          /* of the last set-point; 0 before the first */
  uint32_t heard_us;          /* µs, loop clock: when it came; only where is_heard */
  bool is_heard;              /* one has come within SM_STREAM_HOLD_US */
  uint8_t state;              /* STEPMAP_STREAM_… */
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
