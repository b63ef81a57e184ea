#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define NY 2
#define NP 1
#define NR 0
#define NJ 0
#define NF 1
#define NG 1
#define NH 1
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_value_0(const real *const *in, real *const *out, real *w);
static void sm_value(const real *const *in, real *const *out, real *w) {
  sm_value_0(in, out, w);
}
void sm_gradient_0(const real *const *in, real *const *out, real *w);
static void sm_gradient(const real *const *in, real *const *out, real *w) {
  sm_gradient_0(in, out, w);
}
void sm_bends_0(const real *const *in, real *const *out, real *w);
static void sm_bends(const real *const *in, real *const *out, real *w) {
  sm_bends_0(in, out, w);
}
#endif
