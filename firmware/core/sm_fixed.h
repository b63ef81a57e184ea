/* Fixed-point primitives.
 *
 * A number is an int32_t v with f fraction bits, v * 2^-f; f is known when code is generated and appears here only as
 * shift counts. Results are rounded to nearest, ties up. Every primitive that can overflow saturates instead and counts
 * it in *lost. Right shifts of negative numbers are arithmetic, as on all compilers this is built with; left shifts are
 * done on unsigned numbers.
 *
 * Accumulators are 64 bits wide and hold one product (62 bits) plus rounding: there is no guard bit to run out of. */
#ifndef SM_FIXED_H
#define SM_FIXED_H

#include <stdint.h>

_Static_assert((INT32_C(-1) >> 1) == -1, "right shifts of negative numbers must be arithmetic");

#define SM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The limit a number went over: the largest or the least, by the sign of what it should have been. */
static inline int32_t sm_saturated(int negative, uint32_t *lost) {
  *lost += 1U;
  return negative ? INT32_MIN : INT32_MAX;
}

static inline int32_t sm_limit(int64_t v, uint32_t *lost) {
  const int32_t low = (int32_t)v;
  return SM_UNLIKELY(low != v) ? sm_saturated(v < 0, lost) : low;
}

/* v * 2^-right, 1 <= right <= 31; exact rounding without a wider type: the bit below the cut is the carry */
static inline int32_t sm_right(int32_t v, unsigned right) { return (v >> right) + ((v >> (right - 1U)) & 1); }

/* v * 2^left, 0 <= left <= 31 */
static inline int32_t sm_left(int32_t v, unsigned left, uint32_t *lost) {
  const int32_t moved = (int32_t)((uint32_t)v << left);
  return SM_UNLIKELY(moved >> left != v) ? sm_saturated(v < 0, lost) : moved;
}

static inline int32_t sm_add(int32_t a, int32_t b, uint32_t *lost) {
  int32_t sum;
  return SM_UNLIKELY(__builtin_add_overflow(a, b, &sum)) ? sm_saturated(a < 0, lost) : sum;
}

static inline int32_t sm_sub(int32_t a, int32_t b, uint32_t *lost) {
  int32_t difference;
  return SM_UNLIKELY(__builtin_sub_overflow(a, b, &difference)) ? sm_saturated(b > 0, lost) : difference;
}

/* a * b * 2^-32: the upper word of the product, rounded; cannot overflow. One SMMULR on a Cortex-M4. */
static inline int32_t sm_high(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b + INT64_C(0x80000000)) >> 32); }

/* a * b * 2^-right, 32 <= right <= 62: cannot overflow */
static inline int32_t sm_mul_wide(int32_t a, int32_t b, unsigned right) {
  return (int32_t)(((int64_t)a * b + (INT64_C(1) << (right - 1U))) >> right);
}

/* a * b * 2^-right, 1 <= right <= 31 */
static inline int32_t sm_mul(int32_t a, int32_t b, unsigned right, uint32_t *lost) {
  return sm_limit(((int64_t)a * b + (INT64_C(1) << (right - 1U))) >> right, lost);
}

/* 2^(61 - base) / d: the reciprocal of d * 2^-f with g fraction bits for base = 61 - f - g.
 *
 * |d| is normalized to m in [2^30, 2^31]; one 32-bit division gives 2^46 / m to 15 bits, one Newton step 2^61 / m to a
 * relative error below 2^-29. 1/0 saturates. */
int32_t sm_reciprocal(int32_t d, int base, uint32_t *lost);

#endif
