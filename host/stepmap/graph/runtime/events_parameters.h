/* Derivatives of a chain by what `par` has: the NP parameters of the model, and the restitutions of its rows. They are
 * columns of their own behind those of w; only with SM_PARAMETERS, and the generated functions
 *   sm_slope      d(L_q), d(L_v), d(F) by the parameters at (qm, vm, u),
 *   sm_conslope   d(h(q2)), d(D_q h(q1)^T m) by the parameters,
 *   sm_speedslope d(D h v) by the parameters, for a velocity v of qb.
 * Each stage has its part: the equations of its unknowns, the root that ends it, and the momentum behind it. */
#ifndef SM_EVENTS_PARAMETERS_H
#define SM_EVENTS_PARAMETERS_H

#ifndef SM_PARAMETERS
#define add_parameters_to_segment(e, g, d)
#define add_parameters_to_end(s, g, d, speed)
#define add_parameters_to_momentum(s, g, d)
#define add_parameters_before_jump(e, g, d)
#define add_parameters_to_jump(e, g, d)
#define add_parameters_behind_jump(s, d)
#else

static void evaluate_slope(chain *e) {
  workspace *s = &e->s;
  const double *const in[] = {s->qm, s->vm, e->given, e->par};
  double *const out[] = {s->Lqt, s->Lvt, s->Ft};
  sm_slope(in, out, s->scratch);
}

/* d h(there), and d(D_q h(here)^T lam) */
static void evaluate_conslope(chain *e, const double *here, const double *there, const double *lam) {
  workspace *s = &e->s;
  const double *const in[] = {here, there, lam, e->par};
  double *const out[] = {s->ht, s->Jt};
  sm_conslope(in, out, s->scratch);
}

/* right -= G_par; what it evaluates serves the next two functions. */
static void add_parameters_to_segment(chain *e, const stage *g, slopes *d) {
  workspace *s = &e->s;
  double before[AT_LEAST_ONE(NC * NP)];
  evaluate_slope(e);
  evaluate_conslope(e, s->q1, s->q1, s->lam);
  memcpy(before, s->ht, sizeof before);
  evaluate_conslope(e, s->q1, s->q2, s->lam);
  for (int j = 0; j < NP; j++) {
    double pushed[ND], moved[ND];
    for (int i = 0; i < ND; i++) {
      const int k = i * NP + j;
#ifdef SM_BALLS
      pushed[i] = s->Lqt[k] + s->Ft[k];
#else
      pushed[i] = g->length * (0.5 * s->Lqt[k] + LEFT * s->Ft[k]);
#endif
      moved[i] = s->Lvt[k];
    }
#ifdef SM_BALLS
    momentum_share(s, g->length, 1.0, pushed);
    carry_momentum(s, 1.0, moved);
#endif
    for (int i = 0; i < ND; i++) {
      d->right[i][W_PAR + j] -= pushed[i] - moved[i] - s->Jt[i * NP + j];
    }
    for (int c = 0; c < NC; c++) {
      if (s->closed[c]) {
        d->right[ND + c][W_PAR + j] -= s->ht[c * NP + j] - (ROWS[c] == TANGENT ? before[c * NP + j] : 0.0);
      }
    }
  }
}

/* The length up to h_j = 0 */
static void add_parameters_to_end(const workspace *s, const stage *g, slopes *d, double speed) {
  for (int j = 0; j < NP; j++) {
    d->length[W_PAR + j] -= s->ht[g->event * NP + j] / speed;
  }
}

static void add_parameters_to_momentum(const workspace *s, const stage *g, slopes *d) {
#ifdef SM_BALLS
  columns *push = d->push;
#else
  columns *push = d->p;
#endif
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NP; j++) {
      const int k = i * NP + j;
      push[i][W_PAR + j] += g->length * (s->Lqt[k] + s->Ft[k]);
      d->p[i][W_PAR + j] -= s->Jt[k];
    }
  }
}

/* The velocity before a jump, from L_v(qb, v) = p; after evaluate_at. */
static void add_parameters_before_jump(chain *e, const stage *g, slopes *d) {
  (void)g;
  evaluate_slope(e);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NP; j++) {
      d->z[i][W_PAR + j] -= e->s.Lvt[i * NP + j];
    }
  }
}

/* right += factor_c d(D h_c v) by the parameters, for the rows of a jump */
static void add_speeds(chain *e, const stage *g, slopes *d, const double *v, const double *factors) {
  workspace *s = &e->s;
  double full[NQ];
  memcpy(full, v, ND * sizeof(double));
  memcpy(full + ND, s->rate, NK * sizeof(double));
  const double *const in[] = {g->q1, e->par, full};
  double *const out[] = {s->St};
  sm_speedslope(in, out, s->scratch);
  for (int c = 0; c < NC; c++) {
    for (int j = 0; j < NP && g->rows[c]; j++) {
      d->right[ND + c][W_PAR + j] += factors[c] * s->St[c * NP + j];
    }
  }
}

/* L_v(qb, v2) + D_q h^T Lam = p, D h v2 = -e D h v1; after evaluate_at for v2. */
static void add_parameters_to_jump(chain *e, const stage *g, slopes *d) {
  workspace *s = &e->s;
  double minus[NC], against[NC];
  evaluate_slope(e);
  evaluate_conslope(e, g->q1, g->q1, g->lam);
  for (int c = 0; c < NC; c++) {
    minus[c] = -1.0;
    against[c] = -g->bounce[c];
    if (g->rows[c] && g->bounce[c] > 0.0) {
      d->right[ND + c][W_PAR + NP + 1 + c] -= speed_of(s, c, g->v1, s->rate);
    }
  }
  add_speeds(e, g, d, g->v2, minus);
  add_speeds(e, g, d, g->v1, against);
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NP; j++) {
      d->right[i][W_PAR + j] -= s->Lvt[i * NP + j] + s->Jt[i * NP + j];
    }
  }
}

static void add_parameters_behind_jump(const workspace *s, slopes *d) {
  for (int i = 0; i < ND; i++) {
    for (int j = 0; j < NP; j++) {
      d->p[i][W_PAR + j] -= s->Jt[i * NP + j];
    }
  }
}

#endif
#endif
