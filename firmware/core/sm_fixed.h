/* Fixed-point primitives.
 *
 * A number is an int32_t v with f fraction bits, v * 2^-f; f is known when code is generated and appears here only
 * as shift counts. Where bits are lost, a primitive either rounds to nearest (ties up; away from zero where a
 * magnitude is found first: reciprocal, quotient) or cuts them off, which rounds down: generated code takes the second
 * where its error budget allows, and those primitives end in _cut. Right shifts of negative numbers are arithmetic, as
 * on all compilers this is built with; left shifts are done on unsigned numbers.
 *
 * What goes over its format saturates and is noted in *overflowed, which becomes 1 and stays so: a note says that
 * something saturated, not how often. Cores that have a sticky flag of their own note it there; sm_watch() clears
 * that flag, and sm_noted() reads both.
 *
 * Numbers are SM_WORD bits long, 16 to 32: generated code may define it before this header, and every inline
 * primitive then saturates at -2^(SM_WORD - 1) and 2^(SM_WORD - 1) - 1. The functions of sm_fixed.c, which is
 * compiled once, are given the word instead.
 *
 * Accumulators are 64 bits wide and hold one product (62 bits) plus rounding: there is no guard bit to run out of.
 * Nothing here divides more than 32 bits by 32, or loops. Errors and costs are in docs/primitives.md.
 *
 * The plain C of every primitive defines it. Instructions that a compiler does not find by itself are written out for
 * cores that have them, with the same results; SM_PLAIN leaves them out. */
#ifndef SM_FIXED_H
#define SM_FIXED_H

#include <stdint.h>

#ifndef SM_WORD
#define SM_WORD 32
#endif

_Static_assert((INT32_C(-1) >> 1) == -1, "right shifts of negative numbers must be arithmetic");
_Static_assert(SM_WORD >= 16 && SM_WORD <= 32, "a word is 16 to 32 bits long");

/* Cortex-M3 and larger: products of 64 bits, and ssat, which sets the sticky flag Q. M4 and M7: sums that saturate and
 * upper words of products, too. gcc knows of Q by these functions, and leaves it alone where they are used. */
#if defined(__ARM_FEATURE_QBIT) && defined(__ARM_FEATURE_SAT) && defined(__thumb2__) && defined(__OPTIMIZE__) &&       \
    !defined(__clang__) && !defined(SM_PLAIN)
#include <arm_acle.h>
#define SM_ARM 1
#ifdef __ARM_FEATURE_DSP
#define SM_ARM_DSP 1
#endif
#endif

/* Cores that multiply 32 bits by 32 to 32: Cortex-M0, and Xtensa without the option for upper words */
#if defined(__ARM_ARCH_6M__) || defined(__XTENSA_CALL0_ABI__)
#define SM_NARROW 1
#endif

#define SM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* At -Os, too: a call takes as many instructions as most of these. */
#define SM_INLINE static inline __attribute__((always_inline))

/* The largest number of a word; the least is -SM_TOP - 1. */
#define SM_TOP ((int32_t)(UINT32_MAX >> (33 - SM_WORD)))

/* Before primitives that may saturate: forgets what the core noted. */
SM_INLINE void sm_watch(void) {
#ifdef SM_ARM
  __asm__ volatile("msr APSR_nzcvq, %0" : : "r"(0) : "cc");
#endif
}

/* Notes that something saturated. */
SM_INLINE void sm_note(uint32_t *overflowed) {
#ifdef SM_ARM
  int32_t none;
  (void)overflowed;
  __asm__ volatile("ssat %0, #1, %1" : "=r"(none) : "r"(2));
#else
  *overflowed = 1U;
#endif
}

/* 1 where something saturated since sm_watch() or was noted in `overflowed`, else 0 */
SM_INLINE uint32_t sm_noted(uint32_t overflowed) {
#ifdef SM_ARM
  return overflowed | (__saturation_occurred() != 0 ? 1U : 0U);
#else
  return overflowed;
#endif
}

/* -1 for a negative number, otherwise 0 */
SM_INLINE int32_t sm_sign_mask(int32_t v) {
  return v >> 31; /* cppcheck-suppress shiftTooManyBitsSigned; asserted above */
}

/* The limit a number went over: the largest or the least, as sign is positive or negative. */
SM_INLINE int32_t sm_saturated(int32_t sign, uint32_t *overflowed) {
  sm_note(overflowed);
  return sm_sign_mask(sign) ^ SM_TOP;
}

/* The lower SM_WORD bits as a number: v itself where it fits. Nothing at all for 32. */
SM_INLINE int32_t sm_cut(int32_t v) { return (int32_t)((uint32_t)v << (32 - SM_WORD)) >> (32 - SM_WORD); }

/* Not checked by low != v: knowing that they are equal, gcc multiplies v where low is a factor, in three products. */
SM_INLINE int32_t sm_limit(int64_t v, uint32_t *overflowed) {
  const int32_t low = sm_cut((int32_t)v);
  const int32_t high = (int32_t)(v >> 32);
  return SM_UNLIKELY(high != sm_sign_mask(low) || low != (int32_t)v) ? sm_saturated(high, overflowed) : low;
}

/* sm_limit of a number that fits 32 bits; nothing at all for 32 */
SM_INLINE int32_t sm_fit(int32_t v, uint32_t *overflowed) {
  return SM_UNLIKELY(sm_cut(v) != v) ? sm_saturated(v, overflowed) : v;
}

#ifdef SM_NARROW
/* The upper word of a * b, from products of 16 bits by 16 */
int32_t sm_upper(int32_t a, int32_t b);
#endif

/* The upper word of a * b; its lower word is stored. */
SM_INLINE int32_t sm_product(int32_t a, int32_t b, uint32_t *low) {
#ifdef SM_ARM /* gcc multiplies a product that was shifted in three products, as it knows more than 32 bits of it */
  int32_t high;
  __asm__("smull %0, %1, %2, %3" : "=r"(*low), "=r"(high) : "r"(a), "r"(b));
  return high;
#elif defined(SM_NARROW)
  *low = (uint32_t)a * (uint32_t)b;
  return sm_upper(a, b);
#else
  const int64_t product = (int64_t)a * b;
  *low = (uint32_t)product;
  return (int32_t)(product >> 32);
#endif
}

/* v, which saturates at `bits` bits, 1 to 32, times 2^left, 0 to 32 - bits: zeros are shifted in at either limit. */
SM_INLINE int32_t sm_raised(int32_t v, unsigned bits, unsigned left, uint32_t *overflowed) {
#ifdef SM_ARM
  if (__builtin_constant_p(bits)) {
    int32_t held;
    __asm__ volatile("ssat %0, %1, %2" : "=r"(held) : "i"(bits), "r"(v));
    return (int32_t)((uint32_t)held << left);
  }
#endif
  if (SM_UNLIKELY((int32_t)((uint32_t)v << (32U - bits)) >> (32U - bits) != v)) {
    sm_note(overflowed);
    return (int32_t)((uint32_t)((sm_sign_mask(v) ^ INT32_MAX) >> (32U - bits)) << left);
  }
  return (int32_t)((uint32_t)v << left);
}

/* v * 2^-right, 1 <= right <= 31; exact rounding without a wider type: the bit below the cut is the carry. Where it
 * is cut off instead, generated code has v >> right. */
SM_INLINE int32_t sm_right(int32_t v, unsigned right) { return (v >> right) + ((v >> (right - 1U)) & 1); }

/* v * 2^left, 0 <= left < SM_WORD. The largest number it saturates at ends in zeros, as all results do. */
SM_INLINE int32_t sm_left(int32_t v, unsigned left, uint32_t *overflowed) {
  return sm_raised(v, SM_WORD - left, left, overflowed);
}

/* The same where the result is known to fit */
SM_INLINE int32_t sm_left_fast(int32_t v, unsigned left) { return (int32_t)((uint32_t)v << left); }

SM_INLINE int32_t sm_add(int32_t a, int32_t b, uint32_t *overflowed) {
#if defined(SM_ARM_DSP) && SM_WORD == 32
  int32_t sum;
  (void)overflowed;
  __asm__ volatile("qadd %0, %1, %2" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
#elif defined(SM_ARM) && SM_WORD == 32
  int32_t sum;
  (void)overflowed;
  __asm__ volatile("adds %0, %1, %2\n\tbvc 1f\n\tbl sm_over_%0\n1:" : "=r"(sum) : "r"(a), "r"(b) : "lr", "cc");
  return sum;
#else
  int32_t sum;
  return SM_UNLIKELY(__builtin_add_overflow(a, b, &sum)) ? sm_saturated(a, overflowed) : sm_fit(sum, overflowed);
#endif
}

SM_INLINE int32_t sm_sub(int32_t a, int32_t b, uint32_t *overflowed) {
#if defined(SM_ARM_DSP) && SM_WORD == 32
  int32_t difference;
  (void)overflowed;
  __asm__ volatile("qsub %0, %1, %2" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
#elif defined(SM_ARM) && SM_WORD == 32
  int32_t difference;
  (void)overflowed;
  __asm__ volatile("subs %0, %1, %2\n\tbvc 1f\n\tbl sm_over_%0\n1:" : "=r"(difference) : "r"(a), "r"(b) : "lr", "cc");
  return difference;
#else
  int32_t difference;
  return SM_UNLIKELY(__builtin_sub_overflow(a, b, &difference)) ? sm_saturated(~b, overflowed)
                                                                : sm_fit(difference, overflowed);
#endif
}

/* |v|: the least number has none, and saturates */
SM_INLINE int32_t sm_abs(int32_t v, uint32_t *overflowed) {
  return v < 0 ? sm_sub(0, v, overflowed) : sm_fit(v, overflowed);
}

/* a * b * 2^-32: the upper word of the product, rounded by the bit below it; cannot overflow */
SM_INLINE int32_t sm_high(int32_t a, int32_t b) {
#ifdef SM_ARM_DSP
  int32_t high;
  __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(a), "r"(b));
  return high;
#else
  uint32_t low;
  const int32_t high = sm_product(a, b, &low);
  return high + (int32_t)(low >> 31);
#endif
}

/* The same, cut off */
SM_INLINE int32_t sm_high_cut(int32_t a, int32_t b) {
#ifdef SM_ARM_DSP
  int32_t high;
  __asm__("smmul %0, %1, %2" : "=r"(high) : "r"(a), "r"(b));
  return high;
#else
  uint32_t low;
  return sm_product(a, b, &low);
#endif
}

/* a * b * 2^-right, 1 <= right <= 31, saturated at `bits` bits, 33 - right to SM_WORD. In words of 32 bits that is the
 * upper word of the product: what is below it stays, so that a saturated product is less than 2^(32 - right) from the
 * limit. */
SM_INLINE int32_t sm_mul(int32_t a, int32_t b, unsigned right, unsigned bits, uint32_t *overflowed) {
  uint32_t low;
  const int32_t high = sm_product(a, b, &low);
  const int64_t product = (int64_t)((uint64_t)(uint32_t)high << 32 | low) + (INT64_C(1) << (right - 1U));
#if SM_WORD == 32
  const int32_t upper = sm_raised((int32_t)(product >> 32), right + bits - 32U, 32U - right, overflowed);
  return upper | (int32_t)((uint32_t)product >> right);
#else
  (void)bits;
  return sm_limit(product >> right, overflowed);
#endif
}

/* The same, cut off */
SM_INLINE int32_t sm_mul_cut(int32_t a, int32_t b, unsigned right, unsigned bits, uint32_t *overflowed) {
  uint32_t low;
  const int32_t high = sm_product(a, b, &low);
#if SM_WORD == 32
  return sm_raised(high, right + bits - 32U, 32U - right, overflowed) | (int32_t)(low >> right);
#else
  (void)bits;
  return sm_limit((int64_t)((uint64_t)(uint32_t)high << 32 | low) >> right, overflowed);
#endif
}

/* a * b * 2^-right, 1 <= right <= 62, where the result is known to fit, as it is for right >= SM_WORD */
SM_INLINE int32_t sm_mul_wide(int32_t a, int32_t b, unsigned right) {
  uint32_t low;
  const int32_t high = sm_product(a, b, &low);
  if (right > 32U) {
    return (high + (INT32_C(1) << (right - 33U))) >> (right - 32U);
  }
  const int64_t product = (int64_t)((uint64_t)(uint32_t)high << 32 | low);
  return (int32_t)((product + (INT64_C(1) << (right - 1U))) >> right);
}

/* The same, cut off */
SM_INLINE int32_t sm_mul_wide_cut(int32_t a, int32_t b, unsigned right) {
  uint32_t low;
  const int32_t high = sm_product(a, b, &low);
  return right >= 32U ? high >> (right - 32U) : (int32_t)((uint32_t)high << (32U - right) | low >> right);
}

/* 2^(61 - base) / d: the reciprocal of d * 2^-f with g fraction bits for base = 61 - f - g.
 *
 * |d| is normalized to m in [2^30, 2^31). One 32-bit division gives 2^46 / m to 15 bits and never above, two terms of
 * the geometric series in what is missing 2^62 / m to one unit of 32 bits, which is rounded: the error is below 0.5001
 * units of the result. Exact for powers of two. 1/0 saturates. */
int32_t sm_reciprocal(int32_t d, int base, unsigned word, uint32_t *overflowed);

#ifdef SM_ARM
int32_t sm_reciprocal_32(int32_t d, int base); /* of words of 32 bits: two arguments less */
#endif

/* sm_reciprocal for words of this file's length */
SM_INLINE int32_t sm_inverse(int32_t d, int base, uint32_t *overflowed) {
#if defined(SM_ARM) && SM_WORD == 32
  (void)overflowed;
  return sm_reciprocal_32(d, base);
#else
  return sm_reciprocal(d, base, SM_WORD, overflowed);
#endif
}

/* a / b * 2^(61 - base): the quotient of a * 2^-e and b * 2^-f with g fraction bits for base = 61 + e - f - g.
 *
 * The reciprocal of b in 32 bits times a: relative error below 2^-30.99, then rounding. a/0 saturates by the sign of a,
 * 0/0 as a positive number. Where several numbers are divided by one, one sm_reciprocal and products are cheaper. */
int32_t sm_div(int32_t a, int32_t b, int base, unsigned word, uint32_t *overflowed);

/* sqrt(v * 2^(32 - base)): the root of v * 2^-f with g fraction bits for base = 32 + f - 2g.
 *
 * v is normalized by a shift that leaves an even exponent to m in [2^30, 2^32). A parabola and one step of Heron give
 * s = floor(sqrt(m)), and the remainder over 2s 16 bits more: relative error below 2^-31, then rounding. Exact for
 * squares. The root of a negative number is 0 and counted. */
int32_t sm_sqrt(int32_t v, int base, unsigned word, uint32_t *overflowed);

/* The angle v * 2^-fraction rad in quadrants, with 32 fraction bits; -30 <= fraction <= 62, meant to be a constant.
 *
 * 2^32 / pi is rounded to 31 bits: the relative error of 2^-33 is at most a quarter of the last bit of v. */
SM_INLINE int64_t sm_quadrants(int32_t v, int fraction) {
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
SM_INLINE int32_t sm_sin(int32_t v, int fraction) { return sm_sin_quadrants(sm_quadrants(v, fraction)); }

SM_INLINE int32_t sm_cos(int32_t v, int fraction) {
  return sm_sin_quadrants((int64_t)((uint64_t)sm_quadrants(v, fraction) + (UINT64_C(1) << 32)));
}

#endif
