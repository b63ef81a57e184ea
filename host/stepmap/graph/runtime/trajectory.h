/* Whole trajectories, from any sm_step, sm_linearize, sm_curvature and, where SM_SENSITIVITY and SM_SECOND_SENSITIVITY
 * are defined, sm_sensitivity and sm_second_sensitivity. Included at the end of a step's unit. */
#ifndef NDX
#define NDX NX /* tangent dimensions */
#endif

#ifndef SM_DIFFERENCE
static void plain_difference(void *work, const double *a, const double *b, double *dx) {
  (void)work;
  for (int i = 0; i < NX; i++) {
    dx[i] = b[i] - a[i];
  }
}
#define SM_DIFFERENCE plain_difference
#endif

static const double *row(const double *values, int k, int width) { return values + (ptrdiff_t)k * width; }
static double *row_out(double *values, int k, int width) { return values + (ptrdiff_t)k * width; }

/* n steps: X has n+1 rows and its first is given; multipliers has n rows. Step k has the length dt[k * each]. info[2] is
 * the step that failed. */
SM_EXPORT int sm_rollout(void *work, const double *par, const double *dt, int each, int n, const double *U, double *X,
                         double *multipliers, double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_step(work, par, dt[k * each], row(X, k, NX), row(U, k, NV), row_out(X, k + 1, NX),
                               row_out(multipliers, k, NC), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

/* m rollouts of n steps from the first rows of X (m, n+1, NX). Inputs are `apart` doubles from one rollout to the next;
 * 0 where all share them. done[j] is the number of steps that rollout j came to; states after them are not written.
 * Returns the status of the first that failed, whose number is info[3]. */
SM_EXPORT int sm_rollout_many(void *work, const double *par, const double *dt, int each, int m, int n, ptrdiff_t apart,
                              const double *U, double *X, double *multipliers, int *done, double *info) {
  int worst = SM_OK;
  for (int j = 0; j < m; j++) {
    double own[3] = {0};
    const int status = sm_rollout(work, par, dt, each, n, U + j * apart, X + (ptrdiff_t)j * (n + 1) * NX,
                                  multipliers + (ptrdiff_t)j * n * NC, own);
    done[j] = status == SM_OK ? n : (int)own[2];
    if (status != SM_OK && worst == SM_OK) {
      worst = status;
      memcpy(info, own, sizeof own);
      info[3] = j;
    }
  }
  return worst;
}

/* u within limits (3, NV): low, high and, of an input that is the next value of the state x[tied], its largest change in
 * a step; infinite where there is none. */
static void clamp(const double *limits, const int *tied, const double *x, double *u) {
  for (int i = 0; i < NV; i++) {
    double low = limits[i], high = limits[NV + i];
    if (tied[i] >= 0) {
      low = fmax(low, x[tied[i]] - limits[2 * NV + i]);
      high = fmin(high, x[tied[i]] + limits[2 * NV + i]);
    }
    u[i] = u[i] < low ? low : u[i] > high ? high : u[i];
  }
}

/* The projection operator: n steps from the given X[0] under u = ubar - K (x - xbar); K is (n, NV, NDX). With limits, as
 * clamp takes them, u is kept within them; NULL where there are none. Feedback is off at nodes k where a step defines
 * SM_COMPARABLE(work, k) and it is false. */
SM_EXPORT int sm_project(void *work, const double *par, const double *dt, int each, int n, const double *Xbar,
                         const double *Ubar, const double *K, const double *limits, const int *tied, double *X,
                         double *U, double *multipliers, double *info) {
  for (int k = 0; k < n; k++) {
    const double *x = row(X, k, NX), *xbar = row(Xbar, k, NX), *ubar = row(Ubar, k, NV);
    double *u = row_out(U, k, NV), dx[NDX];
    SM_DIFFERENCE(work, xbar, x, dx);
#ifdef SM_COMPARABLE
    if (!SM_COMPARABLE(work, k)) {
      memset(dx, 0, sizeof dx);
    }
#endif
    for (int i = 0; i < NV; i++) {
      const double *gain = row(K, k * NV + i, NDX);
      double sum = ubar[i];
      for (int j = 0; j < NDX; j++) {
        sum -= gain[j] * dx[j];
      }
      u[i] = sum;
    }
    if (limits) {
      clamp(limits, tied, x, u);
    }
    const int status = sm_step(work, par, dt[k * each], x, u, row_out(X, k + 1, NX), row_out(multipliers, k, NC), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

/* Derivatives at n points (x_k, u_k); X2 receives f(x_k, u_k). `guess` holds states to search from, such as the next
 * states of a trajectory, or is NULL. */
SM_EXPORT int sm_linearize_all(void *work, const double *par, const double *dt, int each, int n, const double *X,
                               const double *U, const double *guess, double *X2, double *A, double *B, double *info) {
  for (int k = 0; k < n; k++) {
    const int status =
        sm_linearize(work, par, dt[k * each], row(X, k, NX), row(U, k, NV), guess ? row(guess, k, NX) : NULL,
                     row_out(X2, k, NX), row_out(A, k * NDX, NDX), row_out(B, k * NDX, NV), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}

#ifdef SM_CURVATURE
/* Contracted second derivatives at n points; `guess` as of sm_linearize_all. */
SM_EXPORT int sm_curvature_all(void *work, const double *par, const double *dt, int each, int n, const double *X,
                               const double *U, const double *guess, const double *eta, double *xx, double *xu,
                               double *uu, double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_curvature(work, par, dt[k * each], row(X, k, NX), row(U, k, NV),
                                    guess ? row(guess, k, NX) : NULL, row(eta, k, NDX), row_out(xx, k * NDX, NDX),
                                    row_out(xu, k * NDX, NV), row_out(uu, k * NV, NV), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}
#endif

#ifdef SM_PARAMETERS
/* Derivatives by state, input and parameters at n points. */
SM_EXPORT int sm_parameters_all(void *work, const double *par, const double *dt, int each, int n, const double *X,
                                const double *U, const double *guess, double *X2, double *A, double *B, double *T,
                                double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_parameters(work, par, dt[k * each], row(X, k, NX), row(U, k, NV),
                                     guess ? row(guess, k, NX) : NULL, row_out(X2, k, NX), row_out(A, k * NDX, NDX),
                                     row_out(B, k * NDX, NV), row_out(T, k * NDX, NPAR), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}
#endif

#ifdef SM_SENSITIVITY
/* All first derivatives at n points. */
SM_EXPORT int sm_sensitivity_all(void *work, const double *par, const double *dt, int each, int n, const double *X,
                                 const double *U, const double *guess, double *X2, double *multipliers, double *Y,
                                 double *M, double *info) {
  for (int k = 0; k < n; k++) {
    const int status = sm_sensitivity(work, par, dt[k * each], row(X, k, NX), row(U, k, NV),
                                      guess ? row(guess, k, NX) : NULL, row_out(X2, k, NX), row_out(multipliers, k, NC),
                                      row_out(Y, k * NDX, NS), row_out(M, k * NC, NS), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}
#endif

#ifdef SM_SECOND_SENSITIVITY
/* All contracted second derivatives at n points. */
SM_EXPORT int sm_second_sensitivity_all(void *work, const double *par, const double *dt, int each, int n,
                                        const double *X, const double *U, const double *guess, const double *eta,
                                        const double *nu, double *H, double *info) {
  for (int k = 0; k < n; k++) {
    const int status =
        sm_second_sensitivity(work, par, dt[k * each], row(X, k, NX), row(U, k, NV), guess ? row(guess, k, NX) : NULL,
                              row(eta, k, NDX), row(nu, k, NC), row_out(H, k * NS, NS), info);
    if (status != SM_OK) {
      info[2] = k;
      return status;
    }
  }
  return SM_OK;
}
#endif
