/* Contracted second derivatives of a segment with balls, in the charts at x and at its next state: what takes the place
 * of adjoint, evaluate_contractions and assemble of segment_second.h. Variables of a segment are its first end (NA), its
 * second end (NA: q2 of ordinary coordinates, t of balls) and the forces (NU), in this order: NY of them. */
#ifndef SM_SEGMENT_BALLS_SECOND_H
#define SM_SEGMENT_BALLS_SECOND_H

typedef struct {
  double mg[ND], ep[ND];           /* weights of G and of p2 */
  double alpha[ND], beta[ND];      /* of L_q + F and of L_v */
  double slope_q[NA], slope_v[NA]; /* of what is contracted, by qm and vm */
} weights;

static void adjoint(workspace *s, const double *eta, double *mu) {
  const double *eta_p = eta + NQ;
  for (int j = 0; j < NZ; j++) {
    mu[j] = j < ND ? -eta[j] : 0.0;
  }
  for (int n = 0; n < NB; n++) {
    double turned[3];
    apply3_transposed(s->balls[n].N, eta + BALL_T[n], turned);
    for (int i = 0; i < 3; i++) {
      mu[BALL_T[n] + i] = -turned[i];
    }
  }
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < ND; j++) {
      mu[j] -= s->E[i * NZ + j] * eta_p[i];
    }
  }
  sm_lu_solve_transposed(s->matrix, s->pivot, s->inverse, mu, NZ);
}

static void weigh(const workspace *s, double dt, const double *eta, const double *mu, weights *w) {
  double left[ND], right[ND], begin[ND], end[ND];
  memcpy(w->mg, mu, sizeof w->mg);
  memcpy(w->ep, eta + NQ, sizeof w->ep);
  memcpy(left, w->mg, sizeof left);
  memcpy(right, w->ep, sizeof right);
  memcpy(begin, w->mg, sizeof begin);
  memcpy(end, w->ep, sizeof end);
  momentum_share(s, dt, -1.0, left);
  momentum_share(s, dt, 1.0, right);
  carry_momentum(s, -1.0, begin);
  carry_momentum(s, 1.0, end);
  for (int i = 0; i < ND; i++) {
    w->alpha[i] = left[i] + right[i];
    w->beta[i] = end[i] - begin[i];
  }
  for (int j = 0; j < NA; j++) {
    w->slope_q[j] = w->slope_v[j] = 0.0;
    for (int i = 0; i < ND; i++) {
      const int k = i * NA + j;
      w->slope_q[j] += s->Wq[k] * w->alpha[i] + s->Lvq[k] * w->beta[i];
      w->slope_v[j] += s->Wv[k] * w->alpha[i] + s->Lvv[k] * w->beta[i];
    }
  }
}

/* Of a third derivative of the chart along a: H (rows of n) += (a x rows)/2 and its transpose, by the Hessian `of`, whose
 * rows r, r+1, r+2 are given, and the block (g a^T + a g^T - 2 g.a 1)/12 of the gradient g. */
static void add_bend_columns(double *H, int n, int r, const double *a, const double *of, int stride, int columns,
                             int from) {
  for (int j = 0; j < columns; j++) {
    const double column[3] = {of[j], of[stride + j], of[2 * stride + j]};
    double turned[3];
    cross(a, column, turned);
    for (int i = 0; i < 3; i++) {
      H[(r + i) * n + from + j] += 0.5 * turned[i];
      H[(from + j) * n + r + i] += 0.5 * turned[i];
    }
  }
}

static void add_bend_block(double *H, int n, int r, const double *a, const double *g) {
  const double along = dot3(g, a);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      H[(r + i) * n + r + j] += (g[i] * a[j] + a[i] * g[j] - (i == j ? 2.0 * along : 0.0)) / 12.0;
    }
  }
}

/* Rows in (qm, vm, u) as rows in both ends and u. */
static void rows_to_ends(const workspace *s, double dt, const double *in, double *out) {
  const double rate = 1.0 / dt;
  for (int i = 0; i < NA; i++) {
    const double *q = in + i * NY, *v = in + (NA + i) * NY;
    for (int j = 0; j < NY; j++) {
      out[i * NY + j] = 0.5 * q[j] - rate * v[j];
      out[(NA + i) * NY + j] = 0.5 * q[j] + rate * v[j];
    }
  }
  for (int n = 0; n < NB; n++) {
    const ball *b = s->balls + n;
    const double *q = in + BALL_T[n] * NY, *v = in + (NA + BALL_T[n]) * NY;
    double scaled[9];
    for (int i = 0; i < 9; i++) {
      scaled[i] = rate * b->X[i];
    }
    for (int i = 0; i < 3; i++) {
      double *first = out + (BALL_T[n] + i) * NY, *second = out + (NA + BALL_T[n] + i) * NY;
      memset(first, 0, NY * sizeof(double));
      memset(second, 0, NY * sizeof(double));
      combine(first, NY, b->H + 3 * i, 1, q, NY);
      combine(second, NY, b->K + i, 3, q, NY);
      combine(second, NY, scaled + i, 3, v, NY);
    }
  }
  memcpy(out + 2 * NA * NY, in + 2 * NA * NY, sizeof(double) * NU * NY);
}

/* Second derivatives of the inner maps of ball n: V (NY x NY) has its two ends at `at` and at NA + `at`. */
static void add_inner_maps(const workspace *s, double dt, int n, const weights *w, const double *end, double *V) {
  const ball *b = s->balls + n;
  const int at = BALL_T[n];
  const double *t = b->t, r = 1.0 / (1.0 + b->s), *gq = w->slope_q + at, *gv = w->slope_v + at;
  double hat[9] = {0}, mixed[9], left[9], middle[9], turn[3], whole[3];
  apply3_transposed(b->K, gq, turn);
  apply3_transposed(b->N, end, whole);
  add_hat(hat, 3, -0.5, gq);
  multiply3(b->H, 3, 1, hat, 3, 1, left);
  multiply3(left, 3, 1, b->K, 3, 1, mixed);
  memset(hat, 0, sizeof hat);
  add_hat(hat, 3, -0.5, end);
  multiply3(b->I, 3, 1, hat, 3, 1, left);
  multiply3(left, 3, 1, b->N, 3, 1, middle);
  for (int i = 0; i < 9; i++) {
    mixed[i] += middle[i];
  }
  multiply3(b->H, 3, 1, hat, 3, 1, left);
  multiply3(left, 3, 1, b->K, 3, 1, middle);
  multiply3(b->K, 1, 3, middle, 3, 1, left); /* K^T H hat K */
  const double along = dot3(gv, t), f1 = b->phi[1], f2 = b->phi[2];
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      const double q = -r * ((turn[i] + whole[i]) * t[j] + (turn[j] + whole[j]) * t[i]);
      const double rate =
          2 * f1 * (gv[i] * t[j] + t[i] * gv[j] + (i == j ? along : 0.0)) + 4 * f2 * along * t[i] * t[j];
      V[(NA + at + i) * NY + NA + at + j] += q + left[3 * i + j] + left[3 * j + i] + rate / dt;
      V[(at + i) * NY + NA + at + j] += mixed[3 * i + j];
      V[(NA + at + j) * NY + at + i] += mixed[3 * i + j];
    }
  }
}

/* out (3 x 3) += the Hessian in t of (M ep - M^T mg) . g */
static void add_momentum_bend(const ball *b, const double *ep, const double *mg, const double *g, double *out,
                              int stride) {
  double d[3], total[3], sg[3];
  const double *t = b->t;
  for (int i = 0; i < 3; i++) {
    d[i] = ep[i] - mg[i];
    total[i] = ep[i] + mg[i];
  }
  cross(total, g, sg);
  const double td = dot3(t, d), tg = dot3(t, g);
  const double value[3] = {dot3(d, g), dot3(t, sg), td * tg};
  const double four = 4 * (b->m2[0] * value[0] + b->m2[1] * value[1] + b->m2[2] * value[2]);
  const double two = 2 * (b->m1[0] * value[0] + b->m1[1] * value[1] + b->m1[2] * value[2]);
  for (int i = 0; i < 3; i++) {
    const double gi = b->m1[1] * sg[i] + b->m1[2] * (d[i] * tg + g[i] * td);
    for (int j = 0; j < 3; j++) {
      const double gj = b->m1[1] * sg[j] + b->m1[2] * (d[j] * tg + g[j] * td);
      out[i * stride + j] += four * t[i] * t[j] + 2 * (t[i] * gj + gi * t[j]) + b->m[2] * (d[i] * g[j] + g[i] * d[j]);
    }
    out[i * stride + i] += two;
  }
}

/* out (3 rows of NA) = rows of ball n of slopes in (qm, vm), by the first and by the second end. */
static void ball_rows(const workspace *s, double dt, int n, const double *by_q, const double *by_v, double *first,
                      double *second) {
  const double rate = 1.0 / dt;
  by_q += BALL_T[n] * NA;
  by_v += BALL_T[n] * NA;
  for (int k = 0; k < 3 * NA; k++) {
    first[k] = 0.5 * by_q[k] - rate * by_v[k];
    second[k] = 0.5 * by_q[k] + rate * by_v[k];
  }
  for (int m = 0; m < NB; m++) {
    const ball *b = s->balls + m;
    for (int i = 0; i < 3; i++) {
      const double *q = by_q + i * NA + BALL_T[m], *v = by_v + i * NA + BALL_T[m];
      double turn[3], change[3];
      apply3(b->H, q, first + i * NA + BALL_T[m]);
      apply3_transposed(b->K, q, turn);
      apply3_transposed(b->X, v, change);
      for (int j = 0; j < 3; j++) {
        second[i * NA + BALL_T[m] + j] = turn[j] + rate * change[j];
      }
    }
  }
}

/* The weights alpha and beta depend on t: rows and columns of t. */
static void add_weights(const workspace *s, double dt, int n, const weights *w, double *V) {
  const ball *b = s->balls + n;
  const int at = BALL_T[n];
  double delta[3], by_alpha[9] = {0}, by_beta[9] = {0}, rows[3 * NY] = {0};
  double pushed1[3 * NA], pushed2[3 * NA], moved1[3 * NA], moved2[3 * NA];
  for (int i = 0; i < 3; i++) {
    delta[i] = 0.5 * dt * (w->ep[at + i] - w->mg[at + i]);
  }
  add_hat(by_alpha, 3, 1.0, delta);
  add_momentum_slope(b, by_beta, 3, 1.0, 1.0, w->ep + at);
  add_momentum_slope(b, by_beta, 3, -1.0, -1.0, w->mg + at);
  ball_rows(s, dt, n, s->Wq, s->Wv, pushed1, pushed2);
  ball_rows(s, dt, n, s->Lvq, s->Lvv, moved1, moved2);
  for (int i = 0; i < 3; i++) {
    double *line = rows + i * NY;
    combine(line, NA, by_alpha + 3 * i, 1, pushed1, NA);
    combine(line, NA, by_beta + i, 3, moved1, NA);
    combine(line + NA, NA, by_alpha + 3 * i, 1, pushed2, NA);
    combine(line + NA, NA, by_beta + i, 3, moved2, NA);
    combine(line + 2 * NA, NU, by_alpha + 3 * i, 1, s->Fu + at * NU, NU);
    for (int j = 0; j < NY; j++) {
      V[(NA + at + i) * NY + j] += line[j];
      V[j * NY + NA + at + i] += line[j];
    }
  }
  add_momentum_bend(b, w->ep + at, w->mg + at, s->Lv + at, V + (NA + at) * NY + NA + at, NY);
}

/* A row of V where its columns belong: first ends and forces are direct variables, kinematic second ends next values. */
static void place_row(double *to, const double *from) {
  static const int active[NA] = ACTIVE;
  for (int j = 0; j < NA; j++) {
    to[active[j]] += from[j];
  }
  for (int j = ND; j < NA; j++) {
    to[W_NEXT + active[j] - ND] += from[NA + j];
  }
  for (int j = 0; j < NU; j++) {
    to[W_U + j] += from[2 * NA + j];
  }
}

static void place(workspace *s, const double *V) {
  static const int active[NA] = ACTIVE;
  for (int i = 0; i < NA; i++) {
    place_row(s->C + active[i] * NWP, V + i * NY);
  }
  for (int i = 0; i < ND; i++) {
    const double *second = V + (NA + i) * NY;
    place_row(s->Z + i * NWP, second);
    for (int j = 0; j < ND; j++) {
      s->H22[i * ND + j] += second[NA + j];
    }
  }
  for (int i = ND; i < NA; i++) {
    place_row(s->C + (W_NEXT + active[i] - ND) * NWP, V + (NA + i) * NY);
  }
  for (int i = 0; i < NU; i++) {
    place_row(s->C + (W_U + i) * NWP, V + (2 * NA + i) * NY);
  }
}

static void transpose(const double *in, double *out) {
  for (int i = 0; i < NY; i++) {
    for (int j = 0; j < NY; j++) {
      out[i * NY + j] = in[j * NY + i];
    }
  }
}

static void bend_energies(workspace *s, const arguments *a, const weights *w, const double *end) {
  double S[NY * NY], R[NY * NY], T[NY * NY];
  const double *const in[] = {s->qm, s->vm, a->u, a->par, w->alpha, w->beta, w->alpha};
  double *const out[] = {s->S};
  sm_third(in, out, s->scratch);
  memcpy(S, s->S, sizeof S);
  for (int n = 0; n < NB; n++) {
    const int r = BALL_T[n];
    add_bend_columns(S, NY, r, w->alpha + r, s->Lqq + r * NA, NA, NA, 0);
    add_bend_columns(S, NY, r, w->alpha + r, s->Lqv + r * NA, NA, NA, NA);
    add_bend_block(S, NY, r, w->alpha + r, s->Lq + r);
  }
  rows_to_ends(s, a->dt, S, R);
  transpose(R, T);
  rows_to_ends(s, a->dt, T, S);
  for (int n = 0; n < NB; n++) {
    add_inner_maps(s, a->dt, n, w, end + 3 * n, S);
    add_weights(s, a->dt, n, w, S);
  }
  place(s, S);
}

#if NC > 0
enum { WIDE = NQ + 3 * NB }; /* turns of qb2 by z and next kinematic values, and by turns of qb1 */

static void add_next(double *to, const double *from) {
  for (int k = 0; k < NK; k++) {
    to[W_NEXT + k] += from[ND + k];
  }
  for (int n = 0; n < NB; n++) {
    for (int j = 0; j < 3; j++) {
      to[BALL_T[n] + j] += from[NQ + 3 * n + j];
    }
  }
}

/* mu_h . h at qb2, whose turns follow from those of qb1 and from t. */
static void bend_next(workspace *s) {
  double right[NQ * WIDE], full[WIDE * WIDE];
  for (int i = 0; i < NQ; i++) {
    memcpy(right + i * WIDE, s->H2 + i * NQ, NQ * sizeof(double));
    for (int n = 0; n < NB; n++) {
      apply3_transposed(s->balls[n].N, s->H2 + i * NQ + BALL_T[n], right + i * WIDE + BALL_T[n]);
      apply3(s->balls[n].I, s->H2 + i * NQ + BALL_T[n], right + i * WIDE + NQ + 3 * n);
    }
  }
  memcpy(full, right, sizeof right);
  memset(full + NQ * WIDE, 0, sizeof(double) * 3 * NB * WIDE);
  for (int n = 0; n < NB; n++) {
    const double *rows = right + BALL_T[n] * WIDE;
    for (int i = 0; i < 3; i++) {
      double *next = full + (BALL_T[n] + i) * WIDE;
      memset(next, 0, WIDE * sizeof(double));
      combine(next, WIDE, s->balls[n].N + i, 3, rows, WIDE);
      combine(full + (NQ + 3 * n + i) * WIDE, WIDE, s->balls[n].I + 3 * i, 1, rows, WIDE);
    }
  }
  for (int i = 0; i < ND; i++) {
    add_next(s->Z + i * NWP, full + i * WIDE);
    for (int j = 0; j < ND; j++) {
      s->H22[i * ND + j] += full[i * WIDE + j];
    }
  }
  for (int k = 0; k < NK; k++) {
    add_next(s->C + (W_NEXT + k) * NWP, full + (ND + k) * WIDE);
  }
  for (int n = 0; n < NB; n++) {
    for (int i = 0; i < 3; i++) {
      add_next(s->C + (BALL_T[n] + i) * NWP, full + (NQ + 3 * n + i) * WIDE);
    }
  }
}

/* -mg . D_q h(qb1)^T lam */
static void bend_here(workspace *s, const weights *w) {
  double H[NQ * NQ], J[NC * NQ];
  memcpy(H, s->H3, sizeof H);
  memcpy(J, s->J3, sizeof J);
  for (int n = 0; n < NB; n++) {
    const int r = BALL_T[n];
    const double *a = w->mg + r, g[3] = {impulse(s, r), impulse(s, r + 1), impulse(s, r + 2)};
    add_bend_columns(H, NQ, r, a, s->H1 + r * NQ, NQ, NQ, 0);
    add_bend_block(H, NQ, r, a, g);
    for (int c = 0; c < NC; c++) {
      double turned[3];
      cross(a, s->Dh1 + c * NQ + r, turned);
      for (int i = 0; i < 3; i++) {
        J[c * NQ + r + i] += 0.5 * turned[i];
      }
    }
  }
  for (int i = 0; i < NQ; i++) {
    for (int j = 0; j < NQ; j++) {
      s->C[i * NWP + j] -= H[i * NQ + j];
    }
  }
  for (int c = 0; c < NC; c++) {
    for (int j = 0; j < NQ; j++) {
      s->Z[(ND + c) * NWP + j] -= J[c * NQ + j];
    }
  }
}
#endif

/* Second derivatives of eta Y + mu G in the direct variables (C), in z times direct (Z) and in z twice (H22). */
static void assemble_balls(workspace *s, const arguments *a, const double *eta, const double *mu) {
  weights w;
  double end[3 * NB];
  weigh(s, a->dt, eta, mu, &w);
  for (int n = 0; n < NB; n++) {
    for (int i = 0; i < 3; i++) {
      end[3 * n + i] = eta[BALL_T[n] + i];
      for (int c = 0; c < NC; c++) {
        end[3 * n + i] += s->Dh2[c * NQ + BALL_T[n] + i] * mu[ND + c];
      }
    }
  }
  memset(s->C, 0, sizeof s->C);
  memset(s->Z, 0, sizeof s->Z);
  memset(s->H22, 0, sizeof s->H22);
  bend_energies(s, a, &w, end);
#if NC > 0
  const double *const next[] = {s->q2, a->par, mu + ND};
  double *const next_out[] = {s->H2};
  sm_con2(next, next_out, s->scratch);
  const double *const here[] = {s->q1, a->par, s->lam, w.mg};
  double *const here_out[] = {s->J3, s->H3};
  sm_con3(here, here_out, s->scratch);
  bend_next(s);
  bend_here(s, &w);
#else
  (void)sm_con3;
#endif
}

#endif
