/* The midpoint variational step of one model: one segment of length dt, with exact first derivatives and contracted
 * second derivatives. */
#include "model.h"
#include "segment.h"

/* One step. x2 may be x. */
SM_EXPORT int sm_step(void *work, const double *par, double dt, const double *x, const double *u, double *x2,
                      double *multipliers, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  const int status = solve(s, &a, NULL, info);
  if (status == SM_OK) {
    evaluate_first(s, &a);
    write_multipliers(s, &a, multipliers);
    next_state(s, &a, x2);
  }
  return status;
}

static void write_derivatives(const workspace *s, double dt, double *A, double *B) {
#ifdef SM_BALLS
  double turned[ND * NWP];
  turn_rows(s, turned);
  const double *next = turned;
#else
  const double *next = s->D;
#endif
  memset(A, 0, sizeof(double) * NDX * NDX);
  memset(B, 0, sizeof(double) * NDX * NV);
  for (int i = 0; i < ND; i++) {
    memcpy(A + i * NDX, next + i * NWP, W_U * sizeof(double));
    memcpy(B + i * NV, next + i * NWP + W_U, NV * sizeof(double));
    memcpy(A + (NQ + i) * NDX, s->P + i * NWP, W_U * sizeof(double));
    memcpy(B + (NQ + i) * NV, s->P + i * NWP + W_U, NV * sizeof(double));
  }
  for (int k = 0; k < NK; k++) {
    B[(ND + k) * NV + NU + k] = 1.0;
    A[(NQ + ND + k) * NDX + W_RHO + k] = -1.0 / dt;
    B[(NQ + ND + k) * NV + NU + k] = 1.0 / dt;
  }
}

/* The step with A = dx2/dx (NX x NX) and B = dx2/du (NX x NV). `guess` is a q2 to start from, or NULL. */
SM_EXPORT int sm_linearize(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, double *x2, double *A, double *B, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  int status = solve(s, &a, guess, info);
  if (status == SM_OK) {
    status = differentiate(s, &a);
  }
  if (status == SM_OK) {
    next_state(s, &a, x2);
    write_derivatives(s, dt, A, B);
  }
  return status;
}

#ifdef SM_CURVATURE
#include "segment_second.h"

/* eta^T D^2 f: xx (NX x NX), xu (NX x NV), uu (NV x NV). */
SM_EXPORT int sm_curvature(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, const double *eta, double *xx, double *xu, double *uu, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  double mu[NZ];
  if (!all_finite(eta, NDX)) {
    info[0] = info[1] = 0.0;
    return SM_NOT_FINITE;
  }
  int status = solve(s, &a, guess, info);
  if (status != SM_OK) {
    return status;
  }
#ifdef SM_BALLS
  if (differentiate(s, &a)) {
    return SM_SINGULAR;
  }
  adjoint(s, eta, mu);
  assemble_balls(s, &a, eta, mu);
#else
  if (at_solution(s, &a)) {
    return SM_SINGULAR;
  }
  differentiate_unknowns(s, &a);
  adjoint(s, eta, NULL, mu);
  evaluate_contractions(s, &a, eta, mu);
  assemble(s, dt);
#endif
  congruence(s);
  write_curvature(s, xx, xu, uu);
  return SM_OK;
}
#endif

#ifdef SM_EXTENDED
#include "segment_extended.h"

#define SM_SENSITIVITY
#define SM_SECOND_SENSITIVITY

/* The step with Y = dx2/d(x, u, dt) (NX x NS) and M = d(multipliers)/d(x, u, dt) (NC x NS). */
SM_EXPORT int sm_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                             const double *guess, double *x2, double *multipliers, double *Y, double *M, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  int status = solve(s, &a, guess, info);
  if (status == SM_OK) {
    status = differentiate(s, &a);
  }
  if (status == SM_OK) {
    evaluate_pull(s, &a);
    write_multipliers(s, &a, multipliers);
    write_sensitivity(s, &a, Y, M);
    next_state(s, &a, x2);
  }
  return status;
}

/* Second derivatives H (NS x NS) of eta . x2 + nu . multipliers in (x, u, dt). */
SM_EXPORT int sm_second_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                                    const double *guess, const double *eta, const double *nu, double *H, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  double mu[NZ], seed[AT_LEAST_ONE(NC)];
  if (!all_finite(eta, NX) || !all_finite(nu, NC)) {
    info[0] = info[1] = 0.0;
    return SM_NOT_FINITE;
  }
  int status = solve(s, &a, guess, info);
  if (status == SM_OK) {
    status = differentiate(s, &a);
  }
  if (status != SM_OK) {
    return status;
  }
  evaluate_pull(s, &a);
  seed_forces(s, dt, nu, seed);
  adjoint(s, eta, seed, mu);
  evaluate_contractions(s, &a, eta, mu);
  assemble(s, dt);
  assemble_length(s, dt, eta, mu);
  assemble_forces(s, &a, nu);
  congruence(s);
  write_second(s, H);
  return SM_OK;
}
#endif

#ifdef SM_PARAMETERS
#include "segment_parameters.h"

/* The step with A, B and T = dx2/d(parameters) (NDX x NP). */
SM_EXPORT int sm_parameters(void *work, const double *par, double dt, const double *x, const double *u,
                            const double *guess, double *x2, double *A, double *B, double *T, double *info) {
  workspace *s = work;
  const arguments a = {par, x, u, dt};
  const int status = sm_linearize(work, par, dt, x, u, guess, x2, A, B, info);
  if (status == SM_OK) {
    differentiate_parameters(s, &a, T);
  }
  return status;
}
#endif

#include "trajectory.h"
