/* Products and triangular solutions of small matrices whose sizes are known at run time. */
#ifndef SM_LQ_PRODUCTS_H
#define SM_LQ_PRODUCTS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

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
    const double inverse = 1.0 / l[i * n + i];
    for (int c = 0; c < m; c++) {
      x[i * m + c] *= inverse;
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) {
      for (int c = 0; c < m; c++) {
        x[i * m + c] -= l[k * n + i] * x[k * m + c];
      }
    }
    const double inverse = 1.0 / l[i * n + i];
    for (int c = 0; c < m; c++) {
      x[i * m + c] *= inverse;
    }
  }
}

/* a . b, in eight sums on every processor: their order decides the last bits. */
static double dot(const double *a, const double *b, int n) {
  typedef double eight __attribute__((vector_size(8 * sizeof(double)), aligned(sizeof(double)), may_alias));
  const int whole = n / 8 * 8;
  eight sum = {0};
  for (int i = 0; i < whole; i += 8) {
    sum += *(const eight *)(a + i) * *(const eight *)(b + i);
  }
  double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  for (int i = whole; i < n; i++) {
    total += a[i] * b[i];
  }
  return total;
}

/* The lower triangle of the m x m matrix of stride ldm from its upper one, by blocks. */
static void mirror(double *matrix, int m, int ldm) {
  for (int i = 0; i < m; i += BLOCK) {
    for (int j = i; j < m; j += BLOCK) {
      for (int a = i; a < i + BLOCK && a < m; a++) {
        for (int b = j > a ? j : a + 1; b < j + BLOCK && b < m; b++) {
          matrix[b * ldm + a] = matrix[a * ldm + b];
        }
      }
    }
  }
}

#endif
