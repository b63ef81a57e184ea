/* Contracted second derivatives of a chain with its order of events frozen.
 *
 * The whole chain is one set of equations for all its unknowns: states and multipliers of segments, lengths up to
 * events, velocities of jumps. With the multipliers mu of these equations, found backwards stage by stage, the second
 * derivatives are the sum over stages of those of eta Y + mu G, carried to the direct variables by the slopes, found
 * forwards. */
#ifndef SM_EVENTS_SECOND_H
#define SM_EVENTS_SECOND_H

#include "events_slopes.h"

/* C += factor (a b^T + b a^T), as C whose symmetric part counts. */
static void add_pair(workspace *s, double factor, const double *a, const double *b) {
  for (int i = 0; i < NW; i++) {
    if (a[i] != 0.0) {
      add(s->C + i * NWP, 2.0 * factor * a[i], b);
    }
  }
}

/* C += T^T H T for the n rows of T. */
static void add_congruence(workspace *s, bends *b, const double *H, columns *T, int n) {
  memset(b->product, 0, (size_t)n * sizeof(columns));
  multiply(b->product, 1.0, H, n, T, n, n);
  for (int r = 0; r < n; r++) {
    for (int i = 0; i < NW; i++) {
      if (T[r][i] != 0.0) {
        add(s->C + i * NWP, T[r][i], b->product[r]);
      }
    }
  }
}

/* sum of weights_k rows_k */
static void combine(const double *weights, columns *rows, int n, double *to) {
  memset(to, 0, sizeof(columns));
  for (int k = 0; k < n; k++) {
    if (weights[k] != 0.0) {
      add(to, weights[k], rows[k]);
    }
  }
}

/* Multipliers of a segment's equations and costates of its begin, from those of its end; `nu` weighs the forces. */
static void segment_costates(chain *e, const stage *g, const double *nu, bends *b) {
  static const int active[NA] = ACTIVE;
  const workspace *s = &e->s;
  const double a = g->length;
  double dz[NZ], dp[ND], seed[NC], place[NQ] = {0}, by_length = 0.0;
  along_length(s, a, dz, dp);
  b->event = 0.0;
  for (int c = 0; c < NC; c++) {
    seed[c] = s->closed[c] ? nu[c] * s->pull[c] / e->dt : 0.0;
  }
  if (g->event >= 0) {
    double sum = g->eta_t;
    for (int i = 0; i < ND; i++) {
      sum += g->eta_q[i] * dz[i] + g->eta_p[i] * dp[i];
    }
    for (int c = 0; c < NC; c++) {
      sum += seed[c] * dz[ND + c];
    }
    b->event = -sum / closing_speed(s, g->event, dz);
  }
  for (int j = 0; j < ND; j++) {
    b->mu[j] = -g->eta_q[j] - (g->event >= 0 ? b->event * s->Dh2[g->event * NQ + j] : 0.0);
    for (int i = 0; i < ND; i++) {
      const int k = i * NA + j;
      b->mu[j] -= (0.5 * a * (s->Lqq[k] + s->Fq[k]) + s->Lqv[k] + s->Fv[k]) * g->eta_p[i];
    }
  }
  for (int c = 0; c < NC; c++) {
    b->mu[ND + c] = -seed[c];
    for (int i = 0; i < ND && s->closed[c]; i++) {
      b->mu[ND + c] += s->Dh1[c * NQ + i] * g->eta_p[i];
    }
  }
  sm_lu_solve_transposed(s->matrix, s->pivot, s->inverse, b->mu, NZ);

  memset(b->by_q, 0, sizeof b->by_q);
  memset(b->by_v, 0, sizeof b->by_v);
  for (int i = 0; i < ND; i++) {
    const double mu = b->mu[i], left = g->eta_p[i] + 0.5 * mu, force = g->eta_p[i] + LEFT * mu;
    b->direction[i] = g->eta_p[i] + mu;
    by_length += left * s->Lq[i] + force * s->F[i];
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j;
      b->by_q[j] += a * (left * s->Lqq[k] + force * s->Fq[k]) - mu * s->Lvq[k];
      b->by_v[j] += a * (left * s->Lqv[k] + force * s->Fv[k]) - mu * s->Lvv[k];
    }
    for (int j = 0; j < NQ; j++) {
      place[j] -= s->H1[i * NQ + j] * b->direction[i];
    }
  }
  for (int c = 0; c < NC; c++) {
    for (int j = 0; j < NQ; j++) {
      place[j] += nu[c] * s->lam[c] / e->dt * s->Dpull[c * NQ + j];
      place[j] -= s->closed[c] && ROWS[c] == TANGENT ? b->mu[ND + c] * s->Dh1[c * NQ + j] : 0.0;
    }
  }
  for (int k = 0; k < NK; k++) {
    b->by_end[k] = g->event >= 0 ? b->event * s->Dh2[g->event * NQ + ND + k] : 0.0;
    for (int c = 0; c < NC; c++) {
      b->by_end[k] += s->closed[c] ? b->mu[ND + c] * s->Dh2[c * NQ + ND + k] : 0.0;
    }
    b->by_place[k] = place[ND + k] + b->by_end[k];
    b->by_rate[k] = a * b->by_end[k];
    by_length += b->by_end[k] * s->rate[k];
  }
  for (int j = 0; j < NA; j++) {
    const int c = active[j];
    if (c < ND) {
      place[c] += 0.5 * b->by_q[j] - b->by_v[j] / a;
      by_length -= b->by_v[j] * s->vm[c] / a;
    } else {
      b->by_place[c - ND] += b->by_q[j];
      b->by_rate[c - ND] += 0.5 * a * b->by_q[j] + b->by_v[j];
      by_length += 0.5 * b->by_q[j] * s->rate[c - ND];
    }
  }
  memcpy(b->eta_q, place, sizeof b->eta_q);
  memcpy(b->eta_p, b->direction, sizeof b->eta_p);
  b->eta_t = g->eta_t - (g->event >= 0 ? 0.0 : g->share * (by_length + g->eta_t));
}

/* The same of a jump; direction is what D_q h^T Lam is contracted with. */
static int jump_costates(chain *e, const stage *g, bends *b) {
  static const int active[NA] = ACTIVE;
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->given, e->dt};
  const int none[NC] = {0}, struck = bounces(g);
  double place[NQ] = {0}, full[NQ], factors[NC];
  evaluate_constraints(s, &a, g->q1, s->Dh2);
  evaluate_at(e, g->q1, g->v2);
  memset(b->mu, 0, sizeof b->mu);
  memset(b->before, 0, sizeof b->before);
  memset(b->by_rate, 0, sizeof b->by_rate);
  for (int c = 0; c < NC; c++) {
    for (int i = 0; i < ND && g->rows[c]; i++) {
      b->mu[ND + c] += s->Dh2[c * NQ + i] * g->eta_p[i];
    }
  }
  if (factorize_jump(s, g->rows)) {
    return SM_SINGULAR;
  }
  sm_lu_solve(s->matrix, s->pivot, s->inverse, b->mu, NZ); /* symmetric */
  if (struck) {
    double z[NZ] = {0};
    if (factorize_jump(s, none)) {
      return SM_SINGULAR;
    }
    for (int c = 0; c < NC; c++) {
      for (int i = 0; i < ND; i++) {
        z[i] -= s->Dh2[c * NQ + i] * g->bounce[c] * b->mu[ND + c];
      }
    }
    sm_lu_solve(s->matrix, s->pivot, s->inverse, z, NZ);
    memcpy(b->before, z, sizeof b->before);
  }
  for (int i = 0; i < ND; i++) {
    b->direction[i] = b->mu[i] - g->eta_p[i];
    b->eta_p[i] = g->eta_p[i] - b->before[i] - b->mu[i];
  }
  const double *const in[] = {g->q1, e->par, g->lam};
  double *const out[] = {s->H1};
  sm_con2(in, out, s->scratch);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NQ; j++) {
      place[j] += s->H1[i * NQ + j] * b->direction[i];
    }
  }
  for (int after = 0; after < 2; after++) {
    const double *weights = after ? b->mu : b->before;
    if (!after && !struck) {
      continue;
    }
    evaluate_at(e, g->q1, after ? g->v2 : g->v1);
    for (int i = 0; i < ND; i++) {
      for (int j = 0; j < NA; j++) {
        const int k = i * NA + j, c = active[j];
        place[c] += weights[i] * s->Lvq[k];
        if (c >= ND) {
          b->by_rate[c - ND] += weights[i] * s->Lvv[k];
        }
      }
    }
    full_velocity(e, after ? g->v2 : g->v1, full);
    const double *const at[] = {g->q1, e->par, full};
    double *const slope[] = {s->Dspeed};
    sm_speed(at, slope, s->scratch);
    for (int c = 0; c < NC; c++) {
      factors[c] = (after ? 1.0 : g->bounce[c]) * b->mu[ND + c];
      for (int j = 0; j < NQ; j++) {
        place[j] += factors[c] * s->Dspeed[c * NQ + j];
      }
      for (int k = 0; k < NK; k++) {
        b->by_rate[k] += factors[c] * s->Dh2[c * NQ + ND + k];
      }
    }
  }
  for (int i = 0; i < ND; i++) {
    b->eta_q[i] = g->eta_q[i] + place[i];
  }
  memcpy(b->by_place, place + ND, NK * sizeof(double));
  b->eta_t = g->eta_t;
  return SM_OK;
}

/* Backwards: costates of the end of every stage, and those of the rates. */
static int chain_costates(chain *e, bends *b, const double *eta, const double *nu) {
  memcpy(b->eta_q, eta, sizeof b->eta_q);
  memcpy(b->eta_p, eta + NQ, sizeof b->eta_p);
  b->eta_t = 0.0;
  memcpy(b->rates, eta + NQ + ND, NK * sizeof(double));
  for (int n = e->count - 1; n >= 0; n--) {
    stage *g = e->stages + n;
    memcpy(g->eta_q, b->eta_q, sizeof g->eta_q);
    memcpy(g->eta_p, b->eta_p, sizeof g->eta_p);
    g->eta_t = b->eta_t;
    if (g->jump) {
      if (jump_costates(e, g, b)) {
        return SM_SINGULAR;
      }
    } else {
      if (load_segment(e, g)) {
        return SM_SINGULAR;
      }
      segment_costates(e, g, nu, b);
    }
    for (int k = 0; k < NK; k++) {
      b->eta_t += b->by_place[k] * e->s.rate[k];
      b->rates[k] += b->by_rate[k] + g->begin * b->by_place[k];
    }
  }
  return SM_OK;
}

static void contract(chain *e, const double *left, const double *right, const double *force) {
  workspace *s = &e->s;
  const double *const in[] = {s->qm, s->vm, e->given, e->par, left, right, force};
  double *const out[] = {s->S};
  sm_third(in, out, s->scratch);
}

/* rho = rho_0 + time rate, in the places of a stage. */
static void bend_of_places(chain *e, slopes *d, bends *b) {
  columns sum;
  combine(b->by_place, d->rate, NK, sum);
  add_pair(&e->s, 1.0, d->begun, sum);
}

/* H3 = Hess(m . D h direction), with J = D(D h direction) in Dspeed. */
static void bend_of_speed(chain *e, const double *q, const double *m, const double *direction) {
  workspace *s = &e->s;
  const double *const first[] = {q, e->par, direction}, *const second[] = {q, e->par, m, direction};
  double *const slope[] = {s->Dspeed}, *const out[] = {s->Hspeed};
  sm_speed(first, slope, s->scratch);
  sm_speed2(second, out, s->scratch);
}

static void forces_bend(chain *e, const double *nu, slopes *d, bends *b) {
  workspace *s = &e->s;
  const double dt = e->dt;
  double weights[NC];
  columns sum = {0}, time = {0};
  time[W_T] = 1.0;
  for (int c = 0; c < NC; c++) {
    columns along;
    weights[c] = nu[c] * s->lam[c] / dt;
    combine(s->Dpull + c * NQ, d->q1, NQ, along);
    add_pair(s, nu[c] / dt, d->lam[c], along);
    add(sum, nu[c] * s->pull[c] / dt, d->lam[c]);
    add(sum, weights[c], along);
    s->C[W_T * NWP + W_T] += 2.0 * weights[c] * s->pull[c] / (dt * dt);
  }
  add_pair(s, -1.0 / dt, time, sum);
  const double *const in[] = {s->q1, e->par, weights};
  double *const out[] = {s->Hpull};
  sm_pull2(in, out, s->scratch);
  add_congruence(s, b, s->Hpull, d->q1, NQ);
}

/* Adds what a segment bends, after its slopes. */
static void segment_bend(chain *e, const stage *g, const double *nu, slopes *d, bends *b) {
  static const int active[NA] = ACTIVE;
  workspace *s = &e->s;
  const double a = g->length;
  double left[ND], right[ND], force[ND], direction[NQ] = {0}, ends[NC], tangents[NC], grows[NY] = {0};
  columns sum;
  segment_costates(e, g, nu, b);
  for (int i = 0; i < ND; i++) {
    const double mu = b->mu[i], l = g->eta_p[i] + 0.5 * mu, f = g->eta_p[i] + LEFT * mu;
    left[i] = a * l;
    right[i] = -mu;
    force[i] = a * f;
    direction[i] = b->direction[i];
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j;
      grows[j] += l * s->Lqq[k] + f * s->Fq[k];
      grows[NA + j] += l * s->Lqv[k] + f * s->Fv[k];
    }
    for (int j = 0; j < NU; j++) {
      grows[2 * NA + j] += f * s->Fu[i * NU + j];
    }
  }
  contract(e, left, right, force);
  memcpy(b->y, d->qm, sizeof d->qm);
  memcpy(b->y + NA, d->vm, sizeof d->vm);
  for (int j = 0; j < NU; j++) {
    memset(b->y[2 * NA + j], 0, sizeof(columns));
    b->y[2 * NA + j][W_U + j] = 1.0;
  }
  add_congruence(s, b, s->S, b->y, NY);
  for (int j = 0; j < NA; j++) { /* vm = (q2 - q1)/length */
    grows[NA + j] -= active[j] < ND ? b->by_v[j] / a : 0.0;
  }
  combine(grows, b->y, NY, sum);
  for (int j = 0; j < NA; j++) { /* the rest of qm = rho + length rate/2, and ends rho + length rate */
    if (active[j] >= ND) {
      add(sum, 0.5 * b->by_q[j], d->rate[active[j] - ND]);
    }
  }
  for (int k = 0; k < NK; k++) {
    add(sum, b->by_end[k], d->rate[k]);
  }
  add_pair(s, 1.0, d->length, sum);
  bend_of_places(e, d, b);
  bend_of_speed(e, s->q1, s->lam, direction);
  for (int k = 0; k < NQ * NQ; k++) {
    s->Hspeed[k] = -s->Hspeed[k];
  }
  add_congruence(s, b, s->Hspeed, d->q1, NQ);
  for (int k = 0; k < NQ * NQ; k++) {
    s->Hspeed[k] = -s->Hspeed[k]; /* generated functions never write its structural zeros */
  }
  for (int c = 0; c < NC; c++) {
    ends[c] = (s->closed[c] ? b->mu[ND + c] : 0.0) + (c == g->event ? b->event : 0.0);
    tangents[c] = s->closed[c] && ROWS[c] == TANGENT ? -b->mu[ND + c] : 0.0;
    if (s->closed[c]) {
      combine(s->Dspeed + c * NQ, d->q1, NQ, sum);
      add_pair(s, -1.0, d->lam[c], sum);
    }
  }
  const double *const end[] = {s->q2, e->par, ends}, *const begin[] = {s->q1, e->par, tangents};
  double *const out[] = {s->H2};
  sm_con2(end, out, s->scratch);
  add_congruence(s, b, s->H2, d->q2, NQ);
  sm_con2(begin, out, s->scratch);
  add_congruence(s, b, s->H2, d->q1, NQ);
  forces_bend(e, nu, d, b);
}

/* One side of a jump: L_v(qb, v) contracted with weights, and speeds D h vb with factors. */
static void velocity_bend(chain *e, const stage *g, slopes *d, bends *b, const double *v, columns *dv,
                          const double *weights, const double *factors) {
  static const int active[NA] = ACTIVE;
  workspace *s = &e->s;
  const double none[ND] = {0};
  double full[NQ];
  columns sum;
  full_velocity(e, v, full);
  memcpy(s->qm, g->q1, sizeof s->qm);
  memcpy(s->vm, full, sizeof s->vm);
  contract(e, none, weights, none);
  memset(b->y, 0, sizeof b->y);
  for (int j = 0; j < NA; j++) {
    const int c = active[j];
    memcpy(b->y[j], d->q1[c], sizeof(columns));
    memcpy(b->y[NA + j], c < ND ? dv[c] : d->rate[c - ND], sizeof(columns));
  }
  add_congruence(s, b, s->S, b->y, NY);
  bend_of_speed(e, g->q1, factors, full);
  add_congruence(s, b, s->Hspeed, d->q1, NQ);
  const double *const in[] = {g->q1, e->par, factors};
  double *const out[] = {s->H2};
  sm_con2(in, out, s->scratch);
  for (int i = 0; i < NQ; i++) {
    combine(s->H2 + i * NQ, d->q1, NQ, sum);
    add_pair(s, 1.0, i < ND ? dv[i] : d->rate[i - ND], sum);
  }
}

static int jump_bend(chain *e, const stage *g, slopes *d, bends *b) {
  workspace *s = &e->s;
  double direction[NQ] = {0};
  columns sum;
  if (jump_costates(e, g, b)) {
    return SM_SINGULAR;
  }
  memcpy(direction, b->direction, sizeof b->direction);
  bend_of_places(e, d, b);
  bend_of_speed(e, g->q1, g->lam, direction);
  add_congruence(s, b, s->Hspeed, d->q1, NQ);
  for (int c = 0; c < NC; c++) {
    if (g->rows[c]) {
      combine(s->Dspeed + c * NQ, d->q1, NQ, sum);
      add_pair(s, 1.0, d->lam[c], sum);
    }
  }
  velocity_bend(e, g, d, b, g->v2, d->v2, b->mu, b->mu + ND);
  if (bounces(g)) {
    double factors[NC];
    for (int c = 0; c < NC; c++) {
      factors[c] = g->bounce[c] * b->mu[ND + c];
    }
    velocity_bend(e, g, d, b, g->v1, d->v1, b->before, factors);
  }
  return SM_OK;
}

/* C of the whole chain. */
static int chain_bend(whole *w, const double *nu) {
  chain *e = &w->e;
  columns sum, time = {0};
  memset(e->s.C, 0, sizeof e->s.C);
  begin_slopes(e, &w->d);
  for (int n = 0; n < e->count; n++) {
    const stage *g = e->stages + n;
    int status = g->jump ? jump_slopes(e, g, &w->d) : segment_slopes(e, g, &w->d);
    if (status != SM_OK) {
      return status;
    }
    if (g->jump) {
      status = jump_bend(e, g, &w->d, &w->b);
    } else {
      segment_bend(e, g, nu, &w->d, &w->b);
    }
    if (status != SM_OK) {
      return status;
    }
  }
  time[W_T] = 1.0;
  combine(w->b.rates, w->d.rate, NK, sum); /* rates (rho_next - rho)/dt */
  add_pair(&e->s, -1.0 / e->dt, time, sum);
  return SM_OK;
}

/* Second derivatives H (NS x NS) of eta . x2 + nu . multipliers in (x, u, dt). */
SM_EXPORT int sm_second_sensitivity(void *work, const double *par, double dt, const double *x, const double *u,
                                    const double *guess, const double *eta, const double *nu, double *H, double *info) {
  whole *w = work;
  double x2[NX], forces[NC];
  (void)guess;
  if (!all_finite(eta, NX) || !all_finite(nu, NC)) {
    info[0] = info[1] = 0.0;
    return SM_NOT_FINITE;
  }
  int status = sm_step(work, par, dt, x, u, x2, forces, info);
  if (status == SM_OK) {
    status = chain_costates(&w->e, &w->b, eta, nu);
  }
  if (status == SM_OK) {
    status = chain_bend(w, nu);
  }
  if (status == SM_OK) {
    const double *C = w->e.s.C;
    memset(H, 0, sizeof(double) * NS * NS);
    for (int i = 0; i < NW; i++) {
      double mean[NW] = {0};
      for (int j = 0; j < NW; j++) {
        mean[j] = 0.5 * (C[i * NWP + j] + C[j * NWP + i]);
      }
      widen(mean, H + (i < W_U ? i : i - W_U + NX) * NS);
    }
  }
  return status;
}

/* eta^T D^2 f: xx (NX x NX), xu (NX x NV), uu (NV x NV). */
SM_EXPORT int sm_curvature(void *work, const double *par, double dt, const double *x, const double *u,
                           const double *guess, const double *eta, double *xx, double *xu, double *uu, double *info) {
  const double none[NC] = {0};
  double H[NS * NS];
  const int status = sm_second_sensitivity(work, par, dt, x, u, guess, eta, none, H, info);
  if (status == SM_OK) {
    for (int i = 0; i < NX; i++) {
      memcpy(xx + i * NX, H + i * NS, NX * sizeof(double));
      memcpy(xu + i * NV, H + i * NS + NX, NV * sizeof(double));
    }
    for (int i = 0; i < NV; i++) {
      memcpy(uu + i * NV, H + (NX + i) * NS + NX, NV * sizeof(double));
    }
  }
  return status;
}

#endif
