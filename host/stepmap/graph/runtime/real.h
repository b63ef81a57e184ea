/* The number that generated functions and the runtime compute with: a double, or, with SM_LANES, a vector of as many.
 *
 * A lane of a vector has the bits that the double has: every operation here is one that IEEE 754 rounds correctly, or the
 * same sequence of such operations in both. Flags of the compiler keep it so: no fused multiply-add (-ffp-contract=off),
 * no sums in another order. Powers are left to libm, which is called once per lane. */
#ifndef SM_REAL_H
#define SM_REAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SM_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define SM_OWN_WIDTH 8
#elif defined(__AVX__)
#define SM_OWN_WIDTH 4
#else
#define SM_OWN_WIDTH 2
#endif
#if defined(SM_IN_LANES) && !defined(SM_LANES)
#define SM_LANES SM_OWN_WIDTH /* as many as the processor compiled for */
#endif
#ifdef SM_LANES
enum { SM_WIDTH = SM_LANES };
#else
enum { SM_WIDTH = SM_OWN_WIDTH };
#endif
typedef double sm_wide __attribute__((vector_size(SM_WIDTH * sizeof(double)), may_alias));
typedef int64_t sm_flags __attribute__((vector_size(SM_WIDTH * sizeof(double)), may_alias)); /* -1 is true, 0 is not */

SM_INLINE sm_wide sm_wide_of(double x) { return x - (sm_wide){0}; } /* keeps the sign of zero */

/* a where a flag is set, b elsewhere */
SM_INLINE sm_wide sm_where(sm_flags flags, sm_wide a, sm_wide b) {
  return (sm_wide)(((sm_flags)a & flags) | ((sm_flags)b & ~flags));
}

/* Loops over all lanes become one instruction or two where optimization is high, as it is for the runtime's own files. */
SM_INLINE int sm_any(sm_flags flags) {
  int64_t any = 0;
  for (int i = 0; i < SM_WIDTH; i++) {
    any |= flags[i];
  }
  return any != 0;
}

SM_INLINE sm_wide sm_wide_abs(sm_wide x) { return (sm_wide)((sm_flags)x & INT64_MAX); }

#ifdef SM_LANES
typedef sm_wide real;
typedef sm_flags sm_test;
#else
typedef double real;
typedef int sm_test;
#endif

/* Sines and cosines of n angles, within 1 ulp at any argument (trig.h). */
__attribute__((visibility("hidden"))) void sm_sincos_all(const real *x, real *s, real *c, int n);

#ifdef SM_LANES
#define SM_OF(x) sm_wide_of(x)
SM_INLINE real sm_abs(real x) { return sm_wide_abs(x); }
__attribute__((visibility("hidden"))) real sm_sqrt(real x);
SM_INLINE real sm_fmin(real a, real b) { return sm_where((a < b) | (b != b), a, b); }
SM_INLINE real sm_fmax(real a, real b) { return sm_where((a > b) | (b != b), a, b); }
SM_INLINE real sm_sign(real x) { return sm_where(x > 0.0, sm_wide_of(1.0), sm_where(x < 0.0, sm_wide_of(-1.0), x)); }
SM_INLINE real sm_truth(sm_flags flags) { return (real)((sm_flags)sm_wide_of(1.0) & flags); }
SM_INLINE real sm_not(real x) { return sm_truth(x == 0.0); }
SM_INLINE real sm_less(real a, real b) { return sm_truth(a < b); }
SM_INLINE real sm_at_most(real a, real b) { return sm_truth(a <= b); }
SM_INLINE real sm_if(real flag, real x) { return (real)((sm_flags)x & (flag != 0.0)); }
#define SM_EACH_PAIR(name)                                                                                             \
  SM_INLINE real sm_##name(real a, real b) {                                                                           \
    real y = a;                                                                                                        \
    for (int i = 0; i < SM_WIDTH; i++) {                                                                               \
      y[i] = name(a[i], b[i]);                                                                                         \
    }                                                                                                                  \
    return y;                                                                                                          \
  }
#else
#define SM_OF(x) (x)
SM_INLINE real sm_abs(real x) { return fabs(x); }
SM_INLINE real sm_sqrt(real x) { return sqrt(x); }
SM_INLINE real sm_fmin(real a, real b) { return a < b || b != b ? a : b; }
SM_INLINE real sm_fmax(real a, real b) { return a > b || b != b ? a : b; }
SM_INLINE real sm_sign(real x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
SM_INLINE real sm_not(real x) { return x == 0.0 ? 1.0 : 0.0; }
SM_INLINE real sm_less(real a, real b) { return a < b ? 1.0 : 0.0; }
SM_INLINE real sm_at_most(real a, real b) { return a <= b ? 1.0 : 0.0; }
SM_INLINE real sm_if(real flag, real x) { return flag != 0.0 ? x : 0.0; }
#define SM_EACH_PAIR(name)                                                                                             \
  SM_INLINE real sm_##name(real a, real b) { return name(a, b); }
#endif

/* Within 1 ulp, each lane by itself (functions.h) */
#define SM_OWN(name) __attribute__((visibility("hidden"))) real sm_##name(real x)
SM_OWN(tan);
SM_OWN(exp);
SM_OWN(log);
SM_OWN(atan);
SM_OWN(asin);
SM_OWN(acos);
SM_OWN(sinh);
SM_OWN(cosh);
SM_OWN(tanh);
__attribute__((visibility("hidden"))) real sm_atan2(real y, real x);
SM_EACH_PAIR(pow)

/* Single sines, of what only the function itself makes. */
SM_INLINE real sm_sin(real x) {
  real s, c;
  sm_sincos_all(&x, &s, &c, 1);
  return s;
}
SM_INLINE real sm_cos(real x) {
  real s, c;
  sm_sincos_all(&x, &s, &c, 1);
  return c;
}

#endif
