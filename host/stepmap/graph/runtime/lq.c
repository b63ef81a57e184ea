/* Linear-quadratic problems along a trajectory, for any sizes; no model in here.
 *
 *   min  sum_k  q_k z_k + r_k v_k + 1/2 (z_k Q_k z_k + 2 z_k S_k v_k + v_k R_k v_k)  + q_n z_n + 1/2 z_n Q_n z_n
 *   s.t. z_{k+1} = A_k z_k + B_k v_k
 *
 * Arrays are row-major with the time index first. */
#include <math.h>
#include <stddef.h>
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
  return 5 * x * w /* P, Pg, AB, T, GK */ + w * w /* H */ + 3 * u * w /* G, K, L */ + 4 * w;
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

/* Backward pass: gains K (n, nu, nx) and feed-forward f (n, nu) with v = -K z - f, and the curvature P at the start.
 *
 * To Q, S and R are added `part` times xx (n, nx, nx), xu (n, nx, nu), uu (n, nu, nu), which may be NULL. S, q, r may
 * be NULL (zero). Qs, Rs, Ss are the strides in time of Q, R and S: 0 where one matrix holds for all steps. Q's last
 * matrix is `terminal`, q has n+1 rows; `live` is scratch of nx integers. Returns 0, or -(k+1) where the problem at
 * step k is not positive definite. */
SM_EXPORT int lq_backward(int n, int nx, int nu, const double *A, const double *B, const double *Q, ptrdiff_t Qs,
                          const double *R, ptrdiff_t Rs, const double *S, ptrdiff_t Ss, const double *terminal,
                          const double *q, const double *r, double part, const double *xx, const double *xu,
                          const double *uu, double *K, double *f, double *P0, double *scratch, int *live) {
  const int xs = padded(nx), wide = padded(nx + nu + 1), us = padded(nu);
  double *P = scratch, *Pg = P + xs * wide, *AB = Pg + xs * wide, *T = AB + xs * wide, *GK = T + xs * wide;
  double *H = GK + xs * wide, *G = H + wide * wide, *Kf = G + us * wide, *L = Kf + us * wide;
  double *h = L + us * wide, *p = h + wide;
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
    if (cholesky(L, nu)) {
      return -(k + 1);
    }
    cholesky_solve(L, Kf, nu, gs);
    multiply(GK, gs, G, gs, Kf, gs, nx, nu, nx + 1, 1);
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
