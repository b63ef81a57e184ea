/* The segment: the midpoint rule from (qb1, p1) under u over a length of time, with all its first derivatives.
 *
 * Every kind of step is made of segments: the smooth one is a segment of length dt. model.h defines the sizes
 *   ND dynamic, NK kinematic coordinates, NU forces, NC constraints, NP parameters,
 *   NA coordinates that L or F depend on (the dynamic ones first; ACTIVE lists them), SM_SCRATCH,
 * and the generated functions sm_first, sm_second, sm_con, sm_con2, sm_pull, with SM_CURVATURE sm_third, sm_con3, and
 * with SM_EXTENDED, which adds derivatives in the length and those of the multipliers, sm_pull1, sm_pull2; with
 * SM_PARAMETERS sm_slope and sm_conslope (segment_parameters.h).
 *
 * State x = [q, rho, p, v], input u = [forces, rho_next]. Unknowns z = [q2, lam], direct variables w = [x without v, u, dt].
 *   G_q = p + D1 Ld(qb1, qb2) + a dt F - D_q h(qb1)^T lam,   G_h = h(qb2),   p2 = D2 Ld(qb1, qb2) + (1 - a) dt F
 * with Ld = dt L at the midpoint and the part a of a force's impulse, FORCES_LEFT, that acts at the step's begin.
 * What is computed is p2 + G_q = p + dt (L_q + F) - D_q h(qb1)^T lam, the same where G vanishes: D2 Ld has terms of
 * order 1/dt that cancel, this form keeps conserved momenta to the last bit.
 *
 * With SM_GAPS, rows of h may be open (lam = 0 instead of h = 0) or tangents (h(qb2) = h(qb1)), and kinematic coordinates
 * move at a given rate; events.c has chains of such segments, with SM_PARAMETERS sm_speedslope (events_parameters.h).
 *
 * Functions return 0 or a negative code and leave their outputs untouched on failure. */
#ifndef SM_SEGMENT_H
#define SM_SEGMENT_H

#include "linalg.h"
#include "model.h"
#include "trig.h"
#ifdef SM_BALLS
#include "ball.h"
#endif

#include <stddef.h>

#define SM_ALIGNED __attribute__((aligned(64))) /* rows of such arrays begin where vectors do */
#define AT_LEAST_ONE(n) ((n) > 0 ? (n) : 1)
#define NQ (ND + NK)
#ifdef SM_BALLS
#define NQS (NQ + NB) /* stored numbers of qb: four of a ball that turns in three dimensions */
#else
#define NQS NQ
#endif
#define NX (NQS + ND + NK)
#define NDX (2 * ND + 2 * NK) /* tangent dimensions */
#define NV (NU + NK)          /* entries of the input u */
#define NZ (ND + NC)
#if defined(SM_EXTENDED) || defined(SM_GAPS)
#define NT 1 /* one more direct variable: the length */
#else
#define NT 0
#endif
#define NW (2 * ND + NK + NV + NT)
#if defined(SM_GAPS) && defined(SM_PARAMETERS)
#define NPAR (NP + 1 + NC) /* numbers in par, each with a column behind those of w */
#define NWP SM_PADDED(NW + NPAR)
#define W_PAR NW
#else
#define NPAR NP
#define NWP SM_PADDED(NW)
#endif
#define LEFT ((double)FORCES_LEFT)
#define NY (2 * NA + NU) /* arguments of the contracted third derivative */
#define NPP SM_PADDED(NP)

/* columns of w */
#define W_RHO ND
#define W_P NQ
#define W_U (NQ + ND)
#define W_NEXT (W_U + NU)
#define W_T (W_U + NV)

#define SM_EXPORT __attribute__((visibility("default")))

enum {
  SM_OK = 0,
  SM_NOT_FINITE = -1, /* an entry of x or u */
  SM_SINGULAR = -2,   /* the step's matrix has no inverse here */
  SM_DIVERGED = -3,   /* Newton's method did not converge */
};

enum { MAX_ITERATIONS = 60 };

#define NEAR 1e-9  /* a guess of the next state is used if it is the solution up to this, relative to its size */
#define SAME 1e-13 /* correction behind which the matrix from before it is that of the solution */

/* Arrays in the first part are written by generated functions only: those never store structural zeros, so the zeros
 * of a cleared workspace must stay. */
typedef struct {
  real Lq[ND], Lv[ND], F[ND];
  real Lqq[ND * NA], Lqv[ND * NA], Lvq[ND * NA], Lvv[ND * NA];
  real Fq[ND * NA], Fv[ND * NA], Fu[AT_LEAST_ONE(ND * NU)];
  real h[AT_LEAST_ONE(NC)], pull[AT_LEAST_ONE(NC)], Dh1[AT_LEAST_ONE(NC * NQ)], Dh2[AT_LEAST_ONE(NC * NQ)];
  real H1[AT_LEAST_ONE(NC ? NQ * NQ : 0)];
#ifdef SM_CURVATURE
  real H2[AT_LEAST_ONE(NC ? NQ * NQ : 0)], H3[AT_LEAST_ONE(NC ? NQ * NQ : 0)], J3[AT_LEAST_ONE(NC * NQ)];
  real S[NY * NY];
#endif
#if defined(SM_EXTENDED) || defined(SM_GAPS)
  real Dpull[AT_LEAST_ONE(NC * NQ)], Hpull[AT_LEAST_ONE(NC ? NQ * NQ : 0)];
#endif
#ifdef SM_GAPS
  real Dspeed[NC * NQ], Hspeed[NQ * NQ];
#endif
#ifdef SM_PARAMETERS
  real Lqt[AT_LEAST_ONE(ND * NP)], Lvt[AT_LEAST_ONE(ND * NP)], Ft[AT_LEAST_ONE(ND * NP)];
  real ht[AT_LEAST_ONE(NC * NP)], Jt[AT_LEAST_ONE(ND * NP)], St[AT_LEAST_ONE(NC * NP)];
#endif
  real scratch[AT_LEAST_ONE(SM_SCRATCH)];
  /* what follows is the runtime's own */
  real q1[NQS], q2[NQS], qm[NQS], vm[NQ], lam[AT_LEAST_ONE(NC)];
#ifdef SM_BALLS
  ball balls[NB];
  real Wq[ND * NA], Wv[ND * NA];                                 /* slopes of L_q + F in (qm, vm) */
  real Gq[ND * NA], Gv[ND * NA], G2[ND * NA];                    /* of G in (qm, vm), and by the second end */
  real Dz[AT_LEAST_ONE(NC * NQ)], Dw[AT_LEAST_ONE(NC * 3 * NB)]; /* of h(qb2) by z and by turns of qb1 */
#endif
#ifdef SM_GAPS
  real h1[NC], rate[AT_LEAST_ONE(NK)]; /* h at qb1; rates of the kinematic coordinates */
  int closed[NC];
#endif
  real left; /* the correction that followed on the matrix, relative to q2; infinite where there was another */
  real G[NZ], matrix[NZ * NZ], inverse[NZ];
  int pivot[NZ];
  real D[NZ * NWP] SM_ALIGNED; /* dz/dw */
  real P[ND * NWP] SM_ALIGNED; /* dp2/dw */
  real E[ND * NZ];             /* dp2/dz at fixed w */
#ifdef SM_PARAMETERS
  real Dt[AT_LEAST_ONE(NZ * NPP)], Pt[AT_LEAST_ONE(ND * NPP)]; /* dz and dp2 by the parameters */
#endif
#ifdef SM_CURVATURE
  real Z[NZ * NWP] SM_ALIGNED, H22[ND * ND];
  real C[NW * NWP] SM_ALIGNED; /* the result is its symmetric part */
#endif
} workspace;

typedef struct {
  const real *par, *x, *u;
  real dt;
} arguments;

#ifdef SM_GAPS
enum { EQUALITY = 0, GAP = 1, TANGENT = 2 };
static const int ROWS[NC] = ROW_KINDS;
#else
SM_EXPORT size_t sm_workspace_bytes(void) { return sizeof(workspace); }
#endif

#ifndef SM_LANES
static int all_finite(const double *values, int n) {
  for (int i = 0; i < n; i++) {
    if (!isfinite(values[i])) {
      return 0;
    }
  }
  return 1;
}
#endif

#ifdef SM_BALLS
static void to_midpoint(workspace *s, real dt) {
  static const int stored[NQ] = STORED_AT;
  for (int i = 0; i < NQ; i++) {
    if (stored[i] >= 0) {
      s->qm[stored[i]] = 0.5 * (s->q1[stored[i]] + s->q2[stored[i]]);
      s->vm[i] = (s->q2[stored[i]] - s->q1[stored[i]]) / dt;
    }
  }
  for (int n = 0; n < NB; n++) {
    const int at = BALL_Q[n];
    ball_moves(s->balls + n, s->q1 + at, dt, s->qm + at, s->q2 + at, s->vm + BALL_T[n]);
  }
#ifdef SM_GAPS
  memcpy(s->vm + ND, s->rate, NK * sizeof(real)); /* exact for the shortest segment, too */
#endif
}
#else
static void to_midpoint(workspace *s, real dt) {
  for (int i = 0; i < NQ; i++) {
    s->qm[i] = 0.5 * (s->q1[i] + s->q2[i]);
    s->vm[i] = (s->q2[i] - s->q1[i]) / dt;
  }
#ifdef SM_GAPS
  memcpy(s->vm + ND, s->rate, NK * sizeof(real)); /* exact for the shortest segment, too */
#endif
}
#endif

static void evaluate_first(workspace *s, const arguments *a) {
  const real *const in[] = {s->qm, s->vm, a->u, a->par};
  real *const out[] = {s->Lq, s->Lv, s->F};
  to_midpoint(s, a->dt);
  sm_first(in, out, s->scratch);
}

static void evaluate_second(workspace *s, const arguments *a) {
  const real *const in[] = {s->qm, s->vm, a->u, a->par};
  real *const out[] = {s->Lq, s->Lv, s->F, s->Lqq, s->Lqv, s->Lvq, s->Lvv, s->Fq, s->Fv, s->Fu};
  to_midpoint(s, a->dt);
  sm_second(in, out, s->scratch);
}

static void evaluate_constraints(workspace *s, const arguments *a, const real *q, real *jacobian) {
  if (NC > 0) {
    const real *const in[] = {q, a->par};
    real *const out[] = {s->h, jacobian};
    sm_con(in, out, s->scratch);
  }
}

/* (D_q h(qb1)^T lam)_i */
SM_INLINE real impulse(const workspace *s, int i) {
  real sum = SM_OF(0.0);
  for (int c = 0; c < NC; c++) {
    sum += s->Dh1[c * NQ + i] * s->lam[c];
  }
  return sum;
}

#ifdef SM_BALLS
#include "segment_balls.h"
#define FACTORIZE(s, a) factorize(s, a)
#else
#define FACTORIZE(s, a) factorize(s, (a)->dt)

/* The residual at q2, from L and F at the midpoint and h at q2. */
static void residual(workspace *s, const arguments *a) {
  const real *p = a->x + NQ;
  for (int i = 0; i < ND; i++) {
    s->G[i] = p[i] + 0.5 * a->dt * s->Lq[i] - s->Lv[i] + LEFT * a->dt * s->F[i] - impulse(s, i);
  }
  for (int c = 0; c < NC; c++) {
#ifdef SM_GAPS
    s->G[ND + c] = !s->closed[c] ? s->lam[c] : ROWS[c] == TANGENT ? s->h[c] - s->h1[c] : s->h[c];
#else
    s->G[ND + c] = s->h[c];
#endif
  }
}

/* d(D1 Ld + a dt F)/d qb2, row i, active column j */
SM_INLINE real newton_entry(const workspace *s, real dt, int i, int j) {
  const int k = i * NA + j;
  const real force = 0.5 * dt * s->Fq[k] + s->Fv[k];
  return 0.25 * dt * s->Lqq[k] + 0.5 * (s->Lqv[k] - s->Lvq[k]) - s->Lvv[k] / dt + LEFT * force;
}

/* G_z, by columns */
static void newton_matrix(workspace *s, real dt) {
  memset(s->matrix, 0, sizeof s->matrix);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < ND; j++) {
      s->matrix[j * NZ + i] = newton_entry(s, dt, i, j);
    }
    for (int c = 0; c < NC; c++) {
#ifdef SM_GAPS
      if (!s->closed[c]) {
        s->matrix[(ND + c) * NZ + ND + c] = SM_OF(1.0);
        continue;
      }
#endif
      s->matrix[(ND + c) * NZ + i] = -s->Dh1[c * NQ + i];
      s->matrix[i * NZ + ND + c] = s->Dh2[c * NQ + i];
    }
  }
}

#ifdef SM_LANES
/* The factors of G_z; returns the lanes that have them, of those that count. */
static sm_flags factorize(workspace *s, real dt, sm_flags count) {
  newton_matrix(s, dt);
  return sm_lu(s->matrix, s->inverse, NZ, count);
}
#else
static int factorize(workspace *s, double dt) {
  newton_matrix(s, dt);
  return sm_lu(s->matrix, s->pivot, s->inverse, NZ);
}

/* Largest relative change of q2 for a Newton correction; NaN counts as infinite. */
static double correction_size(const workspace *s, const double *dz) {
  double size = 0.0;
  for (int i = 0; i < ND; i++) {
    const double change = fabs(dz[i]) / (1.0 + fabs(s->q2[i]));
    if (!(change <= size)) {
      size = isfinite(change) ? change : INFINITY;
    }
  }
  return size;
}

static void apply(workspace *s, const double *dz, double fraction) {
  for (int i = 0; i < ND; i++) {
    s->q2[i] += fraction * dz[i];
  }
  for (int c = 0; c < NC; c++) {
    s->lam[c] += fraction * dz[ND + c];
  }
}
#endif /* SM_LANES */

#endif /* SM_BALLS */

static void correction(workspace *s, real *dz) {
  for (int i = 0; i < NZ; i++) {
    dz[i] = -s->G[i];
  }
  sm_lu_solve(s->matrix, s->pivot, s->inverse, dz, NZ);
}

#ifdef SM_LANES
#include "lanes_newton.h"
#else
/* Newton's method from the present q2, lam to rounding. Large systems keep a factorization while it contracts by ten a
 * turn: evaluating the residual is ten times cheaper than the matrix. `damped` halves a correction until the next one,
 * measured with the same matrix, is smaller (the affine invariant monotonicity test); it is tried when the plain
 * method fails. The first turn from rest is the predictor q + dt M^-1 p. A first correction larger than `trust` counts
 * as failure. */
static int newton(workspace *s, const arguments *a, double trust, int damped, int *iterations) {
  double dz[NZ], next[NZ];
  double before = INFINITY;
  int fresh = 1;
  for (int turn = 1; turn <= MAX_ITERATIONS; turn++) {
    *iterations += 1;
    if (fresh) {
      evaluate_second(s, a);
      evaluate_constraints(s, a, s->q2, s->Dh2);
      if (FACTORIZE(s, a)) {
        return SM_SINGULAR;
      }
    } else {
      evaluate_first(s, a);
      evaluate_constraints(s, a, s->q2, s->Dh2);
    }
    residual(s, a);
    correction(s, dz);
    const double size = correction_size(s, dz);
    if (!isfinite(size) || (turn == 1 && size > trust)) {
      return SM_DIVERGED;
    }
    apply(s, dz, 1.0);
    double fraction = 1.0;
    while (damped && size > 1e-8) {
      evaluate_first(s, a);
      evaluate_constraints(s, a, s->q2, s->Dh2);
      residual(s, a);
      correction(s, next);
      if (correction_size(s, next) <= (1.0 - 0.25 * fraction) * size) {
        break;
      }
      if (fraction < 1e-3) {
        return SM_DIVERGED;
      }
      apply(s, dz, -0.5 * fraction);
      fraction *= 0.5;
    }
    const double rate = size / before;
    const int newton_end = fresh && fraction == 1.0 && size <= 1e-9;           /* next: its square */
    const int chord_end = !fresh && rate < 0.5 && size * rate <= 1e-17;        /* next: smaller by the rate */
    const int floor_reached = size <= 1e-15 || (size <= 1e-11 && rate >= 0.5); /* rounding */
    if (newton_end || chord_end || floor_reached) {
      s->left = fresh ? size : INFINITY;
      return SM_OK;
    }
    const int slow = rate > 0.1 && size > 1e-11; /* below, it is rounding that a new matrix does not help */
    fresh = damped || NZ <= 8 || turn == 1 || slow;
    before = size;
  }
  return SM_DIVERGED;
}

#endif /* SM_LANES */

#ifndef SM_GAPS /* what follows is of steps of one segment */
#ifndef SM_BALLS
static void start(workspace *s, const arguments *a, const real *guess) {
  memcpy(s->q1, a->x, sizeof s->q1);
  memcpy(s->q2, guess ? guess : a->x, ND * sizeof(real));
  for (int k = 0; k < NK; k++) {
    s->q2[ND + k] = a->u[NU + k];
  }
  memset(s->lam, 0, sizeof s->lam); /* G is linear in lam: where it starts does not matter */
  evaluate_constraints(s, a, s->q1, s->Dh1);
}

static void next_state(const workspace *s, const arguments *a, real *x2) {
  real next[NX];
  memcpy(next, s->q2, NQ * sizeof(real));
  for (int i = 0; i < ND; i++) {
    next[NQ + i] = a->x[NQ + i] + a->dt * (s->Lq[i] + s->F[i]) - impulse(s, i);
  }
  for (int k = 0; k < NK; k++) {
    next[NQ + ND + k] = (s->q2[ND + k] - s->q1[ND + k]) / a->dt;
  }
  memcpy(x2, next, sizeof next);
}

#endif

/* Whether a solution found from a guess is that guess, momenta included: there may be others, which the map avoids. */
static sm_test is_guess(const workspace *s, const arguments *a, const real *guess) {
  real next[NX], off = SM_OF(0.0), size = SM_OF(0.0);
  next_state(s, a, next);
  for (int i = 0; i < NX; i++) {
    off = sm_fmax(off, sm_abs(next[i] - guess[i]));
    size = sm_fmax(size, sm_abs(guess[i]));
  }
  return off <= NEAR * (1.0 + size);
}

#ifndef SM_LANES
/* Solves the step; info = {iterations, residual}. On return qm, vm belong to the last correction but one. */
static int solve(workspace *s, const arguments *a, const double *guess, double *info) {
  int iterations = 0, status = SM_NOT_FINITE;
  info[0] = info[1] = 0.0;
  if (!all_finite(a->x, NX) || !all_finite(a->u, NV)) {
    return status;
  }
  start(s, a, guess);
  status = newton(s, a, guess ? NEAR : INFINITY, 0, &iterations);
  if (!guess) { /* derivatives go with the very state that a step ends in */
    s->left = INFINITY;
  } else if (status != SM_OK || !is_guess(s, a, guess)) {
    start(s, a, NULL);
    status = newton(s, a, INFINITY, 0, &iterations);
    s->left = INFINITY;
  }
  if (status != SM_OK) {
    start(s, a, NULL);
    status = newton(s, a, INFINITY, 1, &iterations);
    s->left = INFINITY;
  }
  info[0] = iterations;
  if (status != SM_OK) {
    double worst = 0.0;
    for (int i = 0; i < NZ; i++) {
      worst = fmax(worst, fabs(s->G[i]));
    }
    info[1] = worst;
  }
  return status;
}
/* L, F and h with their slopes and the factors of G_z at the solution, unless the last turn of Newton's method was there. */
static int at_solution(workspace *s, const arguments *a) {
  if (s->left <= SAME) {
    return SM_OK;
  }
  evaluate_second(s, a);
  evaluate_constraints(s, a, s->q2, s->Dh2);
  return FACTORIZE(s, a);
}
#endif /* SM_LANES */

/* Forces [N] along the constraints' gaps during the step, positive when they pull. */
static inline void write_multipliers(workspace *s, const arguments *a, real *multipliers) {
  if (NC > 0) {
    const real *const in[] = {s->q1, a->par};
    real *const out[] = {s->pull};
    sm_pull(in, out, s->scratch);
    for (int c = 0; c < NC; c++) {
      multipliers[c] = s->pull[c] * s->lam[c] / a->dt;
    }
  }
}

#ifndef SM_BALLS
/* d(dt (L_q + F))/d qb1 (sign -1) or d qb2 (sign 1), entry k of the arrays over active columns */
SM_INLINE real force_entry(const workspace *s, real dt, int k, double sign) {
  return 0.5 * dt * (s->Lqq[k] + s->Fq[k]) + sign * (s->Lqv[k] + s->Fv[k]);
}

#ifdef SM_EXTENDED
/* Columns of the length: qm stays, vm = (qb2 - qb1)/dt falls by vm/dt. */
static void differentiate_length(workspace *s, const arguments *a) {
  static const int active[NA] = ACTIVE;
  for (int i = 0; i < ND; i++) {
    real slope = 0.5 * s->Lq[i] + LEFT * s->F[i], momentum = s->Lq[i] + s->F[i];
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j;
      const real v = s->vm[active[j]];
      slope -= (0.5 * s->Lqv[k] - s->Lvv[k] / a->dt + LEFT * s->Fv[k]) * v;
      momentum -= (s->Lqv[k] + s->Fv[k]) * v;
    }
    s->D[i * NWP + W_T] = -slope;
    s->P[i * NWP + W_T] = momentum;
  }
}
#endif

/* D = dz/dw = -G_z^-1 G_w and E = dp2/dz, from what was evaluated and factorized at the solution; P = dp2/dw at fixed z. */
static void differentiate_unknowns(workspace *s, const arguments *a) {
  const real dt = a->dt;
  static const int active[NA] = ACTIVE;
  memset(s->D, 0, sizeof s->D);
  memset(s->P, 0, sizeof s->P);
  for (int i = 0; i < ND; i++) {
    real *dz = s->D + i * NWP, *dp = s->P + i * NWP;
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j, column = active[j];
      const real qq = 0.25 * dt * s->Lqq[k], vv = s->Lvv[k] / dt;
      const real force = 0.5 * dt * s->Fq[k] - s->Fv[k];
      dz[column] -= qq - 0.5 * (s->Lqv[k] + s->Lvq[k]) + vv + LEFT * force;
      dp[column] += force_entry(s, dt, k, -1.0);
      if (column >= ND) { /* the next kinematic value */
        dz[W_NEXT + column - ND] -= newton_entry(s, dt, i, j);
        dp[W_NEXT + column - ND] += force_entry(s, dt, k, 1.0);
      }
    }
    dz[W_P + i] -= 1.0;
    dp[W_P + i] += 1.0;
    for (int j = 0; j < NU; j++) {
      dz[W_U + j] -= LEFT * dt * s->Fu[i * NU + j];
      dp[W_U + j] += dt * s->Fu[i * NU + j];
    }
    for (int j = 0; j < ND; j++) {
      s->E[i * NZ + j] = force_entry(s, dt, i * NA + j, 1.0);
    }
    for (int c = 0; c < NC; c++) {
      s->E[i * NZ + ND + c] = -s->Dh1[c * NQ + i];
    }
  }
#ifdef SM_EXTENDED
  differentiate_length(s, a);
#endif
  if (NC > 0) {
    const real *const in[] = {s->q1, a->par, s->lam};
    real *const out[] = {s->H1};
    sm_con2(in, out, s->scratch);
    for (int i = 0; i < ND; i++) {
      for (int j = 0; j < NQ; j++) {
        s->D[i * NWP + j] += s->H1[i * NQ + j];
        s->P[i * NWP + j] -= s->H1[i * NQ + j];
      }
    }
    for (int c = 0; c < NC; c++) {
      for (int k = 0; k < NK; k++) {
        s->D[(ND + c) * NWP + W_NEXT + k] = -s->Dh2[c * NQ + ND + k];
      }
    }
  }
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->D, NZ, NWP);
}

/* The same with P = dp2/dw. */
static void differentiate_there(workspace *s, const arguments *a) {
  differentiate_unknowns(s, a);
  sm_multiply_add(s->P, 1.0, s->E, NZ, 1, s->D, ND, NZ, NWP);
}

#ifndef SM_LANES
static int differentiate(workspace *s, const arguments *a) {
  if (at_solution(s, a)) {
    return SM_SINGULAR;
  }
  differentiate_there(s, a);
  return SM_OK;
}
#endif

#endif /* SM_BALLS */

#endif /* SM_GAPS */

#endif
