/* The segment of a mechanism with balls: what takes the place of segment.h's functions, in the same order.
 *
 * Unknowns z = [q2 of ordinary coordinates, t of balls, lam]; L_q, F, D h and the rows of G are by turns about the
 * child's axes, generated Hessians those of a chart c, exp(c^) after the quaternion, at c = 0:
 *   G_q = p + dt/2 (1 + t^)(L_q + F) - M L_v - D_q h(qb1)^T lam
 *   p2  = dt/2 (1 - t^)(L_q + F) + M^T L_v  =  inc^T (p - D_q h(qb1)^T lam) + dt h^T (L_q + F)
 * The first form of p2 is differentiated, the second computed: it keeps conserved momenta to the last bit. A gradient g
 * has the slope H + g^/2 where H is its chart's Hessian. Forces are held. */
#ifndef SM_SEGMENT_BALLS_H
#define SM_SEGMENT_BALLS_H

/* g (ND) := dt/2 (1 + sign t^) g */
static void momentum_share(const workspace *s, double dt, double sign, double *g) {
  for (int i = 0; i < ND; i++) {
    g[i] *= 0.5 * dt;
  }
  for (int n = 0; n < NB; n++) {
    double turned[3], *part = g + BALL_T[n];
    cross(s->balls[n].t, part, turned);
    for (int i = 0; i < 3; i++) {
      part[i] += sign * turned[i];
    }
  }
}

/* g (ND) := M g with sign 1, M^T g with sign -1 */
static void carry_momentum(const workspace *s, double sign, double *g) {
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    double turned[3], *part = g + BALL_T[n];
    const double along = b->m[2] * dot3(b->t, part);
    cross(b->t, part, turned);
    for (int i = 0; i < 3; i++) {
      part[i] = b->m[0] * part[i] + sign * b->m[1] * turned[i] + along * b->t[i];
    }
  }
}

static void residual(workspace *s, const arguments *a) {
  const double *p = a->x + NQS;
  double pushed[ND], moved[ND];
  for (int i = 0; i < ND; i++) {
    pushed[i] = s->Lq[i] + s->F[i];
  }
  memcpy(moved, s->Lv, sizeof moved);
  momentum_share(s, a->dt, 1.0, pushed);
  carry_momentum(s, 1.0, moved);
  for (int i = 0; i < ND; i++) {
    s->G[i] = p[i] + pushed[i] - moved[i] - impulse(s, i);
  }
  for (int c = 0; c < NC; c++) {
#ifdef SM_GAPS
    s->G[ND + c] = !s->closed[c] ? s->lam[c] : ROWS[c] == TANGENT ? s->h[c] - s->h1[c] : s->h[c];
#else
    s->G[ND + c] = s->h[c];
#endif
  }
}

#ifndef SM_GAPS
/* Columns of derivatives in (qm, vm) become those in the first end of the segment. */
static void to_first(const workspace *s, double dt, const double *by_q, const double *by_v, double *out) {
  const double rate = 1.0 / dt;
  for (int k = 0; k < ND * NA; k++) {
    out[k] = 0.5 * by_q[k] - rate * by_v[k];
  }
  for (int n = 0; n < NB; n++) {
    for (int i = 0; i < ND; i++) {
      const int k = i * NA + BALL_T[n];
      apply3(s->balls[n].H, by_q + k, out + k); /* by_q H^T */
    }
  }
}
#endif

/* Columns of derivatives in (qm, vm) become those in the second end of the segment: q2, and t of balls. */
static void to_second(const workspace *s, double dt, const double *by_q, const double *by_v, double *out) {
  const double rate = 1.0 / dt;
  for (int k = 0; k < ND * NA; k++) {
    out[k] = 0.5 * by_q[k] + rate * by_v[k];
  }
  for (int n = 0; n < NB; n++) {
    const double *K = s->balls[n].K, *X = s->balls[n].X;
    for (int i = 0; i < ND; i++) {
      const double *q = by_q + i * NA + BALL_T[n], *v = by_v + i * NA + BALL_T[n];
      for (int j = 0; j < 3; j++) {
        const double turn = K[j] * q[0] + K[3 + j] * q[1] + K[6 + j] * q[2];
        out[i * NA + BALL_T[n] + j] = turn + rate * (X[j] * v[0] + X[3 + j] * v[1] + X[6 + j] * v[2]);
      }
    }
  }
}

/* out = dt/2 (1 + sign t^) pushed - sign M moved, rows of NA; M^T with sign -1 */
static void to_rows(const workspace *s, double dt, double sign, const double *pushed, const double *moved,
                    double *out) {
  for (int k = 0; k < ND * NA; k++) {
    out[k] = 0.5 * dt * pushed[k] - sign * moved[k];
  }
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    const int down = sign > 0 ? 3 : 1, right = sign > 0 ? 1 : 3;
    for (int i = 0; i < 3; i++) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      const double *g = pushed + BALL_T[n] * NA, *m = moved + BALL_T[n] * NA;
      const double *gi = g + i * NA, *gj = g + j * NA, *gk = g + k * NA;
      const double half = 0.5 * dt, tj = half * sign * b->t[j], tk = half * sign * b->t[k];
      const double a0 = sign * b->M[i * down], a1 = sign * b->M[i * down + right],
                   a2 = sign * b->M[i * down + 2 * right];
      double *to = out + (BALL_T[n] + i) * NA;
      for (int c = 0; c < NA; c++) {
        to[c] = half * gi[c] + tj * gk[c] - tk * gj[c] - a0 * m[c] - a1 * m[NA + c] - a2 * m[2 * NA + c];
      }
    }
  }
}

/* Slopes of L_q + F in (qm, vm), and those of G by the second end with what depends on t. */
static void evaluate_slopes(workspace *s, const arguments *a) {
  for (int n = 0; n < NB; n++) {
    ball_slopes(s->balls + n);
  }
  for (int k = 0; k < ND * NA; k++) {
    s->Wq[k] = s->Lqq[k] + s->Fq[k];
    s->Wv[k] = s->Lqv[k] + s->Fv[k];
  }
  for (int n = 0; n < NB; n++) {
    add_hat(s->Wq + BALL_T[n] * NA + BALL_T[n], NA, 0.5, s->Lq + BALL_T[n]);
  }
  to_rows(s, a->dt, 1.0, s->Wq, s->Lvq, s->Gq);
  to_rows(s, a->dt, 1.0, s->Wv, s->Lvv, s->Gv);
  to_second(s, a->dt, s->Gq, s->Gv, s->G2);
  for (int n = 0; n < NB; n++) {
    const int at = BALL_T[n];
    const double total[3] = {s->Lq[at] + s->F[at], s->Lq[at + 1] + s->F[at + 1], s->Lq[at + 2] + s->F[at + 2]};
    add_hat(s->G2 + at * NA + at, NA, -0.5 * a->dt, total);
    add_momentum_slope(s->balls + n, s->G2 + at * NA + at, NA, -1.0, 1.0, s->Lv + at);
  }
}

/* Rows of D h(qb2) by z, and by the turns of qb1 (balls; three columns each). */
static void constraint_slopes(workspace *s) {
  for (int c = 0; c < NC; c++) {
    memcpy(s->Dz + c * NQ, s->Dh2 + c * NQ, NQ * sizeof(double));
    for (int n = 0; n < NB; n++) {
      apply3_transposed(s->balls[n].N, s->Dh2 + c * NQ + BALL_T[n], s->Dz + c * NQ + BALL_T[n]);
      apply3(s->balls[n].I, s->Dh2 + c * NQ + BALL_T[n], s->Dw + (c * NB + n) * 3);
    }
  }
}

static int factorize(workspace *s, const arguments *a) {
  evaluate_slopes(s, a);
  constraint_slopes(s);
  memset(s->matrix, 0, sizeof s->matrix);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < ND; j++) {
      s->matrix[j * NZ + i] = s->G2[i * NA + j];
    }
    for (int c = 0; c < NC; c++) {
#ifdef SM_GAPS
      if (!s->closed[c]) {
        s->matrix[(ND + c) * NZ + ND + c] = 1.0;
        continue;
      }
#endif
      s->matrix[(ND + c) * NZ + i] = -s->Dh1[c * NQ + i];
      s->matrix[i * NZ + ND + c] = s->Dz[c * NQ + i];
    }
  }
  return sm_lu(s->matrix, s->pivot, s->inverse, NZ);
}

static double correction_size(const workspace *s, const double *dz) {
  static const int stored[NQ] = STORED_AT;
  double size = 0.0, at[ND];
  for (int i = 0; i < ND; i++) {
    at[i] = stored[i] >= 0 ? s->q2[stored[i]] : 0.0;
  }
  for (int n = 0; n < NB; n++) {
    memcpy(at + BALL_T[n], s->balls[n].t, sizeof s->balls[n].t);
  }
  for (int i = 0; i < ND; i++) {
    const double change = fabs(dz[i]) / (1.0 + fabs(at[i]));
    if (!(change <= size)) {
      size = isfinite(change) ? change : INFINITY;
    }
  }
  return size;
}

static void apply(workspace *s, const double *dz, double fraction) {
  static const int stored[NQ] = STORED_AT;
  for (int i = 0; i < ND; i++) {
    if (stored[i] >= 0) {
      s->q2[stored[i]] += fraction * dz[i];
    }
  }
  for (int n = 0; n < NB; n++) {
    for (int i = 0; i < 3; i++) {
      s->balls[n].t[i] += fraction * dz[BALL_T[n] + i];
    }
  }
  for (int c = 0; c < NC; c++) {
    s->lam[c] += fraction * dz[ND + c];
  }
}

/* p2 of the segment from the pose s->q1 and the momenta p; its end is in s->balls. */
static void end_momenta(const workspace *s, const double *p1, double dt, double *p2) {
  for (int i = 0; i < ND; i++) {
    p2[i] = p1[i] + dt * (s->Lq[i] + s->F[i]) - impulse(s, i);
  }
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    double p[3], push[3], *out = p2 + BALL_T[n], here[3], there[3], I[9], H[9];
    for (int i = 0; i < 3; i++) {
      const int k = BALL_T[n] + i;
      p[i] = p1[k] - impulse(s, k);
      push[i] = dt * (s->Lq[k] + s->F[k]);
    }
    rotation_of(b->inc, I);
    rotation_of(b->half, H);
    apply3_transposed(I, p, here);
    apply3_transposed(H, push, there);
    for (int i = 0; i < 3; i++) {
      out[i] = here[i] + there[i];
    }
  }
}

/* Quaternions of q back to the unit, which they are off by rounding. */
static void make_unit(double *stored_q) {
  for (int n = 0; n < NB; n++) {
    double *q = stored_q + BALL_Q[n];
    const double scale = 0.5 * (3.0 - (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]));
    for (int i = 0; i < 4; i++) {
      q[i] *= scale;
    }
  }
}

#ifndef SM_GAPS                                           /* what follows is of steps of one segment */
static int at_solution(workspace *s, const arguments *a); /* of segment.h */

static void start(workspace *s, const arguments *a, const double *guess) {
  memcpy(s->q1, a->x, sizeof s->q1);
  memcpy(s->q2, guess ? guess : a->x, sizeof s->q2);
  for (int n = 0; n < NB; n++) {
    memset(s->balls[n].t, 0, sizeof s->balls[n].t);
    if (guess) {
      vector_between(s->q1 + BALL_Q[n], s->q2 + BALL_Q[n], s->balls[n].t);
    }
  }
  for (int k = 0; k < NK; k++) {
    s->q2[NQS - NK + k] = a->u[NU + k];
  }
  memset(s->lam, 0, sizeof s->lam);
  evaluate_constraints(s, a, s->q1, s->Dh1);
}

static void next_state(const workspace *s, const arguments *a, double *x2) {
  double next[NX];
  memcpy(next, s->q2, NQS * sizeof(double));
  make_unit(next);
  end_momenta(s, a->x + NQS, a->dt, next + NQS);
  for (int k = 0; k < NK; k++) {
    next[NQS + ND + k] = (s->q2[NQS - NK + k] - s->q1[NQS - NK + k]) / a->dt;
  }
  memcpy(x2, next, sizeof next);
}

/* D = -G_w, before the solve; P and E of p2. */
static void differentiate_rows(workspace *s, const arguments *a) {
  static const int active[NA] = ACTIVE;
  double first[ND * NA], later[ND * NA], later2[ND * NA], by_q[ND * NA], by_v[ND * NA], by_input[ND];
  to_first(s, a->dt, s->Gq, s->Gv, first);
  to_rows(s, a->dt, -1.0, s->Wq, s->Lvq, by_q);
  to_rows(s, a->dt, -1.0, s->Wv, s->Lvv, by_v);
  to_first(s, a->dt, by_q, by_v, later);
  to_second(s, a->dt, by_q, by_v, later2);
  for (int n = 0; n < NB; n++) {
    const int at = BALL_T[n];
    const double total[3] = {s->Lq[at] + s->F[at], s->Lq[at + 1] + s->F[at + 1], s->Lq[at + 2] + s->F[at + 2]};
    add_hat(later2 + at * NA + at, NA, 0.5 * a->dt, total);
    add_momentum_slope(s->balls + n, later2 + at * NA + at, NA, 1.0, -1.0, s->Lv + at);
  }
  for (int i = 0; i < ND; i++) {
    double *dz = s->D + i * NWP, *dp = s->P + i * NWP;
    for (int j = 0; j < NA; j++) {
      dz[active[j]] -= first[i * NA + j];
      dp[active[j]] += later[i * NA + j];
      if (active[j] >= ND) {
        dz[W_NEXT + active[j] - ND] -= s->G2[i * NA + j];
        dp[W_NEXT + active[j] - ND] += later2[i * NA + j];
      }
    }
    dz[W_P + i] -= 1.0;
    for (int j = 0; j < ND; j++) {
      s->E[i * NZ + j] = later2[i * NA + j];
    }
  }
  for (int j = 0; j < NU; j++) {
    for (int side = 1; side >= -1; side -= 2) {
      for (int i = 0; i < ND; i++) {
        by_input[i] = s->Fu[i * NU + j];
      }
      momentum_share(s, a->dt, side, by_input);
      for (int i = 0; i < ND; i++) {
        if (side > 0) {
          s->D[i * NWP + W_U + j] -= by_input[i];
        } else {
          s->P[i * NWP + W_U + j] += by_input[i];
        }
      }
    }
  }
}

static int differentiate(workspace *s, const arguments *a) {
  if (at_solution(s, a)) {
    return SM_SINGULAR;
  }
  memset(s->D, 0, sizeof s->D);
  memset(s->P, 0, sizeof s->P);
  memset(s->E, 0, sizeof s->E);
  differentiate_rows(s, a);
  if (NC > 0) {
    const double *const in[] = {s->q1, a->par, s->lam};
    double *const out[] = {s->H1};
    sm_con2(in, out, s->scratch);
    for (int i = 0; i < ND; i++) {
      for (int j = 0; j < NQ; j++) {
        s->D[i * NWP + j] += s->H1[i * NQ + j];
      }
    }
    for (int n = 0; n < NB; n++) {
      const int at = BALL_T[n];
      const double g[3] = {impulse(s, at), impulse(s, at + 1), impulse(s, at + 2)};
      add_hat(s->D + at * NWP + at, NWP, 0.5, g);
    }
    for (int c = 0; c < NC; c++) {
      double *line = s->D + (ND + c) * NWP;
      for (int k = 0; k < NK; k++) {
        line[W_NEXT + k] = -s->Dh2[c * NQ + ND + k];
      }
      for (int n = 0; n < NB; n++) {
        for (int i = 0; i < 3; i++) {
          line[BALL_T[n] + i] = -s->Dw[(c * NB + n) * 3 + i];
        }
      }
    }
  }
  sm_lu_solve_many(s->matrix, s->pivot, s->inverse, s->D, NZ, NWP);
  sm_multiply_add(s->P, 1.0, s->E, NZ, 1, s->D, ND, NZ, NWP);
  return SM_OK;
}

/* Rows of the next q by w, from those of z: of a ball, the turn of the end by a change of t and by a turn of the begin. */
static void turn_rows(const workspace *s, double *rows) {
  memcpy(rows, s->D, sizeof(double) * ND * NWP);
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    double *out = rows + BALL_T[n] * NWP;
    const double *in = s->D + BALL_T[n] * NWP;
    for (int j = 0; j < NW; j++) {
      const double change[3] = {in[j], in[NWP + j], in[2 * NWP + j]};
      double turn[3];
      apply3(b->N, change, turn);
      for (int i = 0; i < 3; i++) {
        out[i * NWP + j] = turn[i];
      }
    }
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) {
        out[i * NWP + BALL_T[n] + j] += b->I[3 * j + i];
      }
    }
  }
}

#endif /* SM_GAPS */

/* dx (NDX) from a state to another, as the layout has it. */
static void ball_difference(void *work, const double *x, const double *y, double *dx) {
  static const int stored[NQ] = STORED_AT;
  (void)work;
  for (int i = 0; i < NQ; i++) {
    if (stored[i] >= 0) {
      dx[i] = y[stored[i]] - x[stored[i]];
    }
  }
  for (int n = 0; n < NB; n++) {
    double t[3];
    vector_between(x + BALL_Q[n], y + BALL_Q[n], t);
    for (int i = 0; i < 3; i++) {
      dx[BALL_T[n] + i] = 4.0 * t[i];
    }
  }
  for (int i = NQ; i < NDX; i++) {
    dx[i] = y[i + NQS - NQ] - x[i + NQS - NQ];
  }
}
#define SM_DIFFERENCE ball_difference

#endif
