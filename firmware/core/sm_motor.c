#include "sm_motor.h"

#define DT_LEAST 100U
#define DT_LARGEST 65535U
#define TIME_LARGEST 1000000U
#define POSITION_LARGEST (INT32_C(1) << 30) /* so that a difference to any target fits */
#define DELTA_LARGEST 8191                  /* counts a step, so that the speed's numerator fits */
#define SPEED_LARGEST (INT32_C(1) << 22)    /* so that the sum of 2^8 fits */
#define WANTED_LARGEST (INT32_C(1) << 20)   /* effort before limits */
#define SLOPE_BITS 20U
#define SLOPE_TO_SPEED 10U /* 20 fraction bits per µs to none per 1024 µs */
#define UNWIND_BITS 18U    /* 256ths per 1024 µs, times µs */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int32_t within(int64_t v, int32_t size) { return (int32_t)(v > size ? size : v < -size ? -size : v); }

int32_t sm_clamp(int32_t wanted, int32_t low, int32_t high) {
  return wanted < low ? low : wanted > high ? high : wanted;
}

int32_t sm_rate_limit(int32_t wanted, int32_t last, int32_t step) {
  const int64_t change = (int64_t)wanted - last;
  /* Where the change is beyond the step, last ± step lies between last and wanted: it cannot overflow. */
  return change > step ? last + step : change < -(int64_t)step ? last - step : wanted;
}

int32_t sm_limit_command(const sm_command_limits *limits, int32_t wanted, int32_t last, uint32_t *limited) {
  const int32_t applied = sm_rate_limit(sm_clamp(wanted, limits->low, limits->high), last, limits->step);
  if (applied != wanted) {
    *limited += 1U;
  }
  return applied;
}

/* Times that the sums have room for. */
static int32_t bounded(uint32_t dt_us) { return (int32_t)(dt_us < DT_LEAST ? DT_LEAST : least(dt_us, DT_LARGEST)); }

void sm_motor_start(sm_motor *m, int32_t encoder, int32_t position) {
  const int32_t here = sm_clamp(position, -POSITION_LARGEST, POSITION_LARGEST);
  *m = (sm_motor){.encoder = encoder, .position = here, .target = here, .command = here};
}

void sm_motor_off(sm_motor *m) {
  m->mode = SM_MOTOR_OFF;
  m->target_slope = 0;
  m->acceleration = 0;
  m->effort = 0;
}

void sm_motor_reset(sm_motor *m) {
  sm_motor_off(m);
  m->fault = SM_MOTOR_OK;
}

void sm_motor_hold(sm_motor *m) {
  if (m->mode == SM_MOTOR_OFF) {
    m->mode = SM_MOTOR_HOLD;
    m->target = sm_clamp(m->position, -SM_MOTOR_TRAVEL, SM_MOTOR_TRAVEL);
    m->command = m->target;
    m->integral = 0;
    m->behind_us = 0U;
  }
}

/* Divides 64 bits by 32, once a command. */
static int32_t slope(int32_t distance, uint32_t time_us) {
  return within(distance * (INT64_C(1) << SLOPE_BITS) / (int64_t)time_us, INT32_MAX);
}

static int32_t along(int32_t rate, uint32_t time_us) {
  return within((rate * (int64_t)time_us) >> SLOPE_BITS, POSITION_LARGEST);
}

/* A target that began outside the travel goes back in at its own pace. */
static int32_t within_travel(const sm_motor *m, const sm_motor_config *c, int32_t v) {
  return sm_clamp(v, m->from < c->low ? m->from : c->low, m->from > c->high ? m->from : c->high);
}

static void begin(sm_motor *m, sm_motor_mode mode, int32_t rate, uint32_t length_us) {
  m->mode = mode;
  m->from = m->target;
  m->slope = rate;
  m->length_us = length_us;
  m->elapsed_us = 0U;
  m->acceleration = 0;
}

void sm_motor_command(sm_motor *m, const sm_motor_config *c, int32_t position, int32_t late_us) {
  if (m->mode == SM_MOTOR_OFF) {
    return;
  }
  const int32_t end = sm_clamp(position, c->low, c->high);
  const int32_t most = (int32_t)(c->period_us / 2U);
  const uint32_t left_us = c->period_us - (uint32_t)sm_clamp(late_us, -most, most);
  begin(m, SM_MOTOR_LINE, slope(end - m->target, left_us), left_us);
  m->rate = slope(end - m->command, c->period_us);
  m->command = end;
}

void sm_motor_brake(sm_motor *m, const sm_motor_config *c, uint32_t time_us) {
  if (m->mode == SM_MOTOR_LINE) {
    const uint32_t length_us = least(time_us, TIME_LARGEST);
    begin(m, SM_MOTOR_BRAKE, m->target_slope, length_us);
    m->command = within_travel(m, c, m->from + along(m->slope, length_us) / 2);
    const uint32_t divisor = length_us > 0U ? length_us : 1U;
    m->inverse = UINT32_C(0x7FFFFFFF) / divisor;
    m->acceleration = within(m->slope * INT64_C(-16) / (int64_t)divisor, INT32_MAX);
  }
}

/* Straight to the command, then on at the speed of the commands for a while. */
static int32_t on_line(sm_motor *m, const sm_motor_config *c) {
  if (m->elapsed_us < m->length_us) {
    m->target_slope = m->slope;
    return m->from + along(m->slope, m->elapsed_us);
  }
  const uint32_t beyond_us = least(m->elapsed_us - m->length_us, c->extrapolate_us);
  m->target_slope = beyond_us < c->extrapolate_us ? m->rate : 0;
  return m->command + along(m->rate, beyond_us);
}

/* from + v (t − t²/2T) */
static int32_t braking(sm_motor *m) {
  if (m->elapsed_us >= m->length_us) {
    m->target_slope = 0;
    m->acceleration = 0;
    return m->command;
  }
  const int64_t done = (int64_t)m->elapsed_us * m->inverse; /* t/T with 31 fraction bits */
  const int64_t path = done - ((done * done) >> 32);
  m->target_slope = m->slope - (int32_t)((m->slope * done) >> 31);
  return m->from + (int32_t)((along(m->slope, m->length_us) * path) >> 31);
}

static void move_target(sm_motor *m, const sm_motor_config *c, uint32_t dt_us) {
  if (m->mode == SM_MOTOR_HOLD) {
    return;
  }
  m->elapsed_us = least(m->elapsed_us + dt_us, 3U * TIME_LARGEST);
  const int32_t wanted = m->mode == SM_MOTOR_LINE ? on_line(m, c) : braking(m);
  m->target = within_travel(m, c, wanted);
  if (m->target != wanted) {
    m->target_slope = 0;
    m->acceleration = 0;
  }
}

static void read_encoder(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us) {
  const int32_t moved = (int32_t)((uint32_t)encoder - (uint32_t)m->encoder);
  m->encoder = encoder;
  m->position = within(m->position + moved * INT64_C(256), POSITION_LARGEST);
  const int64_t possible = ((int64_t)c->speed * dt_us) >> 10;
  if (moved > possible || moved < -possible) {
    m->fault = SM_MOTOR_ENCODER;
  }
  const int32_t speed = within(moved, DELTA_LARGEST) * (INT32_C(1) << 18) / bounded(dt_us);
  m->speed_sum += within(speed, SPEED_LARGEST) - (m->speed_sum >> c->smooth);
}

static void watch_error(sm_motor *m, const sm_motor_config *c, uint32_t dt_us) {
  if (m->error <= c->following && m->error >= -c->following) {
    m->behind_us = 0U;
  } else {
    m->behind_us = least(m->behind_us + dt_us, 2U * TIME_LARGEST);
    if (m->behind_us > c->following_us) {
      m->fault = SM_MOTOR_FOLLOWING;
    }
  }
}

static int32_t regulate(sm_motor *m, const sm_motor_config *c, int32_t dt_us) {
  const int64_t speed = m->speed_sum >> c->smooth;
  const int64_t target_speed = m->target_slope >> SLOPE_TO_SPEED;
  const int64_t forward = c->kv * target_speed + c->ka * (int64_t)m->acceleration;
  const int64_t sum = c->kp * (int64_t)m->error - c->kd * speed + forward + m->integral;
  const int32_t wanted = within((sum + (INT64_C(1) << (c->shift - 1U))) >> c->shift, WANTED_LARGEST);
  const int32_t change = within(((int64_t)c->slew * dt_us + 1023) >> 10, INT32_MAX);
  const int32_t effort = sm_rate_limit(sm_clamp(wanted, -c->effort, c->effort), m->effort, change);
  m->limited += effort != wanted ? 1U : 0U;
  /* Back-calculation: what the limits took away drains the integral, never by more than all of it in a step. */
  const int64_t share = within((int64_t)c->unwind * dt_us, INT32_C(1) << UNWIND_BITS);
  const int64_t given_back = ((effort - wanted) * (INT64_C(1) << c->shift) * share) >> UNWIND_BITS;
  const int64_t most = c->integral * (INT64_C(1) << c->shift);
  const int64_t integral = m->integral + ((c->ki * (int64_t)m->error * dt_us) >> 10) + given_back;
  m->integral = integral > most ? most : integral < -most ? -most : integral;
  return effort;
}

int32_t sm_motor_step(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us) {
  const int32_t dt = bounded(dt_us);
  read_encoder(m, c, encoder, dt_us);
  if (m->mode == SM_MOTOR_OFF) {
    m->target = m->position;
  } else {
    move_target(m, c, (uint32_t)dt);
  }
  m->error = m->target - m->position;
  watch_error(m, c, (uint32_t)dt);
  const bool drives = m->mode != SM_MOTOR_OFF && m->fault == SM_MOTOR_OK;
  m->effort = drives ? regulate(m, c, dt) : 0;
  return m->effort;
}
