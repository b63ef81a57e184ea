/* A step from its equations alone: G(x, u, z, dt) = 0 for the unknowns z, x2 = Y(x, u, z, dt), constraint forces m.
 *
 * model.h defines the sizes
 *   NX stored numbers and NDX tangent dimensions of the state, NV inputs, NZ unknowns, NC constraint forces,
 *   DECISIVE unknowns whose relative change ends Newton's method, LINEAR where one turn of it is enough, DAMPED where its
 *   steps are shortened, NPAR parameters, SMOOTHING the one that rounds off what bends sharply, or -1, SM_SCRATCH,
 * and the generated functions sm_start, sm_newton, sm_output, sm_slopes, sm_difference, with SM_CURVATURE sm_bends, and
 * with SM_PARAMETERS sm_tilts.
 * Derivatives are in the tangent space; w = (dx, u, dt). */
#include "linalg.h"
#include "model.h"
#include "trig.h"

#include <stddef.h>

#define AT_LEAST_ONE(n) ((n) > 0 ? (n) : 1)
#define NS (NDX + NV + 1)
#define NSP SM_PADDED(NS)
#define NH (NS + NZ)
#define NP NPAR
#define NPP SM_PADDED(NPAR)

#define SM_EXPORT __attribute__((visibility("default")))

enum { SM_OK = 0, SM_NOT_FINITE = -1, SM_SINGULAR = -2, SM_DIVERGED = -3 };
enum { MAX_ITERATIONS = 60 };
static const double SHORTEST = 1.0 / 4096;

typedef struct {
  /* written by generated functions only: they never store structural zeros */
  double start[AT_LEAST_ONE(NZ)], G[AT_LEAST_ONE(NZ)], Gz[AT_LEAST_ONE(NZ * NZ)], after[NX], forces[AT_LEAST_ONE(NC)];
  double Kz[AT_LEAST_ONE(NZ * NZ)], Gw[AT_LEAST_ONE(NZ * NS)], Yz[AT_LEAST_ONE(NDX * NZ)], Yw[NDX * NS];
  double mz[AT_LEAST_ONE(NC * NZ)], mw[AT_LEAST_ONE(NC * NS)], dx[NDX];
#ifdef SM_CURVATURE
  double H[NH * NH];
#endif
#ifdef SM_PARAMETERS
  double Gt[AT_LEAST_ONE(NZ * NPAR)], Yt[NDX * NPAR];
#endif
  double scratch[AT_LEAST_ONE(SM_SCRATCH)];
  /* what follows is the runtime's own */
  double z[AT_LEAST_ONE(NZ)], matrix[AT_LEAST_ONE(NZ * NZ)], inverse[AT_LEAST_ONE(NZ)];
  int pivot[AT_LEAST_ONE(NZ)];
  double D[AT_LEAST_ONE(NZ) * NSP];               /* dz/dw */
  double Y[NDX * NSP], M[AT_LEAST_ONE(NC) * NSP]; /* dx2/dw, dm/dw */
#ifdef SM_PARAMETERS
  double Dt[AT_LEAST_ONE(NZ) * NPP]; /* dz by the parameters */
#endif
#ifdef SM_CURVATURE
  double C[NS * NSP], Z[AT_LEAST_ONE(NZ) * NSP], Hzz[AT_LEAST_ONE(NZ * NZ)];
#endif
} workspace;

typedef struct {
  const double *par, *x, *u;
  double dt;
} arguments;

SM_EXPORT size_t sm_workspace_bytes(void) { return sizeof(workspace); }

static int all_finite(const double *values, int n) {
  for (int i = 0; i < n; i++) {
    if (!isfinite(values[i])) {
      return 0;
    }
  }
  return 1;
}

static int factorize(workspace *s, const double *rows) {
  for (int i = 0; i < NZ; i++) {
    for (int j = 0; j < NZ; j++) {
      s->matrix[j * NZ + i] = rows[i * NZ + j];
    }
  }
  return sm_lu(s->matrix, s->pivot, s->inverse, NZ);
}

/* Largest change of the first n unknowns, relative to them; infinite where one is not a number. */
static double relative(const double *dz, const double *z, int n) {
  double size = 0.0;
  for (int i = 0; i < n; i++) {
    const double change = fabs(dz[i]) / (1.0 + fabs(z[i]));
    size = change <= size ? size : isfinite(change) ? change : INFINITY;
  }
  return size;
}

/* Moves z along dz until the Newton step from there, with the same matrix, is shorter than dz: then z is nearer to the
 * solution, whatever the units of the rows of G (natural monotonicity, Deuflhard). G and its matrix are left at z. */
static int advance(workspace *s, const double *const in[], double *const out[], const double *dz) {
  double from[AT_LEAST_ONE(NZ)], next[AT_LEAST_ONE(NZ)];
  memcpy(from, s->z, sizeof from);
  const double size = relative(dz, from, NZ);
  for (double length = 1.0; length >= SHORTEST; length /= 2) {
    for (int i = 0; i < NZ; i++) {
      s->z[i] = from[i] + length * dz[i];
    }
    sm_newton(in, out, s->scratch);
    for (int i = 0; i < NZ; i++) {
      next[i] = -s->G[i];
    }
    sm_lu_solve(s->matrix, s->pivot, s->inverse, next, NZ);
    if (relative(next, from, NZ) <= (1.0 - length / 4) * size) {
      return SM_OK;
    }
  }
  return SM_DIVERGED;
}

/* Newton's method on G = 0 from the z there is. */
static int newton(workspace *s, const arguments *a, double *info) {
  const double *const in[] = {a->x, a->u, s->z, &a->dt, a->par};
  double *const out[] = {s->G, s->Gz};
  double dz[AT_LEAST_ONE(NZ)];
  for (int turn = 1; turn <= MAX_ITERATIONS; turn++) {
    info[0] += 1.0;
    if (turn == 1 || !DAMPED) {
      sm_newton(in, out, s->scratch);
    }
    info[1] = 0.0;
    for (int i = 0; i < NZ; i++) {
      dz[i] = -s->G[i];
      info[1] = fmax(info[1], fabs(s->G[i]));
    }
    if (factorize(s, s->Gz)) {
      return SM_SINGULAR;
    }
    sm_lu_solve(s->matrix, s->pivot, s->inverse, dz, NZ);
    const double size = relative(dz, s->z, DECISIVE);
    if (!all_finite(dz, NZ)) {
      return LINEAR ? SM_SINGULAR : SM_DIVERGED;
    }
    if (DAMPED && size > 1e-9) {
      if (advance(s, in, out, dz) != SM_OK) {
        return SM_DIVERGED;
      }
      continue;
    }
    for (int i = 0; i < NZ; i++) {
      s->z[i] += dz[i];
    }
    if (LINEAR || size <= 1e-9) { /* the next would be its square */
      return SM_OK;
    }
  }
  return SM_DIVERGED;
}

#if SMOOTHING >= 0
/* Newton's method once more, with the corners rounded off first and sharpened tenfold each time. */
static int sharpen(workspace *s, const arguments *a, double *info) {
  double par[NPAR];
  const arguments smooth = {par, a->x, a->u, a->dt};
  const double wanted = a->par[SMOOTHING];
  int status = SM_OK;
  memcpy(par, a->par, sizeof par);
  memcpy(s->z, s->start, sizeof s->z);
  par[SMOOTHING] = fmax(1.0, wanted);
  while ((status = newton(s, &smooth, info)) == SM_OK && par[SMOOTHING] > wanted) {
    par[SMOOTHING] = fmax(wanted, 0.1 * par[SMOOTHING]);
  }
  return status;
}
#endif

static int solve(workspace *s, const arguments *a, double *info) {
  const double *const first[] = {a->x, a->u, &a->dt, a->par};
  double *const start[] = {s->start};
  info[0] = info[1] = 0.0;
  if (!all_finite(a->x, NX) || !all_finite(a->u, NV)) {
    return SM_NOT_FINITE;
  }
  sm_start(first, start, s->scratch);
  memcpy(s->z, s->start, sizeof s->z);
  if (NZ == 0) {
    return SM_OK;
  }
  int status = newton(s, a, info);
#if SMOOTHING >= 0
  status = status == SM_OK ? status : sharpen(s, a, info);
#endif
  return status;
}

static void evaluate_output(workspace *s, const arguments *a) {
  const double *const in[] = {a->x, a->u, s->z, &a->dt, a->par};
  double *const out[] = {s->after, s->forces};
  sm_output(in, out, s->scratch);
}

/* D = dz/dw at the solution. */
static int differentiate(workspace *s, const arguments *a) {
  const double *const in[] = {a->x, a->u, s->z, &a->dt, a->par};
  double *const out[] = {s->Kz, s->Gw, s->Yz, s->Yw, s->mz, s->mw};
  sm_slopes(in, out, s->scratch);
  if (NZ > 0) {
    if (!LINEAR && factorize(s, s->Kz)) { /* the factors of a linear G are those of its solution */
      return SM_SINGULAR;
    }
    memset(s->D, 0, sizeof s->D);
    for (int i = 0; i < NZ; i++) {
      for (int j = 0; j < NS; j++) {
        s->D[i * NSP + j] = -s->Gw[i * NS + j];
      }
    }
    sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->D, NZ, NSP);
  }
  return SM_OK;
}

/* total = direct + by_z D, rows of NSP; by_z has few entries, and zeros are passed over. */
static void carry(const workspace *s, const double *direct, const double *by_z, int rows, double *total) {
  for (int i = 0; i < rows; i++) {
    double *sum = total + i * NSP;
    memcpy(sum, direct + i * NS, NS * sizeof(double));
    for (int k = 0; k < NZ; k++) {
      const double factor = by_z[i * NZ + k];
      if (factor != 0.0) {
        for (int j = 0; j < NSP; j++) {
          sum[j] += factor * s->D[k * NSP + j];
        }
      }
    }
  }
}

SM_EXPORT int sm_step(void *work, const double *par, double dt, const double *x, const double *u, double *x2,
                      double *multipliers, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  const int status = solve(s, &a, info);
  if (status == SM_OK) {
    evaluate_output(s, &a);
    memcpy(x2, s->after, sizeof s->after);
    memcpy(multipliers, s->forces, NC * sizeof(double));
  }
  return status;
}

/* A guess of the next state is of no use here: z is not a part of it. */
SM_EXPORT int sm_linearize(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, double *x2, double *A, double *B, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  (void)guess;
  int status = solve(s, &a, info);
  status = status == SM_OK ? differentiate(s, &a) : status;
  if (status == SM_OK) {
    evaluate_output(s, &a);
    memcpy(x2, s->after, sizeof s->after);
    carry(s, s->Yw, s->Yz, NDX, s->Y);
    for (int i = 0; i < NDX; i++) {
      memcpy(A + i * NDX, s->Y + i * NSP, NDX * sizeof(double));
      memcpy(B + i * NV, s->Y + i * NSP + NDX, NV * sizeof(double));
    }
  }
  return status;
}

/* The step with Y = dx2/d(x, u, dt) (NDX x NS) and M = d(multipliers)/d(x, u, dt) (NC x NS). */
SM_EXPORT int sm_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                             const double *guess, double *x2, double *multipliers, double *Y, double *M, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  (void)guess;
  int status = solve(s, &a, info);
  status = status == SM_OK ? differentiate(s, &a) : status;
  if (status == SM_OK) {
    evaluate_output(s, &a);
    memcpy(x2, s->after, sizeof s->after);
    memcpy(multipliers, s->forces, NC * sizeof(double));
    carry(s, s->Yw, s->Yz, NDX, s->Y);
    carry(s, s->mw, s->mz, NC, s->M);
    for (int i = 0; i < NDX; i++) {
      memcpy(Y + i * NS, s->Y + i * NSP, NS * sizeof(double));
    }
    for (int i = 0; i < NC; i++) {
      memcpy(M + i * NS, s->M + i * NSP, NS * sizeof(double));
    }
  }
  return status;
}

#ifdef SM_PARAMETERS
/* The step with A, B and T = dx2/d(parameters) (NDX x NPAR). */
SM_EXPORT int sm_parameters(void *work, const double *par, double dt, const double *x, const double *u,
                            const double *guess, double *x2, double *A, double *B, double *T, double *info) {
  workspace *s = work;
  const double *const in[] = {x, u, s->z, &dt, par};
  double *const out[] = {s->Gt, s->Yt};
  const int status = sm_linearize(work, par, dt, x, u, guess, x2, A, B, info);
  if (status != SM_OK) {
    return status;
  }
  sm_tilts(in, out, s->scratch);
  memset(s->Dt, 0, sizeof s->Dt);
  for (int i = 0; i < NZ; i++) {
    for (int j = 0; j < NPAR; j++) {
      s->Dt[i * NPP + j] = -s->Gt[i * NPAR + j];
    }
  }
  if (NZ > 0) {
    sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->Dt, NZ, NPP);
  }
  memcpy(T, s->Yt, sizeof s->Yt);
  for (int i = 0; i < NDX; i++) {
    for (int k = 0; k < NZ; k++) {
      for (int j = 0; j < NPAR; j++) {
        T[i * NPAR + j] += s->Yz[i * NZ + k] * s->Dt[k * NPP + j];
      }
    }
  }
  return SM_OK;
}
#endif

#ifdef SM_CURVATURE
/* The Hessian of eta . Y + nu . m + mu . G in (w, z), with the multipliers mu that make it stationary in z. */
static int evaluate_bends(workspace *s, const arguments *a, const double *eta, const double *nu, double *info) {
  double mu[AT_LEAST_ONE(NZ)] = {0};
  if (!all_finite(eta, NDX) || !all_finite(nu, NC)) {
    info[0] = info[1] = 0.0;
    return SM_NOT_FINITE;
  }
  int status = solve(s, a, info);
  status = status == SM_OK ? differentiate(s, a) : status;
  if (status != SM_OK) {
    return status;
  }
  for (int k = 0; k < NZ; k++) {
    for (int i = 0; i < NDX; i++) {
      mu[k] -= s->Yz[i * NZ + k] * eta[i];
    }
    for (int i = 0; i < NC; i++) {
      mu[k] -= s->mz[i * NZ + k] * nu[i];
    }
  }
  if (NZ > 0) {
    sm_lu_solve_transposed(s->matrix, s->pivot, s->inverse, mu, NZ);
  }
  const double *const in[] = {a->x, a->u, s->z, &a->dt, a->par, eta, nu, mu};
  double *const out[] = {s->H};
  sm_bends(in, out, s->scratch);
  return SM_OK;
}

/* C, whose symmetric part is [1; D]^T H [1; D]. */
static void congruence(workspace *s) {
  memset(s->C, 0, sizeof s->C);
  memset(s->Z, 0, sizeof s->Z);
  for (int i = 0; i < NS; i++) {
    memcpy(s->C + i * NSP, s->H + i * NH, NS * sizeof(double));
  }
  if (NZ > 0) {
    for (int k = 0; k < NZ; k++) {
      memcpy(s->Z + k * NSP, s->H + (NS + k) * NH, NS * sizeof(double));
      memcpy(s->Hzz + k * NZ, s->H + (NS + k) * NH + NS, NZ * sizeof(double));
    }
    sm_multiply_add(s->Z, 0.5, s->Hzz, NZ, 1, s->D, NZ, NZ, NSP);
    sm_multiply_add(s->C, 2.0, s->D, 1, NSP, s->Z, NS, NZ, NSP);
  }
}

SM_EXPORT int sm_second_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                                    const double *guess, const double *eta, const double *nu, double *H, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  (void)guess;
  const int status = evaluate_bends(s, &a, eta, nu, info);
  if (status == SM_OK) {
    congruence(s);
    for (int i = 0; i < NS; i++) {
      for (int j = 0; j <= i; j++) {
        H[i * NS + j] = H[j * NS + i] = 0.5 * (s->C[i * NSP + j] + s->C[j * NSP + i]);
      }
    }
  }
  return status;
}

SM_EXPORT int sm_curvature(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, const double *eta, double *xx, double *xu, double *uu, double *info) {
  const double none[AT_LEAST_ONE(NC)] = {0};
  double H[NS * NS];
  const int status = sm_second_sensitivity(work, par, dt, x, u, guess, eta, none, H, info);
  if (status == SM_OK) {
    for (int i = 0; i < NDX; i++) {
      memcpy(xx + i * NDX, H + i * NS, NDX * sizeof(double));
      memcpy(xu + i * NV, H + i * NS + NDX, NV * sizeof(double));
    }
    for (int i = 0; i < NV; i++) {
      memcpy(uu + i * NV, H + (NDX + i) * NS + NDX, NV * sizeof(double));
    }
  }
  return status;
}
#endif

/* dx (NDX) from a to b. */
static void difference(void *work, const double *a, const double *b, double *dx) {
  workspace *s = work;
  const double *const in[] = {a, b};
  double *const out[] = {s->dx};
  sm_difference(in, out, s->scratch);
  memcpy(dx, s->dx, sizeof s->dx);
}

#define SM_DIFFERENCE difference
#define SM_SENSITIVITY
#ifdef SM_CURVATURE
#define SM_SECOND_SENSITIVITY
#endif
#include "trajectory.h"
