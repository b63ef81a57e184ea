/* First derivatives of a chain whose places have balls: their part in the functions of events_slopes.h.
 *
 * Columns of a ball are turns about the child's axes, at the begin, in the middle or at the end of the segment; those
 * of the unknown z are of t. A gradient g by turns has the slope H + g^/2 where H is its chart's Hessian. */
#ifndef SM_EVENTS_SLOPES_BALLS_H
#define SM_EVENTS_SLOPES_BALLS_H

static int is_turn(int c) {
  static const int stored[NQ] = STORED_AT;
  return stored[c] < 0;
}

/* to (3 rows) += factor A from, or A^T from: a step of one along A's rows is `right` */
static void add_turned(columns *to, double factor, const double *A, int down, int right, columns *from) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      add(to[i], factor * A[i * down + j * right], from[j]);
    }
  }
}

/* to (3 rows) += factor a x from */
static void add_cross(columns *to, double factor, const double *a, columns *from) {
  double hat[9] = {0};
  add_hat(hat, 3, 1.0, a);
  add_turned(to, factor, hat, 3, 1, from);
}

/* What the chart's Hessian in impulse_slopes leaves out: half of g x turn for g = D_q h^T lam. */
static void turn_impulses(slopes *d, const double *jacobian, const double *lam, double factor, columns *right) {
  for (int n = 0; n < NB; n++) {
    double g[3] = {0};
    for (int c = 0; c < NC; c++) {
      for (int i = 0; i < 3; i++) {
        g[i] += jacobian[c * NQ + BALL_T[n] + i] * lam[c];
      }
    }
    add_cross(right + BALL_T[n], 0.5 * factor, g, d->q1 + BALL_T[n]);
  }
}

/* Turns of the middle by those of the begin. */
static void turn_middle(const workspace *s, slopes *d) {
  for (int n = 0; n < NB; n++) {
    add_turned(d->qm + BALL_T[n], 1.0, s->balls[n].H, 1, 3, d->q1 + BALL_T[n]);
  }
}

/* -d(a/2 (1 + t^) F)/du */
static void push_of_inputs(const workspace *s, slopes *d, double length) {
  double by_input[ND];
  for (int j = 0; j < NU; j++) {
    for (int i = 0; i < ND; i++) {
      by_input[i] = s->Fu[i * NU + j];
    }
    momentum_share(s, length, 1.0, by_input);
    for (int i = 0; i < ND; i++) {
      d->right[i][W_U + j] -= by_input[i];
    }
  }
}

/* -d h_c(qb2) by the turns of the begin, with t held. */
static void turn_row(const workspace *s, slopes *d, int c) {
  for (int n = 0; n < NB; n++) {
    multiply(d->right + ND + c, -1.0, s->Dw + (c * NB + n) * 3, 3, d->q1 + BALL_T[n], 1, 3);
  }
}

/* Slopes of the segment's end from those of the unknowns. */
static void end_columns(const workspace *s, slopes *d, columns *z) {
  memcpy(d->q2, z, ND * sizeof(columns));
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    columns *turn = d->q2 + BALL_T[n];
    memset(turn, 0, 3 * sizeof(columns));
    add_turned(turn, 1.0, b->N, 3, 1, z + BALL_T[n]);
    add_turned(turn, 1.0, b->I, 1, 3, d->q1 + BALL_T[n]);
  }
}

/* One dimension of a ball, of the middle's turn and rate: what t and the length do. */
static void turn_on(const workspace *s, slopes *d, int c, double length) {
  for (int n = 0; n < NB; n++) {
    const int i = c - BALL_T[n];
    if (i < 0 || i > 2) {
      continue;
    }
    for (int j = 0; j < 3; j++) {
      add(d->qm[c], s->balls[n].K[3 * i + j], d->z[BALL_T[n] + j]);
      add(d->vm[c], s->balls[n].X[3 * i + j] / length, d->z[BALL_T[n] + j]);
    }
    add(d->vm[c], -s->vm[c] / length, d->length);
  }
}

/* What the chart's Hessian leaves out of d(D h_c v): half of (v x D h_c) . turn. */
static void turn_speed(const workspace *s, slopes *d, int c, const double *v, double factor) {
  for (int n = 0; n < NB; n++) {
    double half[3];
    cross(v + BALL_T[n], s->Dh2 + c * NQ + BALL_T[n], half);
    multiply(d->right + ND + c, 0.5 * factor, half, 3, d->q1 + BALL_T[n], 1, 3);
  }
}

static void impulse_slopes(const workspace *s, slopes *d, const double *jacobian, const double *lam, double factor,
                           columns *right);

/* dp2 of p2 = inc^T (p1 - D_q h^T lam) + h^T a (L_q + F). */
static void momentum_slopes(chain *e, const stage *g, slopes *d) {
  const workspace *s = &e->s;
  const double a = g->length;
  impulse_slopes(s, d, s->Dh1, s->lam, -1.0, d->p);
  memset(d->push, 0, sizeof d->push);
  multiply(d->push, a, s->Wq, NA, d->qm, ND, NA);
  multiply(d->push, a, s->Wv, NA, d->vm, ND, NA);
  add_parameters_to_momentum(s, g, d);
  for (int i = 0; i < ND; i++) {
    add(d->push[i], s->Lq[i] + s->F[i], d->length);
    for (int j = 0; j < NU; j++) {
      d->push[i][W_U + j] += a * s->Fu[i * NU + j];
    }
    for (int c = 0; c < NC; c++) {
      add(d->p[i], -s->Dh1[c * NQ + i], d->lam[c]);
    }
    if (!is_turn(i)) {
      add(d->p[i], 1.0, d->push[i]);
    }
  }
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    const int at = BALL_T[n];
    columns p[3], *turned = d->p + at, *z = d->z + at, by_end[3], by_middle[3];
    double left[3], pushed[3], here[3], there[3];
    for (int i = 0; i < 3; i++) {
      left[i] = g->p1[at + i] - impulse(s, at + i);
      pushed[i] = a * (s->Lq[at + i] + s->F[at + i]);
    }
    apply3_transposed(b->I, left, here);
    apply3_transposed(b->H, pushed, there);
    memcpy(p, turned, sizeof p);
    memset(turned, 0, sizeof p);
    memset(by_end, 0, sizeof by_end);
    memset(by_middle, 0, sizeof by_middle);
    add_turned(by_end, 1.0, b->N, 3, 1, z);
    add_turned(by_middle, 1.0, b->K, 3, 1, z);
    add_turned(turned, 1.0, b->I, 1, 3, p);
    add_turned(turned, 1.0, b->H, 1, 3, d->push + at);
    add_cross(turned, 1.0, here, by_end);
    add_cross(turned, 1.0, there, by_middle);
  }
}

#endif
