/* Expressions of one point of a trajectory, at many points.
 *
 * model.h defines the sizes
 *   NX stored numbers of the state, NV inputs, NC constraint forces, NP data per point, NR values, NW entries they
 *   depend on, SM_SCRATCH,
 * and the generated functions sm_values, sm_slopes and, with SM_CURVATURE, sm_bends. These never store structural
 * zeros: the caller has cleared the outputs. */
#include "model.h"
#include "trig.h"

#include <stddef.h>

#define SM_EXPORT __attribute__((visibility("default")))

/* What the expressions are evaluated at: one row per point, but one set of parameters for all. */
typedef struct {
  const double *x, *u, *forces, *t, *data, *par;
} points;

SM_EXPORT size_t sm_scratch(void) { return SM_SCRATCH > 0 ? SM_SCRATCH : 1; }

/* r (n, NR) */
SM_EXPORT void sm_values_all(const points *at, int n, double *r, double *scratch) {
  for (ptrdiff_t k = 0; k < n; k++) {
    const double *const in[] = {at->x + k * NX, at->u + k * NV,    at->forces + k * NC,
                                at->t + k,      at->data + k * NP, at->par};
    double *const out[] = {r + k * NR};
    sm_values(in, out, scratch);
  }
}

/* r (n, NR) and J (n, NR, NW) */
SM_EXPORT void sm_slopes_all(const points *at, int n, double *r, double *J, double *scratch) {
  for (ptrdiff_t k = 0; k < n; k++) {
    const double *const in[] = {at->x + k * NX, at->u + k * NV,    at->forces + k * NC,
                                at->t + k,      at->data + k * NP, at->par};
    double *const out[] = {r + k * NR, J + k * NR * NW};
    sm_slopes(in, out, scratch);
  }
}

#ifdef SM_CURVATURE
/* H (n, NW, NW): second derivatives of the values weighted with y (n, NR) */
SM_EXPORT void sm_bends_all(const points *at, int n, const double *y, double *H, double *scratch) {
  for (ptrdiff_t k = 0; k < n; k++) {
    const double *const in[] = {at->x + k * NX,    at->u + k * NV, at->forces + k * NC, at->t + k,
                                at->data + k * NP, at->par,        y + k * NR};
    double *const out[] = {H + k * NW * NW};
    sm_bends(in, out, scratch);
  }
}
#endif
