#ifndef SM_MODEL_H
#define SM_MODEL_H
#define ND 1
#define NK 0
#define NU 0
#define NC 0
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_rate_0(const double *const *in, double *const *out, double *w);
static void sm_rate(const double *const *in, double *const *out, double *w) {
  sm_rate_0(in, out, w);
}
void sm_rate_slope_0(const double *const *in, double *const *out, double *w);
static void sm_rate_slope(const double *const *in, double *const *out, double *w) {
  sm_rate_slope_0(in, out, w);
}
void sm_rate_bend_0(const double *const *in, double *const *out, double *w);
static void sm_rate_bend(const double *const *in, double *const *out, double *w) {
  sm_rate_bend_0(in, out, w);
}
#endif
