/* A step in the lanes of a vector, and what brings points into lanes and out of them. Included by units that are compiled
 * with SM_LANES. */
#include "model.h"
#include "segment.h"

#ifndef SM_LANES
#error "compile this with SM_IN_LANES"
#endif

/* The scalar library's function of one point; it takes the lanes that cannot go on beside others. */
typedef int (*scalar_linearize)(void *work, const double *par, double dt, const double *x, const double *u,
                                const double *guess, double *x2, double *A, double *B, double *info);

/* Solves the step in the lanes that count; returns those that are solved. */
static sm_flags solve(workspace *s, const arguments *a, const real *guess, sm_flags count) {
  for (int i = 0; i < NX; i++) {
    count &= sm_abs(a->x[i]) < INFINITY;
  }
  for (int i = 0; i < NV; i++) {
    count &= sm_abs(a->u[i]) < INFINITY;
  }
  start(s, a, guess);
  if (guess) { /* one that is not trusted after a turn is of no use */
    count = newton(s, a, NEAR, 1, count);
    return count & is_guess(s, a, guess);
  }
  count = newton(s, a, INFINITY, MAX_ITERATIONS, count);
  s->left = SM_OF(INFINITY);
  return count;
}

/* First derivatives in the lanes that count; returns those that have them. Where the guess was the solution, the matrix is
 * that of the guess, as at_solution has it: other lanes are evaluated at their solutions, all in one turn. */
static sm_flags differentiate(workspace *s, const arguments *a, const real *guess, sm_flags count) {
  const sm_flags same = s->left <= SAME;
  if (sm_any(count & ~same)) {
    real found[ND];
    memcpy(found, s->q2, sizeof found);
    for (int i = 0; i < ND && guess; i++) {
      s->q2[i] = sm_where(same, guess[i], found[i]);
    }
    evaluate_second(s, a);
    evaluate_constraints(s, a, s->q2, s->Dh2);
    count = factorize(s, a->dt, count);
    memcpy(s->q2, found, sizeof found);
  }
  differentiate_there(s, a);
  return count;
}

/* Rows of n numbers, one per lane, as n vectors. */
static inline void gather(const double *const from[SM_LANES], int n, real *to) {
  for (int i = 0; i < n; i++) {
    real all = SM_OF(0.0);
    for (int l = 0; l < SM_LANES; l++) {
      all[l] = from[l][i];
    }
    to[i] = all;
  }
}

/* The other way, for the lanes that count. */
static inline void scatter(const real *from, int n, double *const to[SM_LANES], sm_flags count) {
  for (int l = 0; l < SM_LANES; l++) {
    for (int i = 0; i < n && count[l]; i++) {
      to[l][i] = from[i][l];
    }
  }
}

static inline void spread(const double *par, real *to) {
  for (int i = 0; i < NP; i++) {
    to[i] = SM_OF(par[i]);
  }
}

static inline sm_flags first_lanes(int n) {
  sm_flags out = {0};
  for (int l = 0; l < SM_LANES; l++) {
    out[l] = -(l < n);
  }
  return out;
}

static inline sm_flags one_lane(int lane) {
  sm_flags out = {0};
  out[lane] = -1;
  return out;
}
