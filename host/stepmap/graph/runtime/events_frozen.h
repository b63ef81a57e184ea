/* The map with the order of events of one point, at another point: what differences of first and second derivatives are
 * taken of. Across a closed gap the map itself has a corner: a shift opens it, or is beyond. */
#ifndef SM_EVENTS_FROZEN_H
#define SM_EVENTS_FROZEN_H

#include "events_slopes.h"

/* A segment from e->x with the rows of a stage, up to its event or over its share of the time that is left. */
static int segment_again(chain *e, stage *g, double *multipliers) {
  workspace *s = &e->s;
  double length = g->length, p2[ND];
  int status = SM_OK;
  recall_segment(s, g);
  if (g->event >= 0) {
    status = bordered(e, g->event, length + e->dt, &length);
  } else {
    length = g->share * (g->node * e->dt - g->begin);
  }
  if (status == SM_OK) {
    status = segment(e, length, g->event < 0 && g->share == 1.0 && g->node == 1.0, 1);
  }
  if (status != SM_OK) {
    return status;
  }
  end_momentum(e, length, p2);
  keep_segment(s, g, length);
  move_on(e, p2);
  for (int c = 0; c < NC; c++) {
    multipliers[c] += s->pull[c] * s->lam[c] / e->dt;
  }
  return SM_OK;
}

/* A jump at e->x with the rows and restitutions of a stage. */
static int jump_again(chain *e, stage *g) {
  workspace *s = &e->s;
  const int none[NC] = {0};
  double speeds[NC] = {0};
  weigh(e, s->rate);
  if (bounces(g)) {
    if (jump(s, s->rate, none, speeds, e->x + NQS, g->v1, g->lam)) {
      return SM_SINGULAR;
    }
    for (int c = 0; c < NC; c++) {
      g->bounce[c] = g->bounce[c] > 0.0 ? restitution(e, c) : 0.0;
      speeds[c] = -g->bounce[c] * speed_of(s, c, g->v1, s->rate);
    }
  }
  if (jump(s, s->rate, g->rows, speeds, e->x + NQS, g->v2, g->lam)) {
    return SM_SINGULAR;
  }
  memcpy(g->q2, e->x, sizeof g->q2);
  take_off(s, g->lam, e->x + NQS);
  return SM_OK;
}

/* x2, Y = d(x2)/d(x, u, dt) and M = d(multipliers)/d(x, u, dt) at (x, u) over dt with parameters par, with the order of
 * events of (x0, u0) over a length of dt0 with parameters par0. */
SM_EXPORT int sm_frozen(void *work, const double *par0, double dt0, const double *x0, const double *u0,
                        const double *par, double dt, const double *x, const double *u, double *x2, double *multipliers,
                        double *Y, double *M, double *info) {
  whole *w = work;
  chain *e = &w->e;
  double time = 0.0;
  int status = sm_step(work, par0, dt0, x0, u0, x2, multipliers, info);
  if (status != SM_OK) {
    return status;
  }
  e->par = par;
  e->given = u;
  e->dt = dt;
  memcpy(e->x, x, sizeof e->x);
  memcpy(e->u, u, NU * sizeof(double));
  memset(multipliers, 0, NC * sizeof(double));
  for (int k = 0; k < NK; k++) {
    e->s.rate[k] = (u[NU + k] - x[NQS - NK + k]) / dt;
  }
  for (int n = 0; n < e->count && status == SM_OK; n++) {
    stage *g = e->stages + n;
    begin_segment(e);
    g->begin = time;
    memcpy(g->q1, e->x, sizeof g->q1);
    memcpy(g->p1, e->x + NQS, sizeof g->p1);
    status = g->jump ? jump_again(e, g) : segment_again(e, g, multipliers);
    time += g->jump ? 0.0 : g->length;
  }
  if (status == SM_OK) {
    status = chain_slopes(e, &w->d);
  }
  if (status == SM_OK) {
    memcpy(x2, e->x, (NQS + ND) * sizeof(double));
    memcpy(x2 + NQS + ND, e->s.rate, NK * sizeof(double));
    write_slopes(&w->d, Y);
    for (int c = 0; c < NC; c++) {
      widen(w->d.forces[c], M + c * NS);
    }
  }
  return status;
}

#endif
