#ifndef SM_MODEL_H
#define SM_MODEL_H
#define SM_IN_LANES
#include "real.h"
#define ND 1
#define NK 0
#define NU 1
#define NC 0
#define NA 1
#define NP 4
#define ACTIVE {0}
#define FORCES_LEFT 0.5
#define CHANNELS 1
#define SM_SCRATCH 2
void sm_first_angles(const real *const *in, real *const *out, real *w);
void sm_first_0(const real *const *in, real *const *out, real *w);
static void sm_first(const real *const *in, real *const *out, real *w) {
  sm_first_angles(in, out, w);
  sm_first_0(in, out, w);
}
void sm_second_angles(const real *const *in, real *const *out, real *w);
void sm_second_0(const real *const *in, real *const *out, real *w);
static void sm_second(const real *const *in, real *const *out, real *w) {
  sm_second_angles(in, out, w);
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
