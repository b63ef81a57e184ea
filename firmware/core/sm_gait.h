/* Robots that walk, in the loop: sm_walk.h has what a landing does and which row of the schedule is in use.
 *
 * A foot switch is a bit of MEASUREMENT: the foot has come down since the last one, and the values are in the names
 * after it. The word behind the channels is how long ago that was, in the format of the model. Main loop only. */
#ifndef SM_GAIT_H
#define SM_GAIT_H

#include <stdint.h>

#include "sm_walk.h"

#define SM_GAIT_BIT 12U /* of `valid` in MEASUREMENT: channels are below */

typedef struct sm_loop sm_loop; /* sm_loop.h */

#if SM_GAIT

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
