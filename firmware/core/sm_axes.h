/* Axes: the motors of the robot as the supervisor allows them, and the calibration of their encoders.
 *
 * Motors, encoders and alarms are the board's own, or on a bench those of messages (virtual IO). Main loop only. */
#ifndef SM_AXES_H
#define SM_AXES_H

#include <stdbool.h>
#include <stdint.h>

#include "port.h"
#include "robot.h"
#include "sm_motor.h"
#include "sm_numbers.h"
#include "sm_supervisor.h"
#include "sm_wide.h"

typedef struct sm_loop sm_loop; /* sm_loop.h */

#define SM_AXES_STEP_US 1000U /* µs between motor loop steps, which the motor gains are made for */
/* µs after which the next one is due: a board that sleeps wakes up every millisecond, sometimes a little early */
#define SM_AXES_DUE_US 750U
#define SM_AXES_DRIVER_STEPS                                                                                           \
  4U /* steps in a row that a driver's fault line has to be low: drivers pull it while they wake up */
#define SM_AXES_ENCODER_STEPS 8U /* steps with counts lost since the calibration, up to which a position is believed */
#define SM_AXES_CALIBRATIONS 64U /* measurements of a calibration: their mean has an eighth of the noise of one */

extern const sm_motor_config sm_axes_config[SM_MOTORS];

/* Calibration of the encoders. Positions are Q8 counts at the first measurement, as later ones tell them. */
typedef struct {
  int64_t sum[SM_MOTORS];     /* Q8 counts, of all positions */
  int64_t low[SM_MOTORS];     /* Q8 counts, least one */
  int64_t high[SM_MOTORS];    /* Q8 counts, largest one */
  int32_t encoder[SM_MOTORS]; /* counts, encoder at the first measurement */
  uint32_t count;             /* measurements so far, 0 … SM_AXES_CALIBRATIONS */
} sm_axes_calibration;

/* Other files read it. sm_axes.c writes it, sm_tick.c the virtual encoders, sm_host.c the choice of motors. */
typedef struct {
  sm_motor motors[SM_MOTORS];
  sm_axes_calibration calibration;
  int32_t virtual_counts[SM_WIDE_ENCODERS]; /* counts of the virtual encoders */
#if SM_MEASURE_ENCODERS
  int32_t zeros[SM_ENCODERS]; /* counts of the encoders where the robot was at the start: calibrated */
#endif
  uint32_t virtual_stamp_us;            /* µs, stamp of their message; only where has_virtual_stamp */
  uint32_t step_us;                     /* µs, board clock: last step of the real motors */
  uint32_t longest_us;                  /* µs, longest time between two of them since power was last switched on */
  uint32_t alarms;                      /* of the board at the last step: PORT_ALARM_… */
  uint32_t virtual_alarms;              /* those of the last message of virtual encoders */
  uint8_t driver_steps;                 /* steps in a row with a driver's fault line low and power on */
  uint8_t encoder_steps[PORT_ENCODERS]; /* steps with counts lost since the calibration */
  sm_motion motion;                     /* what the supervisor allowed last */
  bool is_virtual;                      /* virtual IO: motors and encoders are those of messages */
  bool has_virtual_stamp;               /* virtual encoders came since virtual IO was chosen */
} sm_axes;

/* Applies the output of the supervisor: power, motor modes, end of a run; sends heartbeats of new states. To be
 * called after every event that may have changed the state. */
void sm_axes_apply_supervisor(sm_loop *l);

/* Returns the effort of axis i, -1000 … 1000 per mille, after dt_us more (µs). A new motor fault goes to the
 * supervisor, is applied, and gives 0. */
int32_t sm_axes_effort(sm_loop *l, unsigned i, uint32_t dt_us);

/* Motor loop step: drives the real motors where a step is due, else returns at once. Called between the parts of
 * whatever takes long, so that motors of a slow processor do not wait for a whole tick. */
void sm_axes_step(sm_loop *l);

/* Acts upon alarms (PORT_ALARM_…) of the motors that are in use, once per step of theirs: a driver that holds its fault
 * line, an encoder that loses counts, and a supply that is too low are faults. */
void sm_axes_heed(sm_loop *l, uint32_t alarms);

/* Returns whether the board's supply is too low to write flash, as far as was seen. */
bool sm_axes_supply_low(const sm_loop *l);

/* Begins a calibration: forgets the measurements of the last one. */
void sm_axes_calibration_start(sm_loop *l);

/* Adds the measurement in the controller, made at rest, with the channels `valid` (one bit each); one without all
 * channels of positions is ignored. The mean of SM_AXES_CALIBRATIONS of them is the position of the motors. Motion
 * that the encoders see meanwhile is added to it; more than following_limit of it, or measurements that disagree or
 * lie outside of the travel, fail the calibration. The supervisor is told of either end. */
void sm_axes_calibration_add(sm_loop *l, uint32_t valid);

#if SM_MEASURE_ENCODERS
#define SM_AXES_STILL_TICKS 16U /* that encoders have to rest for a calibration */

/* Measures: sets the channels of the controller to what the encoders show. */
void sm_axes_measure(sm_loop *l);

/* Adds a look at the encoders to a calibration. The robot stands at the start of the schedule: what the encoders show
 * is that. Fails where one moves by more than SM_ENCODER_STILL within SM_AXES_STILL_TICKS looks. */
void sm_axes_calibration_look(sm_loop *l);
#endif

#endif
