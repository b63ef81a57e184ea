/* The inline primitives of firmware/core/sm_fixed.h as one formula each, which intervals can follow: no number is taken
 * apart into words and put together again. equal.py proves each equal to the real one for all arguments; tick.py has
 * the analyser read generated code with these. Words of 32 bits. */
#ifndef SM_FIXED_H
#define SM_FIXED_H

#include <stdint.h>

#include "builtins.h"

#define SM_WORD 32
#define SM_INLINE static inline
#define SM_UNLIKELY(condition) (condition)

SM_INLINE void sm_watch(void) {}

SM_INLINE void sm_note(uint32_t *overflowed) { *overflowed = 1U; }

SM_INLINE uint32_t sm_noted(uint32_t overflowed) { return overflowed; }

SM_INLINE int32_t sm_limit(int64_t v, uint32_t *overflowed) {
  if (v > INT32_MAX) {
    *overflowed = 1U;
    return INT32_MAX;
  }
  if (v < INT32_MIN) {
    *overflowed = 1U;
    return INT32_MIN;
  }
  return (int32_t)v;
}

SM_INLINE int32_t sm_right(int32_t v, unsigned right) {
  return (int32_t)(((int64_t)v + ((int64_t)1 << (right - 1U))) >> right);
}

SM_INLINE int32_t sm_left(int32_t v, unsigned left, uint32_t *overflowed) {
  const int64_t least = (int64_t)1 << (31U - left);
  int64_t held = v;
  if (held >= least) {
    *overflowed = 1U;
    held = least - 1;
  } else if (held < -least) {
    *overflowed = 1U;
    held = -least;
  }
  return (int32_t)(held * ((int64_t)1 << left));
}

/* The real one cuts off what does not fit: here that is a fault, so that it is proved that all fits. */
SM_INLINE int32_t sm_left_fast(int32_t v, unsigned left) {
  const int64_t moved = v * ((int64_t)1 << left);
  /*@ assert fits: -0x80000000 <= moved <= 0x7FFFFFFF; */
  return (int32_t)moved;
}

SM_INLINE int32_t sm_add(int32_t a, int32_t b, uint32_t *overflowed) { return sm_limit((int64_t)a + b, overflowed); }

SM_INLINE int32_t sm_sub(int32_t a, int32_t b, uint32_t *overflowed) { return sm_limit((int64_t)a - b, overflowed); }

SM_INLINE int32_t sm_abs(int32_t v, uint32_t *overflowed) { return v < 0 ? sm_limit(-(int64_t)v, overflowed) : v; }

SM_INLINE int32_t sm_high(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32); }

SM_INLINE int32_t sm_high_cut(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b) >> 32); }

/* v at `bits` bits; what is below the upper word of the product stays: the last 32 - right bits. */
SM_INLINE int32_t sm_held(int64_t v, unsigned right, unsigned bits, uint32_t *overflowed) {
  const int64_t limit = (int64_t)1 << (bits - 1U);
  const int64_t step = (int64_t)1 << (32U - right);
  if (v >= limit) {
    *overflowed = 1U;
    return (int32_t)(limit - step + (v & (step - 1)));
  }
  if (v < -limit) {
    *overflowed = 1U;
    return (int32_t)(-limit + (v & (step - 1)));
  }
  return (int32_t)v;
}

SM_INLINE int32_t sm_mul(int32_t a, int32_t b, unsigned right, unsigned bits, uint32_t *overflowed) {
  return sm_held(((int64_t)a * b + ((int64_t)1 << (right - 1U))) >> right, right, bits, overflowed);
}

SM_INLINE int32_t sm_mul_cut(int32_t a, int32_t b, unsigned right, unsigned bits, uint32_t *overflowed) {
  return sm_held(((int64_t)a * b) >> right, right, bits, overflowed);
}

/* Where the result fits, as it always does from right = 32 on; the real one cuts off what does not. */
SM_INLINE int32_t sm_mul_wide(int32_t a, int32_t b, unsigned right) {
  const int64_t v = ((int64_t)a * b + ((int64_t)1 << (right - 1U))) >> right;
  /*@ assert fits: -0x80000000 <= v <= 0x7FFFFFFF; */
  return (int32_t)v;
}

SM_INLINE int32_t sm_mul_wide_cut(int32_t a, int32_t b, unsigned right) {
  const int64_t v = ((int64_t)a * b) >> right;
  /*@ assert fits: -0x80000000 <= v <= 0x7FFFFFFF; */
  return (int32_t)v;
}

/* Contracts of the functions of sm_fixed.c, which primitives.c has the analyser check in their real text. Callers give
 * 32 bits and the base that their formats make. */

/*@ requires base: -128 <= base <= 128;
  @ requires word: word == 32;
  @ requires \valid(overflowed);
  @ assigns \result, *overflowed \from d, base, word, *overflowed;
  @ ensures \initialized(overflowed); */
int32_t sm_reciprocal(int32_t d, int base, unsigned word, uint32_t *overflowed);

SM_INLINE int32_t sm_inverse(int32_t d, int base, uint32_t *overflowed) {
  return sm_reciprocal(d, base, 32U, overflowed);
}

/*@ requires base: -128 <= base <= 128;
  @ requires word: word == 32;
  @ requires \valid(overflowed);
  @ assigns \result, *overflowed \from a, b, base, word, *overflowed;
  @ ensures \initialized(overflowed); */
int32_t sm_div(int32_t a, int32_t b, int base, unsigned word, uint32_t *overflowed);

/*@ requires base: -128 <= base <= 128;
  @ requires word: word == 32;
  @ requires \valid(overflowed);
  @ assigns \result, *overflowed \from v, base, word, *overflowed;
  @ ensures \initialized(overflowed);
  @ ensures positive: 0 <= \result; */
int32_t sm_sqrt(int32_t v, int base, unsigned word, uint32_t *overflowed);

int32_t sm_sin_quadrants(int64_t quadrants);

/* -2^30 to 2^30, at any angle: waves.c goes through all of them. */
/*@ requires fraction: -30 <= fraction <= 62;
  @ assigns \result \from v, fraction;
  @ ensures wave: -0x40000000 <= \result <= 0x40000000; */
int32_t sm_sin(int32_t v, int fraction);

/*@ requires fraction: -30 <= fraction <= 62;
  @ assigns \result \from v, fraction;
  @ ensures wave: -0x40000000 <= \result <= 0x40000000; */
int32_t sm_cos(int32_t v, int fraction);

#endif
