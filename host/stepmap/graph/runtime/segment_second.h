/* Contracted second derivatives of a segment: those of eta Y + mu G with the multipliers mu of its equations, carried
 * over to the direct variables. */
#ifndef SM_SEGMENT_SECOND_H
#define SM_SEGMENT_SECOND_H

#include "segment.h"

#ifdef SM_BALLS
#include "segment_balls_second.h"
#else
/* mu = -G_z^-T (dY/dz)^T eta with Y = [q2, p2, ...]; only the rows of q2 and p2 depend on z. `seed` has what else
 * depends on lam, or is NULL. */
static void adjoint(workspace *s, const double *eta, const double *seed, double *mu) {
  const double *eta_p = eta + NQ;
  for (int j = 0; j < NZ; j++) {
    mu[j] = j < ND ? -eta[j] : seed ? -seed[j - ND] : 0.0;
  }
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NZ; j++) {
      mu[j] -= s->E[i * NZ + j] * eta_p[i];
    }
  }
  sm_lu_solve_transposed(s->matrix, s->pivot, s->inverse, mu, NZ);
}

static void evaluate_contractions(workspace *s, const arguments *a, const double *eta, const double *mu) {
  double left[ND], right[ND], force[ND], direction[ND];
  for (int i = 0; i < ND; i++) {
    direction[i] = eta[NQ + i] + mu[i];
    left[i] = a->dt * (eta[NQ + i] + 0.5 * mu[i]);
    right[i] = -mu[i];
    force[i] = a->dt * (eta[NQ + i] + LEFT * mu[i]);
  }
  const double *const in[] = {s->qm, s->vm, a->u, a->par, left, right, force};
  double *const out[] = {s->S};
  sm_third(in, out, s->scratch);
  if (NC > 0) {
    const double *const next[] = {s->q2, a->par, mu + ND};
    double *const next_out[] = {s->H2};
    sm_con2(next, next_out, s->scratch);
    const double *const here[] = {s->q1, a->par, s->lam, direction};
    double *const here_out[] = {s->J3, s->H3};
    sm_con3(here, here_out, s->scratch);
  }
}

/* Second derivatives of eta Y + mu G in the direct variables (C), in z times direct (Z) and in q2 twice (H22), from
 * those in (qm, vm): qm = (q1 + q2)/2, vm = (q2 - q1)/dt. */
static void assemble(workspace *s, double dt) {
  static const int active[NA] = ACTIVE;
  const double half = 0.5 / dt, square = 1.0 / (dt * dt);
  memset(s->C, 0, sizeof s->C);
  memset(s->Z, 0, sizeof s->Z);
  for (int i = 0; i < NA; i++) {
    const int r = active[i];
    for (int j = 0; j < NA; j++) {
      const int c = active[j];
      const double qq = 0.25 * s->S[i * NY + j], vv = square * s->S[(NA + i) * NY + NA + j];
      const double qv = half * s->S[i * NY + NA + j], vq = half * s->S[(NA + i) * NY + j];
      const double here_here = qq - qv - vq + vv; /* q1 q1 */
      const double next_here = qq - qv + vq - vv; /* q2 q1 */
      const double next_next = qq + qv + vq + vv; /* q2 q2 */
      s->C[r * NWP + c] += here_here;
      if (i < ND && j < ND) {
        s->H22[i * ND + j] = next_next;
        s->Z[i * NWP + c] += next_here;
      } else if (i < ND) {
        s->Z[i * NWP + c] += next_here;
        s->Z[i * NWP + W_NEXT + c - ND] += next_next;
      } else {
        s->C[(W_NEXT + r - ND) * NWP + c] += next_here;
        s->C[c * NWP + W_NEXT + r - ND] += next_here;
        if (j >= ND) {
          s->C[(W_NEXT + r - ND) * NWP + W_NEXT + c - ND] += next_next;
        }
      }
    }
    for (int j = 0; j < NU; j++) {
      const double q = 0.5 * s->S[i * NY + 2 * NA + j], v = s->S[(NA + i) * NY + 2 * NA + j] / dt;
      s->C[r * NWP + W_U + j] += q - v;
      s->C[(W_U + j) * NWP + r] += q - v;
      if (i < ND) {
        s->Z[i * NWP + W_U + j] += q + v;
      } else {
        s->C[(W_NEXT + r - ND) * NWP + W_U + j] += q + v;
        s->C[(W_U + j) * NWP + W_NEXT + r - ND] += q + v;
      }
    }
  }
  for (int i = 0; i < NU; i++) {
    for (int j = 0; j < NU; j++) {
      s->C[(W_U + i) * NWP + W_U + j] += s->S[(2 * NA + i) * NY + 2 * NA + j];
    }
  }
  if (NC > 0) {
    for (int i = 0; i < NQ; i++) {
      for (int j = 0; j < NQ; j++) {
        s->C[i * NWP + j] -= s->H3[i * NQ + j];
      }
    }
    for (int i = 0; i < ND; i++) {
      for (int j = 0; j < ND; j++) {
        s->H22[i * ND + j] += s->H2[i * NQ + j];
      }
      for (int k = 0; k < NK; k++) {
        s->Z[i * NWP + W_NEXT + k] += s->H2[i * NQ + ND + k];
      }
    }
    for (int i = 0; i < NK; i++) {
      for (int k = 0; k < NK; k++) {
        s->C[(W_NEXT + i) * NWP + W_NEXT + k] += s->H2[(ND + i) * NQ + ND + k];
      }
    }
    for (int c = 0; c < NC; c++) {
      for (int j = 0; j < NQ; j++) {
        s->Z[(ND + c) * NWP + j] -= s->J3[c * NQ + j];
      }
    }
  }
}

#endif /* SM_BALLS */

/* Entries i, begin to end of the symmetric part of C. */
SM_INLINE void write_mean(const workspace *s, int i, int begin, int end, double *to) {
  for (int j = begin; j < end; j++) {
    to[j - begin] = 0.5 * (s->C[i * NWP + j] + s->C[j * NWP + i]);
  }
}

static void write_curvature(const workspace *s, double *xx, double *xu, double *uu) {
  for (int i = 0; i < W_U; i++) {
    write_mean(s, i, 0, W_U, xx + i * NDX);
    memset(xx + i * NDX + W_U, 0, sizeof(double) * (NDX - W_U));
    write_mean(s, i, W_U, W_T, xu + i * NV);
  }
  memset(xx + W_U * NDX, 0, sizeof(double) * (NDX - W_U) * NDX);
  memset(xu + W_U * NV, 0, sizeof(double) * (NDX - W_U) * NV);
  for (int i = W_U; i < W_T; i++) {
    write_mean(s, i, W_U, W_T, uu + (i - W_U) * NV);
  }
}

/* From the second derivatives in z and the direct variables to those of the map: C + D^T Z + Z^T D + D^T H22 D. */
static void congruence(workspace *s) {
  sm_multiply_add(s->Z, 0.5, s->H22, ND, 1, s->D, ND, ND, NWP);
  sm_multiply_add(s->C, 2.0, s->D, 1, NWP, s->Z, NW, NZ, NWP);
}

#endif
