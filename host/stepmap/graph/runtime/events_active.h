/* Which gaps stay closed over a segment, lam >= 0 and h(qb2) <= 0, and where one that was open closes. */
#ifndef SM_EVENTS_ACTIVE_H
#define SM_EVENTS_ACTIVE_H

#include "events.h"

/* The closed gap that pulls back most, or -1. */
static int pulls_back(const chain *e, double length) {
  const workspace *s = &e->s;
  double least = -LEAST * length;
  int worst = -1;
  for (int c = 0; c < NC; c++) {
    if (ROWS[c] == GAP && s->closed[c] && s->lam[c] * s->pull[c] < least) {
      least = s->lam[c] * s->pull[c];
      worst = c;
    }
  }
  return worst;
}

/* The touching gap that opened to the wrong side most, or -1. */
static int violated(chain *e) {
  const workspace *s = &e->s;
  double most = LEAST;
  int worst = -1;
  look_ahead(e);
  for (int c = 0; c < NC; c++) {
    if (e->touch[c] && !(e->kept[c] && s->closed[c]) && s->h[c] > most * s->pull[c]) {
      most = s->h[c] / s->pull[c];
      worst = c;
    }
  }
  return worst;
}

static int try_rows(chain *e, double length, int at_node, int first) {
  add_tangents(e, e->kept);
  independent(e->s.Dh1, e->kept, first, e->s.closed);
  return segment(e, length, at_node, 0);
}

/* After a failure: one of the other gaps is exchanged for the one that came last. */
static int exchange(chain *e, double length, int at_node, int last) {
  for (int c = 0; c < NC; c++) {
    if (ROWS[c] == GAP && e->kept[c] && c != last) {
      e->kept[c] = 0;
      if (try_rows(e, length, at_node, last) == SM_OK) {
        return SM_OK;
      }
      e->kept[c] = 1;
    }
  }
  return SM_DIVERGED;
}

/* From none, the most violated gap first: the set stays independent. A foot that pulls back where it sticks and is
 * violated where it is open slides (with finite friction, it would slip). */
static int build_up(chain *e, double length, int at_node) {
  int last = -1, dropped[NC] = {0};
  for (int c = 0; c < NC; c++) {
    e->kept[c] = ROWS[c] == EQUALITY;
  }
  for (int turn = 0; turn < 4 * NC + 4; turn++) {
    int status = try_rows(e, length, at_node, last);
    if (status != SM_OK && last >= 0) {
      status = exchange(e, length, at_node, last);
    }
    if (status != SM_OK) {
      return status;
    }
    const int worst = pulls_back(e, length);
    if (worst >= 0) {
      e->kept[worst] = 0;
      dropped[worst] = 1;
      continue;
    }
    const int back = violated(e);
    if (back < 0) {
      return SM_OK;
    }
    e->slips[back] = dropped[back] && has_tangents(back);
    e->kept[back] = 1;
    last = back;
    for (int c = 0; c < NC; c++) {
      if (e->kept[c] && !e->s.closed[c] && ROWS[c] == GAP && c != back) {
        e->kept[c] = 0;
      }
    }
  }
  return SM_DIVERGED;
}

/* The segment with e->kept as first guess of what stays closed, and as result. */
static int complementarity(chain *e, double length, int at_node) {
  memset(e->slips, 0, sizeof e->slips);
  for (int turn = 0; turn < NC + 2; turn++) {
    if (try_rows(e, length, at_node, -1) != SM_OK) {
      break;
    }
    const int worst = pulls_back(e, length);
    if (worst >= 0) {
      e->rejected[worst] = e->s.lam[worst];
      e->kept[worst] = 0;
      continue;
    }
    const int back = violated(e);
    if (back < 0) {
      return SM_OK;
    }
    if (e->rejected[back] < 0.0 || e->kept[back]) {
      break; /* it was let go and came back */
    }
    e->kept[back] = 1;
  }
  return build_up(e, length, at_node);
}

/* -dz/d(length), the right-hand side, at the present point: kinematic coordinates move at their rate. */
static void slope_of_length(const workspace *s, double length, double *slope) {
  static const int active[NA] = ACTIVE;
#ifdef SM_BALLS
  double push[ND];
  for (int i = 0; i < ND; i++) {
    push[i] = s->Lq[i] + s->F[i];
  }
  momentum_share(s, 1.0, 1.0, push);
#endif
  for (int i = 0; i < ND; i++) {
#ifdef SM_BALLS
    double sum = push[i];
#else
    double sum = 0.5 * s->Lq[i] + LEFT * s->F[i];
#endif
    for (int j = 0; j < NA; j++) {
      const int k = i * NA + j, c = active[j];
#ifdef SM_BALLS
      const double by_q = s->Gq[k], by_v = s->Gv[k];
#else
      const double by_q = 0.5 * length * s->Lqq[k] - s->Lvq[k] + LEFT * length * s->Fq[k];
      const double by_v = 0.5 * length * s->Lqv[k] - s->Lvv[k] + LEFT * length * s->Fv[k];
#endif
      sum += c < ND ? -by_v * s->vm[c] / length : 0.5 * by_q * s->rate[c - ND];
    }
    slope[i] = -sum;
  }
  for (int c = 0; c < NC; c++) {
    double sum = 0.0;
    for (int k = 0; k < NK && s->closed[c]; k++) {
      sum += s->Dh2[c * NQ + ND + k] * s->rate[k];
    }
    slope[ND + c] = -sum;
  }
}

/* Newton's method on (q2, lam, length) with h_j = 0; the length stays between 0 and high. */
static int bordered(chain *e, int j, double high, double *length) {
  workspace *s = &e->s;
  double at = *length;
  for (int turn = 0; turn < 12; turn++) {
    const arguments a = {e->par, e->x, e->u, at};
    double dz[NZ], da[NZ], by_z[ND], by_length[ND], slope = 0.0;
    e->iterations++;
    for (int k = 0; k < NK; k++) {
      s->q2[NQS - NK + k] = s->q1[NQS - NK + k] + at * s->rate[k];
    }
    evaluate_second(s, &a);
    look_ahead(e);
    if (FACTORIZE(s, &a)) {
      return SM_SINGULAR;
    }
    residual(s, &a);
    correction(s, dz);
    slope_of_length(s, at, da);
    sm_lu_solve(s->matrix, s->pivot, s->inverse, da, NZ);
    to_end(s, dz, by_z);
    to_end(s, da, by_length);
    double gap = s->h[j];
    for (int i = 0; i < ND; i++) {
      gap += s->Dh2[j * NQ + i] * by_z[i];
      slope += s->Dh2[j * NQ + i] * by_length[i];
    }
    for (int k = 0; k < NK; k++) {
      slope += s->Dh2[j * NQ + ND + k] * s->rate[k];
    }
    double next = at - gap / slope;
    if (!isfinite(next)) {
      return SM_SINGULAR;
    }
    if (!(next > 0.0 && next < high)) {
      next = 0.5 * (at + (next <= 0.0 ? 0.0 : high));
    }
    const double size = correction_size(s, dz), change = next - at;
    for (int i = 0; i < NZ; i++) {
      dz[i] += change * da[i];
    }
    apply(s, dz, 1.0);
    at = next;
    if (size <= 1e-9 && fabs(change) <= 1e-9 * high) { /* next: its square */
      *length = at;
      return SM_OK;
    }
  }
  return SM_DIVERGED;
}

/* q2 on the chord from q1 to it. */
static void shorten(workspace *s, double at, double high) {
#ifdef SM_BALLS
  static const int stored[NQ] = STORED_AT;
  for (int i = 0; i < ND; i++) {
    if (stored[i] >= 0) {
      s->q2[stored[i]] = s->q1[stored[i]] + (s->q2[stored[i]] - s->q1[stored[i]]) * at / high;
    }
  }
  for (int n = 0; n < NB; n++) {
    for (int i = 0; i < 3; i++) {
      s->balls[n].t[i] *= at / high;
    }
  }
#else
  for (int i = 0; i < ND; i++) {
    s->q2[i] = s->q1[i] + (s->q2[i] - s->q1[i]) * at / high;
  }
#endif
}

/* The segment up to the root of h_j, which is below 0 at its begin and `beyond` > 0 at the length `high`. */
static int locate(chain *e, int j, double high, double beyond, double *length) {
  workspace *s = &e->s;
  double at = high * s->h1[j] / (s->h1[j] - beyond);
  shorten(s, at, high);
  if (bordered(e, j, high, &at) == SM_OK && segment(e, at, 0, 1) == SM_OK) {
    look_ahead(e);
    if (fabs(s->h[j]) <= 1e-10 * s->pull[j]) {
      *length = at;
      return SM_OK;
    }
  }
  double low = 0.0, below = s->h1[j], above = beyond; /* false position; every eighth turn halves */
  for (int turn = 1; turn <= 100; turn++) {
    at = (low * above - high * below) / (above - below);
    if (!(at > low && at < high) || turn % 8 == 0) {
      at = 0.5 * (low + high);
    }
    const int status = segment(e, at, 0, 0);
    if (status != SM_OK) {
      return status;
    }
    look_ahead(e);
    if (fabs(s->h[j]) <= 1e-15 * s->pull[j] || high - low < 1e-16) {
      break;
    }
    if (s->h[j] > 0.0) {
      high = at;
      above = s->h[j];
      below *= 0.5;
    } else {
      low = at;
      below = s->h[j];
      above *= 0.5;
    }
  }
  *length = at;
  return SM_OK;
}

/* The open gap that is beyond at the segment's end by more than `least` and was reached first by the chord, or -1. */
static int first_hit(const chain *e, double least) {
  const workspace *s = &e->s;
  double when = INFINITY;
  int hit = -1;
  for (int c = 0; c < NC; c++) {
    if (is_gap(e, c) && !e->touch[c] && s->h[c] > least * s->pull[c]) {
      const double guess = s->h1[c] / (s->h1[c] - s->h[c]);
      if (guess < when) {
        when = guess;
        hit = c;
      }
    }
  }
  return hit;
}

#endif
