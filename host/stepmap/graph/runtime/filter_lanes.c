/* The extended Kalman filter of estimate/ekf.py over whole runs of a midpoint step, one run per lane: predict, channels
 * one after the other with a gate, and constraint projection. model.h has besides what a segment needs
 *   CHANNELS of the sensors and the generated function sm_sense, readings and their slopes in qb. */
#include "lanes.h"
#include "model.h"

enum { TURNS = 2 };        /* of the projection, as in estimate/measurement.py */
#define DEPENDENT 1e-12    /* a pivot of J J^T this small, relative to its diagonal, is none */
#define ROWS (2 * ND + NK) /* of A that are not zero: q, p, v; and its columns q, rho, p */
#define COLS (NQ + ND)

typedef struct {
  workspace step;
  real reading[CHANNELS], H[CHANNELS * NQ]; /* of generated functions */
  real P[NDX * NDX], T[ROWS * COLS], A[ROWS * COLS];
} filter;

typedef struct {
  const double *par, *Q, *R;
  double dt, gate;
  int project;
  scalar_linearize linearize;
  void *scalar;
} settings;

typedef struct {
  double *x, *P;               /* one state, and one covariance or NULL, per step of a run */
  double *residual, *variance; /* CHANNELS per step, or NULL */
  unsigned char *used;         /* 1 used, 2 outside the gate, or NULL */
} told;

SM_EXPORT size_t sm_filter_bytes(void) { return sizeof(filter); }

/* State index of a row of A, column index of its columns: rho has no row and v no column. */
static int row_at(int r) { return r < ND ? r : r - ND + NQ; }

static void predict_covariance(filter *f, double dt, const double *Q) {
  const real *P = f->P;
  for (int i = 0; i < ND; i++) {
    memcpy(f->A + i * COLS, f->step.D + i * NWP, COLS * sizeof(real));
    memcpy(f->A + (ND + i) * COLS, f->step.P + i * NWP, COLS * sizeof(real));
  }
  for (int r = 0; r < 2 * ND; r++) {
    for (int j = 0; j < COLS; j++) {
      real sum = SM_OF(0.0);
      for (int k = 0; k < COLS; k++) {
        sum += f->A[r * COLS + k] * P[k * NDX + j];
      }
      f->T[r * COLS + j] = sum;
    }
  }
  for (int k = 0; k < NK; k++) {
    for (int j = 0; j < COLS; j++) {
      f->T[(2 * ND + k) * COLS + j] = P[(ND + k) * NDX + j] / -dt;
    }
  }
  memset(f->P, 0, sizeof f->P);
  for (int r = 0; r < ROWS; r++) {
    for (int c = 0; c <= r; c++) {
      real sum = SM_OF(0.0);
      if (c < 2 * ND) {
        for (int j = 0; j < COLS; j++) {
          sum += f->T[r * COLS + j] * f->A[c * COLS + j];
        }
      } else {
        sum = f->T[r * COLS + ND + c - 2 * ND] / -dt;
      }
      f->P[row_at(r) * NDX + row_at(c)] = f->P[row_at(c) * NDX + row_at(r)] = sum;
    }
  }
  for (int i = 0; i < NDX * NDX; i++) {
    f->P[i] += Q[i];
  }
}

/* x and P one step later; x is the state before. Lanes that need it go through the scalar library. */
static int predict(filter *f, const settings *of, const real *par, real *x, const real *u, sm_flags count,
                   double *info) {
  workspace *s = &f->step;
  const arguments a = {par, x, u, SM_OF(of->dt)};
  const sm_flags solved = differentiate(s, &a, NULL, solve(s, &a, NULL, count));
  real after[NX];
  next_state(s, &a, after);
  for (int l = 0; l < SM_LANES; l++) {
    if (count[l] && !solved[l]) {
      double from[NX], with[AT_LEAST_ONE(NV)], to[NX], A[NDX * NDX], B[AT_LEAST_ONE(NDX * NV)];
      double *const lane[SM_LANES] = {[0 ... SM_LANES - 1] = from}, *const inputs[SM_LANES] = {[0 ... SM_LANES - 1] =
                                                                                                   with};
      scatter(x, NX, lane, one_lane(l));
      scatter(u, NV, inputs, one_lane(l));
      const int status = of->linearize(of->scalar, of->par, of->dt, from, with, NULL, to, A, B, info);
      if (status != SM_OK) {
        return status;
      }
      for (int i = 0; i < NX; i++) {
        after[i][l] = to[i];
      }
      for (int i = 0; i < ND; i++) {
        for (int j = 0; j < COLS; j++) {
          s->D[i * NWP + j][l] = A[i * NDX + j];
          s->P[i * NWP + j][l] = A[(NQ + i) * NDX + j];
        }
      }
    }
  }
  memcpy(x, after, sizeof after);
  predict_covariance(f, of->dt, of->Q);
  return SM_OK;
}

/* What has been seen of a step, per channel. */
typedef struct {
  real residual[CHANNELS], variance[CHANNELS];
  sm_flags used[CHANNELS], gated[CHANNELS];
} innovation;

static void update(filter *f, const settings *of, const real *par, real *x, const real *z, innovation *seen) {
  const real *const in[] = {x, par};
  real *const out[] = {f->reading, f->H};
  real moved[NX], Ph[NDX];
  memset(moved, 0, sizeof moved);
  sm_sense(in, out, f->step.scratch);
  for (int m = 0; m < CHANNELS; m++) {
    const real *h = f->H + m * NQ;
    const sm_flags valid = sm_abs(z[m]) < INFINITY;
    real S = SM_OF(0.0), expected = SM_OF(0.0);
    for (int i = 0; i < NDX; i++) {
      real sum = SM_OF(0.0);
      for (int j = 0; j < NQ; j++) {
        sum += f->P[i * NDX + j] * h[j];
      }
      Ph[i] = sum;
    }
    for (int j = 0; j < NQ; j++) {
      S += h[j] * Ph[j];
      expected += h[j] * moved[j];
    }
    S += of->R[m];
    const real e = (sm_where(valid, z[m], SM_OF(0.0)) - sm_where(valid, f->reading[m], SM_OF(0.0))) - expected;
    const sm_flags use = valid & (e * e <= of->gate * of->gate * S);
    const real scale = sm_where(use, 1.0 / S, SM_OF(0.0));
    for (int i = 0; i < NDX; i++) {
      const real gain = Ph[i] * scale;
      moved[i] += gain * e;
      for (int j = 0; j <= i; j++) {
        f->P[i * NDX + j] -= gain * Ph[j];
        f->P[j * NDX + i] = f->P[i * NDX + j];
      }
    }
    seen->residual[m] = e;
    seen->variance[m] = S;
    seen->used[m] = use;
    seen->gated[m] = valid & ~use;
  }
  for (int i = 0; i < NX; i++) {
    x[i] += moved[i];
  }
}

/* q moved onto the constraints by the least change, q -= J^T (J J^T)^-1 h; returns the lanes where these are independent. */
static sm_flags project(filter *f, const real *par, real *x, sm_flags count) {
  workspace *s = &f->step;
  const arguments a = {par, x, NULL, SM_OF(0.0)};
  real L[AT_LEAST_ONE(NC * NC)], y[AT_LEAST_ONE(NC)];
  memset(L, 0, sizeof L);
  for (int turn = 0; turn < TURNS && NC > 0; turn++) {
    const real *J = s->Dh1;
    evaluate_constraints(s, &a, x, s->Dh1);
    for (int r = 0; r < NC; r++) {
      y[r] = s->h[r];
      for (int c = 0; c <= r; c++) {
        real sum = SM_OF(0.0);
        for (int i = 0; i < ND; i++) {
          sum += J[r * NQ + i] * J[c * NQ + i];
        }
        const real whole = sum;
        for (int k = 0; k < c; k++) {
          sum -= L[r * NC + k] * L[c * NC + k];
        }
        if (r == c) {
          count &= sum > DEPENDENT * whole;
          L[r * NC + r] = sm_sqrt(sum);
        } else {
          L[r * NC + c] = sum / L[c * NC + c];
        }
      }
      for (int k = 0; k < r; k++) {
        y[r] -= L[r * NC + k] * y[k];
      }
      y[r] /= L[r * NC + r];
    }
    for (int r = NC - 1; r >= 0; r--) {
      for (int k = r + 1; k < NC; k++) {
        y[r] -= L[k * NC + r] * y[k];
      }
      y[r] /= L[r * NC + r];
      for (int i = 0; i < ND; i++) {
        x[i] -= J[r * NQ + i] * y[r];
      }
    }
  }
  return count;
}

static void tell(const filter *f, const real *x, const innovation *seen, const told *to, int lanes, int n, int k) {
  for (int l = 0; l < lanes; l++) {
    const ptrdiff_t at = (ptrdiff_t)l * n + k;
    for (int i = 0; i < NX; i++) {
      to->x[at * NX + i] = x[i][l];
    }
    for (int i = 0; i < NDX * NDX && to->P; i++) {
      to->P[at * NDX * NDX + i] = f->P[i][l];
    }
    for (int m = 0; m < CHANNELS && to->used; m++) {
      to->residual[at * CHANNELS + m] = seen->residual[m][l];
      to->variance[at * CHANNELS + m] = seen->variance[m][l];
      to->used[at * CHANNELS + m] = (unsigned char)(seen->used[m][l] ? 1 : seen->gated[m][l] ? 2 : 0);
    }
  }
}

/* Up to SM_LANES runs of n steps side by side, from x and f->P; Z has n rows per run, as what is told. */
static int filter_runs(filter *f, const settings *of, const real *par, int lanes, int n, real *x, const double *U,
                       ptrdiff_t apart, const double *Z, const told *to, double *info) {
  const sm_flags count = first_lanes(lanes);
  const double *inputs[SM_LANES], *measured[SM_LANES];
  real u[AT_LEAST_ONE(NV)], z[CHANNELS];
  innovation seen;
  for (int k = 0; k < n; k++) {
    for (int l = 0; l < SM_LANES; l++) {
      const int j = l < lanes ? l : 0;
      inputs[l] = U + j * apart + (ptrdiff_t)k * NV;
      measured[l] = Z + ((ptrdiff_t)j * n + k) * CHANNELS;
    }
    gather(inputs, NV, u);
    gather(measured, CHANNELS, z);
    int status = predict(f, of, par, x, u, count, info);
    if (status == SM_OK) {
      update(f, of, par, x, z, &seen);
      status = of->project && sm_any(count & ~project(f, par, x, count)) ? SM_SINGULAR : SM_OK;
    }
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
    tell(f, x, &seen, to, lanes, n, k);
  }
  return SM_OK;
}

/* m runs of n steps from the states X0 (m, NX) with covariances P (m, NDX, NDX), which are replaced by the last ones.
 * Inputs are `apart` doubles from one run to the next, 0 where all share them; Z (m, n, CHANNELS), a channel that is not
 * finite is skipped. X (m, n, NX); Ps (m, n, NDX, NDX) or NULL; residual, variance, used (m, n, CHANNELS) or NULL. */
SM_EXPORT int sm_filter_lanes(void *work, const double *par, double dt, int m, int n, const double *X0, double *P,
                              ptrdiff_t apart, const double *U, const double *Z, const double *Q, const double *R,
                              double gate, int with_projection, double *X, double *Ps, double *residual,
                              double *variance, unsigned char *used, double *info, scalar_linearize linearize,
                              void *scalar) {
  filter *f = work;
  const settings of = {par, Q, R, dt, gate, with_projection, linearize, scalar};
  const ptrdiff_t square = NDX * NDX;
  real parameters[AT_LEAST_ONE(NP)], x[NX];
  spread(par, parameters);
  for (int j = 0; j < m; j += SM_LANES) {
    const int lanes = m - j < SM_LANES ? m - j : SM_LANES;
    const double *states[SM_LANES], *covariances[SM_LANES];
    double *last[SM_LANES];
    for (int l = 0; l < SM_LANES; l++) {
      const ptrdiff_t i = j + (l < lanes ? l : 0);
      states[l] = X0 + i * NX;
      covariances[l] = last[l] = P + i * square;
    }
    gather(states, NX, x);
    gather(covariances, NDX * NDX, f->P);
    const ptrdiff_t rows = (ptrdiff_t)j * n, channels = rows * CHANNELS;
    const told to = {X + rows * NX, Ps ? Ps + rows * square : NULL, used ? residual + channels : NULL,
                     used ? variance + channels : NULL, used ? used + channels : NULL};
    const int status = filter_runs(f, &of, parameters, lanes, n, x, U + j * apart, apart, Z + channels, &to, info);
    if (status != SM_OK) {
      info[3] = j;
      return status;
    }
    scatter(f->P, NDX * NDX, last, first_lanes(lanes));
  }
  return SM_OK;
}
