/* The midpoint variational step of a model with gaps: a chain of segments, cut where a gap closes.
 *
 * Closed gaps are read from x, so the map is pure. On every segment an active set decides which stay closed; an open gap
 * that would be beyond its end cuts it at its root, the impact jumps the momentum, and the chain goes on. Without an
 * event the step is one segment, that of midpoint.c. */
#include "events.h"
#include "events_active.h"
#include "events_impact.h"
#include "model.h"

#define TINY fmin(1e-5 * e->dt, 1e-7) /* s: a rest this short, right after a jump, has no forces of constraints */

typedef struct {
  double time, node;       /* reached so far; end of the present part of the step, in parts of dt */
  int fresh, landed, done; /* closed gaps are read from the pose; p is tangent to them; the step's end is reached */
} progress;

/* Gaps with restitution that touch at a node and approach: they bounce, unless a bounce is back within a step. */
static int settle(chain *e, double time) {
  int held[NC], any = 0;
  for (int c = 0; c < NC; c++) {
    any |= e->touch[c] && restitution(e, c) > 0.0;
    held[c] = ROWS[c] == EQUALITY || (e->touch[c] && restitution(e, c) == 0.0);
  }
  if (!any) {
    return SM_OK;
  }
  /* Rows that do not bounce are held as far as they push; those that leave are not. */
  workspace *s = &e->s;
  double v[ND], lam[NC], p[ND];
  const double none[NC] = {0};
  int rows[NC], wanted[NC], kept[NC], shut[NC];
  add_tangents(e, held);
  memcpy(shut, e->shut, sizeof shut);
  memcpy(kept, held, sizeof kept);
  weigh(e, s->rate);
  if (jump_if_pushed(e, held, none, e->x + NQS, kept, rows, v, lam)) {
    return SM_SINGULAR;
  }
  memcpy(wanted, e->kept, sizeof wanted);
  memcpy(p, e->x + NQS, sizeof p);
  const int count = e->count, logged = e->logged;
  const int status = strike(e, time, rows);
  if (status != SM_OK) {
    return status;
  }
  int bounced = 0;
  for (int i = count; i < e->count; i++) {
    for (int c = 0; c < NC; c++) {
      bounced |= e->stages[i].rows[c] && e->stages[i].bounce[c] > 0.0;
    }
  }
  if (!bounced) { /* at rest: the segment's multipliers have it all */
    e->count = count;
    e->logged = logged;
    memcpy(e->shut, shut, sizeof shut);
    memcpy(e->x + NQS, p, sizeof p);
    memcpy(e->kept, wanted, sizeof wanted);
  }
  return SM_OK;
}

/* A segment of at most `length`, its gaps chosen; halved where it cannot be solved. */
static int cut_and_solve(chain *e, const progress *at, double *length, double *share, int whole) {
  int guess[NC], status = SM_DIVERGED;
  memcpy(guess, e->kept, sizeof guess);
  for (int cut = 0; cut < 9 && status != SM_OK; cut++) {
    if (cut > 0) {
      *length *= 0.5;
      *share *= 0.5;
    }
    memcpy(e->kept, guess, sizeof guess);
    memset(e->rejected, 0, sizeof e->rejected);
    if (at->landed && *length <= TINY) {
      memset(e->s.closed, 0, sizeof e->s.closed);
      status = segment(e, *length, whole && cut == 0, 0);
      look_ahead(e);
    } else {
      status = complementarity(e, *length, whole && cut == 0);
    }
  }
  return status;
}

/* The event that ends the segment: first root of a gap that was open. Returns its row, -1 where there is none. */
static int find_event(chain *e, double *length, int *status) {
  int hit = first_hit(e, 0.0);
  while (hit >= 0) {
    *status = locate(e, hit, *length, e->s.h[hit], length);
    if (*status != SM_OK) {
      return hit;
    }
    const int other = first_hit(e, LEAST);
    if (other < 0 || other == hit) {
      break;
    }
    hit = other;
  }
  return hit;
}

/* Gaps that the segment let go and that are open at its end; those that it closed without an impact. */
static void log_segment(chain *e, const progress *at, const double *x) {
  workspace *s = &e->s;
  for (int c = 0; c < NC; c++) {
    if (ROWS[c] == GAP && e->shut[c] && !e->kept[c] && s->h[c] < -TOUCH * s->pull[c]) {
      if (at->time > 0.0 || e->step > 0 || was_closed(e, c, x)) {
        log_event(e, c, RELEASE, at->time, 0.0, 0.0, e->rejected[c] * s->pull[c] / e->dt);
      }
      e->shut[c] = 0;
      look_ahead(e);
    } else if (ROWS[c] == GAP && !e->shut[c] && e->kept[c]) {
      log_event(e, c, IMPACT, at->time, 0.0, 0.0, 0.0);
      e->shut[c] = 1;
    }
  }
}

/* One segment and the impact at its end. */
static int advance(chain *e, progress *at, const double *x, double *multipliers) {
  workspace *s = &e->s;
  int status = SM_OK, held[NC], guess[NC];
  double share = 1.0, p2[ND];
  double length = at->time > 0.0 ? fmax(at->node * e->dt - at->time, 1e-14 * e->dt) : at->node * e->dt;
  memcpy(guess, e->kept, sizeof guess);
  status = cut_and_solve(e, at, &length, &share, at->node == 1.0);
  if (status != SM_OK) {
    return status;
  }
  const double whole_length = length / share;
  int hit = find_event(e, &length, &status);
  for (int again = 0; status == SM_OK && hit >= 0 && again < 4 && pulls_back(e, length) >= 0; again++) {
    memcpy(e->kept, guess, sizeof guess); /* cut short, a closed gap pulls back: what stays closed is chosen anew */
    memset(e->rejected, 0, sizeof e->rejected);
    share = length / whole_length;
    status = complementarity(e, length, 0);
    hit = status == SM_OK ? find_event(e, &length, &status) : -1;
  }
  if (status != SM_OK) {
    return status;
  }
  if (e->log) {
    log_segment(e, at, x);
  }
  stage *g = new_stage(e, 0, s->closed, at->time);
  g->event = hit;
  g->share = share;
  g->node = at->node;
  end_momentum(e, length, p2);
  keep_segment(s, g, length);
  for (int c = 0; c < NC; c++) {
    multipliers[c] += s->pull[c] * s->lam[c] / e->dt;
  }
  int near = hit >= 0;
  for (int c = 0; c < NC; c++) { /* a gap that ends this close will be read as closed: it is struck now */
    near |= is_gap(e, c) && !e->touch[c] && s->h[c] > -TOUCH * s->pull[c];
    held[c] = e->kept[c];
  }
  const int whole = hit < 0 && share == 1.0;
  at->time = whole ? at->node * e->dt : at->time + length;
  at->done = whole && at->node == 1.0;
  move_on(e, p2);
  at->landed = 0;
  at->fresh = !near;
  if (near) {
    const int count = e->count;
    begin_segment(e);
    status = strike(e, at->time, held);
    at->landed = e->count > count;
  }
  return status;
}

/* The step as stages; x2 without rates is in e->x at its end. */
static int solve_chain(chain *e, const double *par, double dt, const double *x, const double *u, double *multipliers) {
  workspace *s = &e->s;
  const double parts = par[NP];
  progress at = {0.0, 1.0, 1, 0, 0};
  e->par = par;
  e->given = u;
  e->dt = dt;
  e->count = e->iterations = 0;
  memcpy(e->x, x, sizeof e->x);
  memcpy(e->u, u, NU * sizeof(double));
  memset(multipliers, 0, NC * sizeof(double));
  memset(e->slips, 0, sizeof e->slips);
  if (!all_finite(x, NX) || !all_finite(u, NV)) {
    return SM_NOT_FINITE;
  }
  for (int k = 0; k < NK; k++) {
    s->rate[k] = (u[NU + k] - x[NQS - NK + k]) / dt;
  }
  for (int part = 1; !at.done;) {
    if (e->count >= MAX_STAGES - 4) {
      return SM_TOO_MANY;
    }
    begin_segment(e);
    if (at.fresh) {
      for (int c = 0; c < NC; c++) {
        if (e->count == 0 && is_gap(e, c) && s->h1[c] > BEYOND * s->pull[c]) {
          return SM_BEYOND;
        }
        e->kept[c] = ROWS[c] == EQUALITY || e->touch[c];
        if (e->count == 0) { /* a rollout knows what it told before; a step alone reads it from x */
          e->shut[c] = e->touch[c] && (e->step == 0 || e->shut[c]);
        }
      }
      add_tangents(e, e->kept);
      const int count = e->count, status = settle(e, at.time);
      if (status != SM_OK) {
        return status;
      }
      at.landed = e->count > count;
    }
    at.node = part == (int)parts ? 1.0 : part / parts;
    const int status = advance(e, &at, x, multipliers);
    if (status != SM_OK) {
      return status;
    }
    part += part < (int)parts && at.time >= at.node * dt;
  }
  return SM_OK;
}

SM_EXPORT int sm_step(void *work, const double *par, double dt, const double *x, const double *u, double *x2,
                      double *multipliers, double *info) {
  chain *e = work;
  double forces[NC];
  const int first = e->logged, status = solve_chain(e, par, dt, x, u, forces);
  info[0] = e->iterations;
  info[1] = 0.0;
  if (status != SM_OK) {
    for (int i = 0; i < NZ; i++) {
      info[1] = fmax(info[1], fabs(e->s.G[i]));
    }
    return status;
  }
  memcpy(e->x + NQS + ND, e->s.rate, NK * sizeof(double));
  memcpy(x2, e->x, sizeof e->x);
  memcpy(multipliers, forces, sizeof forces);
  if (e->modes) {
    for (int c = 0; c < NC; c++) {
      e->modes[(ptrdiff_t)e->step * NC + c] = (unsigned char)(ROWS[c] == GAP && e->shut[c]);
    }
  }
  if (e->expected) {
    count_events(e, first);
  }
  e->step++;
  return SM_OK;
}

#include "events_frozen.h"
#include "events_slopes.h"
#define SM_SENSITIVITY
#define SM_COMPARABLE same_events

#ifdef SM_PARAMETERS
/* The step with A, B and T = dx2/d(par) (NDX x NPAR), its order of events frozen. */
SM_EXPORT int sm_parameters(void *work, const double *par, double dt, const double *x, const double *u,
                            const double *guess, double *x2, double *A, double *B, double *T, double *info) {
  whole *w = work;
  const int status = sm_linearize(work, par, dt, x, u, guess, x2, A, B, info);
  if (status == SM_OK) {
    memset(T, 0, sizeof(double) * NDX * NPAR); /* the kinematic coordinates go where the input says */
    for (int i = 0; i < ND; i++) {
      memcpy(T + i * NPAR, w->d.q[i] + W_PAR, NPAR * sizeof(double));
      memcpy(T + (NQ + i) * NPAR, w->d.p[i] + W_PAR, NPAR * sizeof(double));
    }
  }
  return status;
}
#endif

#ifdef SM_CURVATURE /* without balls: theirs are differences of first derivatives */
#include "events_second.h"
#define SM_SECOND_SENSITIVITY
#endif
#include "trajectory.h"
