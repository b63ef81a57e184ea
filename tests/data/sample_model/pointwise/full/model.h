#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define NX 8
#define NV 3
#define NC 1
#define NP 0
#define NR 2
#define NW 4
#define SM_SCRATCH 2
void sm_values_angles(const real *const *in, real *const *out, real *w);
void sm_values_0(const real *const *in, real *const *out, real *w);
static void sm_values(const real *const *in, real *const *out, real *w) {
  sm_values_angles(in, out, w);
  sm_values_0(in, out, w);
}
void sm_slopes_angles(const real *const *in, real *const *out, real *w);
void sm_slopes_0(const real *const *in, real *const *out, real *w);
static void sm_slopes(const real *const *in, real *const *out, real *w) {
  sm_slopes_angles(in, out, w);
  sm_slopes_0(in, out, w);
}
#endif
