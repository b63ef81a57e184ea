/* Which state the robot is in, why, and whether it may move.
 *
 * A pure state machine: no clock, no port, no memory of its own. The loop reports what happens as events with the time;
 * what may be done follows from sm_supervised(). States, events and reasons with their remedies: docs/supervisor.md.
 *
 *     sm_supervisor_start(&s, &sm_supervisor_defaults, port_micros());
 *     sm_supervise(&s, port_micros(), (sm_event){.kind = SM_EVENT_BOOTED});
 *     ...
 *     sm_supervise(&s, port_micros(), (sm_event){.kind = SM_EVENT_POLL});   every few milliseconds
 *     output = sm_supervised(&s);
 *
 * Time is that of port_micros(): it wraps, only differences are used, and it must not run backwards. Time passes before
 * an event is looked at, so what comes too late is too late also when no poll came in between. */
#ifndef SM_SUPERVISOR_H
#define SM_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of states, reasons and motions go over the wire: append, never renumber. */
typedef enum {
  SM_STATE_BOOT = 0,        /* self-test; motors off */
  SM_STATE_IDLE = 1,        /* motors off; the only state that takes uploads */
  SM_STATE_CALIBRATING = 2, /* finds where the encoders stand, motors off */
  SM_STATE_ARMED = 3,       /* motors on, holding their place */
  SM_STATE_RUNNING = 4,     /* follows the law */
  SM_STATE_HOLDING = 5,     /* no valid measurement: ramps to a stop, goes on when one comes in time */
  SM_STATE_STOPPED = 6,     /* motors on, holding their place */
  SM_STATE_FAULT = 7        /* motors off; left by a reset command only */
} sm_state;

typedef enum {
  SM_REASON_NONE = 0,
  SM_REASON_BOOTED = 1,
  SM_REASON_SELF_TEST = 2,
  SM_REASON_CALIBRATE_COMMAND = 3,
  SM_REASON_ARM_COMMAND = 4,
  SM_REASON_RUN_COMMAND = 5,
  SM_REASON_STOP_COMMAND = 6,
  SM_REASON_RESET_COMMAND = 7,
  SM_REASON_CALIBRATED = 8,
  SM_REASON_CALIBRATION_FAILED = 9,
  SM_REASON_CALIBRATION_TIMEOUT = 10,
  SM_REASON_NO_MEASUREMENT = 11,
  SM_REASON_MEASUREMENT_BACK = 12,
  SM_REASON_HOLD_EXPIRED = 13,
  SM_REASON_GATED = 14,
  SM_REASON_INNOVATION = 15,
  SM_REASON_COVARIANCE = 16,
  SM_REASON_MOTOR_FOLLOWING = 17,
  SM_REASON_MOTOR_ENCODER = 18,
  SM_REASON_MOTOR_DRIVER = 19,
  SM_REASON_LINK_LOST = 20,
  SM_REASON_OVERRUN = 21,
  SM_REASON_WRONG_STATE = 22, /* to 25: commands that were refused, no transitions */
  SM_REASON_NOT_CALIBRATED = 23,
  SM_REASON_NO_SCHEDULE = 24,
  SM_REASON_FAR_FROM_START = 25,
  SM_REASON_MOTOR_LATE = 26
} sm_reason;

typedef enum {
  SM_EVENT_POLL = 0, /* time has passed */
  SM_EVENT_BOOTED,   /* the self-test passed */
  SM_EVENT_SELF_TEST_FAILED,
  SM_EVENT_CALIBRATE, /* commands */
  SM_EVENT_ARM,       /* ready */
  SM_EVENT_RUN,
  SM_EVENT_STOP,
  SM_EVENT_RESET,
  SM_EVENT_CALIBRATED,
  SM_EVENT_CALIBRATION_FAILED,
  SM_EVENT_MEASUREMENT, /* sequence, stamp_us, used, gated: after the filter has seen it */
  SM_EVENT_STALE,       /* one that sm_is_new refused, so that the filter never saw it */
  SM_EVENT_STATISTICS,  /* used, nis, spread: once a tick */
  SM_EVENT_SATURATED,   /* a command was limited */
  SM_EVENT_SCHEDULE_END,
  SM_EVENT_MOTOR_FAULT, /* reason: one of SM_REASON_MOTOR_… */
  SM_EVENT_LINK_LOST,
  SM_EVENT_OVERRUN,   /* a tick was not done in time */
  SM_EVENT_MOTOR_LATE /* the motors waited for more than motor_late_us */
} sm_event_kind;

/* Fields an event does not name are not read. */
typedef struct {
  sm_event_kind kind;
  sm_reason reason;
  uint32_t sequence;
  uint32_t stamp_us; /* when it was taken, on this board's clock; the time of arrival where that is not known */
  uint32_t used;     /* channels the filter took in, one bit each; of statistics: those that nis is the mean of */
  uint32_t gated;    /* channels that were valid but implausible */
  uint32_t nis;      /* normalized innovation squared, mean over the used channels, 8 fraction bits */
  uint32_t spread;   /* largest variance in units of its limit, 8 fraction bits */
  bool ready;        /* a verified schedule for this model is there */
} sm_event;

typedef struct {
  uint32_t hold_us;          /* without a valid measurement for this long: hold */
  uint32_t ramp_us;          /* from motion to standstill */
  uint32_t stop_us;          /* in holding until stopped, at least ramp_us */
  uint32_t age_us;           /* older measurements are stale */
  uint32_t calibration_us;   /* longer calibrations have failed */
  uint32_t overrun_us;       /* overruns closer together than this are in a row */
  uint32_t overrun_limit;    /* that many in a row: stop */
  uint32_t motor_late_us;    /* between two steps of motors that are on; more is late */
  uint32_t motor_late_limit; /* that many in a row, as of overruns: stop; and again while holding a place: fault */
  uint32_t gated_limit;      /* that many measurements in a row with a gated channel: stop */
  uint32_t nis_limit;        /* of the mean over about 2^nis_window ticks, 8 fraction bits */
  unsigned nis_window;       /* at most 8 */
  bool calibration_required; /* before arming */
} sm_supervisor_config;

/* Targets stand 230 ms after the last valid measurement; 20 ms are left for polls and for motors to settle. */
extern const sm_supervisor_config sm_supervisor_defaults;

/* Read freely, for telemetry; written here only. Counters count up and wrap. */
typedef struct {
  const sm_supervisor_config *config;
  sm_state state;
  sm_state previous;
  sm_reason previous_reason; /* why it was in that */
  sm_reason reason;          /* of the last transition */
  sm_reason refusal;         /* of the last command that was refused */
  uint32_t transitions;
  uint32_t refused;
  uint32_t taken;     /* valid measurements */
  uint32_t invalid;   /* measurements without any usable channel */
  uint32_t gated;     /* measurements with a gated channel */
  uint32_t stale;     /* measurements older than one before, repeated, or of an impossible age */
  uint32_t saturated; /* commands */
  uint32_t overruns;
  uint32_t motors_late;
  uint32_t now_us;     /* of the last event */
  uint32_t entered_us; /* the state */
  uint32_t valid_us;   /* when the last valid measurement was taken; means something while fresh or holding */
  uint32_t ramp_end_us;
  uint32_t overrun_at_us;
  uint32_t late_at_us;
  uint32_t sequence;    /* of the last measurement, where heard */
  uint32_t nis_sum;     /* mean times 2^nis_window */
  uint32_t spread;      /* of the last tick */
  uint32_t gated_row;   /* measurements in a row with a gated channel */
  uint32_t overrun_row; /* overruns in a row */
  uint32_t late_row;    /* late steps of the motors in a row */
  bool passed;          /* the self-test */
  bool calibrated;
  bool heard;  /* a measurement since calibration or arming began */
  bool fresh;  /* the last valid measurement is younger than hold_us */
  bool at_end; /* of the schedule: its last set-point and gain are held */
  bool ramping;
} sm_supervisor;

typedef enum {
  SM_MOTION_OFF = 0,   /* motors without power */
  SM_MOTION_HOLD = 1,  /* power, the target stands still */
  SM_MOTION_RAMP = 2,  /* the target comes to a standstill within ramp_left_us; commands are frozen */
  SM_MOTION_FOLLOW = 3 /* the target follows the law */
} sm_motion;

typedef struct {
  sm_motion motion;
  uint32_t ramp_left_us;
  bool accept_upload;
  bool accept_calibrate;
  bool accept_arm;
  bool accept_run;
} sm_supervisor_output;

/* Boot, with nothing known. The config must outlive the supervisor. */
void sm_supervisor_start(sm_supervisor *s, const sm_supervisor_config *config, uint32_t now_us);

/* The state after an event. Commands that a state does not allow change nothing but `refused` and `refusal`; those that
 * ask for the state there is are not refused. */
sm_state sm_supervise(sm_supervisor *s, uint32_t now_us, sm_event event);

/* What may be done now, as of the last event. */
sm_supervisor_output sm_supervised(const sm_supervisor *s);

/* Whether a measurement is newer than all before and of a possible age: to be asked before the filter sees it. */
bool sm_is_new(const sm_supervisor *s, uint32_t now_us, uint32_t sequence, uint32_t stamp_us);

#endif
