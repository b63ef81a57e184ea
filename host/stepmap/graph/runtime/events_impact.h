/* Jumps of the momentum at a place: L_v(qb, v) + D_q h^T Lam = p with speeds D h vb of the rows given, so that
 *   p2 = p - D_q h^T Lam.
 * First the closed rows take off their half of an impulse (Q_N of Pekarek's thesis, ch. 3), then gaps that are struck
 * close or bounce, and closed ones whose impulse would pull back open: a transition is no case of its own. */
#ifndef SM_EVENTS_IMPACT_H
#define SM_EVENTS_IMPACT_H

#include "events_active.h"

#define STILL 1e-9 /* m/s: a gap that was closed and closes this slowly has not opened */

/* M (Lvv) and the momentum (Lv) of the rates alone at x, and D h (Dh2). */
static void weigh(chain *e, const double *rate) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->u, e->dt};
  memcpy(s->qm, e->x, sizeof s->qm);
  memset(s->vm, 0, ND * sizeof(double));
  memcpy(s->vm + ND, rate, NK * sizeof(double));
  const double *const in[] = {s->qm, s->vm, e->given, e->par};
  double *const out[] = {s->Lq, s->Lv, s->F, s->Lqq, s->Lqv, s->Lvq, s->Lvv, s->Fq, s->Fv, s->Fu};
  sm_second(in, out, s->scratch);
  evaluate_constraints(s, &a, e->x, s->Dh2);
}

/* D h_c vb */
static double speed_of(const workspace *s, int c, const double *v, const double *rate) {
  double sum = 0.0;
  for (int i = 0; i < ND; i++) {
    sum += s->Dh2[c * NQ + i] * v[i];
  }
  for (int k = 0; k < NK; k++) {
    sum += s->Dh2[c * NQ + ND + k] * rate[k];
  }
  return sum;
}

static int factorize_jump(workspace *s, const int *rows) {
  memset(s->matrix, 0, sizeof s->matrix);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < ND; j++) {
      s->matrix[j * NZ + i] = s->Lvv[i * NA + j];
    }
  }
  for (int c = 0; c < NC; c++) {
    for (int i = 0; i < ND && rows[c]; i++) {
      s->matrix[(ND + c) * NZ + i] = s->matrix[i * NZ + ND + c] = s->Dh2[c * NQ + i];
    }
    if (!rows[c]) {
      s->matrix[(ND + c) * NZ + ND + c] = 1.0;
    }
  }
  return sm_lu(s->matrix, s->pivot, s->inverse, NZ);
}

/* v and Lam with the speeds of `rows`, after weigh. */
static int jump(workspace *s, const double *rate, const int *rows, const double *speeds, const double *p, double *v,
                double *lam) {
  const double still[ND] = {0};
  double z[NZ];
  if (factorize_jump(s, rows)) {
    return SM_SINGULAR;
  }
  for (int i = 0; i < ND; i++) {
    z[i] = p[i] - s->Lv[i];
  }
  for (int c = 0; c < NC; c++) {
    z[ND + c] = rows[c] ? speeds[c] - speed_of(s, c, still, rate) : 0.0;
  }
  sm_lu_solve(s->matrix, s->pivot, s->inverse, z, NZ);
  memcpy(v, z, ND * sizeof(double));
  memcpy(lam, z + ND, NC * sizeof(double));
  return SM_OK;
}

static void take_off(const workspace *s, const double *lam, double *p) {
  for (int i = 0; i < ND; i++) {
    double sum = 0.0;
    for (int c = 0; c < NC; c++) {
      sum += s->Dh2[c * NQ + i] * lam[c];
    }
    p[i] -= sum;
  }
}

/* The same with Lam >= 0 and speeds not above those given, for `touching` gaps; kept: first guess and result. */
static int jump_if_pushed(chain *e, const int *touching, const double *speeds, const double *p, int *kept, int *rows,
                          double *v, double *lam) {
  workspace *s = &e->s;
  int dropped[NC] = {0};
  for (int turn = 0; turn < 3 * NC + 3; turn++) {
    independent(s->Dh2, kept, -1, rows);
    if (jump(s, s->rate, rows, speeds, p, v, lam)) {
      return SM_SINGULAR;
    }
    double least = -1e-14;
    int worst = -1;
    for (int c = 0; c < NC; c++) {
      if (ROWS[c] == GAP && rows[c] && lam[c] * s->pull[c] < least) {
        least = lam[c] * s->pull[c];
        worst = c;
      }
    }
    if (worst >= 0) {
      kept[worst] = 0;
      dropped[worst]++;
    } else {
      double most = 1e-12;
      for (int c = 0; c < NC; c++) {
        const double above = touching[c] && !kept[c] ? (speed_of(s, c, v, s->rate) - speeds[c]) / s->pull[c] : 0.0;
        if (above > most && dropped[c] < 2) {
          most = above;
          worst = c;
        }
      }
      if (worst < 0) {
        return SM_OK;
      }
      kept[worst] = 1;
    }
    for (int c = 0; c < NC; c++) { /* a bounce leaves tangents alone */
      if (ROWS[c] == TANGENT) {
        kept[c] = kept[owner(c)] && speeds[owner(c)] == 0.0 && !dropped[owner(c)];
      }
    }
  }
  return SM_DIVERGED;
}

static stage *new_stage(chain *e, int is_jump, const int *rows, double time) {
  stage *g = e->stages + e->count++;
  g->jump = is_jump;
  g->event = -1;
  memcpy(g->rows, rows, sizeof g->rows);
  g->begin = time;
  g->length = 0.0;
  g->share = g->node = 0.0;
  memcpy(g->q1, e->x, sizeof g->q1);
  memcpy(g->p1, e->x + NQS, sizeof g->p1);
  return g;
}

static void keep_jump(chain *e, double time, const int *rows, const double *v1, const double *v2, const double *lam,
                      const double *bounce) {
  stage *g = new_stage(e, 1, rows, time);
  memcpy(g->q2, e->x, sizeof g->q2);
  memcpy(g->v1, v1, sizeof g->v1);
  memcpy(g->v2, v2, sizeof g->v2);
  memcpy(g->lam, lam, sizeof g->lam);
  memcpy(g->bounce, bounce, sizeof g->bounce);
  take_off(&e->s, lam, e->x + NQS);
}

/* Which gaps of `bounce` are back within a time step after the jump to p: they are closed instead. */
static int comes_back(chain *e, const int *rows, const double *p, const double *bounce, int *settled) {
  workspace *s = &e->s;
  double before[ND];
  int any = 0;
  memcpy(before, e->x + NQS, sizeof before);
  memcpy(e->x + NQS, p, sizeof before);
  for (int c = 0; c < NC; c++) {
    s->closed[c] = rows[c] && bounce[c] == 0.0;
  }
  if (segment(e, e->dt, 0, 0) == SM_OK) {
    look_ahead(e);
    for (int c = 0; c < NC; c++) {
      if (rows[c] && bounce[c] > 0.0 && s->h[c] > -LEAST * s->pull[c]) {
        settled[c] = any = 1;
      }
    }
  }
  memcpy(e->x + NQS, before, sizeof before);
  return any;
}

/* Size of the impulse along the plane of a contact that sticks; 0 where it slides or bounces. */
static double along_plane(const int *rows, const double *lam, int c) {
  double sum = 0.0;
  for (int t = c + 1; t < NC && ROWS[t] == TANGENT; t++) {
    sum += rows[t] ? lam[t] * lam[t] : 0.0;
  }
  return sqrt(sum);
}

/* Impacts: gaps with an impulse, and those that close with others whose impulses do for them, too. A closed gap that
 * others relieve is told as open by the segment that follows, if it is. One that was closed without a force, as
 * between bodies that fall together, is not held; it passes an impulse on, and nothing has struck it. */
static void log_impacts(chain *e, double time, const int *held, const int *rows, const double *speeds, const double *v1,
                        const double *v2, const double *p1, const double *lam) {
  const workspace *s = &e->s;
  double energy = 0.0, weight = 0.0;
  for (int i = 0; i < ND; i++) { /* L_v is affine in v */
    energy += 0.5 * (v1[i] - v2[i]) * (p1[i] + e->x[NQS + i]);
  }
  for (int c = 0; c < NC; c++) {
    weight += rows[c] && ROWS[c] == GAP && !held[c] ? lam[c] * speeds[c] : 0.0;
  }
  for (int c = 0; c < NC; c++) {
    const int still = e->shut[c] && fabs(speeds[c]) <= STILL * s->pull[c];
    if (ROWS[c] == GAP && !held[c] && !still && (rows[c] || (e->kept[c] && !e->shut[c]))) {
      const double part = rows[c] && weight > 0.0 ? lam[c] * speeds[c] / weight : 0.0;
      if (e->shut[c]) {
        log_event(e, c, RELEASE, time, 0.0, 0.0, 0.0);
      }
      log_event(e, c, IMPACT, time, rows[c] ? s->pull[c] * lam[c] : 0.0, part * energy, along_plane(rows, lam, c));
      e->shut[c] = 1;
    }
  }
}

/* The impact at x, after begin_segment: `held` rows were closed until now; touching gaps that approach are struck.
 * e->kept becomes what is closed afterwards. Without a gap that approaches nothing is done. */
static int strike(chain *e, double time, const int *held) {
  workspace *s = &e->s;
  const int first = e->count;
  double v1[ND], v2[ND], p[ND], lam[NC], speeds[NC], targets[NC] = {0}, bounce[NC] = {0};
  const double none[NC] = {0};
  int rows[NC], settled[NC] = {0}, any = 0;
  weigh(e, s->rate);
  independent(s->Dh2, held, -1, rows);
  if (jump(s, s->rate, rows, none, e->x + NQS, v1, lam)) {
    return SM_SINGULAR;
  }
  int striking[NC];
  for (int c = 0; c < NC; c++) {
    speeds[c] = speed_of(s, c, v1, s->rate);
    striking[c] = e->touch[c] && !held[c] && speeds[c] > 0.0;
    any |= striking[c];
  }
  if (!any) {
    memcpy(e->kept, held, sizeof e->kept);
    return SM_OK;
  }
  double begin[ND];
  memcpy(begin, e->x + NQS, sizeof begin);
  keep_jump(e, time, rows, v1, v1, lam, none);
  memcpy(p, e->x + NQS, sizeof p);
  for (;;) {
    for (int c = 0; c < NC; c++) {
      bounce[c] = striking[c] && !settled[c] ? fmax(0.0, restitution(e, c)) : 0.0;
      targets[c] = -bounce[c] * speeds[c];
      e->kept[c] = held[c] || striking[c] || ROWS[c] == EQUALITY;
    }
    for (int c = 0; c < NC; c++) {
      if (ROWS[c] == TANGENT) {
        e->kept[c] = e->kept[owner(c)] && targets[owner(c)] == 0.0;
      }
    }
    if (jump_if_pushed(e, e->touch, targets, p, e->kept, rows, v2, lam)) {
      return SM_SINGULAR;
    }
    int any_bounce = 0;
    for (int c = 0; c < NC; c++) {
      any_bounce |= rows[c] && bounce[c] > 0.0;
    }
    if (!any_bounce) {
      break;
    }
    double after[ND];
    memcpy(after, p, sizeof after);
    take_off(s, lam, after);
    if (!comes_back(e, rows, after, bounce, settled)) {
      weigh(e, s->rate);
      break;
    }
    weigh(e, s->rate);
  }
  int merged = 1; /* both jumps are one where none bounces and no row is let go */
  for (int c = 0; c < NC; c++) {
    merged = merged && !(rows[c] && bounce[c] > 0.0) && (!held[c] || rows[c]);
  }
  double lam1[NC];
  memcpy(lam1, lam, sizeof lam1);
  if (merged) {
    double w[ND];
    e->count = first;
    memcpy(e->x + NQS, begin, sizeof begin);
    if (jump(s, s->rate, rows, none, begin, w, lam1)) {
      return SM_SINGULAR;
    }
  }
  keep_jump(e, time, rows, v1, v2, lam1, bounce);
  log_impacts(e, time, held, rows, speeds, v1, v2, p, lam);
  for (int c = 0; c < NC; c++) { /* what bounces is open */
    e->kept[c] = e->kept[c] && bounce[c] == 0.0;
    e->shut[c] = e->shut[c] && bounce[c] == 0.0;
  }
  return SM_OK;
}

/* Whether a gap that opens at the begin of the step was closed before it: a body that was thrown was not. Its normal
 * momentum, with the rates before, is at most what the force of half a step takes away. */
static int was_closed(chain *e, int c, const double *x) {
  workspace *s = &e->s;
  double v[ND], now[NC], before[NC];
  const double none[NC] = {0};
  int wanted[NC], rows[NC];
  memcpy(wanted, e->kept, sizeof wanted);
  wanted[c] = 1;
  weigh(e, s->rate);
  independent(s->Dh2, wanted, c, rows);
  if (jump(s, s->rate, rows, none, x + NQS, v, now)) {
    return 0;
  }
  weigh(e, x + NQS + ND);
  if (jump(s, x + NQS + ND, rows, none, x + NQS, v, before)) {
    return 0;
  }
  return before[c] >= -1.0001 * fabs(e->rejected[c] - now[c]) - 1e-12;
}

#endif
