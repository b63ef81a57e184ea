/* Linear-quadratic problems along a trajectory, for any sizes; no model in here.
 *
 *   min  sum_k  q_k z_k + r_k v_k + 1/2 (z_k Q_k z_k + 2 z_k S_k v_k + v_k R_k v_k)  + q_n z_n + 1/2 z_n Q_n z_n
 *   s.t. z_{k+1} = A_k z_k + B_k v_k
 *
 * Arrays are row-major with the time index first. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SM_EXPORT __attribute__((visibility("default")))

/* The product kernel works on blocks of ROWS x COLUMNS that stay in registers; all matrices it sees have their row
 * strides padded to BLOCK, so there are no remainders. */
#ifdef __AVX512F__
enum { LANES = 8, VECTORS = 2, ROWS = 8, BLOCK = 16 };
#else
enum { LANES = 4, VECTORS = 3, ROWS = 4, BLOCK = 12 };
#endif
enum { COLUMNS = LANES * VECTORS };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

static int padded(int n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

/* C (m x n, stride ldc) = A^T B for A (inner x m, stride lda) and B (inner x n, stride ldb). With `symmetric` only
 * the blocks on and above the diagonal are computed. */
static void multiply(double *c, int ldc, const double *a, int lda, const double *b, int ldb, int m, int inner, int n,
                     int symmetric) {
  for (int i = 0; i < m; i += ROWS) {
    for (int j = symmetric ? i / COLUMNS * COLUMNS : 0; j < n; j += COLUMNS) {
      lanes sum[ROWS][VECTORS] = {{{0}}};
      for (int k = 0; k < inner; k++) {
        const lanes *from = (const lanes *)(b + (ptrdiff_t)k * ldb + j);
        const double *factor = a + (ptrdiff_t)k * lda + i;
        for (int s = 0; s < ROWS; s++) {
          for (int t = 0; t < VECTORS; t++) {
            sum[s][t] += factor[s] * from[t];
          }
        }
      }
      for (int s = 0; s < ROWS; s++) {
        memcpy(&c[(ptrdiff_t)(i + s) * ldc + j], sum[s], sizeof sum[s]);
      }
    }
  }
}

/* Cholesky of the n x n matrix in its lower triangle; -1 where it is not positive definite. */
static int cholesky(double *a, int n) {
  for (int j = 0; j < n; j++) {
    double d = a[j * n + j];
    for (int k = 0; k < j; k++) {
      d -= a[j * n + k] * a[j * n + k];
    }
    if (!(d > 0.0) || !isfinite(d)) {
      return -1;
    }
    d = sqrt(d);
    a[j * n + j] = d;
    for (int i = j + 1; i < n; i++) {
      double sum = a[i * n + j];
      for (int k = 0; k < j; k++) {
        sum -= a[i * n + k] * a[j * n + k];
      }
      a[i * n + j] = sum / d;
    }
  }
  return 0;
}

/* X := (L L^T)^-1 X for the n x m matrix X. */
static void cholesky_solve(const double *l, double *x, int n, int m) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) {
      for (int c = 0; c < m; c++) {
        x[i * m + c] -= l[i * n + k] * x[k * m + c];
      }
    }
    for (int c = 0; c < m; c++) {
      x[i * m + c] /= l[i * n + i];
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) {
      for (int c = 0; c < m; c++) {
        x[i * m + c] -= l[k * n + i] * x[k * m + c];
      }
    }
    for (int c = 0; c < m; c++) {
      x[i * m + c] /= l[i * n + i];
    }
  }
}

/* Doubles of scratch that lq_backward needs. */
SM_EXPORT size_t lq_scratch(int nx, int nu) {
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

/* Inputs that are not free in a pass: at[k * nu + i] is 0 for a free one, or one of SM_LOW ... for one that is held,
 * v = offset + z[tied[i]], the last term for those at a limit of their rate alone. `slope` (n, nu, nx + 1) receives, for
 * those that are held, the derivative of the cost by v as a function of [z 1]: their multiplier. */
enum { AT_RATE_LOW = -2, AT_LOW = -1, FREE = 0, AT_HIGH = 1, AT_RATE_HIGH = 2 };
struct held {
  const int *at, *tied;
  const double *offset;
  double *slope;
};

static int is_rate(int at) { return at == AT_RATE_LOW || at == AT_RATE_HIGH; }

/* Rows of Kf for a step with held inputs: v = -K z - f with K = -e_tied, or 0, and f = -offset where held; the free ones
 * minimize the rest. H (nu x nu) is whole, L is scratch; W receives G - H [K f], whose free rows are zero. */
static int solve_held(const struct held *held, int k, int nx, int nu, int gs, const double *H, const double *G,
                      double *Kf, double *L, double *free_rows, double *W) {
  const int *at = held->at + (ptrdiff_t)k * nu;
  int count = 0;
  memset(Kf, 0, sizeof(double) * (size_t)nu * (size_t)gs);
  for (int i = 0; i < nu; i++) {
    if (at[i] != FREE) {
      Kf[i * gs + nx] = -held->offset[(ptrdiff_t)k * nu + i];
      if (is_rate(at[i])) {
        Kf[i * gs + held->tied[i]] = -1.0;
      }
    }
  }
  for (int i = 0; i < nu; i++) {
    memcpy(W + i * gs, G + i * gs, sizeof(double) * (size_t)gs);
    for (int l = 0; l < nu; l++) {
      if (at[l] != FREE) {
        W[i * gs + nx] -= H[i * nu + l] * Kf[l * gs + nx];
        if (is_rate(at[l])) {
          W[i * gs + held->tied[l]] += H[i * nu + l];
        }
      }
    }
    if (at[i] == FREE) {
      memcpy(free_rows + count++ * gs, W + i * gs, sizeof(double) * (size_t)gs);
    }
  }
  for (int i = 0, a = 0; i < nu; i++) {
    if (at[i] == FREE) {
      for (int j = 0, b = 0; j <= i; j++) {
        if (at[j] == FREE) {
          L[a * count + b++] = H[i * nu + j];
        }
      }
      a++;
    }
  }
  if (cholesky(L, count)) {
    return -1;
  }
  cholesky_solve(L, free_rows, count, gs);
  for (int i = 0, a = 0; i < nu; i++) {
    if (at[i] == FREE) {
      memcpy(Kf + i * gs, free_rows + a++ * gs, sizeof(double) * (size_t)gs);
    }
  }
  for (int i = 0; i < nu; i++) {
    if (at[i] != FREE) {
      for (int l = 0; l < nu; l++) {
        if (at[l] == FREE) {
          for (int j = 0; j <= nx; j++) {
            W[i * gs + j] -= H[i * nu + l] * Kf[l * gs + j];
          }
        }
      }
      memcpy(held->slope + ((ptrdiff_t)k * nu + i) * (nx + 1), W + i * gs, sizeof(double) * (size_t)(nx + 1));
    }
  }
  return 0;
}

static int any_held(const struct held *held, int k, int nu) {
  for (int i = 0; held && i < nu; i++) {
    if (held->at[(ptrdiff_t)k * nu + i] != FREE) {
      return 1;
    }
  }
  return 0;
}

/* Backward pass: gains K (n, nu, nx) and feed-forward f (n, nu) with v = -K z - f, and the curvature P at the start.
 *
 * To Q, S and R are added `part` times xx (n, nx, nx), xu (n, nx, nu), uu (n, nu, nu), which may be NULL. S, q, r may
 * be NULL (zero). Qs, Rs, Ss are the strides in time of Q, R and S: 0 where one matrix holds for all steps. Q's last
 * matrix is `terminal`, q has n+1 rows; `held` may be NULL; `live` is scratch of nx integers. Returns 0, or -(k+1) where
 * the problem at step k is not positive definite in its free inputs. */
static int backward(int n, int nx, int nu, const double *A, const double *B, const double *Q, ptrdiff_t Qs,
                    const double *R, ptrdiff_t Rs, const double *S, ptrdiff_t Ss, const double *terminal,
                    const double *q, const double *r, double part, const double *xx, const double *xu, const double *uu,
                    const struct held *held, double *K, double *f, double *P0, double *scratch, int *live) {
  const int xs = padded(nx), wide = padded(nx + nu + 1), us = padded(nu);
  double *P = scratch, *Pg = P + xs * wide, *AB = Pg + xs * wide, *T = AB + xs * wide, *GK = T + xs * wide;
  double *H = GK + xs * wide, *G = H + wide * wide, *Kf = G + us * wide, *L = Kf + us * wide;
  double *h = L + us * wide, *p = h + wide, *W = p + wide, *F = W + us * wide, *Huu = F + us * wide;
  const int gs = padded(nx + 1); /* stride of [G g] and [K f] */
  memset(scratch, 0, sizeof(double) * lq_scratch(nx, nu));
  for (int i = 0; i < nx; i++) {
    memcpy(P + i * xs, terminal + i * nx, sizeof(double) * (size_t)nx);
    p[i] = q ? q[(ptrdiff_t)n * nx + i] : 0.0;
  }
  for (int k = n - 1; k >= 0; k--) {
    const double *Qk = Q + k * Qs, *Rk = R + k * Rs, *Sk = S ? S + k * Ss : NULL;
    const double *xxk = xx ? xx + (ptrdiff_t)k * nx * nx : NULL;
    const double *xuk = xu ? xu + (ptrdiff_t)k * nx * nu : NULL;
    const double *uuk = uu ? uu + (ptrdiff_t)k * nu * nu : NULL;
    const double *qk = q ? q + (ptrdiff_t)k * nx : NULL, *rk = r ? r + (ptrdiff_t)k * nu : NULL;
    int na;
    const int rows = gather(A + (ptrdiff_t)k * nx * nx, B + (ptrdiff_t)k * nx * nu, nx, nu, live, &na, AB);
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
      if (solve_held(held, k, nx, nu, gs, Huu, G, Kf, L, F, W)) {
        return -(k + 1);
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
      memcpy(K + ((ptrdiff_t)k * nu + i) * nx, Kf + i * gs, sizeof(double) * (size_t)nx);
      f[(ptrdiff_t)k * nu + i] = Kf[i * gs + nx];
    }
  }
  for (int i = 0; i < nx && P0; i++) {
    memcpy(P0 + i * nx, P + i * xs, sizeof(double) * (size_t)nx);
  }
  return 0;
}

SM_EXPORT int lq_backward(int n, int nx, int nu, const double *A, const double *B, const double *Q, ptrdiff_t Qs,
                          const double *R, ptrdiff_t Rs, const double *S, ptrdiff_t Ss, const double *terminal,
                          const double *q, const double *r, double part, const double *xx, const double *xu,
                          const double *uu, double *K, double *f, double *P0, double *scratch, int *live) {
  return backward(n, nx, nu, A, B, Q, Qs, R, Rs, S, Ss, terminal, q, r, part, xx, xu, uu, NULL, K, f, P0, scratch,
                  live);
}

/* z_{k+1} = A z + B v, v = -K z - f from z_0 = 0. */
SM_EXPORT void lq_forward(int n, int nx, int nu, const double *A, const double *B, const double *K, const double *f,
                          double *z, double *v) {
  memset(z, 0, sizeof(double) * (size_t)nx);
  for (int k = 0; k < n; k++) {
    const double *Ak = A + (ptrdiff_t)k * nx * nx, *Bk = B + (ptrdiff_t)k * nx * nu;
    const double *zk = z + (ptrdiff_t)k * nx;
    double *vk = v + (ptrdiff_t)k * nu, *next = z + (ptrdiff_t)(k + 1) * nx;
    for (int i = 0; i < nu; i++) {
      double sum = -f[(ptrdiff_t)k * nu + i];
      for (int j = 0; j < nx; j++) {
        sum -= K[((ptrdiff_t)k * nu + i) * nx + j] * zk[j];
      }
      vk[i] = sum;
    }
    for (int i = 0; i < nx; i++) {
      double sum = 0.0;
      for (int j = 0; j < nx; j++) {
        sum += Ak[i * nx + j] * zk[j];
      }
      for (int j = 0; j < nu; j++) {
        sum += Bk[i * nu + j] * vk[j];
      }
      next[i] = sum;
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
SM_EXPORT int lq_limited(int n, int nx, int nu, const double *A, const double *B, const double *Q, ptrdiff_t Qs,
                         const double *R, ptrdiff_t Rs, const double *S, ptrdiff_t Ss, const double *terminal,
                         const double *q, const double *r, double part, const double *xx, const double *xu,
                         const double *uu, const double *low, const double *high, const double *rate_low,
                         const double *rate_high, const double *slack, const int *tied, int passes, int *at, double *K,
                         double *f, double *z, double *v, int *taken, double *scratch, int *live, double *reals,
                         int *integers) {
  const struct box box = {low, high, rate_low, rate_high, slack, tied};
  double *offset = reals, *push = offset + (ptrdiff_t)n * nu, *slope = push + (ptrdiff_t)n * nu;
  const struct held held = {at, tied, offset, slope};
  uint32_t state = 1;
  for (int pass = 1;; pass++) {
    bound(&box, at, n * nu, offset);
    const int status = backward(n, nx, nu, A, B, Q, Qs, R, Rs, S, Ss, terminal, q, r, part, xx, xu, uu, &held, K, f,
                                NULL, scratch, live);
    if (status) {
      return status;
    }
    lq_forward(n, nx, nu, A, B, K, f, z, v);
    const int changed = replace(&box, &held, n, nx, nu, z, v, push, pass, &state, integers);
    if (!changed || pass >= passes) {
      *taken = changed ? -pass : pass;
      return 0;
    }
    memcpy(at, integers, sizeof(int) * (size_t)(n * nu));
  }
}
