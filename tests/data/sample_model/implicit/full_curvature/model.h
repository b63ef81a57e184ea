#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define NX 8
#define NDX 8
#define NV 3
#define NZ 3
#define NC 1
#define DECISIVE 2
#define LINEAR 1
#define DAMPED 0
#define NPAR 0
#define SMOOTHING -1
#define SM_SCRATCH 75
#define SM_CURVATURE 1
void sm_start_0(const real *const *in, real *const *out, real *w);
static void sm_start(const real *const *in, real *const *out, real *w) {
  sm_start_0(in, out, w);
}
void sm_newton_angles(const real *const *in, real *const *out, real *w);
void sm_newton_0(const real *const *in, real *const *out, real *w);
static void sm_newton(const real *const *in, real *const *out, real *w) {
  sm_newton_angles(in, out, w);
  sm_newton_0(in, out, w);
}
void sm_output_0(const real *const *in, real *const *out, real *w);
static void sm_output(const real *const *in, real *const *out, real *w) {
  sm_output_0(in, out, w);
}
void sm_slopes_angles(const real *const *in, real *const *out, real *w);
void sm_slopes_0(const real *const *in, real *const *out, real *w);
static void sm_slopes(const real *const *in, real *const *out, real *w) {
  sm_slopes_angles(in, out, w);
  sm_slopes_0(in, out, w);
}
void sm_difference_0(const real *const *in, real *const *out, real *w);
static void sm_difference(const real *const *in, real *const *out, real *w) {
  sm_difference_0(in, out, w);
}
void sm_bends_angles(const real *const *in, real *const *out, real *w);
void sm_bends_0(const real *const *in, real *const *out, real *w);
void sm_bends_1(const real *const *in, real *const *out, real *w);
static void sm_bends(const real *const *in, real *const *out, real *w) {
  sm_bends_angles(in, out, w);
  sm_bends_0(in, out, w);
  sm_bends_1(in, out, w);
}
#endif
