#ifndef SM_MODEL_H
#define SM_MODEL_H
#define SM_IN_LANES
#include "real.h"
#define ND 2
#define NK 2
#define NU 0
#define NC 1
#define NA 2
#define NP 4
#define ACTIVE {0, 1}
#define FORCES_LEFT 0.5
#define CHANNELS 4
#define SM_SCRATCH 0
void sm_first_0(const real *const *in, real *const *out, real *w);
static void sm_first(const real *const *in, real *const *out, real *w) {
  sm_first_0(in, out, w);
}
void sm_second_0(const real *const *in, real *const *out, real *w);
static void sm_second(const real *const *in, real *const *out, real *w) {
  sm_second_0(in, out, w);
}
void sm_con_0(const real *const *in, real *const *out, real *w);
static void sm_con(const real *const *in, real *const *out, real *w) {
  sm_con_0(in, out, w);
}
void sm_con2_0(const real *const *in, real *const *out, real *w);
static void sm_con2(const real *const *in, real *const *out, real *w) {
  sm_con2_0(in, out, w);
}
void sm_pull_0(const real *const *in, real *const *out, real *w);
static void sm_pull(const real *const *in, real *const *out, real *w) {
  sm_pull_0(in, out, w);
}
void sm_sense_0(const real *const *in, real *const *out, real *w);
static void sm_sense(const real *const *in, real *const *out, real *w) {
  sm_sense_0(in, out, w);
}
#endif
