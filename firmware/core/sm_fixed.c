#include "sm_fixed.h"

#if defined(SM_ARM) && !defined(SM_ARM_DSP)
/* Where sums on a Cortex-M3 come that overflowed: of a register with a sum that wrapped they make the limit it went
 * over, and note it. Nothing else is changed but flags, so that a sum is two instructions and a branch that is hardly
 * ever taken. */
#define OVER(r, asr)                                                                                                   \
  void sm_over_##r(void);                                                                                              \
  __attribute__((naked)) void sm_over_##r(void) {                                                                      \
    __asm__(asr " " #r ", " #r ", #31\n\t" /* -1 where the sum should be positive */                                   \
                "eor " #r ", " #r ", #0x40000000\n\t"                                                                  \
                "ssat " #r ", #30, " #r "\n\t" /* sets Q */                                                            \
            asr " " #r ", " #r ", #31\n\t"                                                                             \
                "eor " #r ", " #r ", #0x80000000\n\t"                                                                  \
                "bx lr");                                                                                              \
  }
OVER(r0, "asrs")
OVER(r1, "asrs")
OVER(r2, "asrs")
OVER(r3, "asrs")
OVER(r4, "asrs")
OVER(r5, "asrs")
OVER(r6, "asrs")
OVER(r7, "asrs")
OVER(r8, "asr")
OVER(r9, "asr")
OVER(r10, "asr")
OVER(fp, "asr")
OVER(ip, "asr")
#endif

#ifdef SM_NARROW
#ifdef __ARM_ARCH_6M__
/* As below, in registers that a call may change: gcc would save others first. */
__attribute__((naked)) int32_t sm_upper(int32_t a __attribute__((unused)), int32_t b __attribute__((unused))) {
  __asm__(".syntax unified\n\t"
          "uxth r2, r0\n\t"
          "uxth r3, r1\n\t"
          "asrs r0, r0, #16\n\t"
          "asrs r1, r1, #16\n\t"
          "mov ip, r2\n\t"
          "muls r2, r3, r2\n\t"
          "lsrs r2, r2, #16\n\t"
          "muls r3, r0, r3\n\t"
          "adds r3, r3, r2\n\t" /* middle */
          "muls r0, r1, r0\n\t"
          "mov r2, ip\n\t"
          "muls r1, r2, r1\n\t"
          "uxth r2, r3\n\t"
          "adds r1, r1, r2\n\t" /* other */
          "asrs r1, r1, #16\n\t"
          "asrs r3, r3, #16\n\t"
          "adds r0, r0, r3\n\t"
          "adds r0, r0, r1\n\t"
          "bx lr");
}
#else
int32_t sm_upper(int32_t a, int32_t b) {
  const uint32_t al = (uint16_t)a;
  const uint32_t bl = (uint16_t)b;
  const int32_t ah = a >> 16;
  const int32_t bh = b >> 16;
  const int32_t middle = ah * (int32_t)bl + (int32_t)((al * bl) >> 16);
  const int32_t other = (int32_t)al * bh + (middle & 0xFFFF);
  return ah * bh + (middle >> 16) + (other >> 16);
}
#endif
#endif

SM_INLINE uint32_t magnitude(int32_t v) { return v < 0 ? 0U - (uint32_t)v : (uint32_t)v; }

/* Out of line, since it is hardly ever taken. */
__attribute__((noinline, cold)) static int32_t over(int negative, unsigned word, uint32_t *overflowed) {
  const uint32_t top = UINT32_MAX >> (33U - word);
  sm_note(overflowed);
  return (int32_t)(negative ? ~top : top);
}

/* size with its sign, saturated */
SM_INLINE int32_t with_sign(uint32_t size, int negative, unsigned word, uint32_t *overflowed) {
  if (SM_UNLIKELY(size > (UINT32_MAX >> (33U - word)) + (uint32_t)negative)) {
    return over(negative, word, overflowed);
  }
  return (int32_t)(negative ? 0U - size : size);
}

/* v * 2^-right of a number that has all 32 bits: without a shift it is beyond every word */
SM_INLINE uint32_t rounded(uint32_t v, int right) {
  if (SM_UNLIKELY(right <= 0)) {
    return UINT32_MAX;
  }
  const uint32_t twice = right > 32 ? 0U : v >> (right - 1);
  return (twice >> 1) + (twice & 1U);
}

/* 2^62 / m, 2^30 <= m < 2^31: too small, by less than 1.001.
 *
 * rough = (1 - e) 2^46 / m with e in (0, 1.25 * 2^-15]: the divisor is rounded up, the quotient down. What is missing,
 * error = e 2^46, is below 2^32, so its lower word is all of it. 1 / (1 - e) is 1 + e + e^2 to 2^-44. */
SM_INLINE uint32_t inverse(uint32_t m) {
  const uint32_t rough = UINT32_MAX / ((m >> 14) + 1U);
  const uint32_t error = 0U - m * rough;
  const uint32_t series = error + (uint32_t)(((uint64_t)error * error) >> 46);
  return (rough << 16) + (uint32_t)(((uint64_t)(rough << 2) * series) >> 32);
}

SM_INLINE int32_t reciprocal(int32_t d, int base, unsigned word, uint32_t *overflowed) {
  if (SM_UNLIKELY(d == 0)) {
    return over(0, word, overflowed);
  }
  const uint32_t size = magnitude(d);
  const int zeros = __builtin_clz(size);
  return with_sign(rounded(inverse((size << zeros) >> 1), base + 2 - zeros), d < 0, word, overflowed);
}

int32_t sm_reciprocal(int32_t d, int base, unsigned word, uint32_t *overflowed) {
  return reciprocal(d, base, word, overflowed);
}

#ifdef SM_ARM
int32_t sm_reciprocal_32(int32_t d, int base) {
  uint32_t elsewhere = 0U; /* noted in Q */
  return reciprocal(d, base, 32U, &elsewhere);
}
#endif

int32_t sm_div(int32_t a, int32_t b, int base, unsigned word, uint32_t *overflowed) {
  if (SM_UNLIKELY(b == 0)) {
    return over(a < 0, word, overflowed);
  }
  const int negative = (a ^ b) < 0;
  const uint32_t size = magnitude(b);
  const int zeros = __builtin_clz(size);
  const uint64_t product = (uint64_t)magnitude(a) * inverse((size << zeros) >> 1);
  const int right = base + 2 - zeros;
  if (SM_UNLIKELY(right <= 0)) { /* the product is 0 or has more than 31 bits */
    return product == 0U ? 0 : over(negative, word, overflowed);
  }
  const uint64_t twice = right > 64 ? 0U : product >> (right - 1);
  const uint64_t quotient = (twice >> 1) + (twice & 1U);
  return with_sign(quotient > UINT32_MAX ? UINT32_MAX : (uint32_t)quotient, negative, word, overflowed);
}

int32_t sm_sqrt(int32_t v, int base, unsigned word, uint32_t *overflowed) {
  if (SM_UNLIKELY(v <= 0)) {
    if (v < 0) {
      sm_note(overflowed);
    }
    return 0;
  }
  const int odd = base & 1;
  const int up = ((__builtin_clz((uint32_t)v) + odd) & ~1) - odd; /* base + up is even */
  const uint32_t m = (uint32_t)v << up;
  const uint32_t upper = m >> 16;
  /* sqrt(x) = 0.2619 + 1.0411 x - 0.3072 x^2 on [1/4, 1]: off by so little that Heron's step, which is never below
   * floor(sqrt(m)), is at most one above it */
  const uint32_t seed = 17163U + ((upper * (34115U - ((upper * 10066U) >> 16))) >> 15);
  uint32_t s = (seed + m / seed) >> 1;
  int32_t rest = (int32_t)(m - s * s);
  if (rest < 0) {
    s -= 1U;
    rest += (int32_t)(2U * s + 1U);
  }
  /* sqrt(s^2 + rest) = s + rest / 2s - ..., 16 bits behind the point: cut off and left out, each less than one unit */
  const uint32_t root = (s << 16) + ((uint32_t)rest << 15) / s;
  return with_sign(rounded(root, (base + up) >> 1), 0, word, overflowed);
}

/* sin(pi/4 t) = t p(t^2) and cos(pi/4 t) = p(t^2); coefficient i has 2i fraction bits more than the sum */
static const int32_t sine[] = {1686629713, -693598665, 85569234, -5026337, 169634};      /* 31 */
static const int32_t cosine[] = {1073741824, -1324675869, 272375233, -22398329, 970263}; /* 30 */

SM_INLINE int32_t polynomial(const int32_t *c, int32_t x) {
  return c[0] + sm_high(x, c[1] + sm_high(x, c[2] + sm_high(x, c[3] + sm_high(x, c[4]))));
}

int32_t sm_sin_quadrants(int64_t quadrants) {
  const int32_t t = (int32_t)quadrants; /* from the nearest quadrant, in halves of one */
  const uint32_t k = (uint32_t)((uint64_t)quadrants >> 32) + ((uint32_t)t >> 31);
  const int32_t x = sm_high(t, t); /* t^2, 30 fraction bits */
  const int32_t y = k & 1U ? polynomial(cosine, x) : sm_high(t, polynomial(sine, x));
  return k & 2U ? -y : y;
}
