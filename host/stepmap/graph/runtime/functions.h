/* Exponentials, logarithms and inverse trigonometric functions of generated code, with the same bits on every processor: sums
 * and products that IEEE 754 rounds, in one order. Where a last bit would be lost, numbers are pairs, high + low. Errors
 * measured against 60 digits: below 0.7 ulp, 0.95 of tangents (tests/unit/test_functions.py). Lanes of a vector go through them one by one.
 * Definitions, to be included once per library. */
#ifndef SM_FUNCTIONS_H
#define SM_FUNCTIONS_H

#include "trig.h"

typedef struct {
  double high, low;
} sm_pair;

/* a + b without an error */
static inline sm_pair sm_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  const sm_pair out = {sum, (a - (sum - part)) + (b - part)};
  return out;
}

/* a b without an error, below 2^990 */
static inline sm_pair sm_product(double a, double b) {
  static const double SPLIT = 0x1p27 + 1.0;
  const double a1 = SPLIT * a - (SPLIT * a - a), a2 = a - a1, b1 = SPLIT * b - (SPLIT * b - b), b2 = b - b1;
  const double product = a * b;
  const sm_pair out = {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
  return out;
}

static inline sm_pair sm_quotient(sm_pair a, sm_pair b) {
  const double quotient = a.high / b.high;
  const sm_pair back = sm_product(quotient, b.high);
  const sm_pair out = {quotient, (((a.high - back.high) - back.low) + a.low - quotient * b.low) / b.high};
  return out;
}

/* a + b for a number a and a pair */
static inline sm_pair sm_plus(double a, sm_pair b) {
  sm_pair out = sm_sum(a, b.high);
  out.low += b.low;
  return out;
}

static inline double sm_rounded(sm_pair x) { return x.high + x.low; }

static inline double sm_two_to(int exponent) {
  const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/* ln 2 in two parts; products of the first with whole numbers below 2^20 are exact */
#define SM_LN2 0x1.62e42feep-1
#define SM_LN2_REST 0x1.a39ef35793c76p-33

/* e^r - 1 with x = k ln 2 + r, |r| < 0.35, for |x| < 800 */
static sm_pair sm_exp_rest(double x, int *k) {
  const double n = x * 0x1.71547652b82fep+0 + 0x1.8p52 - 0x1.8p52;
  *k = (int)n;
  const sm_pair r = sm_sum(x - n * SM_LN2, -(n * SM_LN2_REST));
  const double y = r.high;
  double sum = 1.0 / 87178291200;
  static const double inverse[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                   1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                   1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
  for (int i = 0; i < 12; i++) {
    sum = inverse[i] + y * sum;
  }
  return sm_sum(y, y * y * sum + r.low * (1.0 + y));
}

/* e^x 2^shift */
static double sm_exp_shifted(double x, int shift) {
  if (!(fabs(x) < 800.0)) {
    return x != x ? x : x > 0.0 ? INFINITY : 0.0;
  }
  int k;
  const sm_pair rest = sm_exp_rest(x, &k);
  const double y = sm_rounded(sm_plus(1.0, rest));
  const int all = k + shift, half = all / 2;
  return y * sm_two_to(half) * sm_two_to(all - half);
}

static double sm_exp_one(double x) { return sm_exp_shifted(x, 0); }

/* e^x - 1 for 0 <= x < 50 */
static sm_pair sm_exp_minus_one(double x) {
  int k;
  sm_pair rest = sm_exp_rest(x, &k);
  const double scale = sm_two_to(k);
  rest.high *= scale;
  rest.low *= scale;
  return k == 0 ? rest : sm_plus(scale - 1.0, rest);
}

static double sm_log_one(double x) {
  if (!(x > 0.0) || x == INFINITY) {
    return x == 0.0 ? -INFINITY : x < 0.0 ? NAN : x;
  }
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int up = (bits & 0xfffffffffffffu) >= 0x6a09e667f3bcdu; /* above the root of 2 */
  k += (int)(bits >> 52) - 1023 + up;
  bits = (bits & 0xfffffffffffffu) | (uint64_t)(1023 - up) << 52;
  memcpy(&x, &bits, sizeof x);
  const double f = x - 1.0, s = f / (2.0 + f), z = s * s, square = 0.5 * f * f;
  double sum = 0.0; /* of 2 s^2n / (2n + 1) */
  for (int n = 12; n > 0; n--) {
    sum = z * (2.0 / (2 * n + 1) + sum);
  }
  const sm_pair head = sm_sum(k * SM_LN2, f);
  return head.high + (head.low - (square - (s * (square + sum) + k * SM_LN2_REST)));
}

/* Angle of (x, y) from the x axis, 0 to pi, for y >= 0, up to 2^900, one of them above 2^-900. */
static double sm_angle(sm_pair y, sm_pair x) {
  static const sm_pair eighths[] = {/* atan(i / 8) */
                                    {0.0, 0.0},
                                    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
  const int left = x.high < 0.0;
  const sm_pair over = {left ? -x.high : x.high, left ? -x.low : x.low};
  const int steep = y.high > over.high;
  const sm_pair a = steep ? over : y, b = steep ? y : over;
  const int i = (int)(8.0 * (a.high / b.high) + 0.5);
  const double c = 0.125 * i;
  const sm_pair cb = sm_product(c, b.high), ca = sm_product(c, a.high);
  sm_pair above = sm_sum(a.high, -cb.high), below = sm_sum(b.high, ca.high);
  above.low += a.low - (cb.low + c * b.low);
  below.low += b.low + (ca.low + c * a.low);
  const sm_pair t = sm_quotient(above, below);
  const double z = t.high * t.high;
  double sum = 0.0; /* of (-z)^n / (2n + 1) */
  for (int n = 9; n > 0; n--) {
    sum = -z * (1.0 / (2 * n + 1) + sum);
  }
  sm_pair out = sm_sum(eighths[i].high, t.high);
  out.low += eighths[i].low + (t.low + t.high * sum);
  if (steep) {
    const sm_pair back = {-out.high, -out.low};
    out = sm_plus(0x1.921fb54442d18p+0, back);
    out.low += 0x1.1a62633145c07p-54;
  }
  if (left) {
    const sm_pair back = {-out.high, -out.low};
    out = sm_plus(0x1.921fb54442d18p+1, back);
    out.low += 0x1.1a62633145c07p-53;
  }
  return sm_rounded(out);
}

static double sm_atan2_one(double y, double x) {
  if (x != x || y != y) {
    return x + y;
  }
  double up = fabs(y), along = x;
  if (up == INFINITY || fabs(x) == INFINITY) {
    along = fabs(x) == INFINITY ? copysign(1.0, x) : 0.0;
    up = up == INFINITY ? 1.0 : 0.0;
  }
  if (up == 0.0) {
    return copysign(signbit(along) ? 0x1.921fb54442d18p+1 : 0.0, y);
  }
  if (along > 0.0 && up < 0x1p-500 * along) {
    return copysign(up / along, y);
  }
  const double size = fmax(up, fabs(along)), scale = size > 0x1p500 ? 0x1p-600 : size < 0x1p-500 ? 0x1p500 : 1.0;
  const sm_pair py = {up * scale, 0.0}, px = {along * scale, 0.0};
  return copysign(sm_angle(py, px), y);
}

static double sm_atan_one(double x) { return sm_atan2_one(x, 1.0); }

/* The root of 1 - x^2 */
static sm_pair sm_other_side(double x) {
  const sm_pair square = sm_product(x, x);
  sm_pair rest = sm_sum(1.0, -square.high);
  rest.low -= square.low;
  const double root = sqrt(sm_rounded(rest));
  if (!(root > 0.0)) {
    const sm_pair none = {root, 0.0}; /* 0, or no number */
    return none;
  }
  const sm_pair back = sm_product(root, root);
  const sm_pair out = {root, (((rest.high - back.high) - back.low) + rest.low) / (2.0 * root)};
  return out;
}

static double sm_asin_one(double x) {
  const sm_pair other = sm_other_side(x), own = {fabs(x), 0.0};
  if (other.high != other.high) {
    return other.high;
  }
  return fabs(x) < 0x1p-30 ? x : copysign(sm_angle(own, other), x);
}

static double sm_acos_one(double x) {
  const sm_pair other = sm_other_side(x), own = {x, 0.0};
  return other.high != other.high ? other.high : sm_angle(other, own);
}

static double sm_tanh_one(double x) {
  const double size = fabs(x);
  if (!(size >= 0x1p-30)) {
    return x;
  }
  if (size > 20.0) {
    return copysign(1.0, x);
  }
  const sm_pair most = sm_exp_minus_one(2.0 * size);
  return copysign(sm_rounded(sm_quotient(most, sm_plus(2.0, most))), x);
}

static double sm_sinh_one(double x) {
  const double size = fabs(x);
  if (!(size >= 0x1p-30)) {
    return x;
  }
  if (size > 22.0) {
    return copysign(sm_exp_shifted(size, -1), x);
  }
  const sm_pair most = sm_exp_minus_one(size), other = sm_quotient(most, sm_plus(1.0, most));
  sm_pair sum = sm_sum(most.high, other.high);
  sum.low += most.low + other.low;
  return copysign(0.5 * sm_rounded(sum), x);
}

static double sm_cosh_one(double x) {
  const double size = fabs(x);
  if (!(size <= 22.0)) {
    return sm_exp_shifted(size, -1);
  }
  static const sm_pair one = {1.0, 0.0};
  const sm_pair most = sm_plus(1.0, sm_exp_minus_one(size)), other = sm_quotient(one, most);
  sm_pair sum = sm_sum(most.high, other.high);
  sum.low += most.low + other.low;
  return 0.5 * sm_rounded(sum);
}

static double sm_tan_one(double x) {
  sm_wide r, y, s, s_rest, c, c_rest;
  sm_flags k;
  if (x == 0.0) {
    return x;
  }
  sm_reduce(sm_wide_of(x), &r, &y, &k);
  sm_sides(r, y, &s, &s_rest, &c, &c_rest);
  sm_pair sine = sm_sum(s[0], s_rest[0]), cosine = sm_sum(c[0], c_rest[0]);
  return k[0] & 1 ? -sm_rounded(sm_quotient(cosine, sine)) : sm_rounded(sm_quotient(sine, cosine));
}

#ifdef SM_LANES
#define SM_ONE_BY_ONE(name)                                                                                            \
  real sm_##name(real x) {                                                                                             \
    for (int i = 0; i < SM_WIDTH; i++) {                                                                               \
      x[i] = sm_##name##_one(x[i]);                                                                                    \
    }                                                                                                                  \
    return x;                                                                                                          \
  }
real sm_atan2(real y, real x) {
  for (int i = 0; i < SM_WIDTH; i++) {
    y[i] = sm_atan2_one(y[i], x[i]);
  }
  return y;
}
#else
#define SM_ONE_BY_ONE(name)                                                                                            \
  real sm_##name(real x) { return sm_##name##_one(x); }
real sm_atan2(real y, real x) { return sm_atan2_one(y, x); }
#endif
SM_ONE_BY_ONE(tan)
SM_ONE_BY_ONE(exp)
SM_ONE_BY_ONE(log)
SM_ONE_BY_ONE(atan)
SM_ONE_BY_ONE(asin)
SM_ONE_BY_ONE(acos)
SM_ONE_BY_ONE(sinh)
SM_ONE_BY_ONE(cosh)
SM_ONE_BY_ONE(tanh)

#endif
