#ifndef SM_MODEL_H
#define SM_MODEL_H
#define ND 2
#define NK 2
#define NU 1
#define NC 1
#define NA 3
#define NP 0
#define ACTIVE {0, 1, 3}
#define FORCES_LEFT 0.5
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_first_0(const double *const *in, double *const *out, double *w);
static void sm_first(const double *const *in, double *const *out, double *w) {
  sm_first_0(in, out, w);
}
void sm_second_0(const double *const *in, double *const *out, double *w);
static void sm_second(const double *const *in, double *const *out, double *w) {
  sm_second_0(in, out, w);
}
void sm_con_0(const double *const *in, double *const *out, double *w);
static void sm_con(const double *const *in, double *const *out, double *w) {
  sm_con_0(in, out, w);
}
void sm_con2_0(const double *const *in, double *const *out, double *w);
static void sm_con2(const double *const *in, double *const *out, double *w) {
  sm_con2_0(in, out, w);
}
void sm_pull_0(const double *const *in, double *const *out, double *w);
static void sm_pull(const double *const *in, double *const *out, double *w) {
  sm_pull_0(in, out, w);
}
void sm_third_0(const double *const *in, double *const *out, double *w);
static void sm_third(const double *const *in, double *const *out, double *w) {
  sm_third_0(in, out, w);
}
void sm_con3_0(const double *const *in, double *const *out, double *w);
static void sm_con3(const double *const *in, double *const *out, double *w) {
  sm_con3_0(in, out, w);
}
#endif
