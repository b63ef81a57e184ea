#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define NY 2
#define NP 1
#define NR 1
#define NJ 2
#define NF 0
#define NG 0
#define NH 0
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_residual_0(const real *const *in, real *const *out, real *w);
static void sm_residual(const real *const *in, real *const *out, real *w) {
  sm_residual_0(in, out, w);
}
void sm_slopes_0(const real *const *in, real *const *out, real *w);
static void sm_slopes(const real *const *in, real *const *out, real *w) {
  sm_slopes_0(in, out, w);
}
#endif
