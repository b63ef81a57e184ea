/* Robots that walk, as far as it needs neither clock nor supervisor: landings, and the row of the schedule in use.
 *
 * A schedule of such a model has the K rows of one step, and behind them rows for landings that are late. The row of a
 * tick is the one nearest to the estimated pose, among SM_WALK_BACK before the expected one and SM_WALK_AHEAD after
 * it. A landing renames the estimate (sm_landing of the generated code) and starts again at row 0. A contact in the
 * first K/2 rows is no landing: a foot that has just left the ground may touch it again. */
#ifndef SM_WALK_H
#define SM_WALK_H

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

#if SM_GAIT

#define SM_WALK_BACK 3U  /* rows before the expected one */
#define SM_WALK_AHEAD 6U /* rows after it */

/* Other files read it; written by sm_walk.c. */
typedef struct {
  uint32_t row;   /* of the last tick; only where has_row */
  uint32_t ticks; /* since the last landing, or since the run began */
  bool has_row;   /* a tick has been run since the run began */
  bool landed;    /* in this tick */
} sm_walk;

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the row whose pose is nearest to x, from SM_WALK_BACK before the expected one to SM_WALK_AHEAD after it; the
 * first of equal ones. Pure. */
uint32_t sm_walk_nearest(const sm_schedule *s, const sm_real *x, uint32_t expected);

/* Starts a run: the estimate is that of the plan's start. */
void sm_walk_start(sm_walk *w, sm_controller *c);

/* Begins a tick of a run: `contact` is whether the foot has come down since the last one, `age` how long ago that was,
 * in the format of the model. */
void sm_walk_begin(sm_walk *w, sm_controller *c, const sm_schedule *s, bool contact, sm_real age);

/* Copies the row of this tick to the controller. Returns true after the last row, and where no row has been the last
 * for too long: there was no landing. */
bool sm_walk_copy_row(sm_walk *w, sm_controller *c, const sm_schedule *s);

#ifdef __cplusplus
}
#endif

#endif

#endif
