/* Whole trajectories, from any sm_step, sm_linearize and sm_curvature. Included at the end of a step's unit. */

static const double *row(const double *values, int k, int width) { return values + (ptrdiff_t)k * width; }
static double *row_out(double *values, int k, int width) { return values + (ptrdiff_t)k * width; }

/* n steps: X has n+1 rows and its first is given; multipliers has n rows. info[2] is the step that failed. */
SM_EXPORT int sm_rollout(void *work, const double *par, double dt, int n, const double *U, double *X,
                         double *multipliers, double *info) {
  for (int k = 0; k < n; k++) {
    const int status =
        sm_step(work, par, dt, row(X, k, NX), row(U, k, NV), row_out(X, k + 1, NX), row_out(multipliers, k, NC), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

/* The projection operator: n steps from the given X[0] under u = ubar - K (x - xbar); K is (n, NV, NX). */
SM_EXPORT int sm_project(void *work, const double *par, double dt, int n, const double *Xbar, const double *Ubar,
                         const double *K, double *X, double *U, double *multipliers, double *info) {
  for (int k = 0; k < n; k++) {
    const double *x = row(X, k, NX), *xbar = row(Xbar, k, NX), *ubar = row(Ubar, k, NV);
    double *u = row_out(U, k, NV);
    for (int i = 0; i < NV; i++) {
      const double *gain = row(K, k * NV + i, NX);
      double sum = ubar[i];
      for (int j = 0; j < NX; j++) {
        sum -= gain[j] * (x[j] - xbar[j]);
      }
      u[i] = sum;
    }
    const int status = sm_step(work, par, dt, x, u, row_out(X, k + 1, NX), row_out(multipliers, k, NC), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

/* Derivatives at n points (x_k, u_k); X2 receives f(x_k, u_k). `guess` holds states to search from, such as the next
 * states of a trajectory, or is NULL. */
SM_EXPORT int sm_linearize_all(void *work, const double *par, double dt, int n, const double *X, const double *U,
                               const double *guess, double *X2, double *A, double *B, double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_linearize(work, par, dt, row(X, k, NX), row(U, k, NV), guess ? row(guess, k, NX) : NULL,
                                    row_out(X2, k, NX), row_out(A, k * NX, NX), row_out(B, k * NX, NV), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

#ifdef SM_CURVATURE
/* Contracted second derivatives at n points. */
SM_EXPORT int sm_curvature_all(void *work, const double *par, double dt, int n, const double *X, const double *U,
                               const double *eta, double *xx, double *xu, double *uu, double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_curvature(work, par, dt, row(X, k, NX), row(U, k, NV), NULL, row(eta, k, NX),
                                    row_out(xx, k * NX, NX), row_out(xu, k * NX, NV), row_out(uu, k * NV, NV), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}
#endif
