/* Linear-quadratic problems along a trajectory, for any sizes; no model in here.
 *
 *   min  sum_k  q_k z_k + r_k v_k + 1/2 (z_k Q_k z_k + 2 z_k S_k v_k + v_k R_k v_k)  + q_n z_n + 1/2 z_n Q_n z_n
 *   s.t. z_{k+1} = A_k z_k + B_k v_k
 *
 * Arrays are row-major with the time index first. */
#include "lq_compact.h"

#include <stdint.h>

#define SM_EXPORT __attribute__((visibility("default")))

/* Doubles of scratch that a backward pass needs. */
SM_EXPORT size_t lq_scratch(int nx, int nu, int nd, int nk) {
  struct compact unused;
  if (nd >= 0) {
    return compact_layout(&unused, NULL, nx, nu, nd, nk);
  }
  const size_t x = (size_t)padded(nx), w = (size_t)padded(nx + nu + 1), u = (size_t)padded(nu);
  return 5 * x * w /* P, Pg, AB, T, GK */ + w * w /* H */ + 5 * u * w /* G, K, L, W, F */ + u * u /* Huu */ + 4 * w;
}

/* Rows of [A B] that are not zero, gathered with the trailing zero columns of A left out: kinematic coordinates make up
 * half of some mechanisms' states and are copied, not integrated. Returns the number of rows. */
static int gather(const double *A, const double *B, int nx, int nu, int *live, int *columns, double *AB) {
  int na = 0, rows = 0;
  for (int i = 0; i < nx; i++) {
    int last = nx;
    while (last > na && A[i * nx + last - 1] == 0.0) {
      last--;
    }
    na = last;
  }
  const int stride = padded(na + nu);
  for (int i = 0; i < nx; i++) {
    int used = 0;
    for (int j = 0; j < na && !used; j++) {
      used = A[i * nx + j] != 0.0;
    }
    for (int j = 0; j < nu && !used; j++) {
      used = B[i * nu + j] != 0.0;
    }
    if (used) {
      double *to = AB + rows * stride;
      memcpy(to, A + i * nx, sizeof(double) * (size_t)na);
      memcpy(to + na, B + i * nu, sizeof(double) * (size_t)nu);
      memset(to + na + nu, 0, sizeof(double) * (size_t)(stride - na - nu));
      live[rows++] = i;
    }
  }
  *columns = na;
  return rows;
}

/* The backward pass of lq_compact.h for any map, and weights that couple any states; rows and columns of zeros are
 * looked for. `live` is scratch of nx + nu integers. */
static int backward(const struct quadratic *m, const struct held *held, const struct gains *out, double *scratch,
                    int *live) {
  const int n = m->n, nx = m->nx, nu = m->nu;
  const double *q = m->q, *r = m->r;
  const double part = m->part;
  const int xs = padded(nx), wide = padded(nx + nu + 1), us = padded(nu);
  double *P = scratch, *Pg = P + xs * wide, *AB = Pg + xs * wide, *T = AB + xs * wide, *GK = T + xs * wide;
  double *H = GK + xs * wide, *G = H + wide * wide, *Kf = G + us * wide, *L = Kf + us * wide;
  double *h = L + us * wide, *p = h + wide, *W = p + wide, *F = W + us * wide, *Huu = F + us * wide;
  const int gs = padded(nx + 1); /* stride of [G g] and [K f] */
  memset(scratch, 0, sizeof(double) * lq_scratch(nx, nu, m->nd, m->nk));
  for (int i = 0; i < nx; i++) {
    memcpy(P + i * xs, m->terminal + i * nx, sizeof(double) * (size_t)nx);
    p[i] = q ? q[(ptrdiff_t)n * nx + i] : 0.0;
  }
  for (int k = n - 1; k >= 0; k--) {
    const double *Qk = m->Q + k * m->Qs, *Rk = m->R + k * m->Rs, *Sk = m->S ? m->S + k * m->Ss : NULL;
    const double *xxk = m->xx ? m->xx + (ptrdiff_t)k * nx * nx : NULL;
    const double *xuk = m->xu ? m->xu + (ptrdiff_t)k * nx * nu : NULL;
    const double *uuk = m->uu ? m->uu + (ptrdiff_t)k * nu * nu : NULL;
    const double *qk = q ? q + (ptrdiff_t)k * nx : NULL, *rk = r ? r + (ptrdiff_t)k * nu : NULL;
    int na;
    const int rows = gather(m->A + (ptrdiff_t)k * nx * nx, m->B + (ptrdiff_t)k * nx * nu, nx, nu, live, &na, AB);
    const int w = na + nu, ws = padded(w);
    memset(h, 0, sizeof(double) * (size_t)wide);
    for (int i = 0; i < rows; i++) {
      const double *from = P + live[i] * xs, pull = p[live[i]];
      for (int j = 0; j < rows; j++) {
        Pg[i * xs + j] = from[live[j]];
      }
      for (int j = 0; j < w; j++) {
        h[j] += AB[i * ws + j] * pull;
      }
    }
    multiply(T, ws, Pg, xs, AB, ws, rows, rows, w, 0);
    multiply(H, ws, AB, ws, T, ws, w, rows, w, 1); /* [A B]^T P [A B], upper triangle */
    for (int i = 0; i < nu; i++) {
      for (int j = 0; j <= i; j++) {
        L[i * nu + j] = Rk[i * nu + j] + (uuk ? part * uuk[i * nu + j] : 0.0) + H[(na + j) * ws + na + i];
      }
      for (int j = 0; j < nx; j++) {
        G[i * gs + j] =
            (j < na ? H[j * ws + na + i] : 0.0) + (Sk ? Sk[j * nu + i] : 0.0) + (xuk ? part * xuk[j * nu + i] : 0.0);
      }
      G[i * gs + nx] = h[na + i] + (rk ? rk[i] : 0.0);
      memcpy(Kf + i * gs, G + i * gs, sizeof(double) * (size_t)gs);
    }
    const int some_held = any_held(held, k, nu);
    if (some_held) {
      for (int i = 0; i < nu; i++) {
        for (int j = 0; j <= i; j++) {
          Huu[i * nu + j] = Huu[j * nu + i] = L[i * nu + j];
        }
      }
      if (solve_held(held, held->tied, k, nx, nu, gs, Huu, G, Kf, L, F, W)) {
        return -(k + 1);
      }
      for (int i = 0; i < nu; i++) {
        if (held->at[(ptrdiff_t)k * nu + i] != FREE) {
          memcpy(held->slope + ((ptrdiff_t)k * nu + i) * (nx + 1), W + i * gs, sizeof(double) * (size_t)(nx + 1));
        }
      }
    } else {
      if (cholesky(L, nu)) {
        return -(k + 1);
      }
      cholesky_solve(L, Kf, nu, gs);
    }
    multiply(GK, gs, G, gs, Kf, gs, nx, nu, nx + 1, 1);
    /* P = N - G^T K - K^T (G - H K), the last term of tied rows alone */
    for (int i = 0; held && some_held && i < nu; i++) {
      if (is_rate(held->at[(ptrdiff_t)k * nu + i])) {
        const int row = held->tied[i];
        for (int j = row; j <= nx; j++) {
          GK[row * gs + j] -= W[i * gs + j];
        }
      }
    }
    /* P = Q + A^T P A - G^T K */
    for (int i = 0; i < nx; i++) {
      double *to = P + i * xs;
      for (int j = i; j < nx; j++) {
        to[j] = Qk[i * nx + j] + (xxk ? part * xxk[i * nx + j] : 0.0) - GK[i * gs + j];
      }
      for (int j = i; j < na; j++) {
        to[j] += H[i * ws + j];
      }
      for (int j = i + 1; j < nx; j++) {
        P[j * xs + i] = to[j];
      }
      p[i] = (qk ? qk[i] : 0.0) + (i < na ? h[i] : 0.0) - GK[i * gs + nx];
    }
    for (int i = 0; i < nu; i++) {
      memcpy(out->K + ((ptrdiff_t)k * nu + i) * nx, Kf + i * gs, sizeof(double) * (size_t)nx);
      out->f[(ptrdiff_t)k * nu + i] = Kf[i * gs + nx];
    }
  }
  for (int i = 0; i < nx && out->P0; i++) {
    memcpy(out->P0 + i * nx, P + i * xs, sizeof(double) * (size_t)nx);
  }
  return 0;
}

static int any_backward(const struct quadratic *m, const struct held *held, const struct gains *out, double *scratch,
                        int *live) {
  return m->nd >= 0 ? compact_backward(m, held, out, scratch, live) : backward(m, held, out, scratch, live);
}

SM_EXPORT int lq_backward(const struct quadratic *problem, double *K, double *f, double *P0, double *scratch,
                          int *live) {
  const struct gains out = {K, f, P0};
  return any_backward(problem, NULL, &out, scratch, live);
}

/* z_{k+1} = A z + B v, v = -K z - f from z_0 = 0. */
SM_EXPORT void lq_forward(const struct quadratic *problem, const double *K, const double *f, double *z, double *v) {
  const int nx = problem->nx, nu = problem->nu, nd = problem->nd, nk = problem->nk;
  const int copied = nd >= 0, used = copied ? 2 * nd + nk : nx; /* columns of A and K that are not zero */
  memset(z, 0, sizeof(double) * (size_t)nx);
  for (int k = 0; k < problem->n; k++) {
    const double *Ak = problem->A + (ptrdiff_t)k * nx * nx, *Bk = problem->B + (ptrdiff_t)k * nx * nu;
    const double *zk = z + (ptrdiff_t)k * nx;
    double *vk = v + (ptrdiff_t)k * nu, *next = z + (ptrdiff_t)(k + 1) * nx;
    for (int i = 0; i < nu; i++) {
      vk[i] = -f[(ptrdiff_t)k * nu + i] - dot(K + ((ptrdiff_t)k * nu + i) * nx, zk, used);
    }
    for (int i = 0; i < used; i++) {
      next[i] = copied && i >= nd && i < nd + nk ? vk[nu - nk + i - nd]
                                                 : dot(Ak + i * nx, zk, used) + dot(Bk + i * nu, vk, nu);
    }
    for (int j = 0; j < nx - used; j++) {
      next[used + j] = Bk[(used + j) * nu + nu - nk + j] * (vk[nu - nk + j] - zk[nd + j]);
    }
  }
}

/* Costates of the projected cost: s_n = q_n, s_k = q_k - K^T r_k + (A - B K)^T s_{k+1}. */
SM_EXPORT void lq_adjoint(int n, int nx, int nu, const double *A, const double *B, const double *K, const double *q,
                          const double *r, double *s) {
  memcpy(s + (ptrdiff_t)n * nx, q + (ptrdiff_t)n * nx, sizeof(double) * (size_t)nx);
  for (int k = n - 1; k >= 0; k--) {
    const double *Ak = A + (ptrdiff_t)k * nx * nx, *Bk = B + (ptrdiff_t)k * nx * nu;
    const double *after = s + (ptrdiff_t)(k + 1) * nx;
    double *here = s + (ptrdiff_t)k * nx;
    memcpy(here, q + (ptrdiff_t)k * nx, sizeof(double) * (size_t)nx);
    for (int i = 0; i < nx; i++) {
      if (after[i] != 0.0) {
        for (int j = 0; j < nx; j++) {
          here[j] += Ak[i * nx + j] * after[i];
        }
      }
    }
    for (int i = 0; i < nu; i++) {
      double sum = r[(ptrdiff_t)k * nu + i];
      for (int j = 0; j < nx; j++) {
        sum += Bk[j * nu + i] * after[j];
      }
      for (int j = 0; j < nx; j++) {
        here[j] -= K[((ptrdiff_t)k * nu + i) * nx + j] * sum;
      }
    }
  }
}

/* Bounds of v: low <= v <= high, both (n, nu) and infinite where there is none, and, where tied[i] >= 0,
 * rate_low + z[tied] <= v <= rate_high + z[tied]. slack (nu) is what rounding may exceed. */
struct box {
  const double *low, *high, *rate_low, *rate_high, *slack;
  const int *tied;
};

/* Where an input belongs after a pass that gave v with the multiplier `push` (of one that was held). */
static int placed(const struct box *box, int at, int place, double v, double zt, double push, double least,
                  double slack, int has_rate) {
  const double up = box->high[place], down = box->low[place];
  const double rate_up = has_rate ? box->rate_high[place] + zt : INFINITY;
  const double rate_down = has_rate ? box->rate_low[place] + zt : -INFINITY;
  if ((at > FREE && push > least) || (at < FREE && push < -least)) {
    return FREE; /* the cost falls inwards */
  }
  if (at >= FREE && v > fmin(up, rate_up) + slack) {
    return rate_up < up ? AT_RATE_HIGH : AT_HIGH;
  }
  if (at <= FREE && v < fmax(down, rate_down) - slack) {
    return rate_down > down ? AT_RATE_LOW : AT_LOW;
  }
  return at;
}

/* Whole sets that are exchanged again and again may come back to where they were; from this pass on each exchange is
 * made or not by the toss of a coin, which leads out of every circle. */
enum { COINS_FROM = 6 };

static int coin(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (int)(*state >> 31);
}

/* Sets `next` by what a pass gave; returns whether anything should change. */
static int replace(const struct box *box, const struct held *held, int n, int nx, int nu, const double *z,
                   const double *v, double *push, int pass, uint32_t *state, int *next) {
  double most = 0.0;
  int changed = 0;
  for (int place = 0; place < n * nu; place++) {
    push[place] = 0.0;
    if (held->at[place] != FREE) {
      const double *slope = held->slope + (ptrdiff_t)place * (nx + 1), *zk = z + (ptrdiff_t)(place / nu) * nx;
      double sum = slope[nx];
      for (int j = 0; j < nx; j++) {
        sum += slope[j] * zk[j];
      }
      push[place] = sum;
      most = fmax(most, fabs(sum));
    }
  }
  for (int place = 0; place < n * nu; place++) {
    const int i = place % nu, tied = box->tied[i];
    const double zt = tied >= 0 ? z[(ptrdiff_t)(place / nu) * nx + tied] : 0.0;
    next[place] =
        placed(box, held->at[place], place, v[place], zt, push[place], 1e-12 * most, box->slack[i], tied >= 0);
    if (next[place] != held->at[place]) {
      changed = 1;
      if (pass >= COINS_FROM && coin(state)) {
        next[place] = held->at[place];
      }
    }
  }
  return changed;
}

/* Values that held inputs have: those of their bounds. */
static void bound(const struct box *box, const int *at, int count, double *offset) {
  for (int place = 0; place < count; place++) {
    const int a = at[place];
    offset[place] = a == AT_HIGH        ? box->high[place]
                    : a == AT_LOW       ? box->low[place]
                    : a == AT_RATE_HIGH ? box->rate_high[place]
                    : a == AT_RATE_LOW  ? box->rate_low[place]
                                        : 0.0;
  }
}

/* The problem with bounds on v, by an active set over all steps: each pass solves it with some inputs held at their
 * bounds, then holds those that left them and frees those whose multiplier points inwards.
 *
 * `at` is the set to begin with and receives that of the last pass; K, f, z and v are that pass's. reals is scratch of
 * n nu (nx + 3) doubles, integers of n nu. *taken is the number of passes, negative where the set had not settled after
 * `passes` of them. Returns 0, or -(k+1) where the problem at step k is not positive definite in its free inputs. */
SM_EXPORT int lq_limited(const struct quadratic *problem, const double *low, const double *high, const double *rate_low,
                         const double *rate_high, const double *slack, const int *tied, int passes, int *at, double *K,
                         double *f, double *z, double *v, int *taken, double *scratch, int *live, double *reals,
                         int *integers) {
  const int n = problem->n, nx = problem->nx, nu = problem->nu;
  const struct gains out = {K, f, NULL};
  const struct box box = {low, high, rate_low, rate_high, slack, tied};
  double *offset = reals, *push = offset + (ptrdiff_t)n * nu, *slope = push + (ptrdiff_t)n * nu;
  const struct held held = {at, tied, offset, slope};
  uint32_t state = 1;
  for (int pass = 1;; pass++) {
    bound(&box, at, n * nu, offset);
    const int status = any_backward(problem, &held, &out, scratch, live);
    if (status) {
      return status;
    }
    lq_forward(problem, K, f, z, v);
    const int changed = replace(&box, &held, n, nx, nu, z, v, push, pass, &state, integers);
    if (!changed || pass >= passes) {
      *taken = changed ? -pass : pass;
      return 0;
    }
    memcpy(at, integers, sizeof(int) * (size_t)(n * nu));
  }
}
