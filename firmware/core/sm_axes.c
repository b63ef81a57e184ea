#include "sm_axes.h"

#include <string.h>

#include "sm_clock.h"
#include "sm_report.h"

_Static_assert(SM_AXES <= PORT_AXES, "the robot has more motors than the board");
_Static_assert(PORT_AXES <= STEPMAP_LIMIT_COMMANDS, "messages cannot carry so many motors");

const sm_motor_config sm_motors[SM_MOTORS] = SM_MOTOR_CONFIGS;

static int32_t encoder(const sm_loop *l, unsigned axis) {
  return l->virtual_io ? l->encoders[axis] : port_encoder(axis);
}

static void report_motor_fault(sm_loop *l, sm_reason reason) {
  l->faults++;
  (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_MOTOR_FAULT, .reason = reason});
}

void sm_obey(sm_loop *l) {
  const sm_supervisor_output may = sm_supervised(&l->supervisor);
  const bool on = may.motion != SM_MOTION_OFF;
  if (on && l->motion == SM_MOTION_OFF) {
    l->motor_longest = 0;
    l->tick_longest = 0;
  }
  if (!l->virtual_io) {
    port_enable(on);
  }
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (!sm_moves(i)) {
      continue; /* a force: nothing to hold */
    }
    if (!on) {
      sm_motor_off(&l->motors[i]);
    } else if (may.motion == SM_MOTION_RAMP) {
      sm_motor_brake(&l->motors[i], &sm_motors[i], may.ramp_left_us);
    } else if (may.motion == SM_MOTION_HOLD) {
      if (l->motors[i].mode == SM_MOTOR_OFF) {
        sm_motor_hold(&l->motors[i]);
      } else {
        sm_motor_brake(&l->motors[i], &sm_motors[i], 1000U);
      }
    }
  }
  l->motion = may.motion;
  if (l->supervisor.state == SM_STATE_IDLE || l->supervisor.state == SM_STATE_FAULT) {
    l->ticking = false;
    l->running = false;
  }
  sm_say_changes(l); /* at once: in some states there is no telemetry */
}

int32_t sm_effort(sm_loop *l, unsigned i, uint32_t dt_us) {
  if (!sm_moves(i)) {
    return l->motion == SM_MOTION_FOLLOW ? sm_clamp(sm_as_motor(i, l->applied[i]), -1000, 1000) : 0;
  }
  const sm_motor_fault before = l->motors[i].fault;
  const int32_t effort = sm_motor_step(&l->motors[i], &sm_motors[i], encoder(l, i), dt_us);
  if (!l->supervisor.calibrated && l->motion == SM_MOTION_OFF) {
    sm_motor_reset(&l->motors[i]); /* where it stands is not known yet: nothing is wrong with that */
    return 0;
  }
  if (before == SM_MOTOR_OK && l->motors[i].fault != SM_MOTOR_OK) {
    report_motor_fault(l,
                       l->motors[i].fault == SM_MOTOR_FOLLOWING ? SM_REASON_MOTOR_FOLLOWING : SM_REASON_MOTOR_ENCODER);
    sm_obey(l);
    return 0;
  }
  return effort;
}

void sm_turn_motors(sm_loop *l) {
  const uint32_t clock = port_micros();
  const uint32_t dt = clock - l->motor_us;
  if (l->virtual_io || dt < SM_MOTOR_LEAST_US) {
    return;
  }
  l->motor_us = clock;
  if (l->motion != SM_MOTION_OFF && dt > l->supervisor.config->motor_late_us) {
    (void)sm_supervise(&l->supervisor, clock, (sm_event){.kind = SM_EVENT_MOTOR_LATE});
    sm_obey(l);
  }
  l->motor_longest = dt > l->motor_longest ? dt : l->motor_longest;
  for (unsigned i = 0; i < SM_AXES; i++) {
    port_drive(i, sm_effort(l, i, dt));
  }
}

void sm_begin_calibration(sm_loop *l) {
  l->calibrations = 0;
  memset(l->calibration, 0, sizeof l->calibration);
}

/* Q8 counts that a motor was turned by since the first measurement of the calibration. */
static int64_t turned(const sm_loop *l, unsigned i) {
  return (int64_t)(int32_t)((uint32_t)encoder(l, i) - (uint32_t)l->calibration_encoder[i]) * 256;
}

void sm_calibrate(sm_loop *l, uint32_t valid) {
  uint32_t needed = 0;
  for (unsigned i = 0; i < SM_AXES; i++) {
    needed |= sm_channel_of(i) >= 0 ? 1U << (unsigned)sm_channel_of(i) : 0U;
  }
  if ((valid & needed) != needed) {
    return;
  }
  bool still = true;
  const bool first = l->calibrations == 0U;
  l->calibrations++;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (sm_channel_of(i) < 0) {
      continue;
    }
    if (first) {
      l->calibration_encoder[i] = encoder(l, i);
    }
    const int32_t position = sm_as_motor(i, sm_channel_as_command(&l->controller, i));
    const int64_t moved = turned(l, i);
    const int64_t begin = position - moved; /* where it was at the first measurement, by this one */
    l->calibration[i] += begin;
    l->calibration_low[i] = first || begin < l->calibration_low[i] ? begin : l->calibration_low[i];
    l->calibration_high[i] = first || begin > l->calibration_high[i] ? begin : l->calibration_high[i];
    const int64_t spread = l->calibration_high[i] - l->calibration_low[i];
    const bool there = position >= sm_motors[i].low && position <= sm_motors[i].high;
    const bool stands = moved <= sm_motors[i].following && moved >= -sm_motors[i].following;
    still = still && there && stands && spread < INT64_C(4) * sm_motors[i].following;
  }
  if (!still) {
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATION_FAILED});
  } else if (l->calibrations == SM_CALIBRATION) {
    for (unsigned i = 0; i < SM_AXES; i++) {
      const bool known = sm_channel_of(i) >= 0;
      const int64_t position = known ? l->calibration[i] / (int64_t)SM_CALIBRATION + turned(l, i) : 0;
      sm_motor_start(&l->motors[i], encoder(l, i), (int32_t)position); /* within the travel, which is checked above */
    }
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATED});
  }
  sm_obey(l);
}
