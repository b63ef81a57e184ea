/* Newton's method of segment.h in all lanes of a vector. Each lane takes the turns that it takes alone, so that it ends
 * with the same bits; lanes that would take others than those beside them are left to the scalar library: where a pivot
 * is not on the diagonal, where a new matrix is needed when others keep theirs, where the plain method fails. */

/* Largest relative change of q2 for a Newton correction; no number counts as infinite. */
static real correction_size(const workspace *s, const real *dz) {
  real size = SM_OF(0.0);
  for (int i = 0; i < ND; i++) {
    const real change = sm_abs(dz[i]) / (1.0 + sm_abs(s->q2[i]));
    const sm_flags finite = change < INFINITY;
    size = sm_where(change <= size, size, sm_where(finite, change, SM_OF(INFINITY)));
  }
  return size;
}

/* q2, lam of the lanes that count, a Newton correction later; others stay where they have converged. */
static void apply(workspace *s, const real *dz, sm_flags count) {
  for (int i = 0; i < ND; i++) {
    s->q2[i] = sm_where(count, s->q2[i] + dz[i], s->q2[i]);
  }
  for (int c = 0; c < NC; c++) {
    s->lam[c] = sm_where(count, s->lam[c] + dz[ND + c], s->lam[c]);
  }
}

/* Returns the lanes that have converged in so many turns, of those that count. */
static sm_flags newton(workspace *s, const arguments *a, double trust, int turns, sm_flags count) {
  real dz[NZ], before = SM_OF(INFINITY);
  sm_flags found = {0};
  int fresh = 1;
  for (int turn = 1; turn <= turns && sm_any(count); turn++) {
    if (fresh) {
      evaluate_second(s, a);
      evaluate_constraints(s, a, s->q2, s->Dh2);
      count = factorize(s, a->dt, count);
    } else {
      evaluate_first(s, a);
      evaluate_constraints(s, a, s->q2, s->Dh2);
    }
    residual(s, a);
    correction(s, dz);
    const real size = correction_size(s, dz), rate = size / before;
    count &= size < INFINITY;
    if (turn == 1) {
      count &= size <= trust;
      s->left = size;
    }
    apply(s, dz, count);
    sm_flags end = (size <= 1e-15) | ((size <= 1e-11) & (rate >= 0.5));
    end |= fresh ? size <= 1e-9 : (rate < 0.5) & (size * rate <= 1e-17);
    found |= count & end;
    count &= ~end;
    const sm_flags slow = (rate > 0.1) & (size > 1e-11);
    fresh = NZ <= 8 || turn == 1;
    if (!fresh && sm_any(slow & count)) {
      fresh = !sm_any(~slow & count);
      if (!fresh) {
        count &= ~slow;
      }
    }
    before = size;
  }
  return found;
}
