/* Fixed-point primitives.
 *
 * A number is an int32_t v with f fraction bits, v * 2^-f; f is known when code is generated and appears here only
 * as shift counts. Results are rounded to nearest: ties up in shifts, sums and products, away from zero where a
 * magnitude is found first (reciprocal, quotient). Every primitive that can overflow saturates instead and counts
 * that in *overflows, which may be shared. Right shifts of negative numbers are arithmetic, as on all compilers this
 * is built with; left shifts are done on unsigned numbers.
 *
 * Numbers are SM_WORD bits long, 16 to 32: generated code may define it before this header, and every inline
 * primitive then saturates at -2^(SM_WORD - 1) and 2^(SM_WORD - 1) - 1. The functions of sm_fixed.c, which is
 * compiled once, are given the word instead.
 *
 * Accumulators are 64 bits wide and hold one product (62 bits) plus rounding: there is no guard bit to run out of.
 * Nothing here divides more than 32 bits by 32, or loops. Errors and costs are in docs/primitives.md. */
#ifndef SM_FIXED_H
#define SM_FIXED_H

#include <stdint.h>

#ifndef SM_WORD
#define SM_WORD 32
#endif

_Static_assert((INT32_C(-1) >> 1) == -1, "right shifts of negative numbers must be arithmetic");
_Static_assert(SM_WORD >= 16 && SM_WORD <= 32, "a word is 16 to 32 bits long");

#define SM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The largest number of a word; the least is -SM_TOP - 1. */
#define SM_TOP ((int32_t)(UINT32_MAX >> (33 - SM_WORD)))

/* -1 for a negative number, otherwise 0 */
static inline int32_t sm_sign_mask(int32_t v) {
  return v >> 31; /* cppcheck-suppress shiftTooManyBitsSigned; asserted above */
}

/* The limit a number went over: the largest or the least, as sign is positive or negative. */
static inline int32_t sm_saturated(int32_t sign, uint32_t *overflows) {
  *overflows += 1U;
  return sm_sign_mask(sign) ^ SM_TOP;
}

/* The lower SM_WORD bits as a number: v itself where it fits. Nothing at all for 32. */
static inline int32_t sm_cut(int32_t v) { return (int32_t)((uint32_t)v << (32 - SM_WORD)) >> (32 - SM_WORD); }

/* Not checked by low != v: knowing that they are equal, gcc multiplies v where low is a factor, in three products. */
static inline int32_t sm_limit(int64_t v, uint32_t *overflows) {
  const int32_t low = sm_cut((int32_t)v);
  const int32_t high = (int32_t)(v >> 32);
  return SM_UNLIKELY(high != sm_sign_mask(low) || low != (int32_t)v) ? sm_saturated(high, overflows) : low;
}

/* sm_limit of a number that fits 32 bits; nothing at all for 32 */
static inline int32_t sm_fit(int32_t v, uint32_t *overflows) {
  return SM_UNLIKELY(sm_cut(v) != v) ? sm_saturated(v, overflows) : v;
}

/* v * 2^-right, 1 <= right <= 31; exact rounding without a wider type: the bit below the cut is the carry */
static inline int32_t sm_right(int32_t v, unsigned right) { return (v >> right) + ((v >> (right - 1U)) & 1); }

/* v * 2^left, 0 <= left <= 31 */
static inline int32_t sm_left(int32_t v, unsigned left, uint32_t *overflows) {
  const int32_t scaled = sm_cut((int32_t)((uint32_t)v << left));
  return SM_UNLIKELY(scaled >> left != v) ? sm_saturated(v, overflows) : scaled;
}

static inline int32_t sm_add(int32_t a, int32_t b, uint32_t *overflows) {
  int32_t sum;
  return SM_UNLIKELY(__builtin_add_overflow(a, b, &sum)) ? sm_saturated(a, overflows) : sm_fit(sum, overflows);
}

static inline int32_t sm_sub(int32_t a, int32_t b, uint32_t *overflows) {
  int32_t difference;
  return SM_UNLIKELY(__builtin_sub_overflow(a, b, &difference)) ? sm_saturated(~b, overflows)
                                                                : sm_fit(difference, overflows);
}

/* |v|: the least number has none, and saturates */
static inline int32_t sm_abs(int32_t v, uint32_t *overflows) {
  return v < 0 ? sm_sub(0, v, overflows) : sm_fit(v, overflows);
}

/* a * b * 2^-32: the upper word of the product, rounded by the bit below it; cannot overflow */
static inline int32_t sm_high(int32_t a, int32_t b) {
  const int64_t product = (int64_t)a * b;
  return (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
}

/* a * b * 2^-right, 1 <= right <= 62, where the result is known to fit, as it is for right >= SM_WORD */
static inline int32_t sm_mul_wide(int32_t a, int32_t b, unsigned right) {
  const int64_t product = (int64_t)a * b;
  return right > 32U ? ((int32_t)(product >> 32) + (INT32_C(1) << (right - 33U))) >> (right - 32U)
                     : (int32_t)((product + (INT64_C(1) << (right - 1U))) >> right);
}

/* a * b * 2^-right, 1 <= right <= 62 */
static inline int32_t sm_mul(int32_t a, int32_t b, unsigned right, uint32_t *overflows) {
  return sm_limit(((int64_t)a * b + (INT64_C(1) << (right - 1U))) >> right, overflows);
}

/* 2^(61 - base) / d: the reciprocal of d * 2^-f with g fraction bits for base = 61 - f - g.
 *
 * |d| is normalized to m in [2^30, 2^31). One 32-bit division gives 2^46 / m to 15 bits and never above, two terms of
 * the geometric series in what is missing 2^62 / m to one unit of 32 bits, which is rounded: the error is below 0.5001
 * units of the result. Exact for powers of two. 1/0 saturates. */
int32_t sm_reciprocal(int32_t d, int base, unsigned word, uint32_t *overflows);

/* a / b * 2^(61 - base): the quotient of a * 2^-e and b * 2^-f with g fraction bits for base = 61 + e - f - g.
 *
 * The reciprocal of b in 32 bits times a: relative error below 2^-30.99, then rounding. a/0 saturates by the sign of a,
 * 0/0 as a positive number. Where several numbers are divided by one, one sm_reciprocal and products are cheaper. */
int32_t sm_div(int32_t a, int32_t b, int base, unsigned word, uint32_t *overflows);

/* sqrt(v * 2^(32 - base)): the root of v * 2^-f with g fraction bits for base = 32 + f - 2g.
 *
 * v is normalized by a shift that leaves an even exponent to m in [2^30, 2^32). A parabola and one step of Heron give
 * s = floor(sqrt(m)), and the remainder over 2s 16 bits more: relative error below 2^-31, then rounding. Exact for
 * squares. The root of a negative number is 0 and counted. */
int32_t sm_sqrt(int32_t v, int base, unsigned word, uint32_t *overflows);

/* The angle v * 2^-fraction rad in quadrants, with 32 fraction bits; -30 <= fraction <= 62, meant to be a constant.
 *
 * 2^32 / pi is rounded to 31 bits: the relative error of 2^-33 is at most a quarter of the last bit of v. */
static inline int64_t sm_quadrants(int32_t v, int fraction) {
  const int64_t turned = v * INT64_C(1367130551);
  return fraction > 1 ? (turned + (INT64_C(1) << (fraction - 2))) >> (fraction - 1)
                      : (int64_t)((uint64_t)turned << (1 - fraction));
}

/* Sine of that many quadrants, 30 fraction bits, -2^30 to 2^30.
 *
 * Quadrants are rounded to k, which leaves t in [-1, 1) eighths of a turn, 31 bits and a sign: sine or cosine of it is
 * a polynomial in t^2, fitted at Chebyshev points, by Horner's rule with every product rounded. */
int32_t sm_sin_quadrants(int64_t quadrants);

/* Sine and cosine of v * 2^-fraction rad, 30 fraction bits whatever the word; cannot overflow. */
static inline int32_t sm_sin(int32_t v, int fraction) { return sm_sin_quadrants(sm_quadrants(v, fraction)); }

static inline int32_t sm_cos(int32_t v, int fraction) {
  return sm_sin_quadrants((int64_t)((uint64_t)sm_quadrants(v, fraction) + (UINT64_C(1) << 32)));
}

#endif
