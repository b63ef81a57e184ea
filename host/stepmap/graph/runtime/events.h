/* Chains of segments: what the solver of events.c, its impacts and its derivatives share.
 *
 * model.h defines ROW_KINDS, one kind per row of h; NP is the number of the model's parameters, after which `par` has
 *   the number of equal parts of a step, and per row its restitution, or -1 where a gap does not exist in this map. */
#ifndef SM_EVENTS_H
#define SM_EVENTS_H

#include "segment.h"

enum { SM_TOO_MANY = -4, SM_BEYOND = -5 }; /* segments in a step; x is beyond a gap by more than BEYOND */
enum { MAX_SEGMENTS = 200, MAX_STAGES = 3 * MAX_SEGMENTS };
enum { IMPACT = 1, RELEASE = 2 };
/* step, row, kind, time in the step, impulse, energy, rejected force of a release or tangential impulse of an impact */
enum { LOG_WIDTH = 7 };

#define TOUCH 1e-9      /* m: a gap this close is closed */
#define BEYOND 1e-6     /* m: a state this far beyond a gap is pulled back by the step */
#define LEAST 1e-13     /* forces [N] and gaps [m] below this are rounding */
#define DEPENDENT 1e-14 /* square of the sine between a row and those before it */

/* A part of a step: a segment, or a jump of the momentum at a place. */
typedef struct {
  int jump, event;      /* event: the row whose gap ends a segment, or -1 */
  int rows[NC];         /* closed ones */
  double begin, length; /* time since the step's begin */
  double share, node;   /* where no event ends it: length = share (node dt - begin) */
  double q1[NQS], p1[ND], q2[NQS], lam[NC];
#ifdef SM_BALLS
  double turns[NB][3]; /* t of balls */
#endif
  double v1[ND], v2[ND], bounce[NC];  /* jump: velocities before and after it, restitutions */
  double eta_q[ND], eta_p[ND], eta_t; /* costates of its end */
} stage;

typedef struct {
  workspace s; /* first, so that generated functions find their zeros in cleared memory */
  const double *par, *given;
  double dt, x[NX], u[NV]; /* begin of the present segment; forces, and kinematic coordinates at its end */
  int touch[NC], kept[NC]; /* gaps closed at the begin; rows that the present guess keeps closed */
  int slips[NC];           /* gaps whose tangents are left out: sticking there, they would have to pull */
  double rejected[NC];     /* multipliers of rows that were let go */
  stage stages[MAX_STAGES];
  int count, iterations;
  double *log; /* events, LOG_WIDTH numbers each, and closed gaps per step; NULL where nobody asks */
  unsigned char *modes;
  int capacity, logged, step;
  int shut[NC];        /* gaps that are closed by what was told: an impact closes one, a release opens it */
  const int *expected; /* tallies along a reference, a row per node; NULL where there is none */
  int tally[NC];       /* of this rollout, see count_events */
} chain;

/* Where the next steps write their events and modes; NULL to end it. */
SM_EXPORT void sm_record(void *work, double *log, int capacity, unsigned char *modes) {
  chain *e = work;
  e->log = log;
  e->modes = modes;
  e->capacity = capacity;
  e->logged = e->step = 0;
  e->expected = NULL;
}

/* The tallies of a reference, (n+1, NC), for the feedback of the next sm_project; after sm_record. */
SM_EXPORT void sm_expect(void *work, const int *expected) {
  chain *e = work;
  e->expected = expected;
  memcpy(e->tally, expected, sizeof e->tally);
}

SM_EXPORT int sm_recorded(const void *work) { return ((const chain *)work)->logged; }

static double restitution(const chain *e, int c) { return e->par[NP + 1 + c]; }
static int exists(const chain *e, int c) { return ROWS[c] == EQUALITY || restitution(e, c) >= 0.0; }
static int is_gap(const chain *e, int c) { return ROWS[c] == GAP && exists(e, c); }

/* The gap that a tangent row belongs to: the last one before it. */
static int owner(int c) {
  while (ROWS[c] == TANGENT) {
    c--;
  }
  return c;
}

static void log_event(chain *e, int row, int kind, double time, double impulse_, double energy, double force) {
  if (e->log) {
    if (e->logged < e->capacity) {
      const double entry[LOG_WIDTH] = {e->step, row, kind, time, impulse_, energy, force};
      memcpy(e->log + (ptrdiff_t)e->logged * LOG_WIDTH, entry, sizeof entry);
    }
    e->logged++;
  }
}

/* The tally of every gap after a step whose events are in the log from `first` on: -1 where it is closed, else its
 * bounces since it was. A gap that closed and opened again leaves no trace: from then on, two rollouts can be compared. */
static void count_events(chain *e, int first) {
  int more[NC] = {0};
  for (int i = first; i < e->logged && i < e->capacity; i++) {
    const double *entry = e->log + (ptrdiff_t)i * LOG_WIDTH;
    more[(int)entry[1]] += (int)entry[2] == IMPACT ? 1 : -1;
  }
  for (int c = 0; c < NC; c++) {
    const int open = (e->tally[c] < 0 ? 1 : e->tally[c]) + more[c];
    e->tally[c] = ROWS[c] != GAP ? 0 : e->shut[c] ? -1 : open > 0 ? open : 0;
  }
}

/* Whether feedback along a reference makes sense at the node that is reached: where only one of the two has had an
 * impact, gains would multiply the jump of its velocity. */
static int same_events(void *work, int node) {
  const chain *e = work;
  return !e->expected || memcmp(e->expected + (ptrdiff_t)node * NC, e->tally, sizeof e->tally) == 0;
}

/* Tangents are wanted where their gap is, unless it slips. */
static void add_tangents(const chain *e, int *rows) {
  for (int c = 0; c < NC; c++) {
    if (ROWS[c] == TANGENT) {
      rows[c] = rows[owner(c)] && !e->slips[owner(c)];
    }
  }
}

static int has_tangents(int c) { return ROWS[c] == GAP && c + 1 < NC && ROWS[c + 1] == TANGENT; }

/* Of the wanted rows those that are independent of the ones before; `first` goes before all, gaps before tangents. */
static void independent(const double *jacobian, const int *wanted, int first, int *chosen) {
  double basis[NC * ND];
  int n = 0;
  memset(chosen, 0, NC * sizeof(int));
  for (int pass = first < 0 ? 1 : 0; pass < 3; pass++) {
    for (int c = 0; c < NC; c++) {
      const int turn = c == first ? 0 : ROWS[c] == TANGENT ? 2 : 1;
      if (!wanted[c] || turn != pass || n == ND) {
        continue;
      }
      double line[ND], before = 0.0, after = 0.0;
      for (int i = 0; i < ND; i++) {
        line[i] = jacobian[c * NQ + i];
        before += line[i] * line[i];
      }
      for (int again = 0; again < 2; again++) { /* twice is enough (Kahan) */
        for (int b = 0; b < n; b++) {
          double along = 0.0;
          for (int i = 0; i < ND; i++) {
            along += line[i] * basis[b * ND + i];
          }
          for (int i = 0; i < ND; i++) {
            line[i] -= along * basis[b * ND + i];
          }
        }
      }
      for (int i = 0; i < ND; i++) {
        after += line[i] * line[i];
      }
      if (after > DEPENDENT * before && before > 0.0) {
        for (int i = 0; i < ND; i++) {
          basis[n * ND + i] = line[i] / sqrt(after);
        }
        n++;
        chosen[c] = 1;
      }
    }
  }
}

/* h, its derivatives and forces per multiplier at the begin of a segment, x. */
static void begin_segment(chain *e) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->u, e->dt};
  memcpy(s->q1, e->x, sizeof s->q1);
  evaluate_constraints(s, &a, s->q1, s->Dh1);
  memcpy(s->h1, s->h, sizeof s->h1);
  const double *const in[] = {s->q1, e->par};
  double *const out[] = {s->pull};
  sm_pull(in, out, s->scratch);
  for (int c = 0; c < NC; c++) {
    e->touch[c] = is_gap(e, c) && s->h1[c] >= -TOUCH * s->pull[c];
  }
}

/* The segment from x over a length of time with the rows in s->closed; kinematic coordinates end at the input at a
 * node and move at their rate otherwise. */
static int segment(chain *e, double length, int at_node, int warm) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->u, length};
  for (int k = 0; k < NK; k++) {
    const int at = NQS - NK + k;
    e->u[NU + k] = s->q2[at] = at_node ? e->given[NU + k] : s->q1[at] + length * s->rate[k];
  }
  int status = SM_DIVERGED;
  for (int damped = 0; damped < 2 && status != SM_OK; damped++) {
    if (!warm || damped) {
      memcpy(s->q2, s->q1, (NQS - NK) * sizeof(double));
      memset(s->lam, 0, sizeof s->lam);
#ifdef SM_BALLS
      for (int n = 0; n < NB; n++) {
        memset(s->balls[n].t, 0, sizeof s->balls[n].t);
      }
#endif
    }
    status = newton(s, &a, INFINITY, damped, &e->iterations);
  }
  return status;
}

/* h at the segment's end. */
static void look_ahead(chain *e) {
  const arguments a = {e->par, e->x, e->u, e->dt};
  evaluate_constraints(&e->s, &a, e->s.q2, e->s.Dh2);
}

static void end_momentum(chain *e, double length, double *p2) {
  workspace *s = &e->s;
  const arguments a = {e->par, e->x, e->u, length};
  evaluate_first(s, &a);
#ifdef SM_BALLS
  end_momenta(s, e->x + NQS, length, p2);
#else
  for (int i = 0; i < ND; i++) {
    p2[i] = e->x[NQ + i] + length * (s->Lq[i] + s->F[i]) - impulse(s, i);
  }
#endif
}

/* The segment that was solved, into its stage. */
static void keep_segment(const workspace *s, stage *g, double length) {
  g->length = length;
  memcpy(g->q2, s->q2, sizeof g->q2);
  memcpy(g->lam, s->lam, sizeof g->lam);
#ifdef SM_BALLS
  for (int n = 0; n < NB; n++) {
    memcpy(g->turns[n], s->balls[n].t, sizeof g->turns[n]);
  }
#endif
}

/* The end of a stage's segment, as where to search from. */
static void recall_segment(workspace *s, const stage *g) {
  memcpy(s->closed, g->rows, sizeof s->closed);
  memcpy(s->q2, g->q2, sizeof s->q2);
  memcpy(s->lam, g->lam, sizeof s->lam);
#ifdef SM_BALLS
  for (int n = 0; n < NB; n++) {
    memcpy(s->balls[n].t, g->turns[n], sizeof g->turns[n]);
  }
#endif
}

/* The chain's state goes to the end of the segment that was solved. */
static void move_on(chain *e, const double *p2) {
  memcpy(e->x, e->s.q2, NQS * sizeof(double));
#ifdef SM_BALLS
  make_unit(e->x);
#endif
  memcpy(e->x + NQS, p2, ND * sizeof(double));
}

/* Change of qb2 (dynamic) for a change of the unknowns, by turns about the child's axes where those are t of balls. */
static void to_end(const workspace *s, const double *dz, double *dq) {
  memcpy(dq, dz, ND * sizeof(double));
#ifdef SM_BALLS
  for (int n = 0; n < NB; n++) {
    apply3(s->balls[n].N, dz + BALL_T[n], dq + BALL_T[n]);
  }
#else
  (void)s;
#endif
}

#endif
