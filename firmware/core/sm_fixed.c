#include "sm_fixed.h"

static inline uint32_t magnitude(int32_t v) { return v < 0 ? 0U - (uint32_t)v : (uint32_t)v; }

/* Out of line, since it is hardly ever taken. */
__attribute__((noinline, cold)) static int32_t over(int negative, unsigned word, uint32_t *overflows) {
  const uint32_t top = UINT32_MAX >> (33U - word);
  *overflows += 1U;
  return (int32_t)(negative ? ~top : top);
}

/* size with its sign, saturated */
static inline int32_t with_sign(uint32_t size, int negative, unsigned word, uint32_t *overflows) {
  if (SM_UNLIKELY(size > (UINT32_MAX >> (33U - word)) + (uint32_t)negative)) {
    return over(negative, word, overflows);
  }
  return (int32_t)(negative ? 0U - size : size);
}

/* v * 2^-right of a number that has all 32 bits: without a shift it is beyond every word */
static inline uint32_t rounded(uint32_t v, int right) {
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
static inline uint32_t inverse(uint32_t m) {
  const uint32_t rough = UINT32_MAX / ((m >> 14) + 1U);
  const uint32_t error = 0U - m * rough;
  const uint32_t series = error + (uint32_t)(((uint64_t)error * error) >> 46);
  return (rough << 16) + (uint32_t)(((uint64_t)(rough << 2) * series) >> 32);
}

int32_t sm_reciprocal(int32_t d, int base, unsigned word, uint32_t *overflows) {
  if (SM_UNLIKELY(d == 0)) {
    return over(0, word, overflows);
  }
  const uint32_t size = magnitude(d);
  const int zeros = __builtin_clz(size);
  return with_sign(rounded(inverse((size << zeros) >> 1), base + 2 - zeros), d < 0, word, overflows);
}

int32_t sm_div(int32_t a, int32_t b, int base, unsigned word, uint32_t *overflows) {
  if (SM_UNLIKELY(b == 0)) {
    return over(a < 0, word, overflows);
  }
  const int negative = (a ^ b) < 0;
  const uint32_t size = magnitude(b);
  const int zeros = __builtin_clz(size);
  const uint64_t product = (uint64_t)magnitude(a) * inverse((size << zeros) >> 1);
  const int right = base + 2 - zeros;
  if (SM_UNLIKELY(right <= 0)) { /* the product is 0 or has more than 31 bits */
    return product == 0U ? 0 : over(negative, word, overflows);
  }
  const uint64_t twice = right > 64 ? 0U : product >> (right - 1);
  const uint64_t quotient = (twice >> 1) + (twice & 1U);
  return with_sign(quotient > UINT32_MAX ? UINT32_MAX : (uint32_t)quotient, negative, word, overflows);
}

int32_t sm_sqrt(int32_t v, int base, unsigned word, uint32_t *overflows) {
  if (SM_UNLIKELY(v <= 0)) {
    *overflows += v < 0;
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
  return with_sign(rounded(root, (base + up) >> 1), 0, word, overflows);
}

/* sin(pi/4 t) = t p(t^2) and cos(pi/4 t) = p(t^2); coefficient i has 2i fraction bits more than the sum */
static const int32_t sine[] = {1686629713, -693598665, 85569234, -5026337, 169634};      /* 31 */
static const int32_t cosine[] = {1073741824, -1324675869, 272375233, -22398329, 970263}; /* 30 */

static inline int32_t polynomial(const int32_t *c, int32_t x) {
  return c[0] + sm_high(x, c[1] + sm_high(x, c[2] + sm_high(x, c[3] + sm_high(x, c[4]))));
}

int32_t sm_sin_quadrants(int64_t quadrants) {
  const int32_t t = (int32_t)quadrants; /* from the nearest quadrant, in halves of one */
  const uint32_t k = (uint32_t)((uint64_t)quadrants >> 32) + ((uint32_t)t >> 31);
  const int32_t x = sm_high(t, t); /* t^2, 30 fraction bits */
  const int32_t y = k & 1U ? polynomial(cosine, x) : sm_high(t, polynomial(sine, x));
  return k & 2U ? -y : y;
}
