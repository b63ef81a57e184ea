#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define NY 2
#define NP 1
#define NR 1
#define NJ 2
#define NF 1
#define NG 1
#define NH 2
#define SM_SCRATCH 2
#define SM_CURVATURE 1
void sm_residual_0(const real *const *in, real *const *out, real *w);
static void sm_residual(const real *const *in, real *const *out, real *w) {
  sm_residual_0(in, out, w);
}
void sm_slopes_0(const real *const *in, real *const *out, real *w);
static void sm_slopes(const real *const *in, real *const *out, real *w) {
  sm_slopes_0(in, out, w);
}
void sm_value_angles(const real *const *in, real *const *out, real *w);
void sm_value_0(const real *const *in, real *const *out, real *w);
static void sm_value(const real *const *in, real *const *out, real *w) {
  sm_value_angles(in, out, w);
  sm_value_0(in, out, w);
}
void sm_gradient_angles(const real *const *in, real *const *out, real *w);
void sm_gradient_0(const real *const *in, real *const *out, real *w);
static void sm_gradient(const real *const *in, real *const *out, real *w) {
  sm_gradient_angles(in, out, w);
  sm_gradient_0(in, out, w);
}
void sm_bends_angles(const real *const *in, real *const *out, real *w);
void sm_bends_0(const real *const *in, real *const *out, real *w);
static void sm_bends(const real *const *in, real *const *out, real *w) {
  sm_bends_angles(in, out, w);
  sm_bends_0(in, out, w);
}
#endif
