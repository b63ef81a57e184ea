/* Sine and cosine of many angles at once, with the same bits on every processor and in every width of vectors.
 *
 * x = k pi/2 + r + y with |r| <= pi/4: k pi/2 is taken off in four parts of pi/2, the first three of 33 bits, so that
 * their products with |k| < 2^20 are exact and what is left has more than 100 correct bits. Larger arguments go through
 * integers, one by one (Payne & Hanek, 1983). On the rest two minimax polynomials (errors 2^-58 of the sine, 2^-64 of the
 * cosine) and the small part y, to first order. Errors measured against mpmath: below 0.80 ulp (tests/unit/test_sines.py).
 * Definitions, to be included once per library. */
#ifndef SM_TRIG_H
#define SM_TRIG_H

#include "real.h"

#define SM_NEAR 0x1.8p20 /* rad; |k| stays below 2^20 */

/* 2/pi in words of 64 bits, after one of zeros */
static const uint64_t SM_TWO_BY_PI[] = {
    0,
    0xa2f9836e4e441529u,
    0xfc2757d1f534ddc0u,
    0xdb6295993c439041u,
    0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u,
    0x06492eea09d1921cu,
    0xfe1deb1cb129a73eu,
    0xe88235f52ebb4484u,
    0xe99c7026b45f7e41u,
    0x3991d639835339f4u,
    0x9c845f8bbdf9283bu,
    0x1ff897ffde05980fu,
    0xef2f118b5a0a6d1fu,
    0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du,
    0x7527bac7ebe5f17bu,
    0x3d0739f78a5292eau,
    0x6bfb5fb11f8d5d08u,
    0x56033046fc7b6babu,
    0xf0cfbc209af4361du,
};

/* 64 bits from the given one on; bit 0 is the first of the table */
static uint64_t sm_bits_from(int bit) {
  const int word = bit / 64, shift = bit % 64;
  const uint64_t high = SM_TWO_BY_PI[word] << shift;
  return shift ? high | SM_TWO_BY_PI[word + 1] >> (64 - shift) : high;
}

/* r + y = |x| - k pi/2 for a finite |x| above 2^20; returns k modulo 4. |x| = m 2^e, and of 2/pi only those 192 bits
 * count whose products with m are neither multiples of 4 nor smaller than 2^-137. */
static int64_t sm_reduce_far(double x, double *r, double *y) {
  uint64_t bits, part[3], product[3] = {0};
  memcpy(&bits, &x, sizeof bits);
  const int e = (int)(bits >> 52 & 0x7ff) - 1075;
  const uint64_t m = (bits & 0xfffffffffffffu) | 1ull << 52;
  uint64_t over = 0;
  for (int i = 2; i >= 0; i--) {
    part[i] = sm_bits_from(e + 62 + 64 * i);
    const unsigned __int128 full = (unsigned __int128)m * part[i] + over;
    product[i] = (uint64_t)full;
    over = (uint64_t)(full >> 64);
  }
  /* the product's first two bits are k modulo 4, the others the fraction */
  int64_t k = (int64_t)(product[0] >> 62);
  uint64_t f[3] = {product[0] << 2 | product[1] >> 62, product[1] << 2 | product[2] >> 62, product[2] << 2};
  const int above = (int)(f[0] >> 63); /* nearer to the next one */
  if (above) {
    k += 1;
    f[2] = ~f[2] + 1;
    f[1] = ~f[1] + (f[2] == 0);
    f[0] = ~f[0] + (f[2] == 0 && f[1] == 0);
  }
  int exponent = 0;
  while (!(f[0] >> 63) && exponent > -127) {
    f[0] = f[0] << 1 | f[1] >> 63;
    f[1] = f[1] << 1 | f[2] >> 63;
    f[2] <<= 1;
    exponent--;
  }
  /* fraction = high + low, 53 bits each, times pi/2 in two parts; high * PI is split to be exact */
  static const double PI = 0x1.921fb54442d18p+0, REST = 0x1.1a62633145c07p-54, SPLIT = 0x1p27 + 1.0;
  const double scale = ldexp(above ? -1.0 : 1.0, exponent);
  const double high = (double)(f[0] >> 11) * 0x1p-53 * scale;
  const double low = (double)((f[0] << 53 | f[1] >> 11) >> 11) * 0x1p-106 * scale;
  const double h1 = SPLIT * high - (SPLIT * high - high), h2 = high - h1;
  const double p1 = SPLIT * PI - (SPLIT * PI - PI), p2 = PI - p1;
  const double whole = high * PI;
  const double rest = ((h1 * p1 - whole) + h1 * p2 + h2 * p1) + h2 * p2 + (high * REST + low * PI);
  *r = whole + rest;
  *y = (whole - *r) + rest;
  return k;
}

/* Arguments that are far, infinite or no numbers: theirs replaces what the fast reduction has made of them. */
static __attribute__((noinline, cold)) void sm_reduce_others(const sm_wide *x, const sm_flags *far, sm_wide *r,
                                                             sm_wide *y, sm_flags *k) {
  for (int i = 0; i < SM_WIDTH; i++) {
    if ((*far)[i]) {
      const double size = fabs((*x)[i]);
      double head = NAN, tail = 0.0;
      int64_t turns = isfinite(size) ? sm_reduce_far(size, &head, &tail) : 0;
      const int negative = (*x)[i] < 0.0;
      (*r)[i] = negative ? -head : head;
      (*y)[i] = negative ? -tail : tail;
      (*k)[i] = negative ? -turns : turns;
    }
  }
}

/* r + y = x - k pi/2 */
SM_INLINE void sm_reduce(sm_wide x, sm_wide *rest, sm_wide *small, sm_flags *turns) {
  static const double ROUND = 0x1.8p52; /* adding it rounds to whole numbers, which stand in the last bits */
  const sm_wide shifted = x * 0x1.45f306dc9c883p-1 + ROUND;
  sm_flags k = (sm_flags)shifted;
  const sm_wide n = shifted - ROUND;
  /* x - n pi/2 with the errors of both inexact differences */
  const sm_wide a = x - n * 0x1.921fb544p+0, b = n * 0x1.0b4611a6p-34;
  const sm_wide d = a - b, of_d = d - a, d_rest = (a - (d - of_d)) - (b + of_d);
  const sm_wide f = n * 0x1.3198a2ep-69, g = d - f, of_g = g - d, g_rest = (d - (g - of_g)) - (f + of_g);
  const sm_wide both = (d_rest + g_rest) - n * 0x1.b839a252049c1p-104;
  sm_wide r = g + both;
  sm_wide y = (g - r) + both;
  const sm_flags far = ~(sm_wide_abs(x) <= SM_NEAR);
  if (__builtin_expect(sm_any(far), 0)) {
    sm_reduce_others(&x, &far, &r, &y, &k);
  }
  *rest = r;
  *small = y;
  *turns = k;
}

/* Sine and cosine of r + y, each in two parts. */
SM_INLINE void sm_sides(sm_wide r, sm_wide y, sm_wide *s, sm_wide *s_rest, sm_wide *c, sm_wide *c_rest) {
  const sm_wide z = r * r, v = z * r, half = 0.5 * z, zz = z * z;
  const sm_wide s_low = 0x1.111111110f879p-7 + z * -0x1.a01a019c115dep-13;
  const sm_wide s_high = 0x1.71de357781442p-19 + z * (-0x1.ae5e660f6eca7p-26 + z * 0x1.5d92f4180fd45p-33);
  *s = r;
  *s_rest = v * (-0x1.5555555555549p-3 + z * (s_low + zz * s_high)) + y * (1.0 - half);
  const sm_wide c_low = 0x1.555555555554cp-5 + z * (-0x1.6c16c16c1517cp-10 + z * 0x1.a01a019cb18e0p-16);
  const sm_wide c_high = -0x1.27e4f809cca01p-22 + z * (0x1.1ee9ebcfb2d70p-29 + z * -0x1.8fae8ec55e66ep-37);
  const sm_wide w = 1.0 - half;
  *c = w;
  *c_rest = ((1.0 - w) - half) + (zz * (c_low + zz * z * c_high) - r * y);
}

SM_INLINE void sm_sincos(sm_wide x, sm_wide *sine, sm_wide *cosine) {
  sm_wide r, y, s, s_rest, c, c_rest;
  sm_flags k;
  sm_reduce(x, &r, &y, &k);
  sm_sides(r, y, &s, &s_rest, &c, &c_rest);
  s += s_rest;
  c += c_rest;
  /* quadrants: odd ones exchange the two, signs follow */
  const sm_flags odd = -(k & 1), minus_s = (k & 2) << 62, minus_c = ((k + 1) & 2) << 62;
  *sine = (sm_wide)((sm_flags)sm_where(odd, c, s) ^ minus_s);
  *cosine = (sm_wide)((sm_flags)sm_where(odd, s, c) ^ minus_c);
}

#ifdef SM_LANES
real sm_sqrt(real x) {
  real y = x;
  for (int i = 0; i < SM_WIDTH; i++) {
    y[i] = sqrt(x[i]);
  }
  return y;
}
#endif

void sm_sincos_all(const real *x, real *s, real *c, int n) {
#ifdef SM_LANES
  for (int i = 0; i < n; i++) {
    sm_sincos(x[i], s + i, c + i);
  }
#else
  sm_wide angle, sine, cosine;
  int i = 0;
  for (; i + SM_WIDTH <= n; i += SM_WIDTH) {
    memcpy(&angle, x + i, sizeof angle);
    sm_sincos(angle, &sine, &cosine);
    memcpy(s + i, &sine, sizeof sine);
    memcpy(c + i, &cosine, sizeof cosine);
  }
  if (i + 1 == n) { /* without a detour through memory */
    sm_sincos(sm_wide_of(x[i]), &sine, &cosine);
    s[i] = sine[0];
    c[i] = cosine[0];
  } else if (i < n) {
    const size_t rest = (size_t)(n - i) * sizeof(double);
    angle = (sm_wide){0};
    memcpy(&angle, x + i, rest);
    sm_sincos(angle, &sine, &cosine);
    memcpy(s + i, &sine, rest);
    memcpy(c + i, &cosine, rest);
  }
#endif
}

#ifdef SM_FUNCTIONS /* generated code has others, too */
#include "functions.h"
#endif

#endif
