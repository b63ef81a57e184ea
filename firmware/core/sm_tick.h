/* Ticks: one per sampling period. A measurement, or half a period without one, then filter, state feedback and
 * motors.
 *
 * A tick is one step of the model. Its sample time is predicted from when the last measurements came, so a late
 * measurement gets the tick it belongs to, and one that comes after its tick was run without it is stale. Main loop
 * only. */
#ifndef SM_TICK_H
#define SM_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "robot.h"
#include "sm_link.h"
#include "sm_numbers.h"

typedef struct sm_loop sm_loop; /* sm_loop.h */

/* Filter and state feedback. Other files read it; written by sm_tick.c, and is_running also by sm_axes.c. */
typedef struct {
  sm_controller controller;   /* filter, and the state feedback where measurements are not delayed */
  sm_real applied[SM_MOTORS]; /* commands of the last tick, after limits, in the command's format */
#if SM_DELAY_SAMPLES > 0
  sm_controller predicted; /* the controller when the command takes effect: SM_DELAY_SAMPLES ahead of the measurement */
  sm_real input_history[SM_DELAY_SAMPLES][SM_MOTORS]; /* commands since the measurement was made, oldest first */
#endif
  uint32_t tick;               /* schedule entry k in use; 0 until run */
  uint32_t sequence;           /* of the last measurement; wraps */
  uint32_t accepted;           /* channels that the last measurement updated the filter with, one bit each */
  uint32_t gated;              /* channels rejected by the gate since arming or run; counter */
  uint32_t limited;            /* commands limited in range or rate since the start; counter, wraps */
  uint32_t overflows_at_start; /* number-format overflows of the controller when the run began */
  bool is_running;             /* since the last run command, until idle or fault: ticks advance the schedule */
} sm_tick_control;

/* When ticks are run. Other files read it; written by sm_tick.c, and where marked by sm_axes.c or sm_host.c. */
typedef struct {
  uint32_t next_us;      /* µs, loop clock: next sample time, when the next measurement should come */
  uint32_t filter_count; /* measurements that next_us is the mean of, 0 … 24; 0 where it is a guess */
  uint32_t missed;       /* ticks without a measurement since the last one */
  uint32_t transit_us;   /* µs, least of arrival minus stamp, of late; only where has_transit */
  uint32_t longest_us;   /* µs, longest tick since power was last switched on (sm_axes.c) */
  sm_real contact_age;   /* of the contact in the last measurement, in the format of the model */
  bool is_ticking;       /* the filter runs: armed until idle or fault (sm_axes.c) */
  bool has_transit;      /* a measurement came since the clock was chosen (sm_host.c) */
} sm_tick_timing;

/* Starts the filter at the start of the schedule, and ticks from now on. The commands start there, too: run is refused
 * where the motors are not. */
void sm_tick_start_filter(sm_loop *l);

/* Starts the schedule at its first entry with the next tick; counters of the run begin at 0. */
void sm_tick_start_run(sm_loop *l);

/* Runs the ticks that are due: those that are half a period late, without a measurement; where the board measures with
 * its own encoders, all of them at their sample times. One per call, so that motors and messages do not wait, or all of
 * them where time is virtual. After a long silence the oldest are left out. */
void sm_tick_run_due(sm_loop *l);

/* Handles a MEASUREMENT that arrived at arrived_us (board clock): runs its tick, or adds it to a calibration. A
 * stale one is counted by the supervisor and changes nothing else, as does any where the board measures itself. */
void sm_tick_on_measurement(sm_loop *l, const sm_message *message, uint32_t arrived_us);

/* Handles VIRTUAL_ENCODER: runs what is due by its stamp, and answers with the efforts. Ignored unless IO is
 * virtual. */
void sm_tick_on_encoders(sm_loop *l, const sm_message *message);

#endif
