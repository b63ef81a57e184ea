/* Set-points that come while a controller runs, as far as it needs neither clock nor supervisor: from the end of the
 * schedule on it follows them.
 *
 * A set-point s has an entry per streamed quantity, each of them a coordinate of the model, in the format of its
 * reference. Its value moves towards the last set-point, as fast as it can without overshoot: at most
 * SM_STREAM_STEP per tick, which changes by at most SM_STREAM_CHANGE, and never beyond SM_STREAM_LOW … SM_STREAM_HIGH.
 * Where none is heard for too long it slows down and stays where it is.
 *
 * The last schedule entry holds an equilibrium, x0 and u0 at s0. Near it the equilibria are a plane, and a motion along
 * that plane at constant speed is one of the model, too. The schedule has the slopes of both, two rows per quantity:
 *
 *   x_ref = x0 + D (s - s0) + E (s_next - s),   u_ref likewise
 *
 * Raw words of D have SM_STREAM_POSITION_BITS more fraction bits than those of what they are added to have beyond those
 * of s; raw words of E have SM_STREAM_SPEED_BITS more. */
#ifndef SM_FOLLOW_H
#define SM_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "robot.h"
#include "sm_schedule.h"

/* How many quantities are streamed; jobs without a stream define nothing. */
#ifndef SM_STREAMS
#define SM_STREAMS 0
#endif

#define SM_STREAM_POSITION_BITS                                                                                        \
  28                            /* a set-point at its limit moves nothing by more than 8 times what its format holds */
#define SM_STREAM_SPEED_BITS 18 /* steps of a tick are a small part of a range, so their factors are larger */

#if SM_STREAMS > 0

/* Other files read it; written by sm_follow.c. */
typedef struct {
  sm_real target[SM_STREAMS]; /* last set-point, within its limits of value */
  sm_real value[SM_STREAMS];  /* followed in this tick */
  sm_real next[SM_STREAMS];   /* followed in the next one */
} sm_follow;

#ifdef __cplusplus
extern "C" {
#endif

/* Starts at the last schedule entry. */
void sm_follow_start(sm_follow *f, const sm_schedule *s);

/* Takes a set-point for quantity i, below SM_STREAMS. */
void sm_follow_set(sm_follow *f, unsigned i, sm_real set_point);

/* Moves the value by a tick and, where `is_over`, adds what it changes to c->row, which then holds the last schedule
 * entry. Nothing moves before, nor unless `moves`; where no set-point `is_heard`, it slows down. */
void sm_follow_step(sm_follow *f, const sm_schedule *s, sm_controller *c, bool is_over, bool moves, bool is_heard);

#ifdef __cplusplus
}
#endif

#endif

#endif
