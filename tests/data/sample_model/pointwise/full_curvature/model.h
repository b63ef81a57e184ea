#ifndef SM_MODEL_H
#define SM_MODEL_H
#define NX 8
#define NV 3
#define NC 1
#define NP 0
#define NR 2
#define NW 4
#define SM_SCRATCH 0
#define SM_CURVATURE 1
void sm_values_0(const double *const *in, double *const *out, double *w);
static void sm_values(const double *const *in, double *const *out, double *w) {
  sm_values_0(in, out, w);
}
void sm_slopes_0(const double *const *in, double *const *out, double *w);
static void sm_slopes(const double *const *in, double *const *out, double *w) {
  sm_slopes_0(in, out, w);
}
void sm_bends_0(const double *const *in, double *const *out, double *w);
static void sm_bends(const double *const *in, double *const *out, double *w) {
  sm_bends_0(in, out, w);
}
#endif
