/* The midpoint step in as many lanes as a vector has: the same generated functions and the same segment as midpoint.c,
 * compiled with SM_LANES, so that a number is a vector. Each lane is one point, with the bits that sm_step and
 * sm_linearize give; what a lane cannot do beside others is left to these, which the caller passes with a workspace. */
#include "lanes.h"
#include "model.h"

typedef int (*scalar_step)(void *work, const double *par, double dt, const double *x, const double *u, double *x2,
                           double *multipliers, double *info);

/* What the rollouts of a group share. */
typedef struct {
  const double *par, *dt;
  int each, n;
  ptrdiff_t apart;
  scalar_step step;
  void *scalar;
} plan;

/* Up to SM_LANES rollouts side by side; `count` has those that there are. Arguments as of sm_rollout_many; info[l] of a
 * lane that failed. */
static void roll(workspace *s, const plan *of, const real *par, int lanes, double *X, double *multipliers,
                 const double *U, int *done, int *status, double info[SM_LANES][3]) {
  const ptrdiff_t rows = (ptrdiff_t)(of->n + 1) * NX, forces = (ptrdiff_t)of->n * NC;
  real x[NX], u[AT_LEAST_ONE(NV)], pulls[AT_LEAST_ONE(NC)];
  const double *states[SM_LANES], *inputs[SM_LANES];
  double *after[SM_LANES], *pulled[SM_LANES];
  sm_flags count = first_lanes(lanes);
  for (int l = 0; l < SM_LANES; l++) {
    states[l] = X + (l < lanes ? l : 0) * rows;
  }
  gather(states, NX, x);
  for (int k = 0; k < of->n && sm_any(count); k++) {
    for (int l = 0; l < SM_LANES; l++) {
      const int j = l < lanes ? l : 0;
      inputs[l] = U + j * of->apart + (ptrdiff_t)k * NV;
      after[l] = X + j * rows + (ptrdiff_t)(k + 1) * NX;
      pulled[l] = multipliers + j * forces + (ptrdiff_t)k * NC;
    }
    if (of->apart || k == 0 || NV > 0) {
      gather(inputs, NV, u);
    }
    const double dt = of->dt[k * of->each];
    const arguments a = {par, x, u, SM_OF(dt)};
    const sm_flags solved = solve(s, &a, NULL, count);
    evaluate_first(s, &a);
    write_multipliers(s, &a, pulls);
    next_state(s, &a, x);
    scatter(x, NX, after, solved);
    scatter(pulls, NC, pulled, solved);
    for (int l = 0; l < lanes; l++) {
      if (count[l] && !solved[l]) {
        status[l] = of->step(of->scalar, of->par, dt, after[l] - NX, inputs[l], after[l], pulled[l], info[l]);
        if (status[l] != SM_OK) {
          info[l][2] = done[l] = k;
          count[l] = 0;
        }
        for (int i = 0; i < NX; i++) {
          x[i][l] = after[l][status[l] == SM_OK ? i : i - NX];
        }
      }
    }
  }
}

/* sm_rollout_many of trajectory.h, with the scalar library's sm_step and a workspace of its own. */
SM_EXPORT int sm_rollout_lanes(void *work, const double *par, const double *dt, int each, int m, int n, ptrdiff_t apart,
                               const double *U, double *X, double *multipliers, int *done, double *info,
                               scalar_step step, void *scalar) {
  const plan of = {par, dt, each, n, apart, step, scalar};
  real parameters[AT_LEAST_ONE(NP)];
  int worst = SM_OK;
  spread(par, parameters);
  for (int j = 0; j < m; j += SM_LANES) {
    const int lanes = m - j < SM_LANES ? m - j : SM_LANES;
    int status[SM_LANES] = {0};
    double own[SM_LANES][3] = {{0}};
    for (int l = 0; l < lanes; l++) {
      done[j + l] = n;
    }
    roll(work, &of, parameters, lanes, X + (ptrdiff_t)j * (n + 1) * NX, multipliers + (ptrdiff_t)j * n * NC,
         U + j * apart, done + j, status, own);
    for (int l = 0; l < lanes && worst == SM_OK; l++) {
      if (status[l] != SM_OK) {
        worst = status[l];
        memcpy(info, own[l], sizeof own[l]);
        info[3] = j + l;
      }
    }
  }
  return worst;
}

/* A and B of midpoint.c for the lanes that count. */
static void write_derivatives(const workspace *s, const double *dt, double *const A[SM_LANES],
                              double *const B[SM_LANES], sm_flags count) {
  for (int l = 0; l < SM_LANES; l++) {
    if (!count[l]) {
      continue;
    }
    memset(A[l], 0, sizeof(double) * NDX * NDX);
    memset(B[l], 0, sizeof(double) * NDX * NV);
    for (int i = 0; i < ND; i++) {
      double *const rows[] = {A[l] + i * NDX, B[l] + i * NV, A[l] + (NQ + i) * NDX, B[l] + (NQ + i) * NV};
      for (int j = 0; j < W_U; j++) {
        rows[0][j] = s->D[i * NWP + j][l];
        rows[2][j] = s->P[i * NWP + j][l];
      }
      for (int j = 0; j < NV; j++) {
        rows[1][j] = s->D[i * NWP + W_U + j][l];
        rows[3][j] = s->P[i * NWP + W_U + j][l];
      }
    }
    for (int k = 0; k < NK; k++) {
      B[l][(ND + k) * NV + NU + k] = 1.0;
      A[l][(NQ + ND + k) * NDX + W_RHO + k] = -1.0 / dt[l];
      B[l][(NQ + ND + k) * NV + NU + k] = 1.0 / dt[l];
    }
  }
}

/* sm_linearize_all of trajectory.h, with the scalar library's sm_linearize and a workspace of its own. */
SM_EXPORT int sm_linearize_lanes(void *work, const double *par, const double *dt, int each, int n, const double *X,
                                 const double *U, const double *guess, double *X2, double *A, double *B, double *info,
                                 scalar_linearize linearize, void *scalar) {
  workspace *s = work;
  real parameters[AT_LEAST_ONE(NP)], x[NX], u[AT_LEAST_ONE(NV)], near[NX], lengths = SM_OF(0.0);
  spread(par, parameters);
  for (int k = 0; k < n; k += SM_LANES) {
    const double *states[SM_LANES], *inputs[SM_LANES], *guesses[SM_LANES];
    double *after[SM_LANES], *as[SM_LANES], *bs[SM_LANES], own[SM_LANES];
    const int lanes = n - k < SM_LANES ? n - k : SM_LANES;
    for (int l = 0; l < SM_LANES; l++) {
      const ptrdiff_t i = k + (l < lanes ? l : 0);
      states[l] = X + i * NX;
      inputs[l] = U + i * NV;
      guesses[l] = guess ? guess + i * NX : NULL;
      after[l] = X2 + i * NX;
      as[l] = A + i * NDX * NDX;
      bs[l] = B + i * NDX * NV;
      lengths[l] = own[l] = dt[i * each];
    }
    gather(states, NX, x);
    gather(inputs, NV, u);
    if (guess) {
      gather(guesses, NX, near);
    }
    const arguments a = {parameters, x, u, lengths};
    sm_flags solved = solve(s, &a, guess ? near : NULL, first_lanes(lanes));
    solved = differentiate(s, &a, guess ? near : NULL, solved);
    next_state(s, &a, x);
    scatter(x, NX, after, solved);
    write_derivatives(s, own, as, bs, solved);
    for (int l = 0; l < lanes; l++) {
      if (!solved[l]) {
        const int status =
            linearize(scalar, par, own[l], states[l], inputs[l], guesses[l], after[l], as[l], bs[l], info);
        if (status != SM_OK) {
          info[2] = k + l;
          return status;
        }
      }
    }
  }
  return SM_OK;
}
