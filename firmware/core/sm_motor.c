#include "sm_motor.h"

#define DT_MIN_US 100U                  /* µs; a step right after another would divide its counts by almost nothing */
#define DT_MAX_US 65535U                /* µs; gain (16 bits) times error (32) times dt (16) fits 64 bits */
#define TIME_MAX_US 1000000U            /* of every time in sm_motor_config; three of them fit 32 bits */
#define POSITION_MAX (INT32_C(1) << 30) /* Q8 counts; the difference to a target clamp_magnitude 2^29 fits 32 bits */
#define DELTA_MAX 8191                  /* counts per step: 2^13 times SPEED_UNIT fits 32 bits */
#define SPEED_UNIT (INT32_C(1) << 18)   /* one count per µs in Q8 counts per 1024 µs: 2^8 times 2^10 */
#define SPEED_MAX (INT32_C(1) << 22)    /* the sum of 2^8 of them, the longest filter, fits 32 bits */
#define WANTED_MAX (INT32_C(1) << 20)   /* per mille before limits; times 2^24 (shift) and 2^18 it fits 64 bits */
#define SLOPE_BITS 20U                  /* fraction bits of slopes: the min_u32 one is 1 count in 268 s */
#define SLOPE_TO_SPEED 10U              /* shift from 20 fraction bits per µs to none per 1024 µs */
#define MS_BITS 10U                     /* shift from "per µs" to "per 1024 µs" */
#define WINDUP_BITS 18U                 /* of anti_windup, 256ths (8 bits) per 1024 µs (10 bits), times µs */
#define INVERSE_BITS 31U                /* fraction bits of 1/length_us: (t/T)² has 62 and fits 64 bits */
/* Acceleration −slope_of/T in Q12 per (1024 µs)²: 2^4 for Q8 to Q12, 2^20 for the time unit, 2^-20 for SLOPE_BITS. */
#define ACCELERATION_UNIT INT64_C(16)

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int32_t clamp_magnitude(int64_t v, int32_t size) { return (int32_t)(v > size ? size : v < -size ? -size : v); }

int32_t sm_motor_clamp(int32_t wanted, int32_t low, int32_t high) {
  return wanted < low ? low : wanted > high ? high : wanted;
}

int32_t sm_motor_rate_limit(int32_t wanted, int32_t last, int32_t step) {
  const int64_t change = (int64_t)wanted - last;
  /* Where the change is beyond the step, last ± step lies between last and wanted: it cannot overflow. */
  return change > step ? last + step : change < -(int64_t)step ? last - step : wanted;
}

int32_t sm_motor_limit_command(const sm_motor_limits *limits, int32_t wanted, int32_t last, uint32_t *limited) {
  const int32_t applied = sm_motor_rate_limit(sm_motor_clamp(wanted, limits->low, limits->high), last, limits->step);
  if (applied != wanted) {
    *limited += 1U;
  }
  return applied;
}

/* Times for which no sum overflows. */
static int32_t clamp_dt(uint32_t dt_us) { return (int32_t)(dt_us < DT_MIN_US ? DT_MIN_US : min_u32(dt_us, DT_MAX_US)); }

void sm_motor_start(sm_motor *m, int32_t encoder, int32_t position) {
  const int32_t here = sm_motor_clamp(position, -POSITION_MAX, POSITION_MAX);
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
    m->target = sm_motor_clamp(m->position, -SM_MOTOR_TRAVEL, SM_MOTOR_TRAVEL);
    m->command = m->target;
    m->integral = 0;
    m->following_us = 0U;
  }
}

/* Divides 64 bits by 32: slow, but done once per command. */
static int32_t slope_of(int32_t way, uint32_t time_us) {
  return clamp_magnitude(way * (INT64_C(1) << SLOPE_BITS) / (int64_t)time_us, INT32_MAX);
}

static int32_t distance(int32_t rate, uint32_t time_us) {
  return clamp_magnitude((rate * (int64_t)time_us) >> SLOPE_BITS, POSITION_MAX);
}

/* A target that began outside of low … high may stay as far outside as it began: it comes back without a jump. */
static int32_t clamp_to_travel(const sm_motor *m, const sm_motor_config *c, int32_t v) {
  return sm_motor_clamp(v, m->start < c->low ? m->start : c->low, m->start > c->high ? m->start : c->high);
}

static void begin_motion(sm_motor *m, sm_motor_mode mode, int32_t rate, uint32_t length_us) {
  m->mode = mode;
  m->start = m->target;
  m->slope = rate;
  m->length_us = length_us;
  m->elapsed_us = 0U;
  m->acceleration = 0;
}

void sm_motor_command(sm_motor *m, const sm_motor_config *c, int32_t position, int32_t late_us) {
  if (m->mode == SM_MOTOR_OFF) {
    return;
  }
  const int32_t end = sm_motor_clamp(position, c->low, c->high);
  const int32_t most = (int32_t)(c->period_us / 2U);
  const uint32_t left_us = c->period_us - (uint32_t)sm_motor_clamp(late_us, -most, most);
  begin_motion(m, SM_MOTOR_LINE, slope_of(end - m->target, left_us), left_us);
  m->command_slope = slope_of(end - m->command, c->period_us);
  m->command = end;
}

void sm_motor_brake(sm_motor *m, const sm_motor_config *c, uint32_t time_us) {
  if (m->mode == SM_MOTOR_LINE) {
    const uint32_t length_us = min_u32(time_us, TIME_MAX_US);
    begin_motion(m, SM_MOTOR_BRAKE, m->target_slope, length_us);
    m->command = clamp_to_travel(m, c, m->start + distance(m->slope, length_us) / 2);
    const uint32_t divisor = length_us > 0U ? length_us : 1U;
    m->inverse_length = ((UINT32_C(1) << INVERSE_BITS) - 1U) / divisor;
    m->acceleration = clamp_magnitude(m->slope * -ACCELERATION_UNIT / (int64_t)divisor, INT32_MAX);
  }
}

/* The target on a line: straight to the command, then extrapolated for extrapolate_us. */
static int32_t line_target(sm_motor *m, const sm_motor_config *c) {
  if (m->elapsed_us < m->length_us) {
    m->target_slope = m->slope;
    return m->start + distance(m->slope, m->elapsed_us);
  }
  const uint32_t beyond_us = min_u32(m->elapsed_us - m->length_us, c->extrapolate_us);
  m->target_slope = beyond_us < c->extrapolate_us ? m->command_slope : 0;
  return m->command + distance(m->command_slope, beyond_us);
}

/* The target of a brake of length T: start + v (t − t²/2T). */
static int32_t brake_target(sm_motor *m) {
  if (m->elapsed_us >= m->length_us) {
    m->target_slope = 0;
    m->acceleration = 0;
    return m->command;
  }
  const int64_t part = (int64_t)m->elapsed_us * m->inverse_length; /* t/T with INVERSE_BITS fraction bits */
  const int64_t way = part - ((part * part) >> (INVERSE_BITS + 1U));
  m->target_slope = m->slope - (int32_t)((m->slope * part) >> INVERSE_BITS);
  return m->start + (int32_t)((distance(m->slope, m->length_us) * way) >> INVERSE_BITS);
}

static void advance_target(sm_motor *m, const sm_motor_config *c, uint32_t dt_us) {
  if (m->mode == SM_MOTOR_HOLD) {
    return;
  }
  m->elapsed_us = min_u32(m->elapsed_us + dt_us, 3U * TIME_MAX_US);
  const int32_t wanted = m->mode == SM_MOTOR_LINE ? line_target(m, c) : brake_target(m);
  m->target = clamp_to_travel(m, c, wanted);
  if (m->target != wanted) {
    m->target_slope = 0;
    m->acceleration = 0;
  }
}

static void read_encoder(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us) {
  const int32_t moved = (int32_t)((uint32_t)encoder - (uint32_t)m->encoder);
  m->encoder = encoder;
  m->position = clamp_magnitude(m->position + (int64_t)moved * SM_MOTOR_Q8, POSITION_MAX);
  const int64_t possible = ((int64_t)c->speed_limit * dt_us) >> MS_BITS;
  if (moved > possible || moved < -possible) {
    m->fault = SM_MOTOR_ENCODER;
  }
  const int32_t speed = clamp_magnitude(moved, DELTA_MAX) * SPEED_UNIT / clamp_dt(dt_us);
  m->speed_sum += clamp_magnitude(speed, SPEED_MAX) - (m->speed_sum >> c->speed_filter);
}

static void check_following_error(sm_motor *m, const sm_motor_config *c, uint32_t dt_us) {
  if (m->error <= c->following_limit && m->error >= -c->following_limit) {
    m->following_us = 0U;
  } else {
    m->following_us = min_u32(m->following_us + dt_us, 2U * TIME_MAX_US);
    if (m->following_us > c->following_time_us) {
      m->fault = SM_MOTOR_FOLLOWING;
    }
  }
}

static int32_t pid_effort(sm_motor *m, const sm_motor_config *c, int32_t dt_us) {
  const int64_t speed = m->speed_sum >> c->speed_filter;
  const int64_t target_speed = m->target_slope >> SLOPE_TO_SPEED;
  const int64_t forward = c->kv * target_speed + c->ka * (int64_t)m->acceleration;
  const int64_t sum = c->kp * (int64_t)m->error - c->kd * speed + forward + m->integral;
  const int32_t wanted = clamp_magnitude((sum + (INT64_C(1) << (c->shift - 1U))) >> c->shift, WANTED_MAX);
  const int32_t change = clamp_magnitude(((int64_t)c->slew_limit * dt_us + (1 << MS_BITS) - 1) >> MS_BITS, INT32_MAX);
  const int32_t effort =
      sm_motor_rate_limit(sm_motor_clamp(wanted, -c->effort_limit, c->effort_limit), m->effort, change);
  m->limited_steps += effort != wanted ? 1U : 0U;
  /* Anti-windup by back-calculation: what the limits cut off is taken off the integral, all of it per step at most. */
  const int64_t share = clamp_magnitude((int64_t)c->anti_windup * dt_us, INT32_C(1) << WINDUP_BITS);
  const int64_t unwound = ((effort - wanted) * (INT64_C(1) << c->shift) * share) >> WINDUP_BITS;
  const int64_t most = c->integral_limit * (INT64_C(1) << c->shift);
  const int64_t integral = m->integral + ((c->ki * (int64_t)m->error * dt_us) >> MS_BITS) + unwound;
  m->integral = integral > most ? most : integral < -most ? -most : integral;
  return effort;
}

int32_t sm_motor_step(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us) {
  const int32_t dt = clamp_dt(dt_us);
  read_encoder(m, c, encoder, dt_us);
  if (m->mode == SM_MOTOR_OFF) {
    m->target = m->position;
  } else {
    advance_target(m, c, (uint32_t)dt);
  }
  m->error = m->target - m->position;
  check_following_error(m, c, (uint32_t)dt);
  const bool drives = m->mode != SM_MOTOR_OFF && m->fault == SM_MOTOR_OK;
  m->effort = drives ? pid_effort(m, c, dt) : 0;
  return m->effort;
}
