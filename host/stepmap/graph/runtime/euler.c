/* Continuous dynamics of one model and its explicit Euler step, with the same interface as the midpoint step.
 *
 * State x = [q, rho, q', rho'], input u = [forces, rho'']. Accelerations a and multipliers lam solve
 *   r_q = M a + (terms in q, q', rho'') - F + D_q h^T lam = 0,   r_h = d^2 h/dt^2 = 0,
 * both linear in z = [a, lam]; w = [x, u]. model.h defines sizes and sm_rate (matrix and right-hand side), sm_rate_slope
 * (dr/dw) and, with SM_CURVATURE, sm_rate_bend (second derivatives of mu^T r, in w twice and in z and w). */
#include "linalg.h"
#include "model.h"

#include <stddef.h>

#define AT_LEAST_ONE(n) ((n) > 0 ? (n) : 1)
#define NQ (ND + NK)
#define NX (2 * NQ)
#define NV (NU + NK)
#define NZ (ND + NC)
#define NW (NX + NV)
#define NWP SM_PADDED(NW)

#define SM_EXPORT __attribute__((visibility("default")))

enum { SM_OK = 0, SM_NOT_FINITE = -1, SM_SINGULAR = -2 };

typedef struct {
  /* written by generated functions only */
  double matrix_out[NZ * NZ], right[NZ], pull[AT_LEAST_ONE(NC)], slope[NZ * NW];
#ifdef SM_CURVATURE
  double bend_ww[NW * NW], bend_zw[NZ * NW];
#endif
  double scratch[AT_LEAST_ONE(SM_SCRATCH)];
  /* the runtime's own */
  double z[NZ], matrix[NZ * NZ], inverse[NZ], D[NZ * NWP];
  int pivot[NZ];
#ifdef SM_CURVATURE
  double C[NW * NWP], Z[NZ * NWP];
#endif
} workspace;

SM_EXPORT size_t sm_workspace_bytes(void) { return sizeof(workspace); }

static int all_finite(const double *values, int n) {
  for (int i = 0; i < n; i++) {
    if (!isfinite(values[i])) {
      return 0;
    }
  }
  return 1;
}

static int solve(workspace *s, const double *par, const double *x, const double *u, double *info) {
  info[0] = 1.0;
  info[1] = 0.0;
  if (!all_finite(x, NX) || !all_finite(u, NV)) {
    return SM_NOT_FINITE;
  }
  const double *const in[] = {x, x + NQ, u, u + NU, par};
  double *const out[] = {s->matrix_out, s->right, s->pull};
  sm_rate(in, out, s->scratch);
  for (int i = 0; i < NZ; i++) {
    for (int j = 0; j < NZ; j++) {
      s->matrix[j * NZ + i] = s->matrix_out[i * NZ + j];
    }
  }
  memcpy(s->z, s->right, sizeof s->z);
  if (sm_lu(s->matrix, s->pivot, s->inverse, NZ)) {
    return SM_SINGULAR;
  }
  sm_lu_solve(s->matrix, s->pivot, s->inverse, s->z, NZ);
  return all_finite(s->z, NZ) ? SM_OK : SM_SINGULAR;
}

static void write_rate(const workspace *s, const double *x, const double *u, double *rate) {
  memcpy(rate, x + NQ, NQ * sizeof(double));
  memcpy(rate + NQ, s->z, ND * sizeof(double));
  memcpy(rate + NQ + ND, u + NU, NK * sizeof(double));
}

static void write_multipliers(const workspace *s, double *multipliers) {
  for (int c = 0; c < NC; c++) {
    multipliers[c] = s->pull[c] * s->z[ND + c];
  }
}

/* D = dz/dw */
static void differentiate(workspace *s, const double *par, const double *x, const double *u) {
  const double *const in[] = {x, x + NQ, u, u + NU, par, s->z, s->z + ND};
  double *const out[] = {s->slope};
  sm_rate_slope(in, out, s->scratch);
  memset(s->D, 0, sizeof s->D);
  for (int i = 0; i < NZ; i++) {
    for (int j = 0; j < NW; j++) {
      s->D[i * NWP + j] = -s->slope[i * NW + j];
    }
  }
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->D, NZ, NWP);
}

/* A += scale * d rate/dx, B += scale * d rate/du */
static void add_slope(const workspace *s, double scale, double *A, double *B) {
  for (int i = 0; i < NQ; i++) {
    A[i * NX + NQ + i] += scale;
  }
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NX; j++) {
      A[(NQ + i) * NX + j] += scale * s->D[i * NWP + j];
    }
    for (int j = 0; j < NV; j++) {
      B[(NQ + i) * NV + j] += scale * s->D[i * NWP + NX + j];
    }
  }
  for (int k = 0; k < NK; k++) {
    B[(NQ + ND + k) * NV + NU + k] += scale;
  }
}

static void advance(const workspace *s, double dt, const double *x, const double *u, double *x2) {
  double rate[NX];
  write_rate(s, x, u, rate);
  for (int i = 0; i < NX; i++) {
    x2[i] = x[i] + dt * rate[i];
  }
}

/* dx/dt and, where A is not NULL, its derivatives. */
SM_EXPORT int sm_dynamics(void *work, const double *par, const double *x, const double *u, double *rate,
                          double *multipliers, double *A, double *B, double *info) {
  workspace *s = work;
  const int status = solve(s, par, x, u, info);
  if (status == SM_OK) {
    write_rate(s, x, u, rate);
    write_multipliers(s, multipliers);
    if (A) {
      differentiate(s, par, x, u);
      memset(A, 0, sizeof(double) * NX * NX);
      memset(B, 0, sizeof(double) * NX * NV);
      add_slope(s, 1.0, A, B);
    }
  }
  return status;
}

SM_EXPORT int sm_step(void *work, const double *par, double dt, const double *x, const double *u, double *x2,
                      double *multipliers, double *info) {
  workspace *s = work;
  const int status = solve(s, par, x, u, info);
  if (status == SM_OK) {
    advance(s, dt, x, u, x2);
    write_multipliers(s, multipliers);
  }
  return status;
}

SM_EXPORT int sm_linearize(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, double *x2, double *A, double *B, double *info) {
  workspace *s = work;
  (void)guess; /* explicit: nothing to guess */
  const int status = solve(s, par, x, u, info);
  if (status == SM_OK) {
    differentiate(s, par, x, u);
    advance(s, dt, x, u, x2);
    memset(A, 0, sizeof(double) * NX * NX);
    memset(B, 0, sizeof(double) * NX * NV);
    for (int i = 0; i < NX; i++) {
      A[i * NX + i] = 1.0;
    }
    add_slope(s, dt, A, B);
  }
  return status;
}

#ifdef SM_CURVATURE
SM_EXPORT int sm_curvature(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, const double *eta, double *xx, double *xu, double *uu, double *info) {
  workspace *s = work;
  double mu[NZ] = {0};
  (void)guess;
  const int status = all_finite(eta, NX) ? solve(s, par, x, u, info) : SM_NOT_FINITE;
  if (status != SM_OK) {
    return status;
  }
  differentiate(s, par, x, u);
  for (int i = 0; i < ND; i++) {
    mu[i] = -dt * eta[NQ + i];
  }
  sm_lu_solve_transposed(s->matrix, s->pivot, s->inverse, mu, NZ);
  const double *const in[] = {x, x + NQ, u, u + NU, par, s->z, s->z + ND, mu};
  double *const out[] = {s->bend_ww, s->bend_zw};
  sm_rate_bend(in, out, s->scratch);
  memset(s->Z, 0, sizeof s->Z);
  for (int i = 0; i < NZ; i++) {
    memcpy(s->Z + i * NWP, s->bend_zw + i * NW, NW * sizeof(double));
  }
  memset(s->C, 0, sizeof s->C);
  sm_multiply_add(s->C, 1.0, s->D, 1, NWP, s->Z, NW, NZ, NWP); /* r is linear in z: no term in z twice */
  double *const blocks[] = {xx, xu, NULL, uu};
  for (int i = 0; i < NW; i++) {
    for (int j = 0; j < NW; j++) {
      const double value = s->bend_ww[i * NW + j] + s->C[i * NWP + j] + s->C[j * NWP + i];
      double *block = blocks[2 * (i >= NX) + (j >= NX)];
      if (block) {
        block[(i >= NX ? i - NX : i) * (j >= NX ? NV : NX) + (j >= NX ? j - NX : j)] = value;
      }
    }
  }
  return SM_OK;
}
#endif

#include "trajectory.h"
