/* First derivatives of a chain with its order of events frozen: those of each stage by the begin of the stage, carried
 * along. The time of an event follows from h_j = 0, and what comes after is shorter by it (discrete saltation).
 *
 * Columns are the direct variables w = [q, rho, p, forces, rho_next, dt] of the step, and with SM_PARAMETERS all that
 * par has. */
#ifndef SM_EVENTS_SLOPES_H
#define SM_EVENTS_SLOPES_H

#include "events_impact.h"

#define NS (NDX + NV + 1) /* columns of the outputs: dx, u, dt */

typedef double columns[NWP];

typedef struct {
  columns begun;                           /* time at the begin of the present stage */
  columns q[ND], p[ND], time;              /* at the begin of a stage; at its end after it */
  columns rate[AT_LEAST_ONE(NK)];          /* of the kinematic coordinates */
  columns q1[NQ], q2[NQ], lam[NC], length; /* of the present stage */
  columns qm[NA], vm[NA], v1[ND], v2[ND];  /* midpoint of a segment; velocities of a jump */
  columns z[NZ], right[NZ];
  columns forces[NC]; /* of the multipliers that are told */
  double by_q[ND * NA], by_v[ND * NA], Hlam[NQ * NQ], Lvq1[ND * NA];
#ifdef SM_BALLS
  columns push[ND]; /* of a (L_q + F) */
#endif
} slopes;

#ifdef SM_CURVATURE
typedef struct {
  double eta_q[ND], eta_p[ND], eta_t;  /* costates at the begin of a stage */
  double mu[NZ], direction[ND], event; /* multipliers of its equations, and of h_j = 0 */
  double by_q[NA], by_v[NA];           /* slopes of the contracted function at the midpoint */
  double by_place[AT_LEAST_ONE(NK)], by_rate[AT_LEAST_ONE(NK)], by_end[AT_LEAST_ONE(NK)];
  double before[ND];              /* jump: multipliers of the velocity before */
  double rates[AT_LEAST_ONE(NK)]; /* costates of the rates, summed over stages */
  columns y[NY], product[NY > NQ ? NY : NQ];
} bends;
#endif

typedef struct {
  chain e;
  slopes d;
#ifdef SM_CURVATURE
  bends b;
#endif
} whole;

SM_EXPORT size_t sm_workspace_bytes(void) { return sizeof(whole); }

static void add(double *to, double factor, const double *from) {
  for (int j = 0; j < NWP; j++) {
    to[j] += factor * from[j];
  }
}

static void multiply(columns *to, double factor, const double *matrix, int width, columns *from, int rows, int inner) {
  for (int i = 0; i < rows; i++) {
    for (int k = 0; k < inner; k++) {
      const double m = matrix[i * width + k];
      if (m != 0.0) {
        add(to[i], factor * m, from[k]);
      }
    }
  }
}

static void begin_slopes(const chain *e, slopes *d) {
  memset(d, 0, sizeof *d);
  for (int i = 0; i < ND; i++) {
    d->q[i][i] = d->p[i][W_P + i] = 1.0;
  }
  for (int k = 0; k < NK; k++) {
    d->rate[k][W_NEXT + k] = 1.0 / e->dt;
    d->rate[k][W_RHO + k] = -1.0 / e->dt;
    d->rate[k][W_T] = -e->s.rate[k] / e->dt;
  }
}

/* Kinematic coordinates at a time since the step's begin, whose slope is given. */
static void kinematic_slopes(const chain *e, slopes *d, double time, const double *slope, columns *to) {
  for (int k = 0; k < NK; k++) {
    memset(to[k], 0, sizeof(columns));
    to[k][W_RHO + k] = 1.0;
    add(to[k], time, d->rate[k]);
    add(to[k], e->s.rate[k], slope);
  }
}

/* The stage's values in the workspace, with second derivatives of L at its midpoint and factors of its matrix. */
static int load_segment(chain *e, const stage *g) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->given, g->length};
  memcpy(s->q1, g->q1, sizeof s->q1);
  recall_segment(s, g);
  evaluate_second(s, &a);
  evaluate_constraints(s, &a, s->q1, s->Dh1);
  evaluate_constraints(s, &a, s->q2, s->Dh2);
  const double *const at[] = {s->q1, e->par}, *const in[] = {s->q1, e->par, s->lam};
  double *const out[] = {s->H1}, *const pull[] = {s->pull}, *const slope[] = {s->Dpull};
  sm_con2(in, out, s->scratch);
  sm_pull(at, pull, s->scratch);
  sm_pull1(at, slope, s->scratch);
  return FACTORIZE(s, &a);
}

/* dz/d(length) and dp2/d(length), z = (q2, lam), with all else at the begin of the segment held. */
static void along_length(const workspace *s, double length, double *dz, double *dp) {
  static const int active[NA] = ACTIVE;
  slope_of_length(s, length, dz);
  sm_lu_solve(s->matrix, s->pivot, s->inverse, dz, NZ);
#ifdef SM_BALLS
  memset(dp, 0, ND * sizeof(double)); /* of second derivatives, which are differences */
  (void)active;
#else
  for (int i = 0; i < ND; i++) {
    dp[i] = s->Lq[i] + s->F[i];
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j, c = active[j];
      const double qm = c < ND ? 0.5 * dz[c] : 0.5 * s->rate[c - ND];
      const double vm = c < ND ? (dz[c] - s->vm[c]) / length : 0.0;
      dp[i] += length * ((s->Lqq[k] + s->Fq[k]) * qm + (s->Lqv[k] + s->Fv[k]) * vm);
    }
    for (int c = 0; c < NC; c++) {
      dp[i] -= s->Dh1[c * NQ + i] * dz[ND + c];
    }
  }
#endif
}

/* d h_j/d(length) at the segment's end, with dz of along_length. */
static double closing_speed(const workspace *s, int j, const double *dz) {
  double dq[ND];
  to_end(s, dz, dq);
  return speed_of(s, j, dq, s->rate);
}

#include "events_parameters.h"

#ifdef SM_BALLS
#include "events_slopes_balls.h"
#else
#define is_turn(c) 0
#define turn_on(s, d, c, length)
/* Slopes of the segment's end from those of the unknowns. */
static void end_columns(const workspace *s, slopes *d, columns *z) {
  (void)s;
  memcpy(d->q2, z, ND * sizeof(columns));
}
#endif

/* right += factor d(D_q h^T lam) for a turn or shift of the place where D_q h (jacobian) is taken; its Hessian is in H1. */
static void impulse_slopes(const workspace *s, slopes *d, const double *jacobian, const double *lam, double factor,
                           columns *right) {
  multiply(right, factor, s->H1, NQ, d->q1, ND, NQ);
#ifdef SM_BALLS
  turn_impulses(d, jacobian, lam, factor, right);
#else
  (void)jacobian;
  (void)lam;
#endif
}

/* Right-hand sides -G_w of a segment with its length held. */
static void right_sides(chain *e, const stage *g, slopes *d) {
  static const int active[NA] = ACTIVE;
  const workspace *s = &e->s;
  const double a = g->length;
  memset(d->qm, 0, sizeof d->qm);
  memset(d->vm, 0, sizeof d->vm);
  memset(d->right, 0, sizeof d->right);
  for (int j = 0; j < NA; j++) {
    const int c = active[j];
    if (is_turn(c)) {
      continue;
    }
    add(d->qm[j], c < ND ? 0.5 : 1.0, d->q1[c]);
    if (c < ND) {
      add(d->vm[j], -1.0 / a, d->q1[c]);
    } else {
      add(d->qm[j], 0.5 * a, d->rate[c - ND]);
      add(d->vm[j], 1.0, d->rate[c - ND]);
    }
  }
#ifdef SM_BALLS
  turn_middle(s, d);
  memcpy(d->by_q, s->Gq, sizeof d->by_q);
  memcpy(d->by_v, s->Gv, sizeof d->by_v);
#else
  for (int k = 0; k < ND * NA; k++) {
    d->by_q[k] = 0.5 * a * s->Lqq[k] - s->Lvq[k] + LEFT * a * s->Fq[k];
    d->by_v[k] = 0.5 * a * s->Lqv[k] - s->Lvv[k] + LEFT * a * s->Fv[k];
  }
#endif
  multiply(d->right, -1.0, d->by_q, NA, d->qm, ND, NA);
  multiply(d->right, -1.0, d->by_v, NA, d->vm, ND, NA);
  impulse_slopes(s, d, s->Dh1, s->lam, 1.0, d->right);
  for (int i = 0; i < ND; i++) {
    add(d->right[i], -1.0, d->p[i]);
#ifndef SM_BALLS
    for (int j = 0; j < NU; j++) {
      d->right[i][W_U + j] -= LEFT * a * s->Fu[i * NU + j];
    }
#endif
  }
#ifdef SM_BALLS
  push_of_inputs(s, d, a);
#endif
  for (int c = 0; c < NC; c++) {
    if (s->closed[c]) {
      for (int k = 0; k < NK; k++) {
        add(d->right[ND + c], -s->Dh2[c * NQ + ND + k], d->q2[ND + k]);
      }
      if (ROWS[c] == TANGENT) {
        multiply(d->right + ND + c, 1.0, s->Dh1 + c * NQ, NQ, d->q1, 1, NQ);
      }
#ifdef SM_BALLS
      turn_row(s, d, c);
#endif
    }
  }
  add_parameters_to_segment(e, g, d);
}

/* The slope of the segment's length: from h_j = 0 where an event ends it, else by its share. d->q2 has what it would be
 * with the length held. */
static void slope_of_end(chain *e, const stage *g, slopes *d, const double *dz) {
  const workspace *s = &e->s;
  memset(d->length, 0, sizeof d->length);
  if (g->event >= 0) {
    const double speed = closing_speed(s, g->event, dz);
    multiply(&d->length, -1.0 / speed, s->Dh2 + g->event * NQ, NQ, d->q2, 1, NQ);
    add_parameters_to_end(s, g, d, speed);
  } else {
    add(d->length, -g->share, d->time);
    d->length[W_T] += g->share * g->node;
  }
}

#ifndef SM_BALLS
/* dp2: the direct part, then what the midpoint and the multipliers do. */
static void momentum_slopes(chain *e, const stage *g, slopes *d) {
  const workspace *s = &e->s;
  const double a = g->length;
  for (int k = 0; k < ND * NA; k++) {
    d->by_q[k] = a * (s->Lqq[k] + s->Fq[k]);
    d->by_v[k] = a * (s->Lqv[k] + s->Fv[k]);
  }
  multiply(d->p, 1.0, d->by_q, NA, d->qm, ND, NA);
  multiply(d->p, 1.0, d->by_v, NA, d->vm, ND, NA);
  multiply(d->p, -1.0, s->H1, NQ, d->q1, ND, NQ);
  for (int i = 0; i < ND; i++) {
    add(d->p[i], s->Lq[i] + s->F[i], d->length);
    for (int j = 0; j < NU; j++) {
      d->p[i][W_U + j] += a * s->Fu[i * NU + j];
    }
    for (int c = 0; c < NC; c++) {
      add(d->p[i], -s->Dh1[c * NQ + i], d->lam[c]);
    }
  }
  add_parameters_to_momentum(s, g, d);
}
#endif

/* Slopes of the forces that are told, sum of pull lam/dt. */
static void force_slopes(const chain *e, slopes *d) {
  const workspace *s = &e->s;
  for (int c = 0; c < NC; c++) {
    add(d->forces[c], s->pull[c] / e->dt, d->lam[c]);
    multiply(d->forces + c, s->lam[c] / e->dt, s->Dpull + c * NQ, NQ, d->q1, 1, NQ);
    d->forces[c][W_T] -= s->pull[c] * s->lam[c] / (e->dt * e->dt);
  }
}

static int segment_slopes(chain *e, const stage *g, slopes *d) {
  static const int active[NA] = ACTIVE;
  workspace *s = &e->s;
  double dz[NZ], dp[ND];
  if (load_segment(e, g)) {
    return SM_SINGULAR;
  }
  memcpy(d->begun, d->time, sizeof d->begun);
  memcpy(d->q1, d->q, sizeof d->q);
  kinematic_slopes(e, d, g->begin, d->time, d->q1 + ND);
  kinematic_slopes(e, d, g->begin + g->length, d->time, d->q2 + ND);
  right_sides(e, g, d);
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, d->right[0], NZ, NWP);
  end_columns(s, d, d->right);
  along_length(s, g->length, dz, dp);
  slope_of_end(e, g, d, dz);
  memcpy(d->z, d->right, sizeof d->z);
  for (int i = 0; i < NZ; i++) {
    add(d->z[i], dz[i], d->length);
  }
  end_columns(s, d, d->z);
  memcpy(d->lam, d->z + ND, sizeof d->lam);
  for (int k = 0; k < NK; k++) {
    add(d->q2[ND + k], s->rate[k], d->length);
  }
  for (int j = 0; j < NA; j++) {
    const int c = active[j];
    if (is_turn(c)) {
      turn_on(s, d, c, g->length);
    } else if (c < ND) {
      add(d->qm[j], 0.5, d->q2[c]);
      add(d->vm[j], 1.0 / g->length, d->q2[c]);
      add(d->vm[j], -s->vm[c] / g->length, d->length);
    } else {
      add(d->qm[j], 0.5 * s->rate[c - ND], d->length);
    }
  }
  momentum_slopes(e, g, d);
  force_slopes(e, d);
  memcpy(d->q, d->q2, sizeof d->q);
  add(d->time, 1.0, d->length);
  return SM_OK;
}

/* Second derivatives of L at a place and a velocity. */
static void evaluate_at(chain *e, const double *q, const double *v) {
  workspace *s = &e->s;
  memcpy(s->qm, q, sizeof s->qm);
  memcpy(s->vm, v, ND * sizeof(double));
  memcpy(s->vm + ND, s->rate, NK * sizeof(double));
  const double *const in[] = {s->qm, s->vm, e->given, e->par};
  double *const out[] = {s->Lq, s->Lv, s->F, s->Lqq, s->Lqv, s->Lvq, s->Lvv, s->Fq, s->Fv, s->Fu};
  sm_second(in, out, s->scratch);
}

static void full_velocity(const chain *e, const double *v, double *full) {
  memcpy(full, v, ND * sizeof(double));
  memcpy(full + ND, e->s.rate, NK * sizeof(double));
}

/* right += factor (d(L_v)/d(qb, rates)), with L_v's derivatives in the workspace, without that by the velocity. */
static void momentum_by_place(const chain *e, slopes *d, double factor, columns *right) {
  static const int active[NA] = ACTIVE;
  const workspace *s = &e->s;
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j, c = active[j];
      add(right[i], factor * s->Lvq[k], d->q1[c]);
      if (c >= ND) {
        add(right[i], factor * s->Lvv[k], d->rate[c - ND]);
      }
    }
  }
}

/* right_c += factor_c d(D h_c vb)/d(qb, rates) for a velocity. */
static void speed_by_place(chain *e, const stage *g, slopes *d, const double *v, const double *factors) {
  workspace *s = &e->s;
  double full[NQ];
  full_velocity(e, v, full);
  const double *const in[] = {g->q1, e->par, full};
  double *const out[] = {s->Dspeed};
  sm_speed(in, out, s->scratch);
  for (int c = 0; c < NC; c++) {
    if (g->rows[c] && factors[c] != 0.0) {
      multiply(d->right + ND + c, factors[c], s->Dspeed + c * NQ, NQ, d->q1, 1, NQ);
#ifdef SM_BALLS
      turn_speed(s, d, c, v, factors[c]);
#endif
      for (int k = 0; k < NK; k++) {
        add(d->right[ND + c], factors[c] * s->Dh2[c * NQ + ND + k], d->rate[k]);
      }
    }
  }
}

static int bounces(const stage *g) {
  for (int c = 0; c < NC; c++) {
    if (g->rows[c] && g->bounce[c] > 0.0) {
      return 1;
    }
  }
  return 0;
}

/* Slopes of the velocity before a jump. */
static int slopes_before(chain *e, const stage *g, slopes *d) {
  workspace *s = &e->s;
  const int none[NC] = {0};
  evaluate_at(e, g->q1, g->v1);
  if (factorize_jump(s, none)) {
    return SM_SINGULAR;
  }
  memset(d->z, 0, sizeof d->z);
  memcpy(d->z, d->p, sizeof d->p);
  momentum_by_place(e, d, -1.0, d->z);
  add_parameters_before_jump(e, g, d);
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, d->z[0], NZ, NWP);
  memcpy(d->v1, d->z, sizeof d->v1);
  return SM_OK;
}

static int jump_slopes(chain *e, const stage *g, slopes *d) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->given, e->dt};
  double minus[NC], against[NC];
  for (int c = 0; c < NC; c++) {
    minus[c] = -1.0;
    against[c] = -g->bounce[c];
  }
  evaluate_constraints(s, &a, g->q1, s->Dh2);
  memcpy(d->begun, d->time, sizeof d->begun);
  memcpy(d->q1, d->q, sizeof d->q);
  kinematic_slopes(e, d, g->begin, d->time, d->q1 + ND);
  memset(d->right, 0, sizeof d->right);
  if (bounces(g)) {
    if (slopes_before(e, g, d)) {
      return SM_SINGULAR;
    }
    speed_by_place(e, g, d, g->v1, against);
    for (int c = 0; c < NC; c++) {
      if (g->rows[c] && g->bounce[c] > 0.0) {
        multiply(d->right + ND + c, -g->bounce[c], s->Dh2 + c * NQ, NQ, d->v1, 1, ND);
      }
    }
  }
  evaluate_at(e, g->q1, g->v2);
  if (factorize_jump(s, g->rows)) {
    return SM_SINGULAR;
  }
  const double *const in[] = {g->q1, e->par, g->lam};
  double *const out[] = {s->H1};
  sm_con2(in, out, s->scratch);
  speed_by_place(e, g, d, g->v2, minus);
  momentum_by_place(e, d, -1.0, d->right);
  for (int i = 0; i < ND; i++) {
    add(d->right[i], 1.0, d->p[i]);
  }
  impulse_slopes(s, d, s->Dh2, g->lam, -1.0, d->right);
  add_parameters_to_jump(e, g, d);
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, d->right[0], NZ, NWP);
  memcpy(d->v2, d->right, sizeof d->v2);
  memcpy(d->lam, d->right + ND, sizeof d->lam);
  impulse_slopes(s, d, s->Dh2, g->lam, -1.0, d->p);
  add_parameters_behind_jump(s, d);
  for (int i = 0; i < ND; i++) {
    for (int c = 0; c < NC; c++) {
      if (g->rows[c]) {
        add(d->p[i], -s->Dh2[c * NQ + i], d->lam[c]);
      }
    }
  }
  return SM_OK;
}

static int chain_slopes(chain *e, slopes *d) {
  begin_slopes(e, d);
  for (int n = 0; n < e->count; n++) {
    const stage *g = e->stages + n;
    const int status = g->jump ? jump_slopes(e, g, d) : segment_slopes(e, g, d);
    if (status != SM_OK) {
      return status;
    }
  }
  return SM_OK;
}

/* Rows of Y = d(x2)/d(x, u, dt) from columns of w: v is no direct variable. */
static void widen(const double *from, double *to) {
  memset(to, 0, NS * sizeof(double));
  memcpy(to, from, W_U * sizeof(double));
  memcpy(to + NDX, from + W_U, (NV + 1) * sizeof(double));
}

static void write_slopes(const slopes *d, double *Y) {
  for (int i = 0; i < ND; i++) {
    widen(d->q[i], Y + i * NS);
    widen(d->p[i], Y + (NQ + i) * NS);
  }
  for (int k = 0; k < NK; k++) {
    columns next = {0};
    next[W_NEXT + k] = 1.0;
    widen(next, Y + (ND + k) * NS);
    widen(d->rate[k], Y + (NQ + ND + k) * NS);
  }
}

SM_EXPORT int sm_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                             const double *guess, double *x2, double *multipliers, double *Y, double *M, double *info) {
  whole *w = work;
  (void)guess;
  int status = sm_step(work, par, dt, x, u, x2, multipliers, info);
  if (status == SM_OK) {
    status = chain_slopes(&w->e, &w->d);
  }
  if (status == SM_OK) {
    write_slopes(&w->d, Y);
    for (int c = 0; c < NC; c++) {
      widen(w->d.forces[c], M + c * NS);
    }
  }
  return status;
}

SM_EXPORT int sm_linearize(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, double *x2, double *A, double *B, double *info) {
  whole *w = work;
  double forces[NC];
  (void)guess;
  int status = sm_step(work, par, dt, x, u, x2, forces, info);
  if (status == SM_OK) {
    status = chain_slopes(&w->e, &w->d);
  }
  if (status == SM_OK) {
    double Y[NDX * NS];
    write_slopes(&w->d, Y);
    for (int i = 0; i < NDX; i++) {
      memcpy(A + i * NDX, Y + i * NS, NDX * sizeof(double));
      memcpy(B + i * NV, Y + i * NS + NDX, NV * sizeof(double));
    }
  }
  return status;
}

#endif
