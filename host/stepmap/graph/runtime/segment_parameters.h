/* Derivatives of a segment by the NP parameters of its model. Only with SM_PARAMETERS and the generated functions
 *   sm_slope     d(L_q), d(L_v), d(F) by the parameters at (qm, vm, u),
 *   sm_conslope  d(h(q2)), d(D_q h(q1)^T m) by the parameters.
 * By the implicit function theorem, with the factors that `differentiate` leaves,
 *   dz = -G_z^-1 G_par,   dp2 = dt (L_q + F)_par - (D_q h(qb1)^T lam)_par + E dz. */
#ifndef SM_SEGMENT_PARAMETERS_H
#define SM_SEGMENT_PARAMETERS_H

#include "segment.h"

/* T = dx2/d(parameters), (NDX x NP). Call after `differentiate`. */
static void differentiate_parameters(workspace *s, const arguments *a, double *T) {
  const double dt = a->dt;
  const double *const in[] = {s->qm, s->vm, a->u, a->par};
  double *const out[] = {s->Lqt, s->Lvt, s->Ft};
  sm_slope(in, out, s->scratch);
  if (NC > 0) {
    const double *const at[] = {s->q1, s->q2, s->lam, a->par};
    double *const slopes[] = {s->ht, s->Jt};
    sm_conslope(at, slopes, s->scratch);
  }
  memset(s->Dt, 0, sizeof s->Dt);
  memset(s->Pt, 0, sizeof s->Pt);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NP; j++) {
      const int k = i * NP + j;
      const double bend = NC > 0 ? s->Jt[k] : 0.0;
      s->Dt[i * NPP + j] = -(0.5 * dt * s->Lqt[k] - s->Lvt[k] + LEFT * dt * s->Ft[k] - bend);
      s->Pt[i * NPP + j] = dt * (s->Lqt[k] + s->Ft[k]) - bend;
    }
  }
  for (int c = 0; c < NC; c++) {
    for (int j = 0; j < NP; j++) {
      s->Dt[(ND + c) * NPP + j] = -s->ht[c * NP + j];
    }
  }
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->Dt, NZ, NPP);
  sm_multiply_add(s->Pt, 1.0, s->E, NZ, 1, s->Dt, ND, NZ, NPP);
  memset(T, 0, sizeof(double) * NDX * NP); /* the kinematic coordinates go where the input says */
  for (int i = 0; i < ND; i++) {
    memcpy(T + i * NP, s->Dt + i * NPP, NP * sizeof(double));
    memcpy(T + (NQ + i) * NP, s->Pt + i * NPP, NP * sizeof(double));
  }
}

#endif
