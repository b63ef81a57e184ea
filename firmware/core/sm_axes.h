/* The motors of the robot, real ones or those of messages, as the supervisor allows. */
#ifndef SM_AXES_H
#define SM_AXES_H

#include <stdint.h>

#include "sm_loop.h"

#define SM_MOTOR_US 1000U      /* between steps of the motors */
#define SM_MOTOR_LEAST_US 750U /* a board that sleeps wakes up every millisecond, sometimes a little early */

extern const sm_motor_config sm_motors[SM_MOTORS];

/* What the supervisor allows, done. After every event that may have changed it. */
void sm_obey(sm_loop *l);

/* Effort of an axis after dt_us more. */
int32_t sm_effort(sm_loop *l, unsigned i, uint32_t dt_us);

/* A step of the real motors where one is due. Called between the parts of whatever takes long, so that a slow processor
 * does not let them wait for a whole tick. */
void sm_turn_motors(sm_loop *l);

void sm_begin_calibration(sm_loop *l);

/* Takes in a measurement at rest, with these channels; the mean of SM_CALIBRATION of them is where the motors stand. What
 * the encoders say they were turned by meanwhile counts; by more than `following` the calibration has failed. */
void sm_calibrate(sm_loop *l, uint32_t valid);

#endif
