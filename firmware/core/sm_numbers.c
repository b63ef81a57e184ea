#include "sm_numbers.h"

#include <string.h>

#include "robot.h"
#include "sm_fixed.h"
#include "sm_motor.h"

static const sm_real LOW[SM_MOTORS] = SM_U_LOW;
static const sm_real HIGH[SM_MOTORS] = SM_U_HIGH;
static const sm_real STEP[SM_MOTORS] = SM_U_STEP;

#define Q8_BITS 8 /* fraction bits of ratios */

#if SM_FIXED

#define SHIFT_MAX 30      /* of 32 bits and a sign: more leaves no digit */
#define HIGH_BITS 32      /* that sm_high takes off a product */
#define DIV_BASE 61       /* of sm_div: a / b * 2^(61 - base) */
#define QUOTIENT_BITS 32U /* word of the quotient, whatever the controller's word */

static const int8_t STATE_BITS[SM_NX] = SM_X_BITS;
static const int8_t COMMAND_BITS[SM_MOTORS] = SM_U_BITS;
static const int8_t CHANNEL_BITS[SM_NZ] = SM_Z_BITS;
static const int8_t ERROR_BITS[SM_NZ] = SM_E_BITS;
static const int8_t VARIANCE_BITS[SM_NZ] = SM_S_BITS;
static const int32_t AXIS_SCALE[SM_MOTORS] = SM_AXIS_SCALE;
static const int8_t AXIS_SHIFT[SM_MOTORS] = SM_AXIS_SHIFT;

/* Returns v * 2^-right: a number in a format with `right` fraction bits less; 0 where the formats have no common
 * digits. */
static sm_real shifted(sm_real v, int right) {
  uint32_t overflows = 0;
  if (right > SHIFT_MAX || right < -SHIFT_MAX) {
    return 0;
  }
  return right > 0 ? sm_right(v, (unsigned)right) : sm_left(v, (unsigned)-right, &overflows);
}

sm_real sm_numbers_state_as_command(const sm_controller *c, unsigned i) {
  const int state = sm_numbers_state(i);
  return state < 0 ? 0 : shifted(c->x[state], STATE_BITS[state] - COMMAND_BITS[i]);
}

sm_real sm_numbers_measured_as_command(const sm_controller *c, unsigned i) {
  const int channel = sm_numbers_channel(i);
  return channel < 0 ? 0 : shifted(c->z[channel], CHANNEL_BITS[channel] - COMMAND_BITS[i]);
}

int32_t sm_numbers_as_motor(unsigned i, sm_real command) {
  const int shift = AXIS_SHIFT[i];
  uint32_t overflows = 0;
  return sm_limit(((int64_t)command * AXIS_SCALE[i] + (INT64_C(1) << (shift - 1))) >> shift, &overflows);
}

sm_real sm_numbers_limit_command(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  const sm_motor_limits limits = {.low = LOW[i], .high = HIGH[i], .step = STEP[i]};
  return sm_motor_limit_command(&limits, wanted, last, count);
}

#if SM_MEASURE_ENCODERS
sm_real sm_numbers_from_encoder(unsigned channel, int32_t counts) {
  static const int32_t start[SM_NZ] = SM_ENCODER_START;
  static const int32_t scale[SM_NZ] = SM_ENCODER_SCALE;
  static const int8_t shift[SM_NZ] = SM_ENCODER_SHIFT;
  uint32_t overflows = 0;
  const int64_t moved = ((int64_t)counts * scale[channel] + (INT64_C(1) << (shift[channel] - 1))) >> shift[channel];
  return sm_limit(start[channel] + moved, &overflows);
}
#endif

uint32_t sm_numbers_nis(const sm_controller *c, unsigned channel) {
  uint32_t overflows = 0;
  const int32_t square = sm_high(c->e[channel], c->e[channel]);
  const int square_bits = 2 * ERROR_BITS[channel] - HIGH_BITS;
  const int base = DIV_BASE + square_bits - VARIANCE_BITS[channel] - Q8_BITS;
  const int32_t q = sm_div(square, c->s[channel], base, QUOTIENT_BITS, &overflows);
  return q > 0 ? (uint32_t)q : 0U;
}

uint32_t sm_numbers_variance_ratio(sm_real variance, sm_real limit) {
  return variance <= 0 ? UINT32_MAX : (uint32_t)variance / ((uint32_t)limit >> Q8_BITS | 1U);
}

int32_t sm_numbers_to_wire(sm_real v) { return v; }
sm_real sm_numbers_from_wire(int32_t v) { return v; }

#else

#define Q8 ((sm_real)(1 << Q8_BITS))
#define RATIO_MAX 1000000000U /* 4 million times what is expected, and it fits 32 bits */

static const sm_real AXIS_SCALE[SM_MOTORS] = SM_AXIS_SCALE;

sm_real sm_numbers_state_as_command(const sm_controller *c, unsigned i) {
  return sm_numbers_is_position(i) ? c->x[sm_numbers_state(i)] : 0;
}

sm_real sm_numbers_measured_as_command(const sm_controller *c, unsigned i) {
  return sm_numbers_channel(i) < 0 ? 0 : c->z[sm_numbers_channel(i)];
}

int32_t sm_numbers_as_motor(unsigned i, sm_real command) {
  const sm_real v = command * AXIS_SCALE[i];
  const sm_real most = (sm_real)SM_MOTOR_TRAVEL; /* a NaN becomes a limit, too */
  return v > -most ? (int32_t)(v < most ? v : most) : -SM_MOTOR_TRAVEL;
}

sm_real sm_numbers_limit_command(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  sm_real v = wanted > LOW[i] ? wanted : LOW[i]; /* a NaN becomes the limit */
  v = v < HIGH[i] ? v : HIGH[i];
  v = v > last - STEP[i] ? v : last - STEP[i];
  v = v < last + STEP[i] ? v : last + STEP[i];
  *count += v < wanted || v > wanted ? 1U : 0U;
  return v;
}

#if SM_MEASURE_ENCODERS
sm_real sm_numbers_from_encoder(unsigned channel, int32_t counts) {
  static const sm_real start[SM_NZ] = SM_ENCODER_START;
  static const sm_real scale[SM_NZ] = SM_ENCODER_SCALE;
  return start[channel] + (sm_real)counts * scale[channel];
}
#endif

uint32_t sm_numbers_nis(const sm_controller *c, unsigned channel) {
  const sm_real q = c->e[channel] * c->e[channel] / c->s[channel] * Q8;
  return q < (sm_real)RATIO_MAX ? (uint32_t)q : RATIO_MAX;
}

uint32_t sm_numbers_variance_ratio(sm_real variance, sm_real limit) {
  const sm_real q = variance / limit * Q8;
  return q > 0 && q < (sm_real)RATIO_MAX ? (uint32_t)q : UINT32_MAX;
}

int32_t sm_numbers_to_wire(sm_real v) {
  const float narrow = (float)v;
  int32_t word;
  memcpy(&word, &narrow, sizeof word);
  return word;
}

sm_real sm_numbers_from_wire(int32_t v) {
  float narrow;
  memcpy(&narrow, &v, sizeof narrow);
  return narrow;
}

#endif
