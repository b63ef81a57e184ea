/* Dense linear algebra on small row-major matrices.
 *
 * Every size is a constant where these are called, so the compiler unrolls and vectorizes them; that is why they are
 * always inlined and why there is no call into a BLAS, whose fixed cost exceeds the work at these sizes. */
#ifndef SM_LINALG_H
#define SM_LINALG_H

#include "real.h"

/* Explicit vectors: compilers do not find these by themselves at every size. Where a number is a vector already, the
 * columns of a block are vectors as they are. Columns of wide matrices are padded, so that blocks have no remainder. */
#ifdef SM_LANES
#ifdef __AVX512F__
#define SM_PAD 4
#else
#define SM_PAD 2
#endif
typedef real sm_vector;
#else
#define SM_PAD 8
#ifdef __AVX512F__
#define SM_BLOCK_BYTES (8 * sizeof(double))
#else
#define SM_BLOCK_BYTES (4 * sizeof(double))
#endif
typedef double sm_vector __attribute__((vector_size(SM_BLOCK_BYTES), aligned(sizeof(double)), may_alias));
#endif
#define SM_PADDED(n) (((n) + SM_PAD - 1) / SM_PAD * SM_PAD)
enum { SM_VECTORS = SM_PAD * sizeof(real) / sizeof(sm_vector), SM_ROWS = 4 }; /* as many sums as stay in registers */

/* C (rows x SM_PAD) += scale A B for A (rows x inner), whose elements are `down` and `right` apart, and B (inner x
 * SM_PAD); rows of B and C are m apart. */
SM_INLINE void sm_block(real *c, double scale, const real *a, int down, int right, const real *b, int rows, int inner,
                        int m) {
  sm_vector sum[SM_ROWS][SM_VECTORS] = {{{0}}};
  for (int k = 0; k < inner; k++) {
    const sm_vector *line = (const sm_vector *)(b + k * m);
    for (int i = 0; i < rows; i++) {
      for (int v = 0; v < SM_VECTORS; v++) {
        sum[i][v] += a[i * down + k * right] * line[v];
      }
    }
  }
  for (int i = 0; i < rows; i++) {
    for (int v = 0; v < SM_VECTORS; v++) {
      ((sm_vector *)(c + i * m))[v] += scale * sum[i][v];
    }
  }
}

/* C (rows x m) += scale A B for A (rows x inner), whose elements are `down` and `right` apart, and B (inner x m); m is
 * a multiple of SM_PAD. */
SM_INLINE void sm_multiply_add(real *c, double scale, const real *a, int down, int right, const real *b, int rows,
                               int inner, int m) {
  const int whole = rows - rows % SM_ROWS;
  for (int j = 0; j < m; j += SM_PAD) {
    for (int i = 0; i < whole; i += SM_ROWS) {
      sm_block(c + i * m + j, scale, a + i * down, down, right, b + j, SM_ROWS, inner, m);
    }
    if (whole < rows) {
      sm_block(c + whole * m + j, scale, a + whole * down, down, right, b + j, rows - whole, inner, m);
    }
  }
}

/* LU of the n x n matrix A, given by columns: a[j * n + i] is A_ij, so that sm_lu_solve runs along them. In place; inv
 * holds the inverse pivots. A pivot stays on the diagonal unless that is less than SM_KEPT of the largest entry below it:
 * matrices of mechanisms have their inertia first, and many of them in lanes of vectors then share one order of rows. */
#define SM_KEPT 0x1p-10

#ifdef SM_LANES
/* Returns those of the lanes that count whose pivots are all on the diagonal. */
SM_INLINE sm_flags sm_lu(real *a, real *inv, int n, sm_flags count) {
  for (int k = 0; k < n; k++) {
    const real diagonal = sm_abs(a[k * n + k]);
    real size = diagonal;
    for (int i = k + 1; i < n; i++) {
      const real other = sm_abs(a[i * n + k]);
      size = sm_where(other > size, other, size);
    }
    count &= (size > 0.0) & (size < INFINITY) & (diagonal >= SM_KEPT * size);
    inv[k] = 1.0 / a[k * n + k];
    for (int i = k + 1; i < n; i++) {
      const real factor = a[i * n + k] * inv[k];
      const sm_flags here = factor != 0.0;
      a[i * n + k] = factor;
      if (!sm_any(here)) {
        continue;
      }
      if (!sm_any(~here)) {
        for (int j = k + 1; j < n; j++) {
          a[i * n + j] -= factor * a[k * n + j];
        }
      } else { /* zeros in some lanes: those keep even the signs of their zeros, as they do alone */
        for (int j = k + 1; j < n; j++) {
          a[i * n + j] = sm_where(here, a[i * n + j] - factor * a[k * n + j], a[i * n + j]);
        }
      }
    }
  }
  return count;
}
#else
/* Returns 0, or -1 where a pivot is zero or not finite. */
SM_INLINE int sm_lu(double *a, int *pivot, double *inv, int n) {
  for (int k = 0; k < n; k++) {
    int best = k;
    double size = fabs(a[k * n + k]);
    for (int i = k + 1; i < n; i++) {
      const double other = fabs(a[i * n + k]);
      if (other > size) {
        size = other;
        best = i;
      }
    }
    best = fabs(a[k * n + k]) >= SM_KEPT * size ? k : best;
    pivot[k] = best;
    if (!(size > 0.0) || !isfinite(size)) {
      return -1;
    }
    if (best != k) {
      for (int j = 0; j < n; j++) {
        const double t = a[k * n + j];
        a[k * n + j] = a[best * n + j];
        a[best * n + j] = t;
      }
    }
    inv[k] = 1.0 / a[k * n + k];
    for (int i = k + 1; i < n; i++) {
      const double factor = a[i * n + k] * inv[k];
      a[i * n + k] = factor;
      if (factor != 0.0) { /* mechanisms are sparse: whole branches do not couple */
        for (int j = k + 1; j < n; j++) {
          a[i * n + j] -= factor * a[k * n + j];
        }
      }
    }
  }
  return 0;
}
#endif

/* x := A^-1 x */
SM_INLINE void sm_lu_solve(const real *lu, const int *pivot, const real *inv, real *x, int n) {
  for (int i = 0; i < n; i++) {
    x[i] *= inv[i];
    for (int j = i + 1; j < n; j++) {
      x[j] -= lu[i * n + j] * x[i];
    }
  }
  for (int i = n - 1; i > 0; i--) {
    for (int j = 0; j < i; j++) {
      x[j] -= lu[i * n + j] * x[i];
    }
  }
#ifdef SM_LANES
  (void)pivot;
#else
  for (int k = n - 1; k >= 0; k--) {
    const real t = x[pivot[k]];
    x[pivot[k]] = x[k];
    x[k] = t;
  }
#endif
}

#ifndef SM_LANES
/* x := A^-T x */
SM_INLINE void sm_lu_solve_transposed(const real *lu, const int *pivot, const real *inv, real *x, int n) {
  for (int k = 0; k < n; k++) {
    const real t = x[pivot[k]];
    x[pivot[k]] = x[k];
    x[k] = t;
  }
  for (int i = 1; i < n; i++) {
    real sum = x[i];
    for (int j = 0; j < i; j++) {
      sum -= lu[i * n + j] * x[j];
    }
    x[i] = sum;
  }
  for (int i = n - 1; i >= 0; i--) {
    real sum = x[i];
    for (int j = i + 1; j < n; j++) {
      sum -= lu[i * n + j] * x[j];
    }
    x[i] = sum * inv[i];
  }
}

#endif

/* Rows from `first` of the first triangular solution, after the rows before them. */
SM_INLINE void sm_lu_down(const real *lu, const real *inv, real *x, int first, int rows, int n, int m) {
  sm_multiply_add(x + first * m, -1.0, lu + first, 1, n, x, rows, first, m);
  for (int i = first; i < first + rows; i++) {
    for (int j = first; j < i; j++) {
      for (int c = 0; c < m; c++) {
        x[i * m + c] -= lu[j * n + i] * x[j * m + c];
      }
    }
    for (int c = 0; c < m; c++) {
      x[i * m + c] *= inv[i];
    }
  }
}

/* Rows from `first` of the second triangular solution, after the rows behind them. */
SM_INLINE void sm_lu_up(const real *lu, real *x, int first, int rows, int n, int m) {
  const int behind = first + rows;
  sm_multiply_add(x + first * m, -1.0, lu + behind * n + first, 1, n, x + behind * m, rows, n - behind, m);
  for (int i = behind - 2; i >= first; i--) {
    for (int j = i + 1; j < behind; j++) {
      for (int c = 0; c < m; c++) {
        x[i * m + c] -= lu[j * n + i] * x[j * m + c];
      }
    }
  }
}

/* X := A^-1 X for the n x m matrix X, by blocks of rows; m is a multiple of SM_PAD. */
SM_INLINE void sm_lu_solve_many(const real *lu, const int *pivot, const real *inv, real *x, int n, int m) {
  const int whole = n - n % SM_ROWS;
  for (int i = 0; i < whole; i += SM_ROWS) {
    sm_lu_down(lu, inv, x, i, SM_ROWS, n, m);
  }
  if (whole < n) {
    sm_lu_down(lu, inv, x, whole, n - whole, n, m);
    sm_lu_up(lu, x, whole, n - whole, n, m);
  }
  for (int i = whole - SM_ROWS; i >= 0; i -= SM_ROWS) {
    sm_lu_up(lu, x, i, SM_ROWS, n, m);
  }
#ifdef SM_LANES
  (void)pivot;
#else
  for (int k = n - 1; k >= 0; k--) {
    if (pivot[k] != k) {
      for (int c = 0; c < m; c++) {
        const real t = x[k * m + c];
        x[k * m + c] = x[pivot[k] * m + c];
        x[pivot[k] * m + c] = t;
      }
    }
  }
#endif
}

#endif
