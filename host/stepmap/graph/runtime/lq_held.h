/* Inputs that are held at their bounds in a pass of the Riccati recursion. */
#ifndef SM_LQ_HELD_H
#define SM_LQ_HELD_H

#include "lq_products.h"

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
 * minimize the rest. `tied` are states in the order of the columns. H (nu x nu) is whole, L is scratch; W receives
 * G - H [K f], whose free rows are zero. */
static int solve_held(const struct held *held, const int *tied, int k, int nx, int nu, int gs, const double *H,
                      const double *G, double *Kf, double *L, double *free_rows, double *W) {
  const int *at = held->at + (ptrdiff_t)k * nu;
  int count = 0;
  memset(Kf, 0, sizeof(double) * (size_t)nu * (size_t)gs);
  for (int i = 0; i < nu; i++) {
    if (at[i] != FREE) {
      Kf[i * gs + nx] = -held->offset[(ptrdiff_t)k * nu + i];
      if (is_rate(at[i])) {
        Kf[i * gs + tied[i]] = -1.0;
      }
    }
  }
  for (int i = 0; i < nu; i++) {
    memcpy(W + i * gs, G + i * gs, sizeof(double) * (size_t)gs);
    for (int l = 0; l < nu; l++) {
      if (at[l] != FREE) {
        W[i * gs + nx] -= H[i * nu + l] * Kf[l * gs + nx];
        if (is_rate(at[l])) {
          W[i * gs + tied[l]] += H[i * nu + l];
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

#endif
