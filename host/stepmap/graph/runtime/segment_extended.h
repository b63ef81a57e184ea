/* Derivatives of a segment that few ask for: in its length, and those of its constraint forces
 *   m_c = pull_c(qb1) lam_c / dt.
 * Only with SM_EXTENDED, which gives the direct variables one more column, W_T. */
#ifndef SM_SEGMENT_EXTENDED_H
#define SM_SEGMENT_EXTENDED_H

#include "segment_second.h"

#define NS (NX + NV + 1) /* columns of the outputs: x, u, dt */

static void evaluate_pull(workspace *s, const arguments *a) {
  if (NC > 0) {
    const double *const in[] = {s->q1, a->par};
    double *const pull[] = {s->pull}, *const slope[] = {s->Dpull};
    sm_pull(in, pull, s->scratch);
    sm_pull1(in, slope, s->scratch);
  }
}

/* Rows of Y = d(x2)/d(x, u, dt) from columns of w: v is no direct variable. */
static void widen(const double *from, double *to) {
  memcpy(to, from, W_U * sizeof(double));
  memcpy(to + NX, from + W_U, (NV + 1) * sizeof(double));
}

static void write_sensitivity(const workspace *s, const arguments *a, double *Y, double *M) {
  const double dt = a->dt;
  memset(Y, 0, sizeof(double) * NX * NS);
  memset(M, 0, sizeof(double) * NC * NS);
  for (int i = 0; i < ND; i++) {
    widen(s->D + i * NWP, Y + i * NS);
    widen(s->P + i * NWP, Y + (NQ + i) * NS);
  }
  for (int k = 0; k < NK; k++) {
    double *rho = Y + (ND + k) * NS, *rate = Y + (NQ + ND + k) * NS;
    rho[NX + NU + k] = 1.0;
    rate[W_RHO + k] = -1.0 / dt;
    rate[NX + NU + k] = 1.0 / dt;
    rate[NX + NV] = -(s->q2[ND + k] - s->q1[ND + k]) / (dt * dt);
  }
  for (int c = 0; c < NC; c++) {
    double *force = M + c * NS;
    widen(s->D + (ND + c) * NWP, force);
    for (int j = 0; j < NS; j++) {
      force[j] *= s->pull[c] / dt;
    }
    for (int j = 0; j < NQ; j++) {
      force[j] += s->lam[c] / dt * s->Dpull[c * NQ + j];
    }
    force[NX + NV] -= s->pull[c] * s->lam[c] / (dt * dt);
  }
}

/* The part of the multipliers mu that belongs to the weights nu of the constraint forces; what `adjoint` begins with. */
static void seed_forces(const workspace *s, double dt, const double *nu, double *seed) {
  for (int c = 0; c < NC; c++) {
    seed[c] = nu[c] * s->pull[c] / dt;
  }
}

static void add_pair(workspace *s, int i, int j, double value) {
  s->C[i * NWP + j] += value;
  s->C[j * NWP + i] += value;
}

/* Second derivatives in the length, once and twice, of eta Y + mu G; vm = (qb2 - qb1)/dt depends on it. */
static void assemble_length(workspace *s, double dt, const double *eta, const double *mu) {
  static const int active[NA] = ACTIVE;
  double slope_v[NA], along[NY]; /* of the contracted function by vm; mixed ones of y = (qm, vm, u) and the length */
  double twice = 0.0;
  memset(slope_v, 0, sizeof slope_v);
  memset(along, 0, sizeof along);
  for (int i = 0; i < ND; i++) { /* what grows with the length: dt (L_q . left + F . force) */
    const double left = eta[NQ + i] + 0.5 * mu[i], force = eta[NQ + i] + LEFT * mu[i];
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j;
      const double grows = left * s->Lqv[k] + force * s->Fv[k];
      along[j] += left * s->Lqq[k] + force * s->Fq[k];
      along[NA + j] += grows;
      slope_v[j] += dt * grows - mu[i] * s->Lvv[k];
    }
    for (int j = 0; j < NU; j++) {
      along[2 * NA + j] += force * s->Fu[i * NU + j];
    }
  }
  for (int j = 0; j < NA; j++) {
    twice += 2.0 * s->vm[active[j]] / dt * (slope_v[j] / dt - along[NA + j]);
  }
  for (int r = 0; r < NY; r++) {
    double change = 0.0;
    for (int j = 0; j < NA; j++) {
      change -= s->S[r * NY + NA + j] * s->vm[active[j]] / dt;
    }
    along[r] += change;
    if (r >= NA && r < 2 * NA) {
      twice -= s->vm[active[r - NA]] / dt * change;
    }
  }
  for (int j = 0; j < NA; j++) {
    const int c = active[j];
    const double q = 0.5 * along[j], v = along[NA + j] / dt - slope_v[j] / (dt * dt);
    add_pair(s, c, W_T, q - v);
    if (j < ND) {
      s->Z[j * NWP + W_T] += q + v;
    } else {
      add_pair(s, W_NEXT + c - ND, W_T, q + v);
    }
  }
  for (int j = 0; j < NU; j++) {
    add_pair(s, W_U + j, W_T, along[2 * NA + j]);
  }
  for (int k = 0; k < NK; k++) { /* the rates (rho2 - rho1)/dt */
    const double rate = eta[NQ + ND + k] / (dt * dt);
    add_pair(s, W_RHO + k, W_T, rate);
    add_pair(s, W_NEXT + k, W_T, -rate);
    twice += 2.0 * rate * (s->q2[ND + k] - s->q1[ND + k]) / dt;
  }
  s->C[W_T * NWP + W_T] += twice;
}

/* Second derivatives of nu . m. */
static void assemble_forces(workspace *s, const arguments *a, const double *nu) {
  if (NC > 0) {
    const double dt = a->dt;
    double weight[AT_LEAST_ONE(NC)];
    for (int c = 0; c < NC; c++) {
      weight[c] = nu[c] * s->lam[c] / dt;
      for (int j = 0; j < NQ; j++) {
        s->Z[(ND + c) * NWP + j] += nu[c] / dt * s->Dpull[c * NQ + j];
        add_pair(s, j, W_T, -weight[c] / dt * s->Dpull[c * NQ + j]);
      }
      s->Z[(ND + c) * NWP + W_T] -= nu[c] * s->pull[c] / (dt * dt);
      s->C[W_T * NWP + W_T] += 2.0 * weight[c] * s->pull[c] / (dt * dt);
    }
    const double *const in[] = {s->q1, a->par, weight};
    double *const out[] = {s->Hpull};
    sm_pull2(in, out, s->scratch);
    for (int i = 0; i < NQ; i++) {
      for (int j = 0; j < NQ; j++) {
        s->C[i * NWP + j] += s->Hpull[i * NQ + j];
      }
    }
  }
}

/* H (NS x NS), symmetric. */
static void write_second(const workspace *s, double *H) {
  memset(H, 0, sizeof(double) * NS * NS);
  for (int i = 0; i < NW; i++) {
    double mean[NW] = {0};
    for (int j = 0; j < NW; j++) {
      mean[j] = 0.5 * (s->C[i * NWP + j] + s->C[j * NWP + i]);
    }
    widen(mean, H + (i < W_U ? i : i - W_U + NX) * NS);
  }
}

#endif
