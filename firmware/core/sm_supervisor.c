#include "sm_supervisor.h"

#define NIS_MAX (UINT32_C(1) << 20) /* Q8; 2^8 of them, the longest window, fit nis_sum */

void sm_supervisor_start(sm_supervisor *s, const sm_supervisor_config *config, uint32_t now_us) {
  *s = (sm_supervisor){
      .config = config, .now_us = now_us, .entered_us = now_us, .nis_sum = SM_Q8_ONE << config->nis_window};
}

static void enter_state(sm_supervisor *s, sm_state state, sm_reason reason) {
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

static bool is_moving(const sm_supervisor *s) { return s->state == SM_STATE_RUNNING || s->state == SM_STATE_HOLDING; }

/* Whether forces hold the start: as while moving, they are as good as the estimate. */
static bool is_held_by_feedback(const sm_supervisor *s) { return s->state == SM_STATE_ARMED && s->feedback; }

static void ramp_until(sm_supervisor *s, uint32_t end_us) {
  s->ramping = true;
  s->ramp_end_us = end_us;
}

/* Ends motion with a ramp, or calibration and arming at once. A ramp that has begun keeps its end. */
static void stop_gently(sm_supervisor *s, sm_reason reason) {
  if (is_moving(s)) {
    if (s->state == SM_STATE_RUNNING) {
      ramp_until(s, s->now_us + s->config->ramp_us);
    }
    enter_state(s, SM_STATE_STOPPED, reason);
  } else if (s->state == SM_STATE_ARMED || s->state == SM_STATE_CALIBRATING) {
    enter_state(s, SM_STATE_IDLE, reason);
  }
}

/* The first cause stays until a reset. */
static void enter_fault(sm_supervisor *s, sm_reason reason) {
  if (s->state != SM_STATE_FAULT) {
    s->ramping = false;
    enter_state(s, SM_STATE_FAULT, reason);
  }
}

/* Time-outs become flags and transitions here, before differences of the wrapping clock become ambiguous. */
static void check_timeouts(sm_supervisor *s) {
  const sm_supervisor_config *c = s->config;
  if (s->overrun_consecutive > 0U && elapsed(s, s->overrun_at_us, c->overrun_us)) {
    s->overrun_consecutive = 0U;
  }
  if (s->late_consecutive > 0U && elapsed(s, s->late_at_us, c->overrun_us)) {
    s->late_consecutive = 0U;
  }
  if (s->fresh && elapsed(s, s->valid_us, c->hold_us)) {
    s->fresh = false;
    if (s->state == SM_STATE_RUNNING) {
      /* Counted from the measurement, not from now: a late poll shortens the ramp instead of moving its end. */
      ramp_until(s, s->valid_us + c->hold_us + c->ramp_us);
      enter_state(s, SM_STATE_HOLDING, SM_REASON_NO_MEASUREMENT);
    }
  }
  if (is_held_by_feedback(s) && !s->fresh && elapsed(s, s->entered_us, c->hold_us)) {
    enter_state(s, SM_STATE_IDLE, SM_REASON_NO_MEASUREMENT);
  }
  if (s->state == SM_STATE_HOLDING && elapsed(s, s->valid_us, c->hold_us + c->stop_us)) {
    enter_state(s, SM_STATE_STOPPED, SM_REASON_HOLD_EXPIRED);
  }
  if (s->state == SM_STATE_CALIBRATING && elapsed(s, s->entered_us, c->calibration_us)) {
    enter_state(s, SM_STATE_IDLE, SM_REASON_CALIBRATION_TIMEOUT);
  }
  if (s->ramping && (int32_t)(s->ramp_end_us - s->now_us) <= 0) {
    s->ramping = false;
  }
}

/* Enters a state in which measurements from before do not count. */
static void begin_state(sm_supervisor *s, sm_state state, sm_reason reason) {
  s->has_sequence = false;
  s->fresh = false;
  s->at_end = false;
  s->gated_consecutive = 0U;
  s->late_consecutive = 0U;
  s->nis_sum = SM_Q8_ONE << s->config->nis_window;
  s->variance_ratio = 0U;
  enter_state(s, state, reason);
}

/* Returns why the filter counts as diverged; SM_REASON_NONE while it does not. */
static sm_reason divergence(const sm_supervisor *s) {
  if (s->gated_consecutive >= s->config->gated_limit) {
    return SM_REASON_GATED;
  }
  if (s->nis_sum >> s->config->nis_window > s->config->nis_limit) {
    return SM_REASON_INNOVATION;
  }
  return s->variance_ratio > SM_Q8_ONE ? SM_REASON_COVARIANCE : SM_REASON_NONE;
}

static void stop_if_diverged(sm_supervisor *s) {
  const sm_reason reason = divergence(s);
  if ((is_moving(s) || is_held_by_feedback(s)) && reason != SM_REASON_NONE) {
    stop_gently(s, reason);
  }
}

static void on_calibrate(sm_supervisor *s) {
  if (s->state == SM_STATE_IDLE) {
    s->calibrated = false;
    begin_state(s, SM_STATE_CALIBRATING, SM_REASON_CALIBRATE_COMMAND);
  } else if (s->state != SM_STATE_CALIBRATING) {
    refuse(s, SM_REASON_WRONG_STATE);
  }
}

static bool needs_calibration(const sm_supervisor *s) { return s->config->calibration_required && !s->calibrated; }

static void on_arm(sm_supervisor *s, bool ready, bool feedback) {
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
    s->feedback = feedback;
    begin_state(s, SM_STATE_ARMED, SM_REASON_ARM_COMMAND);
  }
}

/* Returns why an armed robot may not run; SM_REASON_NONE where it may. */
static sm_reason run_refusal(const sm_supervisor *s) { return s->fresh ? divergence(s) : SM_REASON_NO_MEASUREMENT; }

static void on_run(sm_supervisor *s) {
  if (s->state == SM_STATE_RUNNING) {
    return;
  }
  if (s->state != SM_STATE_ARMED) {
    refuse(s, SM_REASON_WRONG_STATE);
  } else if (run_refusal(s) != SM_REASON_NONE) {
    refuse(s, run_refusal(s));
  } else {
    enter_state(s, SM_STATE_RUNNING, SM_REASON_RUN_COMMAND);
  }
}

static void on_reset(sm_supervisor *s) {
  if (s->state == SM_STATE_FAULT || s->state == SM_STATE_STOPPED) {
    s->ramping = false;
    /* To boot where the self-test failed: a reset does not skip it. */
    enter_state(s, s->self_test_passed ? SM_STATE_IDLE : SM_STATE_BOOT, SM_REASON_RESET_COMMAND);
  } else if (s->state != SM_STATE_IDLE) {
    refuse(s, SM_REASON_WRONG_STATE);
  }
}

static void end_calibration(sm_supervisor *s, bool done) {
  if (s->state == SM_STATE_CALIBRATING) {
    s->calibrated = done;
    enter_state(s, SM_STATE_IDLE, done ? SM_REASON_CALIBRATED : SM_REASON_CALIBRATION_FAILED);
  }
}

/* µs; negative for a stamp ahead of the clock, which a clock estimated over a link may give. */
static int32_t age(uint32_t now_us, uint32_t stamp_us) { return (int32_t)(now_us - stamp_us); }

bool sm_supervisor_is_new(const sm_supervisor *s, uint32_t now_us, uint32_t sequence, uint32_t stamp_us) {
  const int64_t age_us = age(now_us, stamp_us);
  const bool later = !s->has_sequence || (int32_t)(sequence - s->sequence) > 0;
  return later && age_us <= (int64_t)s->config->age_us && age_us >= -(int64_t)s->config->age_us;
}

static void accept_measurement(sm_supervisor *s, uint32_t stamp_us) {
  const uint32_t valid_us = age(s->now_us, stamp_us) > 0 ? stamp_us : s->now_us;
  if (!s->fresh || (int32_t)(valid_us - s->valid_us) > 0) {
    s->valid_us = valid_us;
  }
  s->fresh = !elapsed(s, s->valid_us, s->config->hold_us);
  s->accepted += 1U;
}

static void on_measurement(sm_supervisor *s, sm_event event) {
  if (!sm_supervisor_is_new(s, s->now_us, event.sequence, event.stamp_us)) {
    s->stale += 1U;
    return;
  }
  s->has_sequence = true;
  s->sequence = event.sequence;
  if (event.gated != 0U) {
    s->gated += 1U;
    s->gated_consecutive += 1U;
  } else if (event.accepted != 0U) {
    s->gated_consecutive = 0U;
  }
  if (event.accepted != 0U) {
    accept_measurement(s, event.stamp_us);
  } else {
    s->invalid += 1U;
  }
  stop_if_diverged(s);
  if (s->state == SM_STATE_HOLDING && s->fresh) {
    s->ramping = false;
    enter_state(s, SM_STATE_RUNNING, SM_REASON_MEASUREMENT_BACK);
  }
}

static void check_nis(sm_supervisor *s, sm_event event) {
  if (event.accepted != 0U) {
    s->nis_sum += (event.nis < NIS_MAX ? event.nis : NIS_MAX) - (s->nis_sum >> s->config->nis_window);
  }
  s->variance_ratio = event.variance_ratio;
  stop_if_diverged(s);
}

static void on_motor_fault(sm_supervisor *s, sm_reason reason) {
  if (reason == SM_REASON_MOTOR_ENCODER) {
    s->calibrated = false;
  }
  const bool known = reason == SM_REASON_MOTOR_FOLLOWING || reason == SM_REASON_MOTOR_ENCODER;
  enter_fault(s, known ? reason : SM_REASON_MOTOR_DRIVER);
}

static void on_overrun(sm_supervisor *s) {
  s->overruns += 1U;
  s->overrun_consecutive += 1U;
  s->overrun_at_us = s->now_us;
  if ((is_moving(s) || is_held_by_feedback(s)) && s->overrun_consecutive >= s->config->overrun_limit) {
    stop_gently(s, SM_REASON_OVERRUN);
  }
}

/* A stop needs the motor loop too: where that stays late, motors without power are safer. */
static void on_motor_late(sm_supervisor *s) {
  s->motors_late += 1U;
  s->late_consecutive += 1U;
  s->late_at_us = s->now_us;
  if (s->late_consecutive < s->config->motor_late_limit) {
    return;
  }
  s->late_consecutive = 0U;
  if (is_moving(s)) {
    stop_gently(s, SM_REASON_MOTOR_LATE);
  } else if (s->state == SM_STATE_ARMED || s->state == SM_STATE_STOPPED) {
    enter_fault(s, SM_REASON_MOTOR_LATE);
  }
}

sm_state sm_supervisor_handle(sm_supervisor *s, uint32_t now_us, sm_event event) {
  s->now_us = now_us;
  check_timeouts(s);
  switch (event.kind) {
  case SM_EVENT_POLL:
    break;
  case SM_EVENT_BOOTED:
    if (s->state == SM_STATE_BOOT) {
      s->self_test_passed = true;
      enter_state(s, SM_STATE_IDLE, SM_REASON_BOOTED);
    }
    break;
  case SM_EVENT_SELF_TEST_FAILED:
    s->self_test_passed = false;
    enter_fault(s, SM_REASON_SELF_TEST);
    break;
  case SM_EVENT_CALIBRATE:
    on_calibrate(s);
    break;
  case SM_EVENT_ARM:
    on_arm(s, event.ready, event.feedback);
    break;
  case SM_EVENT_RUN:
    on_run(s);
    break;
  case SM_EVENT_STOP:
    stop_gently(s, SM_REASON_STOP_COMMAND);
    break;
  case SM_EVENT_RESET:
    on_reset(s);
    break;
  case SM_EVENT_CALIBRATED:
    end_calibration(s, true);
    break;
  case SM_EVENT_CALIBRATION_FAILED:
    end_calibration(s, false);
    break;
  case SM_EVENT_MEASUREMENT:
    on_measurement(s, event);
    break;
  case SM_EVENT_STALE:
    s->stale += 1U;
    break;
  case SM_EVENT_STATISTICS:
    check_nis(s, event);
    break;
  case SM_EVENT_SATURATED:
    s->saturated += 1U;
    break;
  case SM_EVENT_SCHEDULE_END:
    s->at_end = s->at_end || is_moving(s);
    break;
  case SM_EVENT_MOTOR_FAULT:
    on_motor_fault(s, event.reason);
    break;
  case SM_EVENT_LINK_LOST:
    stop_gently(s, SM_REASON_LINK_LOST);
    break;
  case SM_EVENT_OVERRUN:
    on_overrun(s);
    break;
  case SM_EVENT_MOTOR_LATE:
    on_motor_late(s);
    break;
  case SM_EVENT_NO_LANDING:
    if (is_moving(s)) {
      stop_gently(s, SM_REASON_NO_LANDING);
    }
    break;
  case SM_EVENT_SUPPLY_LOW:
    enter_fault(s, SM_REASON_SUPPLY);
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
  return s->state == SM_STATE_ARMED ? SM_MOTION_START : SM_MOTION_OFF;
}

sm_supervisor_output sm_supervisor_allowed(const sm_supervisor *s) {
  const bool idle = s->state == SM_STATE_IDLE;
  return (sm_supervisor_output){
      .motion = motion(s),
      .ramp_left_us = s->ramping ? s->ramp_end_us - s->now_us : 0U,
      .accept_upload = idle,
      .accept_calibrate = idle,
      .accept_arm = idle && !needs_calibration(s),
      .accept_run = s->state == SM_STATE_ARMED && run_refusal(s) == SM_REASON_NONE,
  };
}
