#include "sm_axes.h"

#include <string.h>

#include "sm_loop.h"

#define HOLD_BRAKE_US 1000U /* µs, one motor step: a ramp that should have ended already ends at once */
#define ENCODERS_USED ((1U << SM_ENCODERS) - 1U) /* a bit for each */
#define SPREAD_LIMIT INT64_C(4) /* times following_limit, between calibration measurements; beyond it is no noise */

_Static_assert(SM_AXES <= PORT_MOTORS, "the robot has more motors than the board");
_Static_assert(SM_ENCODERS <= PORT_ENCODERS, "the robot has more encoders than the board");
_Static_assert(PORT_MOTORS <= STEPMAP_LIMIT_COMMANDS, "messages cannot carry so many motors");
_Static_assert(PORT_ENCODERS <= STEPMAP_LIMIT_ENCODERS, "messages cannot carry so many encoders");
_Static_assert((int)STEPMAP_ALARM_DRIVER == (int)PORT_ALARM_DRIVER &&
                   (int)STEPMAP_ALARM_SUPPLY == (int)PORT_ALARM_SUPPLY &&
                   (int)STEPMAP_ALARM_ENCODER == (int)PORT_ALARM_ENCODER,
               "alarms of messages are those of ports");
_Static_assert(SM_ENCODERS <= SM_WIDE_ENCODERS, "messages cannot carry so many encoders");

const sm_motor_config sm_axes_config[SM_MOTORS] = SM_MOTOR_CONFIGS;

static int32_t counts_of(const sm_axes *a, unsigned encoder) {
  return a->is_virtual ? a->virtual_counts[encoder] : port_encoder(encoder);
}

/* Returns the counts of the encoder on the motor of command i, which is a position. */
static int32_t motor_counts(const sm_axes *a, unsigned i) { return counts_of(a, sm_numbers_encoder(i)); }

static void apply_to_motor(sm_motor *m, const sm_motor_config *c, const sm_supervisor_output *allowed) {
  if (allowed->motion == SM_MOTION_OFF) {
    sm_motor_off(m);
  } else if (allowed->motion == SM_MOTION_RAMP) {
    sm_motor_brake(m, c, allowed->ramp_left_us);
  } else if (allowed->motion == SM_MOTION_HOLD || allowed->motion == SM_MOTION_START) {
    if (m->mode == SM_MOTOR_OFF) {
      sm_motor_hold(m);
    } else {
      sm_motor_brake(m, c, HOLD_BRAKE_US);
    }
  }
}

void sm_axes_apply_supervisor(sm_loop *l) {
  sm_axes *a = &l->axes;
  const sm_supervisor_output allowed = sm_supervisor_allowed(&l->supervisor);
  const bool on = allowed.motion != SM_MOTION_OFF;
  if (on && a->motion == SM_MOTION_OFF) {
    a->longest_us = 0;
    l->timing.longest_us = 0;
  }
  if (!a->is_virtual) {
    port_enable(on);
  }
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (sm_numbers_is_position(i)) { /* a force has nothing to hold */
      apply_to_motor(&a->motors[i], &sm_axes_config[i], &allowed);
    }
  }
  a->motion = allowed.motion;
  if (l->supervisor.state == SM_STATE_IDLE || l->supervisor.state == SM_STATE_FAULT) {
    l->timing.is_ticking = false;
    l->control.is_running = false;
  }
  sm_report_transitions(l); /* at once: in some states there is no telemetry */
}

static void report_motor_fault(sm_loop *l, sm_reason reason) {
  l->report.faults++;
  const sm_event event = {.kind = SM_EVENT_MOTOR_FAULT, .reason = reason};
  (void)sm_supervisor_handle(&l->supervisor, sm_clock_now_us(&l->clock), event);
}

int32_t sm_axes_effort(sm_loop *l, unsigned i, uint32_t dt_us) {
  sm_axes *a = &l->axes;
  sm_motor *m = &a->motors[i];
  if (!sm_numbers_is_position(i)) {
    const int32_t effort = sm_numbers_as_motor(i, l->control.applied[i]);
    const bool on = a->motion == SM_MOTION_FOLLOW || a->motion == SM_MOTION_START;
    return on ? sm_motor_clamp(effort, -SM_MOTOR_EFFORT, SM_MOTOR_EFFORT) : 0;
  }
  const sm_motor_fault before = m->fault;
  const int32_t effort = sm_motor_step(m, &sm_axes_config[i], motor_counts(a, i), dt_us);
  if (!l->supervisor.calibrated && a->motion == SM_MOTION_OFF) {
    sm_motor_reset(m); /* its position is not known yet: an encoder that is moved by hand is no fault */
    return 0;
  }
  if (before == SM_MOTOR_OK && m->fault != SM_MOTOR_OK) {
    report_motor_fault(l, m->fault == SM_MOTOR_FOLLOWING ? SM_REASON_MOTOR_FOLLOWING : SM_REASON_MOTOR_ENCODER);
    sm_axes_apply_supervisor(l);
    return 0;
  }
  return effort;
}

static void heed_supply(sm_loop *l, uint32_t alarms) {
  if ((alarms & PORT_ALARM_SUPPLY) != 0U && l->supervisor.state != SM_STATE_FAULT) {
    l->report.faults++;
    sm_loop_event(l, SM_EVENT_SUPPLY_LOW);
    sm_axes_apply_supervisor(l);
  }
}

/* Returns whether the position of a motor, or what an encoder measures, is not to be believed any more. */
static bool has_lost_counts(sm_axes *a, uint32_t alarms) {
  bool lost = false;
  for (unsigned i = 0; i < PORT_ENCODERS; i++) {
    const uint32_t used = alarms / PORT_ALARM_ENCODER & ENCODERS_USED;
    a->encoder_steps[i] = (uint8_t)(a->encoder_steps[i] + (used >> i & 1U));
    lost = lost || a->encoder_steps[i] > SM_AXES_ENCODER_STEPS;
  }
  return lost;
}

void sm_axes_heed(sm_loop *l, uint32_t alarms) {
  sm_axes *a = &l->axes;
  heed_supply(l, alarms);
  const bool on = a->motion != SM_MOTION_OFF;
  a->driver_steps = on && (alarms & PORT_ALARM_DRIVER) != 0U ? (uint8_t)(a->driver_steps + 1U) : 0U;
  sm_reason reason = SM_REASON_NONE;
  if (a->driver_steps >= SM_AXES_DRIVER_STEPS) {
    reason = SM_REASON_MOTOR_DRIVER;
  } else if (l->supervisor.calibrated && has_lost_counts(a, alarms)) {
    reason = SM_REASON_MOTOR_ENCODER;
  }
  if (reason != SM_REASON_NONE) {
    report_motor_fault(l, reason);
    sm_axes_apply_supervisor(l);
  }
}

bool sm_axes_supply_low(const sm_loop *l) { return (l->axes.alarms & PORT_ALARM_SUPPLY) != 0U; }

void sm_axes_step(sm_loop *l) {
  sm_axes *a = &l->axes;
  const uint32_t clock = port_micros();
  const uint32_t dt = clock - a->step_us;
  if (dt < SM_AXES_DUE_US) {
    return;
  }
  a->step_us = clock;
  a->alarms = port_alarms();
  if (a->is_virtual) {
    heed_supply(l, a->alarms); /* nobody simulates the board's own */
    return;
  }
  if (a->motion != SM_MOTION_OFF && dt > l->supervisor.config->motor_late_us) {
    (void)sm_supervisor_handle(&l->supervisor, clock, (sm_event){.kind = SM_EVENT_MOTOR_LATE});
    sm_axes_apply_supervisor(l);
  }
  a->longest_us = dt > a->longest_us ? dt : a->longest_us;
  sm_axes_heed(l, a->alarms);
  for (unsigned i = 0; i < SM_AXES; i++) {
    port_drive(i, sm_axes_effort(l, i, dt));
  }
}

void sm_axes_calibration_start(sm_loop *l) {
  sm_start(&l->control.controller); /* the estimate of an earlier run says nothing of where the model starts */
  l->axes.calibration.count = 0;
  memset(l->axes.calibration.sum, 0, sizeof l->axes.calibration.sum);
  memset(l->axes.encoder_steps, 0, sizeof l->axes.encoder_steps);
}

/* Returns the bits of the channels that measure positions of motors. */
static uint32_t needed_channels(void) {
  uint32_t needed = 0;
  for (unsigned i = 0; i < SM_AXES; i++) {
    needed |= sm_numbers_channel(i) >= 0 ? 1U << (unsigned)sm_numbers_channel(i) : 0U;
  }
  return needed;
}

/* Returns the Q8 counts that a motor was moved by since the first measurement of the calibration. */
static int64_t moved_since_start(const sm_axes *a, unsigned i) {
  const int32_t counts = (int32_t)((uint32_t)motor_counts(a, i) - (uint32_t)a->calibration.encoder[i]);
  return (int64_t)counts * SM_MOTOR_Q8;
}

/* Adds the measured position of one motor; returns whether the motor was at rest and inside of its travel. */
static bool add_position(sm_axes *a, unsigned i, int32_t position) {
  const sm_motor_config *c = &sm_axes_config[i];
  sm_axes_calibration *n = &a->calibration;
  const bool first = n->count == 1U;
  if (first) {
    n->encoder[i] = motor_counts(a, i);
  }
  const int64_t moved = moved_since_start(a, i);
  const int64_t begin = position - moved; /* position at the first measurement, as this one tells it */
  n->sum[i] += begin;
  n->low[i] = first || begin < n->low[i] ? begin : n->low[i];
  n->high[i] = first || begin > n->high[i] ? begin : n->high[i];
  const bool inside = position >= c->low && position <= c->high;
  const bool at_rest = moved <= c->following_limit && moved >= -c->following_limit;
  return inside && at_rest && n->high[i] - n->low[i] < SPREAD_LIMIT * c->following_limit;
}

/* Returns where the model starts, Q8 counts: what nothing measures is taken to stand there. */
static int64_t start_of(const sm_loop *l, unsigned i) {
  return sm_numbers_as_motor(i, sm_numbers_state_as_command(&l->control.controller, i));
}

static void finish_calibration(sm_loop *l) {
  sm_axes *a = &l->axes;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (sm_numbers_is_position(i)) {
      const int64_t mean = a->calibration.sum[i] / (int64_t)SM_AXES_CALIBRATIONS;
      const int64_t position = sm_numbers_channel(i) >= 0 ? mean + moved_since_start(a, i) : start_of(l, i);
      sm_motor_start(&a->motors[i], motor_counts(a, i),
                     (int32_t)position); /* within the travel, as add_position found */
    }
  }
}

void sm_axes_calibration_add(sm_loop *l, uint32_t valid) {
  sm_axes *a = &l->axes;
  const uint32_t needed = needed_channels();
  if ((valid & needed) != needed) {
    return;
  }
  bool usable = true;
  a->calibration.count++;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (sm_numbers_channel(i) >= 0) {
      const sm_real measured = sm_numbers_measured_as_command(&l->control.controller, i);
      usable = add_position(a, i, sm_numbers_as_motor(i, measured)) && usable;
    }
  }
  if (!usable) {
    sm_loop_event(l, SM_EVENT_CALIBRATION_FAILED);
  } else if (a->calibration.count == SM_AXES_CALIBRATIONS) {
    finish_calibration(l);
    sm_loop_event(l, SM_EVENT_CALIBRATED);
  }
  sm_axes_apply_supervisor(l);
}

#if SM_MEASURE_ENCODERS
_Static_assert(SM_ENCODERS == SM_NZ, "every channel has an encoder");

/* Returns the counts that an encoder has moved by since the start. */
static int32_t moved_counts(const sm_axes *a, unsigned encoder) {
  return (int32_t)((uint32_t)counts_of(a, encoder) - (uint32_t)a->zeros[encoder]);
}

void sm_axes_measure(sm_loop *l) {
  for (unsigned i = 0; i < SM_NZ; i++) {
    l->control.controller.z[i] = sm_numbers_from_encoder(i, moved_counts(&l->axes, i));
  }
}

void sm_axes_calibration_look(sm_loop *l) {
  sm_axes *a = &l->axes;
  bool still = true;
  for (unsigned i = 0; i < SM_ENCODERS; i++) {
    a->zeros[i] = a->calibration.count == 0U ? counts_of(a, i) : a->zeros[i];
    const int32_t moved = moved_counts(a, i);
    still = still && moved <= SM_ENCODER_STILL && moved >= -SM_ENCODER_STILL;
  }
  a->calibration.count++;
  if (!still) {
    sm_loop_event(l, SM_EVENT_CALIBRATION_FAILED);
  } else if (a->calibration.count == SM_AXES_STILL_TICKS) {
    sm_axes_measure(l);
    for (unsigned i = 0; i < SM_AXES; i++) {
      if (sm_numbers_is_position(i)) {
        const sm_real measured = sm_numbers_measured_as_command(&l->control.controller, i);
        sm_motor_start(&a->motors[i], motor_counts(a, i), sm_numbers_as_motor(i, measured));
      }
    }
    sm_loop_event(l, SM_EVENT_CALIBRATED);
  }
  sm_axes_apply_supervisor(l);
}
#endif
