#include "sm_supervisor.h"

#define ONE 256U                        /* 1 with 8 fraction bits */
#define NIS_LARGEST (UINT32_C(1) << 20) /* so that the mean's sum cannot overflow */

/* Platforms that share their processor with others give another one. */
#ifndef STEPMAP_MOTOR_LATE_US
#define STEPMAP_MOTOR_LATE_US 5000U
#endif

const sm_supervisor_config sm_supervisor_defaults = {
    .hold_us = 200000U,
    .ramp_us = 30000U,
    .stop_us = 50000U,
    .age_us = 100000U,
    .calibration_us = 10000000U,
    .overrun_us = 100000U, /* three ticks of 30 Hz */
    .overrun_limit = 5U,
    .motor_late_us = STEPMAP_MOTOR_LATE_US, /* the loop is made for 1 ms, and oscillates at 10 */
    .motor_late_limit = 5U,
    .gated_limit = 10U,
    .nis_limit = 5U * ONE, /* 1 is expected; its mean over 16 ticks of 4 channels spreads by 0.13 */
    .nis_window = 4U,
    .calibration_required = true,
};

void sm_supervisor_start(sm_supervisor *s, const sm_supervisor_config *config, uint32_t now_us) {
  *s = (sm_supervisor){.config = config, .now_us = now_us, .entered_us = now_us, .nis_sum = ONE << config->nis_window};
}

static void enter(sm_supervisor *s, sm_state state, sm_reason reason) {
  s->previous = s->state;
  s->previous_reason = s->reason;
  s->state = state;
  s->reason = reason;
  s->entered_us = s->now_us;
  s->transitions += 1U;
}

static void refuse(sm_supervisor *s, sm_reason reason) {
  s->refusal = reason;
  s->refused += 1U;
}

static bool elapsed(const sm_supervisor *s, uint32_t since_us, uint32_t time_us) {
  return s->now_us - since_us >= time_us;
}

static bool moving(const sm_supervisor *s) { return s->state == SM_STATE_RUNNING || s->state == SM_STATE_HOLDING; }

static void ramp_until(sm_supervisor *s, uint32_t end_us) {
  s->ramping = true;
  s->ramp_end_us = end_us;
}

/* Ends what the robot does, as gently as possible. A ramp that has begun keeps its end. */
static void stop(sm_supervisor *s, sm_reason reason) {
  if (moving(s)) {
    if (s->state == SM_STATE_RUNNING) {
      ramp_until(s, s->now_us + s->config->ramp_us);
    }
    enter(s, SM_STATE_STOPPED, reason);
  } else if (s->state == SM_STATE_ARMED || s->state == SM_STATE_CALIBRATING) {
    enter(s, SM_STATE_IDLE, reason);
  }
}

/* The first cause stays until the reset. */
static void fail(sm_supervisor *s, sm_reason reason) {
  if (s->state != SM_STATE_FAULT) {
    s->ramping = false;
    enter(s, SM_STATE_FAULT, reason);
  }
}

/* Old times become flags here, while their age is still below half a turn of the clock. */
static void pass_time(sm_supervisor *s) {
  const sm_supervisor_config *c = s->config;
  if (s->overrun_row > 0U && elapsed(s, s->overrun_at_us, c->overrun_us)) {
    s->overrun_row = 0U;
  }
  if (s->late_row > 0U && elapsed(s, s->late_at_us, c->overrun_us)) {
    s->late_row = 0U;
  }
  if (s->fresh && elapsed(s, s->valid_us, c->hold_us)) {
    s->fresh = false;
    if (s->state == SM_STATE_RUNNING) {
      /* Counted from the measurement, not from now: a late poll shortens the ramp instead of moving its end. */
      ramp_until(s, s->valid_us + c->hold_us + c->ramp_us);
      enter(s, SM_STATE_HOLDING, SM_REASON_NO_MEASUREMENT);
    }
  }
  if (s->state == SM_STATE_HOLDING && elapsed(s, s->valid_us, c->hold_us + c->stop_us)) {
    enter(s, SM_STATE_STOPPED, SM_REASON_HOLD_EXPIRED);
  }
  if (s->state == SM_STATE_CALIBRATING && elapsed(s, s->entered_us, c->calibration_us)) {
    enter(s, SM_STATE_IDLE, SM_REASON_CALIBRATION_TIMEOUT);
  }
  if (s->ramping && (int32_t)(s->ramp_end_us - s->now_us) <= 0) {
    s->ramping = false;
  }
}

/* Measurements before this moment count for nothing. */
static void begin(sm_supervisor *s, sm_state state, sm_reason reason) {
  s->heard = false;
  s->fresh = false;
  s->at_end = false;
  s->gated_row = 0U;
  s->late_row = 0U;
  s->nis_sum = ONE << s->config->nis_window;
  s->spread = 0U;
  enter(s, state, reason);
}

/* What says that the filter has lost the robot; none while it has not. */
static sm_reason divergence(const sm_supervisor *s) {
  if (s->gated_row >= s->config->gated_limit) {
    return SM_REASON_GATED;
  }
  if (s->nis_sum >> s->config->nis_window > s->config->nis_limit) {
    return SM_REASON_INNOVATION;
  }
  return s->spread > ONE ? SM_REASON_COVARIANCE : SM_REASON_NONE;
}

static void stop_if_diverged(sm_supervisor *s) {
  const sm_reason reason = divergence(s);
  if (moving(s) && reason != SM_REASON_NONE) {
    stop(s, reason);
  }
}

static void calibrate(sm_supervisor *s) {
  if (s->state == SM_STATE_IDLE) {
    s->calibrated = false;
    begin(s, SM_STATE_CALIBRATING, SM_REASON_CALIBRATE_COMMAND);
  } else if (s->state != SM_STATE_CALIBRATING) {
    refuse(s, SM_REASON_WRONG_STATE);
  }
}

static bool needs_calibration(const sm_supervisor *s) { return s->config->calibration_required && !s->calibrated; }

static void arm(sm_supervisor *s, bool ready) {
  if (s->state == SM_STATE_ARMED) {
    return;
  }
  if (s->state != SM_STATE_IDLE) {
    refuse(s, SM_REASON_WRONG_STATE);
  } else if (needs_calibration(s)) {
    refuse(s, SM_REASON_NOT_CALIBRATED);
  } else if (!ready) {
    refuse(s, SM_REASON_NO_SCHEDULE);
  } else {
    begin(s, SM_STATE_ARMED, SM_REASON_ARM_COMMAND);
  }
}

/* Why an armed robot may not run; none where it may. */
static sm_reason obstacle(const sm_supervisor *s) { return s->fresh ? divergence(s) : SM_REASON_NO_MEASUREMENT; }

static void run(sm_supervisor *s) {
  if (s->state == SM_STATE_RUNNING) {
    return;
  }
  if (s->state != SM_STATE_ARMED) {
    refuse(s, SM_REASON_WRONG_STATE);
  } else if (obstacle(s) != SM_REASON_NONE) {
    refuse(s, obstacle(s));
  } else {
    enter(s, SM_STATE_RUNNING, SM_REASON_RUN_COMMAND);
  }
}

static void reset(sm_supervisor *s) {
  if (s->state == SM_STATE_FAULT || s->state == SM_STATE_STOPPED) {
    s->ramping = false;
    enter(s, s->passed ? SM_STATE_IDLE : SM_STATE_BOOT, SM_REASON_RESET_COMMAND); /* no way around the self-test */
  } else if (s->state != SM_STATE_IDLE) {
    refuse(s, SM_REASON_WRONG_STATE);
  }
}

static void end_calibration(sm_supervisor *s, bool done) {
  if (s->state == SM_STATE_CALIBRATING) {
    s->calibrated = done;
    enter(s, SM_STATE_IDLE, done ? SM_REASON_CALIBRATED : SM_REASON_CALIBRATION_FAILED);
  }
}

/* Negative for a stamp ahead of the clock, which a clock estimated over a link may give. */
static int32_t age(uint32_t now_us, uint32_t stamp_us) { return (int32_t)(now_us - stamp_us); }

bool sm_is_new(const sm_supervisor *s, uint32_t now_us, uint32_t sequence, uint32_t stamp_us) {
  const int64_t old = age(now_us, stamp_us);
  const bool later = !s->heard || (int32_t)(sequence - s->sequence) > 0;
  return later && old <= (int64_t)s->config->age_us && old >= -(int64_t)s->config->age_us;
}

static void take(sm_supervisor *s, uint32_t stamp_us) {
  const uint32_t taken_us = age(s->now_us, stamp_us) > 0 ? stamp_us : s->now_us;
  if (!s->fresh || (int32_t)(taken_us - s->valid_us) > 0) {
    s->valid_us = taken_us;
  }
  s->fresh = !elapsed(s, s->valid_us, s->config->hold_us);
  s->taken += 1U;
}

static void measure(sm_supervisor *s, sm_event event) {
  if (!sm_is_new(s, s->now_us, event.sequence, event.stamp_us)) {
    s->stale += 1U;
    return;
  }
  s->heard = true;
  s->sequence = event.sequence;
  if (event.gated != 0U) {
    s->gated += 1U;
    s->gated_row += 1U;
  } else if (event.used != 0U) {
    s->gated_row = 0U;
  }
  if (event.used != 0U) {
    take(s, event.stamp_us);
  } else {
    s->invalid += 1U;
  }
  stop_if_diverged(s);
  if (s->state == SM_STATE_HOLDING && s->fresh) {
    s->ramping = false;
    enter(s, SM_STATE_RUNNING, SM_REASON_MEASUREMENT_BACK);
  }
}

static void judge(sm_supervisor *s, sm_event event) {
  if (event.used != 0U) {
    s->nis_sum += (event.nis < NIS_LARGEST ? event.nis : NIS_LARGEST) - (s->nis_sum >> s->config->nis_window);
  }
  s->spread = event.spread;
  stop_if_diverged(s);
}

static void fail_motor(sm_supervisor *s, sm_reason reason) {
  if (reason == SM_REASON_MOTOR_ENCODER) {
    s->calibrated = false;
  }
  const bool known = reason == SM_REASON_MOTOR_FOLLOWING || reason == SM_REASON_MOTOR_ENCODER;
  fail(s, known ? reason : SM_REASON_MOTOR_DRIVER);
}

static void overrun(sm_supervisor *s) {
  s->overruns += 1U;
  s->overrun_row += 1U;
  s->overrun_at_us = s->now_us;
  if (moving(s) && s->overrun_row >= s->config->overrun_limit) {
    stop(s, SM_REASON_OVERRUN);
  }
}

/* A stop needs the motor loop too: where that stays late the motors are better off. */
static void motor_late(sm_supervisor *s) {
  s->motors_late += 1U;
  s->late_row += 1U;
  s->late_at_us = s->now_us;
  if (s->late_row < s->config->motor_late_limit) {
    return;
  }
  s->late_row = 0U;
  if (moving(s)) {
    stop(s, SM_REASON_MOTOR_LATE);
  } else if (s->state == SM_STATE_ARMED || s->state == SM_STATE_STOPPED) {
    fail(s, SM_REASON_MOTOR_LATE);
  }
}

sm_state sm_supervise(sm_supervisor *s, uint32_t now_us, sm_event event) {
  s->now_us = now_us;
  pass_time(s);
  switch (event.kind) {
  case SM_EVENT_POLL:
    break;
  case SM_EVENT_BOOTED:
    if (s->state == SM_STATE_BOOT) {
      s->passed = true;
      enter(s, SM_STATE_IDLE, SM_REASON_BOOTED);
    }
    break;
  case SM_EVENT_SELF_TEST_FAILED:
    s->passed = false;
    fail(s, SM_REASON_SELF_TEST);
    break;
  case SM_EVENT_CALIBRATE:
    calibrate(s);
    break;
  case SM_EVENT_ARM:
    arm(s, event.ready);
    break;
  case SM_EVENT_RUN:
    run(s);
    break;
  case SM_EVENT_STOP:
    stop(s, SM_REASON_STOP_COMMAND);
    break;
  case SM_EVENT_RESET:
    reset(s);
    break;
  case SM_EVENT_CALIBRATED:
    end_calibration(s, true);
    break;
  case SM_EVENT_CALIBRATION_FAILED:
    end_calibration(s, false);
    break;
  case SM_EVENT_MEASUREMENT:
    measure(s, event);
    break;
  case SM_EVENT_STALE:
    s->stale += 1U;
    break;
  case SM_EVENT_STATISTICS:
    judge(s, event);
    break;
  case SM_EVENT_SATURATED:
    s->saturated += 1U;
    break;
  case SM_EVENT_SCHEDULE_END:
    s->at_end = s->at_end || moving(s);
    break;
  case SM_EVENT_MOTOR_FAULT:
    fail_motor(s, event.reason);
    break;
  case SM_EVENT_LINK_LOST:
    stop(s, SM_REASON_LINK_LOST);
    break;
  case SM_EVENT_OVERRUN:
    overrun(s);
    break;
  case SM_EVENT_MOTOR_LATE:
    motor_late(s);
    break;
  }
  return s->state;
}

static sm_motion motion(const sm_supervisor *s) {
  if (s->state == SM_STATE_RUNNING) {
    return SM_MOTION_FOLLOW;
  }
  if (s->state == SM_STATE_HOLDING || s->state == SM_STATE_STOPPED) {
    return s->ramping ? SM_MOTION_RAMP : SM_MOTION_HOLD;
  }
  return s->state == SM_STATE_ARMED ? SM_MOTION_HOLD : SM_MOTION_OFF;
}

sm_supervisor_output sm_supervised(const sm_supervisor *s) {
  const bool idle = s->state == SM_STATE_IDLE;
  return (sm_supervisor_output){
      .motion = motion(s),
      .ramp_left_us = s->ramping ? s->ramp_end_us - s->now_us : 0U,
      .accept_upload = idle,
      .accept_calibrate = idle,
      .accept_arm = idle && !needs_calibration(s),
      .accept_run = s->state == SM_STATE_ARMED && obstacle(s) == SM_REASON_NONE,
  };
}
