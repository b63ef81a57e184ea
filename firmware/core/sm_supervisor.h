/* Supervisor: the state the robot is in, the reason for it, and whether the robot may move.
 *
 * A pure state machine: it reads no clock, calls no port and keeps no memory but *s. The loop reports events with
 * the time; sm_supervisor_allowed() answers what may be done. States, events and reasons with remedies:
 * docs/supervisor.md.
 *
 *     sm_supervisor_start(&s, &sm_supervisor_defaults, port_micros());
 *     sm_supervisor_handle(&s, port_micros(), (sm_event){.kind = SM_EVENT_BOOTED});
 *     ...
 *     sm_supervisor_handle(&s, port_micros(), (sm_event){.kind = SM_EVENT_POLL});   every few milliseconds
 *     output = sm_supervisor_allowed(&s);
 *
 * Times are those of port_micros(): they wrap, only differences are used, and they must not run backwards. Time-outs
 * are checked before an event is handled, so a measurement that comes too late is too late also when no poll came in
 * between.
 *
 * Every function is called from the main loop only. None can fail: a command that the state does not allow is
 * refused, which changes `refused` and `refusal` and nothing else. */
#ifndef SM_SUPERVISOR_H
#define SM_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#define SM_Q8_ONE 256U /* 1 with 8 fraction bits */

/* The numbers of states, reasons and motions go over the wire: append, never renumber. */
typedef enum {
  SM_STATE_BOOT = 0,        /* self-test; motors off */
  SM_STATE_IDLE = 1,        /* motors off; the only state that takes uploads */
  SM_STATE_CALIBRATING = 2, /* finds the zero of the encoders; motors off */
  SM_STATE_ARMED = 3,       /* motors on, holding the start */
  SM_STATE_RUNNING = 4,     /* follows the state feedback */
  SM_STATE_HOLDING = 5,     /* no valid measurement: ramps to a stop, runs again when one comes in time */
  SM_STATE_STOPPED = 6,     /* motors on, holding their position */
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
  SM_REASON_WRONG_STATE = 22, /* 22 to 25: refused commands, no transitions */
  SM_REASON_NOT_CALIBRATED = 23,
  SM_REASON_NO_SCHEDULE = 24,
  SM_REASON_FAR_FROM_START = 25,
  SM_REASON_MOTOR_LATE = 26,
  SM_REASON_NO_LANDING = 27,
  SM_REASON_SUPPLY = 28
} sm_reason;

/* Behind each event: the fields of sm_event that it carries. */
typedef enum {
  SM_EVENT_POLL = 0,           /* time has passed */
  SM_EVENT_BOOTED,             /* the self-test passed */
  SM_EVENT_SELF_TEST_FAILED,   /* it did not */
  SM_EVENT_CALIBRATE,          /* command */
  SM_EVENT_ARM,                /* command; ready, feedback */
  SM_EVENT_RUN,                /* command */
  SM_EVENT_STOP,               /* command */
  SM_EVENT_RESET,              /* command */
  SM_EVENT_CALIBRATED,         /* the calibration is done */
  SM_EVENT_CALIBRATION_FAILED, /* it cannot be done */
  SM_EVENT_MEASUREMENT,        /* the filter has seen a measurement; sequence, stamp_us, accepted, gated */
  SM_EVENT_STALE,              /* sm_supervisor_is_new refused a measurement: the filter never saw it */
  SM_EVENT_STATISTICS,         /* once per tick; accepted, nis, variance_ratio */
  SM_EVENT_SATURATED,          /* a command was limited in range or rate */
  SM_EVENT_SCHEDULE_END,       /* the last schedule entry is in use */
  SM_EVENT_MOTOR_FAULT,        /* reason: one of SM_REASON_MOTOR_… */
  SM_EVENT_LINK_LOST,          /* the host has been silent for too long */
  SM_EVENT_OVERRUN,            /* a tick took longer than a period */
  SM_EVENT_MOTOR_LATE,         /* more than motor_late_us passed between two motor loop steps */
  SM_EVENT_NO_LANDING,         /* a robot that walks is at its last row, and its foot has not come down */
  SM_EVENT_SUPPLY_LOW          /* the board's supply is too low */
} sm_event_kind;

/* Fields that an event does not carry are not read. */
typedef struct {
  sm_event_kind kind;
  sm_reason reason;
  uint32_t sequence;       /* of the measurement; wraps */
  uint32_t stamp_us;       /* when it was taken, board clock; when it arrived where that is not known */
  uint32_t accepted;       /* channels that the filter accepted, one bit each; nis is their mean */
  uint32_t gated;          /* channels that were valid but rejected by the gate, one bit each */
  uint32_t nis;            /* normalized innovation squared, mean over the accepted channels, Q8: 256 is expected */
  uint32_t variance_ratio; /* largest ratio of a variance to its limit, Q8: more than 256 is divergence */
  bool ready;              /* a verified schedule for this model is there */
  bool feedback;           /* forces hold the start by state feedback: measurements must come, and be plausible */
} sm_event;

typedef struct {
  uint32_t hold_us;          /* µs without a valid measurement until holding */
  uint32_t ramp_us;          /* µs from motion to standstill */
  uint32_t stop_us;          /* µs in holding until stopped, at least ramp_us */
  uint32_t age_us;           /* µs; older measurements are stale */
  uint32_t calibration_us;   /* µs; longer calibrations have failed */
  uint32_t overrun_us;       /* µs; overruns, and late motor steps, closer together than this are consecutive */
  uint32_t overrun_limit;    /* consecutive overruns until stopped */
  uint32_t motor_late_us;    /* µs between two motor loop steps with power on; more is late */
  uint32_t motor_late_limit; /* consecutive late steps until stopped, and again until the fault */
  uint32_t gated_limit;      /* consecutive measurements with a gated channel until stopped */
  uint32_t nis_limit;        /* of the mean NIS over about 2^nis_window ticks, Q8 */
  unsigned nis_window;       /* log2 of the ticks of that mean, 0 … 8 */
  bool calibration_required; /* before arming */
} sm_supervisor_config;

/* With these the targets stand still 230 ms after the last valid measurement (hold_us + ramp_us), and the robot is
 * stopped after 250 ms: 20 ms are left for the period of polls and for motors to settle. */
extern const sm_supervisor_config sm_supervisor_defaults;

/* Other files read it, for telemetry; only the functions below write it. Counters count up and wrap. */
typedef struct {
  const sm_supervisor_config *config;
  sm_state state;
  sm_state previous;            /* state before this one */
  sm_reason previous_reason;    /* why it was in that */
  sm_reason reason;             /* of the last transition */
  sm_reason refusal;            /* of the last command that was refused */
  uint32_t transitions;         /* counter */
  uint32_t refused;             /* counter of refused commands */
  uint32_t accepted;            /* counter of valid measurements */
  uint32_t invalid;             /* counter of measurements without any usable channel */
  uint32_t gated;               /* counter of measurements with a gated channel */
  uint32_t stale;               /* counter of measurements that were repeated, out of order or of an impossible age */
  uint32_t saturated;           /* counter of ticks with a limited command */
  uint32_t overruns;            /* counter */
  uint32_t motors_late;         /* counter of late motor loop steps */
  uint32_t now_us;              /* µs, time of the last event */
  uint32_t entered_us;          /* µs, when the state was entered */
  uint32_t valid_us;            /* µs, when the last valid measurement was taken; only while fresh or holding */
  uint32_t ramp_end_us;         /* µs, when the target stands; only while ramping */
  uint32_t overrun_at_us;       /* µs, last overrun; only while overrun_consecutive > 0 */
  uint32_t late_at_us;          /* µs, last late motor step; only while late_consecutive > 0 */
  uint32_t sequence;            /* of the last measurement; only where has_sequence */
  uint32_t nis_sum;             /* mean NIS, Q8, times 2^nis_window */
  uint32_t variance_ratio;      /* Q8, of the last tick */
  uint32_t gated_consecutive;   /* consecutive measurements with a gated channel */
  uint32_t overrun_consecutive; /* consecutive overruns */
  uint32_t late_consecutive;    /* consecutive late motor loop steps */
  bool feedback;                /* of the last arm command: forces hold the start while armed */
  bool self_test_passed;        /* without it a reset leads back to boot */
  bool calibrated;              /* the zero of the encoders is known */
  bool has_sequence;            /* a measurement came since calibration or arming began */
  bool fresh;                   /* the last valid measurement is younger than hold_us */
  bool at_end;                  /* of the schedule: its last set-point and gain are held */
  bool ramping;                 /* the target is on its way to a standstill */
} sm_supervisor;

typedef enum {
  SM_MOTION_OFF = 0,    /* motors without power */
  SM_MOTION_HOLD = 1,   /* power on, the target stands still */
  SM_MOTION_RAMP = 2,   /* the target comes to a standstill within ramp_left_us; commands are frozen */
  SM_MOTION_FOLLOW = 3, /* the target follows the state feedback */
  SM_MOTION_START = 4   /* power on, the start is held: targets stand still, forces follow the state feedback */
} sm_motion;

/* What may be done now. */
typedef struct {
  sm_motion motion;
  uint32_t ramp_left_us; /* µs until the target stands; 0 unless motion is SM_MOTION_RAMP */
  bool accept_upload;
  bool accept_calibrate;
  bool accept_arm;
  bool accept_run;
} sm_supervisor_output;

/* Resets all of *s: state boot, nothing known. *config is kept by reference and must outlive the supervisor. */
void sm_supervisor_start(sm_supervisor *s, const sm_supervisor_config *config, uint32_t now_us);

/* Handles an event at now_us and returns the state after it. A command that asks for the state there is does nothing
 * and is not refused. Whoever calls it applies sm_supervisor_allowed() afterwards. */
sm_state sm_supervisor_handle(sm_supervisor *s, uint32_t now_us, sm_event event);

/* Returns what may be done, as of the last event. */
sm_supervisor_output sm_supervisor_allowed(const sm_supervisor *s);

/* Returns whether a measurement is newer than all before and its age within ±age_us; ask before the filter sees it. */
bool sm_supervisor_is_new(const sm_supervisor *s, uint32_t now_us, uint32_t sequence, uint32_t stamp_us);

#endif
