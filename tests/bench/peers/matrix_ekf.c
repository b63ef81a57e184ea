/* A tick of an extended Kalman filter and a state feedback in the form of textbooks and of small filter libraries: every
 * matrix dense, products by three loops, the innovation covariance inverted through its Cholesky factor. The model
 * (model_step with its linearization, model_readings, model_project) is CasADi's C. No gates.
 *
 * It is a yardstick: written for this comparison, the way one writes it by hand. */
#include <math.h>
#include <string.h>

#include "peer.h"

typedef peer_real real;

#define SQUARE_ROOT(v) _Generic((v), float : sqrtf, double : sqrt)(v)

typedef struct {
  real x[NX];
  real P[NX * NX];
  real z[NZ];
  real x_ref[NX];
  real u_ref[NU];
  real K[NU * NX];
} record;

typedef struct {
  real x[NX];
  real P[NX * NX];
  real u[NU];
} answer;

_Static_assert(sizeof(record) == PEER_IN * sizeof(real), "PEER_IN of peer.h");
_Static_assert(sizeof(answer) == PEER_OUT * sizeof(real), "PEER_OUT of peer.h");

static const real process[NX * NX] = PROCESS;
static const real measurement[NZ] = MEASUREMENT;
static const real low[NU] = LOW;
static const real high[NU] = HIGH;

/* out = a b, a: rows x inner, b: inner x columns */
static void multiply(const real *a, const real *b, real *out, int rows, int inner, int columns) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < columns; j++) {
      real sum = 0;
      for (int k = 0; k < inner; k++) {
        sum += a[i * inner + k] * b[k * columns + j];
      }
      out[i * columns + j] = sum;
    }
  }
}

/* out = a b^T, a: rows x inner, b: columns x inner */
static void multiply_transposed(const real *a, const real *b, real *out, int rows, int inner, int columns) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < columns; j++) {
      real sum = 0;
      for (int k = 0; k < inner; k++) {
        sum += a[i * inner + k] * b[j * inner + k];
      }
      out[i * columns + j] = sum;
    }
  }
}

/* s becomes its inverse by S = L L^T; returns 0 where s is not positive definite */
static int invert(real *s, int n) {
  real l[NZ * NZ]; /* its lower triangle */
  for (int j = 0; j < n; j++) {
    for (int i = j; i < n; i++) {
      real sum = s[i * n + j];
      for (int k = 0; k < j; k++) {
        sum -= l[i * n + k] * l[j * n + k];
      }
      if (i > j) {
        l[i * n + j] = sum / l[j * n + j];
      } else if (sum > 0) {
        l[j * n + j] = SQUARE_ROOT(sum);
      } else {
        return 0;
      }
    }
  }
  for (int c = 0; c < n; c++) { /* column by column: L y = e_c, then L^T x = y */
    real y[NZ];
    for (int i = 0; i < n; i++) {
      real sum = i == c;
      for (int k = 0; k < i; k++) {
        sum -= l[i * n + k] * y[k]; /* cppcheck-suppress uninitvar; set above */
      }
      y[i] = sum / l[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
      real sum = y[i];
      for (int k = i + 1; k < n; k++) {
        sum -= l[k * n + i] * s[k * n + c];
      }
      s[i * n + c] = sum / l[i * n + i];
    }
  }
  return 1;
}

static void update(real *x, real *P, const real *z) {
  real h[NZ], H[NZ * NX], PHt[NX * NZ], S[NZ * NZ], gain[NX * NZ], GH[NX * NX], GHP[NX * NX];
  model_readings(x, h, H);
  multiply_transposed(P, H, PHt, NX, NX, NZ);
  multiply(H, PHt, S, NZ, NX, NZ);
  for (int i = 0; i < NZ; i++) {
    S[i * NZ + i] += measurement[i];
  }
  if (!invert(S, NZ)) {
    return;
  }
  multiply(PHt, S, gain, NX, NZ, NZ);
  for (int i = 0; i < NX; i++) {
    for (int k = 0; k < NZ; k++) {
      x[i] += gain[i * NZ + k] * (z[k] - h[k]);
    }
  }
  multiply(gain, H, GH, NX, NZ, NX);
  multiply(GH, P, GHP, NX, NX, NX);
  for (int i = 0; i < NX * NX; i++) {
    P[i] -= GHP[i];
  }
}

static void state_feedback(const record *r, const real *x, real *u) {
  for (int i = 0; i < NU; i++) {
    u[i] = r->u_ref[i];
    for (int j = 0; j < NX; j++) {
      u[i] -= r->K[i * NX + j] * (x[j] - r->x_ref[j]);
    }
    u[i] = u[i] < low[i] ? low[i] : u[i] > high[i] ? high[i] : u[i];
  }
}

static void predict(const real *x, const real *u, real *P, real *next) {
  real F[NX * NX], FP[NX * NX];
  model_step(x, u, next, F);
  multiply(F, P, FP, NX, NX, NX);
  multiply_transposed(FP, F, P, NX, NX, NX);
  for (int i = 0; i < NX * NX; i++) {
    P[i] += process[i];
  }
}

void peer(const real *in, real *out) {
  const record *const r = (const record *)in;
  answer *const a = (answer *)out;
  real x[NX], moved[ND];
  memcpy(x, r->x, sizeof x);
  memcpy(a->P, r->P, sizeof a->P);
  update(x, a->P, r->z);
  model_project(x, moved);
  memcpy(x, moved, sizeof moved);
  state_feedback(r, x, a->u);
  predict(x, a->u, a->P, a->x);
}
