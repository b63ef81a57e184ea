/* Robots that walk: landings, and the row of the schedule in use.
 *
 * A schedule of such a model has the K rows of one step, and behind them rows for landings that are late. The row of a
 * tick is the one nearest to the estimated pose, among SM_GAIT_BACK before the expected one and SM_GAIT_AHEAD after
 * it. A landing renames the estimate (sm_landing of the generated code) and starts again at row 0.
 *
 * A foot switch is a bit of MEASUREMENT: the foot has come down since the last one, and the values are in the names
 * after it. The word behind the channels is how long ago that was, in the format of the model. A bit in the first K/2
 * rows is no landing: a foot that has just left the ground may touch it again. Main loop only. */
#ifndef SM_GAIT_H
#define SM_GAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "sm_schedule.h"

/* Whether the model walks; others define nothing. */
#ifdef SM_GAIT_POSE
#define SM_GAIT 1
#else
#define SM_GAIT 0
#endif

#define SM_GAIT_BIT 12U /* of `valid` in MEASUREMENT: channels are below */

typedef struct sm_loop sm_loop; /* sm_loop.h */

#if SM_GAIT

#define SM_GAIT_BACK 3U  /* rows before the expected one */
#define SM_GAIT_AHEAD 6U /* rows after it */

/* Other files read it; written by sm_gait.c. */
typedef struct {
  uint32_t row;   /* of the last tick; only where has_row */
  uint32_t ticks; /* since the last landing, or since the run began */
  bool has_row;   /* a tick has been run since the run began */
  bool landed;    /* in this tick */
} sm_gait;

/* Returns the row whose pose is nearest to x, from SM_GAIT_BACK before the expected one to SM_GAIT_AHEAD after it; the
 * first of equal ones. Pure. */
uint32_t sm_gait_nearest(const sm_schedule *s, const sm_real *x, uint32_t expected);

/* Starts a run: the estimate is that of the plan's start. */
void sm_gait_start(sm_loop *l);

/* Begins a tick with the contacts of its measurement, one bit each, and the word that tells their age. Before a run the
 * estimate stays at the start: somebody holds the robot, and lets it go in motion. */
void sm_gait_begin(sm_loop *l, uint32_t contacts, sm_real age);

/* Copies the row of this tick to the controller. After the last row, and where no row has been the last for too long,
 * the supervisor is told that there was no landing. */
void sm_gait_copy_row(sm_loop *l);

#else

static inline void sm_gait_start(sm_loop *l) { (void)l; }
static inline void sm_gait_begin(sm_loop *l, uint32_t contacts, sm_real age) {
  (void)l;
  (void)contacts;
  (void)age;
}

#endif

#endif
