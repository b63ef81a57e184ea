#ifndef SM_MODEL_H
#define SM_MODEL_H
#define NY 2
#define NP 1
#define NR 1
#define NJ 2
#define NF 0
#define NG 0
#define NH 0
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_residual_0(const double *const *in, double *const *out, double *w);
static void sm_residual(const double *const *in, double *const *out, double *w) {
  sm_residual_0(in, out, w);
}
void sm_slopes_0(const double *const *in, double *const *out, double *w);
static void sm_slopes(const double *const *in, double *const *out, double *w) {
  sm_slopes_0(in, out, w);
}
#endif
