#ifndef SM_MODEL_H
#define SM_MODEL_H
#define ND 2
#define NK 2
#define NU 1
#define NC 1
#define SM_SCRATCH 0
void sm_rate_0(const double *const *in, double *const *out, double *w);
static void sm_rate(const double *const *in, double *const *out, double *w) {
  sm_rate_0(in, out, w);
}
void sm_rate_slope_0(const double *const *in, double *const *out, double *w);
static void sm_rate_slope(const double *const *in, double *const *out, double *w) {
  sm_rate_slope_0(in, out, w);
}
#endif
