#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define ND 6
#define NK 0
#define NU 3
#define NC 0
#define NA 6
#define NP 2
#define ACTIVE {0, 1, 2, 3, 4, 5}
#define FORCES_LEFT 0.5
#define SM_BALLS 1
#define NB 1
#define BALL_STORED {0}
#define BALL_TANGENT {0}
#define STORED_AT {-1, -1, -1, 4, 5, 6}
#define PHI_ABOVE {60060.0, 77000.0, 23772.0, 1024.0}
#define PHI_BELOW {15015.0, 24255.0, 11025.0, 1225.0}
#define SM_SCRATCH 0
#define SM_CURVATURE 1
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
void sm_third_0(const real *const *in, real *const *out, real *w);
static void sm_third(const real *const *in, real *const *out, real *w) {
  sm_third_0(in, out, w);
}
void sm_con3_0(const real *const *in, real *const *out, real *w);
static void sm_con3(const real *const *in, real *const *out, real *w) {
  sm_con3_0(in, out, w);
}
#endif
