#ifndef SM_MODEL_H
#define SM_MODEL_H
#include "real.h"
#define ND 9
#define NK 1
#define NU 3
#define NC 5
#define NA 9
#define NP 0
#define ACTIVE {0, 1, 2, 3, 4, 5, 6, 7, 8}
#define ROW_KINDS {1, 1, 2, 2, 1}
#define FORCES_LEFT 0.5
#define SM_GAPS 1
#define SM_BALLS 1
#define NB 2
#define BALL_STORED {3, 7}
#define BALL_TANGENT {3, 6}
#define STORED_AT {0, 1, 2, -1, -1, -1, -1, -1, -1, 11}
#define PHI_ABOVE {60060.0, 77000.0, 23772.0, 1024.0}
#define PHI_BELOW {15015.0, 24255.0, 11025.0, 1225.0}
#define SM_SCRATCH 99
void sm_first_0(const real *const *in, real *const *out, real *w);
static void sm_first(const real *const *in, real *const *out, real *w) {
  sm_first_0(in, out, w);
}
void sm_second_0(const real *const *in, real *const *out, real *w);
void sm_second_1(const real *const *in, real *const *out, real *w);
void sm_second_2(const real *const *in, real *const *out, real *w);
void sm_second_3(const real *const *in, real *const *out, real *w);
static void sm_second(const real *const *in, real *const *out, real *w) {
  sm_second_0(in, out, w);
  sm_second_1(in, out, w);
  sm_second_2(in, out, w);
  sm_second_3(in, out, w);
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
void sm_pull1_0(const real *const *in, real *const *out, real *w);
static void sm_pull1(const real *const *in, real *const *out, real *w) {
  sm_pull1_0(in, out, w);
}
void sm_speed_0(const real *const *in, real *const *out, real *w);
static void sm_speed(const real *const *in, real *const *out, real *w) {
  sm_speed_0(in, out, w);
}
#endif
