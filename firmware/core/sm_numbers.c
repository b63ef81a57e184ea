#include "sm_numbers.h"

#include <string.h>

#include "robot.h"
#include "sm_fixed.h"
#include "sm_motor.h"

static const sm_real LOW[SM_MOTORS] = SM_U_LOW;
static const sm_real HIGH[SM_MOTORS] = SM_U_HIGH;
static const sm_real STEP[SM_MOTORS] = SM_U_STEP;

#if SM_FIXED

static const int8_t STATE_BITS[SM_NX] = SM_X_BITS;
static const int8_t COMMAND_BITS[SM_MOTORS] = SM_U_BITS;
static const int8_t CHANNEL_BITS[SM_NZ] = SM_Z_BITS;
static const int8_t ERROR_BITS[SM_NZ] = SM_E_BITS;
static const int8_t VARIANCE_BITS[SM_NZ] = SM_S_BITS;
static const int32_t AXIS_SCALE[SM_MOTORS] = SM_AXIS_SCALE;
static const int8_t AXIS_SHIFT[SM_MOTORS] = SM_AXIS_SHIFT;

static sm_real moved(sm_real v, int right) {
  uint32_t lost = 0;
  if (right > 30 || right < -30) {
    return 0;
  }
  return right > 0 ? sm_right(v, (unsigned)right) : sm_left(v, (unsigned)-right, &lost);
}

sm_real sm_state_as_command(const sm_controller *c, unsigned i) {
  const int state = sm_state_of(i);
  return state < 0 ? 0 : moved(c->x[state], STATE_BITS[state] - COMMAND_BITS[i]);
}

sm_real sm_channel_as_command(const sm_controller *c, unsigned i) {
  const int channel = sm_channel_of(i);
  return channel < 0 ? 0 : moved(c->z[channel], CHANNEL_BITS[channel] - COMMAND_BITS[i]);
}

int32_t sm_as_motor(unsigned i, sm_real command) {
  const int shift = AXIS_SHIFT[i];
  uint32_t lost = 0;
  return sm_limit(((int64_t)command * AXIS_SCALE[i] + (INT64_C(1) << (shift - 1))) >> shift, &lost);
}

sm_real sm_limited(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  const sm_command_limits limits = {.low = LOW[i], .high = HIGH[i], .step = STEP[i]};
  return sm_limit_command(&limits, wanted, last, count);
}

uint32_t sm_normalized(const sm_controller *c, unsigned channel) {
  uint32_t lost = 0;
  const int32_t square = sm_high(c->e[channel], c->e[channel]);
  const int bits = 2 * ERROR_BITS[channel] - 32;
  const int32_t q = sm_div(square, c->s[channel], 61 + bits - VARIANCE_BITS[channel] - 8, 32U, &lost);
  return q > 0 ? (uint32_t)q : 0U;
}

uint32_t sm_spread_of(sm_real variance, sm_real limit) {
  return variance <= 0 ? UINT32_MAX : (uint32_t)variance / ((uint32_t)limit >> 8 | 1U);
}

int32_t sm_as_word(sm_real v) { return v; }
sm_real sm_from_word(int32_t v) { return v; }

#else

static const sm_real AXIS_SCALE[SM_MOTORS] = SM_AXIS_SCALE;

sm_real sm_state_as_command(const sm_controller *c, unsigned i) { return sm_moves(i) ? c->x[sm_state_of(i)] : 0; }

sm_real sm_channel_as_command(const sm_controller *c, unsigned i) {
  return sm_channel_of(i) < 0 ? 0 : c->z[sm_channel_of(i)];
}

int32_t sm_as_motor(unsigned i, sm_real command) {
  const sm_real v = command * AXIS_SCALE[i];
  const sm_real most = (sm_real)SM_MOTOR_TRAVEL; /* a NaN becomes a limit, too */
  return v > -most ? (int32_t)(v < most ? v : most) : -SM_MOTOR_TRAVEL;
}

sm_real sm_limited(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  sm_real v = wanted > LOW[i] ? wanted : LOW[i]; /* a NaN becomes the limit */
  v = v < HIGH[i] ? v : HIGH[i];
  v = v > last - STEP[i] ? v : last - STEP[i];
  v = v < last + STEP[i] ? v : last + STEP[i];
  *count += v < wanted || v > wanted ? 1U : 0U;
  return v;
}

uint32_t sm_normalized(const sm_controller *c, unsigned channel) {
  const sm_real q = c->e[channel] * c->e[channel] / c->s[channel] * (sm_real)256;
  return q < (sm_real)1e9 ? (uint32_t)q : UINT32_C(1000000000);
}

uint32_t sm_spread_of(sm_real variance, sm_real limit) {
  const sm_real q = variance / limit * (sm_real)256;
  return q > 0 && q < (sm_real)1e9 ? (uint32_t)q : UINT32_MAX;
}

int32_t sm_as_word(sm_real v) {
  const float narrow = (float)v;
  int32_t word;
  memcpy(&word, &narrow, sizeof word);
  return word;
}

sm_real sm_from_word(int32_t v) {
  float narrow;
  memcpy(&narrow, &v, sizeof narrow);
  return narrow;
}

#endif
