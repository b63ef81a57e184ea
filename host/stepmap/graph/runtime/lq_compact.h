/* The backward pass of the Riccati recursion, for maps that copy kinematic coordinates.
 *
 * Their state is [q, rho, p, v] and their input [forces, rho_next]: rho' = rho_next, v' = (rho_next - rho)/dt, and
 * neither q' nor p' depends on v. Where no weight couples v with anything else, v is no state of the problem either: its
 * cost is one of rho_next - rho, a step earlier. The order in here is y = [q, p, rho], so that rows which are integrated
 * stand together. */
#ifndef SM_LQ_COMPACT_H
#define SM_LQ_COMPACT_H

#include "lq_held.h"

/* A problem as lq.c states it. To Q, S and R are added `part` times xx (n, nx, nx), xu (n, nx, nu), uu (n, nu, nu), which
 * may be NULL. S, q, r may be NULL (zero). Qs, Rs, Ss are the strides in time of Q, R and S: 0 where one matrix holds for
 * all steps. Q's last matrix is `terminal`, q has n+1 rows. nd is negative where nothing is known of the map's structure,
 * or where weights couple v. */
struct quadratic {
  int n, nx, nu, nd, nk;
  double part;
  const double *A, *B, *Q, *R, *S;
  ptrdiff_t Qs, Rs, Ss;
  const double *terminal, *q, *r, *xx, *xu, *uu;
};

/* Gains K (n, nu, nx) and feed-forward f (n, nu) with v = -K z - f, and the curvature P0 at the start, or NULL. */
struct gains {
  double *K, *f, *P0;
};

/* A row of y from one of x, and back; the entries of v are left out, and zero. */
static void to_compact(double *y, const double *x, int nd, int nk) {
  memcpy(y, x, sizeof(double) * (size_t)nd);
  memcpy(y + nd, x + nd + nk, sizeof(double) * (size_t)nd);
  memcpy(y + 2 * nd, x + nd, sizeof(double) * (size_t)nk);
}

static void from_compact(double *x, const double *y, int nd, int nk) {
  memcpy(x, y, sizeof(double) * (size_t)nd);
  memcpy(x + nd, y + 2 * nd, sizeof(double) * (size_t)nk);
  memcpy(x + nd + nk, y + nd, sizeof(double) * (size_t)nd);
  memset(x + 2 * nd + nk, 0, sizeof(double) * (size_t)nk);
}

/* Where the entry i of y is in x. */
static int place_of(int i, int nd, int nk) { return i < nd ? i : i < 2 * nd ? i + nk : i - nd; }

/* Scratch of a pass; rows of T, H and P have remainders behind them, which products fill. */
struct compact {
  int ny, w, ws, ys, gs, d;
  double *P, *D, *T, *H, *Q, *G, *Kf, *GK, *L, *Huu, *W, *F, *h, *p, *row;
};

static size_t compact_layout(struct compact *c, double *at, int nx, int nu, int nd, int nk) {
  const int d = 2 * nd, ny = d + nk, w = ny + nu, ys = padded(ny), ws = padded(w), gs = padded(ny + 1);
  const int us = padded(nu) + BLOCK, more = BLOCK;
  const int sizes[] = {(ys + more) * ys,
                       (d + more) * ws,
                       (ys + 2 * more) * ws,
                       (ws + more) * ws,
                       ny * ys,
                       us * gs,
                       us * gs,
                       (gs + more) * gs,
                       nu * nu,
                       nu * nu,
                       us * gs,
                       us * gs,
                       ws,
                       ys,
                       nx + 1};
  double **const parts[] = {&c->P, &c->D,   &c->T, &c->H, &c->Q, &c->G, &c->Kf, &c->GK,
                            &c->L, &c->Huu, &c->W, &c->F, &c->h, &c->p, &c->row};
  size_t total = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    *parts[i] = at ? at + total : NULL;
    total += (size_t)sizes[i];
  }
  c->ny = ny, c->w = w, c->ws = ws, c->ys = ys, c->gs = gs, c->d = d;
  return total;
}

/* H = [A B]^T P [A B] above its diagonal and h = [A B]^T p, with the cost of v at the end of the step. */
static void pull_back(const struct quadratic *m, const struct compact *c, int k) {
  const int nx = m->nx, nu = m->nu, nd = m->nd, nk = m->nk, d = c->d, ny = c->ny, ws = c->ws, ys = c->ys;
  const int next = ny + nu - nk; /* column of rho_next */
  const double *A = m->A + (ptrdiff_t)k * nx * nx, *B = m->B + (ptrdiff_t)k * nx * nu;
  memset(c->h, 0, sizeof(double) * (size_t)ws);
  for (int i = 0; i < d; i++) {
    double *to = c->D + i * ws;
    const int row = place_of(i, nd, nk);
    to_compact(to, A + row * nx, nd, nk);
    memcpy(to + ny, B + row * nu, sizeof(double) * (size_t)nu);
    for (int j = 0; j < c->w; j++) {
      c->h[j] += to[j] * c->p[i];
    }
  }
  multiply(c->T, ws, c->P, ys, c->D, ws, d, d, c->w, 0);
  const int from = next / COLUMNS * COLUMNS; /* of rows of rho only these columns are used */
  if (nk) {
    multiply(c->T + d * ws + from, ws, c->P + d, ys, c->D + from, ws, nk, d, c->w - from, 0);
  }
  for (int i = 0; i < ny; i++) {
    for (int j = 0; j < nk; j++) {
      c->T[i * ws + next + j] += c->P[i * ys + d + j];
    }
  }
  multiply(c->H, ws, c->D, ws, c->T, ws, c->w, d, c->w, 1);
  const double *end = k + 1 < m->n ? m->Q + (k + 1) * m->Qs : m->terminal;
  for (int i = 0; i < nk; i++) {
    const int u = next + i, rho = d + i, v = nx - nk + i;
    const double rate = B[v * nu + nu - nk + i];
    for (int j = i; j < nk; j++) {
      c->H[u * ws + next + j] += c->T[(d + i) * ws + next + j];
    }
    for (int j = 0; j < nk; j++) {
      const double cost = rate * rate * end[v * nx + nx - nk + j];
      c->H[rho * ws + d + j] += cost;
      c->H[rho * ws + next + j] -= cost;
      c->H[u * ws + next + j] += cost;
    }
    const double slope = m->q ? rate * m->q[(ptrdiff_t)(k + 1) * nx + v] : 0.0;
    c->h[u] += c->p[rho] + slope;
    c->h[rho] -= slope;
  }
}

/* [G g] and the lower triangle of the inputs' own curvature. */
static void own_inputs(const struct quadratic *m, const struct compact *c, int k) {
  const int nx = m->nx, nu = m->nu, ny = c->ny, gs = c->gs, ws = c->ws;
  const double *R = m->R + k * m->Rs, *S = m->S ? m->S + k * m->Ss : NULL;
  const double *xu = m->xu ? m->xu + (ptrdiff_t)k * nx * nu : NULL;
  const double *uu = m->uu ? m->uu + (ptrdiff_t)k * nu * nu : NULL;
  for (int i = 0; i < nu; i++) {
    for (int j = 0; j <= i; j++) {
      c->L[i * nu + j] = R[i * nu + j] + (uu ? m->part * uu[i * nu + j] : 0.0) + c->H[(ny + j) * ws + ny + i];
    }
    c->G[i * gs + ny] = c->h[ny + i] + (m->r ? m->r[(ptrdiff_t)k * nu + i] : 0.0);
  }
  for (int j = 0; j < ny; j++) {
    const int x = place_of(j, m->nd, m->nk) * nu;
    for (int i = 0; i < nu; i++) {
      c->G[i * gs + j] = c->H[j * ws + ny + i] + (S ? S[x + i] : 0.0) + (xu ? m->part * xu[x + i] : 0.0);
    }
  }
  memcpy(c->Kf, c->G, sizeof(double) * (size_t)nu * (size_t)gs);
}

/* [K f] of a step with held inputs, and what their multipliers depend on; `tied` is scratch. */
static int solve_some(const struct quadratic *m, const struct held *held, const struct compact *c, int k, int *tied) {
  const int nx = m->nx, nu = m->nu, ny = c->ny, gs = c->gs;
  for (int i = 0; i < nu; i++) {
    tied[i] = held->tied[i] < 0 ? -1 : held->tied[i] - m->nd + c->d;
    for (int j = 0; j <= i; j++) {
      c->Huu[i * nu + j] = c->Huu[j * nu + i] = c->L[i * nu + j];
    }
  }
  if (solve_held(held, tied, k, ny, nu, gs, c->Huu, c->G, c->Kf, c->L, c->F, c->W)) {
    return -1;
  }
  for (int i = 0; i < nu; i++) {
    const ptrdiff_t place = (ptrdiff_t)k * nu + i;
    if (held->at[place] != FREE) {
      double *slope = held->slope + place * (nx + 1);
      from_compact(slope, c->W + i * gs, m->nd, m->nk);
      slope[nx] = c->W[i * gs + ny];
    }
  }
  return 0;
}

/* P = Q + A^T P A - G^T K and p alike; of tied rows K^T (G - H K), too. */
static void step_back(const struct quadratic *m, const struct held *held, const struct compact *c, int k,
                      const int *tied) {
  const int nx = m->nx, nu = m->nu, nd = m->nd, nk = m->nk, ny = c->ny, gs = c->gs;
  const double *Q = m->Q + k * m->Qs;
  multiply(c->GK, gs, c->G, gs, c->Kf, gs, ny, nu, ny + 1, 1);
  for (int i = 0; held && i < nu; i++) {
    if (is_rate(held->at[(ptrdiff_t)k * nu + i])) {
      for (int j = tied[i]; j <= ny; j++) {
        c->GK[tied[i] * gs + j] -= c->W[i * gs + j];
      }
    }
  }
  to_compact(c->row, m->q ? m->q + (ptrdiff_t)k * nx : c->h, nd, nk);
  for (int i = 0; i < ny; i++) {
    c->p[i] = (m->q ? c->row[i] : 0.0) + c->h[i] - c->GK[i * gs + ny];
  }
  if (m->Qs || k == m->n - 1) {
    for (int i = 0; i < ny; i++) {
      to_compact(c->Q + i * c->ys, Q + place_of(i, nd, nk) * nx, nd, nk);
    }
  }
  for (int i = 0; i < ny; i++) {
    double *to = c->P + i * c->ys;
    const double *own = c->Q + i * c->ys, *after = c->H + i * c->ws, *gained = c->GK + i * gs;
    const int from = i / COLUMNS * COLUMNS;
    if (m->xx) {
      to_compact(c->row, m->xx + (ptrdiff_t)k * nx * nx + place_of(i, nd, nk) * nx, nd, nk);
      for (int j = from; j < ny; j++) {
        to[j] = own[j] + after[j] - gained[j] + m->part * c->row[j];
      }
    } else {
      for (int j = from; j < ny; j++) {
        to[j] = own[j] + after[j] - gained[j];
      }
    }
  }
  mirror(c->P, ny, c->ys);
}

/* The pass; `tied` is scratch of nu integers. Returns 0, or -(k+1) where the problem at step k is not positive definite
 * in its free inputs. */
static int compact_backward(const struct quadratic *m, const struct held *held, const struct gains *out,
                            double *scratch, int *tied) {
  const int nx = m->nx, nu = m->nu, nd = m->nd, nk = m->nk;
  struct compact c;
  memset(scratch, 0, sizeof(double) * compact_layout(&c, scratch, nx, nu, nd, nk));
  for (int i = 0; i < c.ny; i++) {
    to_compact(c.P + i * c.ys, m->terminal + place_of(i, nd, nk) * nx, nd, nk);
  }
  if (m->q) {
    to_compact(c.p, m->q + (ptrdiff_t)m->n * nx, nd, nk);
  }
  for (int k = m->n - 1; k >= 0; k--) {
    pull_back(m, &c, k);
    own_inputs(m, &c, k);
    const struct held *some = any_held(held, k, nu) ? held : NULL;
    if (some ? solve_some(m, held, &c, k, tied) : cholesky(c.L, nu)) {
      return -(k + 1);
    }
    if (!some) {
      cholesky_solve(c.L, c.Kf, nu, c.gs);
    }
    step_back(m, some, &c, k, tied);
    for (int i = 0; i < nu; i++) {
      const ptrdiff_t place = (ptrdiff_t)k * nu + i;
      from_compact(out->K + place * nx, c.Kf + i * c.gs, nd, nk);
      out->f[place] = c.Kf[i * c.gs + c.ny];
    }
  }
  const double *Q = m->n ? m->Q : m->terminal;
  for (int i = 0; i < nx && out->P0; i++) {
    const int v = nx - nk; /* what v costs at the start is its weight alone */
    memset(out->P0 + i * nx, 0, sizeof(double) * (size_t)nx);
    if (i >= v) {
      memcpy(out->P0 + i * nx + v, Q + i * nx + v, sizeof(double) * (size_t)nk);
    }
  }
  for (int i = 0; i < c.ny && out->P0; i++) {
    from_compact(out->P0 + place_of(i, nd, nk) * nx, c.P + i * c.ys, nd, nk);
  }
  return 0;
}

#endif
