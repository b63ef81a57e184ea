/* A ball over a segment: everything that its unknown t = n tan(theta/4) decides. Matrices are 3 x 3, by rows.
 *
 * model.h defines, besides what segment.h has, SM_BALLS, the number NB of balls, where each begins in q (BALL_STORED) and
 * in the tangent space (BALL_TANGENT), where ordinary coordinates stand in q (STORED_AT; -1 for dimensions of balls),
 * and phi as a quotient of polynomials, lowest power first, four coefficients each (PHI_ABOVE, PHI_BELOW).
 *   h = (1, t)/sqrt(1 + s),  inc = h h,  w dt = phi(s) t,  s = |t|^2
 *   M = m0 1 + m1 t^ + m2 t t^T,  m0 = phi (1 - s)/4,  m1 = phi/2,  m2 = (phi + phi' (1 + s))/2 */
#ifndef SM_BALL_H
#define SM_BALL_H

#include <math.h>
#include <string.h>

typedef struct {
  double t[3], s, half[4], inc[4];
  double H[9], I[9]; /* axes of the middle and of the end in those of the begin */
  double K[9];       /* turn of the middle by a change of t, in its axes */
  double N[9];       /* the same of the end: (H^T + 1) K */
  double X[9];       /* change of w dt */
  double M[9];
  double phi[4];             /* and three derivatives in s */
  double m[3], m1[3], m2[3]; /* m0, m1, m2 with two derivatives in s */
} ball;

static const int BALL_Q[NB] = BALL_STORED, BALL_T[NB] = BALL_TANGENT;

/* out = a x b */
static void cross(const double *a, const double *b, double *out) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot3(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* out += scale * the matrix of a x */
static void add_hat(double *out, int stride, double scale, const double *a) {
  out[1] -= scale * a[2];
  out[2] += scale * a[1];
  out[stride] += scale * a[2];
  out[stride + 2] -= scale * a[0];
  out[2 * stride] -= scale * a[1];
  out[2 * stride + 1] += scale * a[0];
}

/* out (n) += a0 x + a1 y + a2 z for rows x, y, z that are `width` apart and factors that are `apart` */
static inline void combine(double *out, int n, const double *factors, int apart, const double *rows, int width) {
  const double a0 = factors[0], a1 = factors[apart], a2 = factors[2 * apart];
  for (int j = 0; j < n; j++) {
    out[j] += a0 * rows[j] + a1 * rows[width + j] + a2 * rows[2 * width + j];
  }
}

/* out = a b, a b^T or a^T b: elements of a row are `right` apart, those of a column `down` */
static void multiply3(const double *a, int a_down, int a_right, const double *b, int b_down, int b_right, double *out) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      double sum = 0.0;
      for (int k = 0; k < 3; k++) {
        sum += a[i * a_down + k * a_right] * b[k * b_down + j * b_right];
      }
      out[3 * i + j] = sum;
    }
  }
}

/* out = A x, or A^T x */
static void apply3(const double *A, const double *x, double *out) {
  for (int i = 0; i < 3; i++) {
    out[i] = A[3 * i] * x[0] + A[3 * i + 1] * x[1] + A[3 * i + 2] * x[2];
  }
}

static void apply3_transposed(const double *A, const double *x, double *out) {
  for (int i = 0; i < 3; i++) {
    out[i] = A[i] * x[0] + A[3 + i] * x[1] + A[6 + i] * x[2];
  }
}

static void quaternion_product(const double *a, const double *b, double *out) {
  out[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
  out[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
  out[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
  out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
}

static void rotation_of(const double *q, double *R) {
  const double w = q[0], x = q[1], y = q[2], z = q[3];
  const double out[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                         2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                         2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
  memcpy(R, out, sizeof out);
}

/* vec/(1 + w) of a^-1 b by the shorter way: the t that leads from a to b; four times it is the layout's difference */
static void vector_between(const double *a, const double *b, double *t) {
  const double back[4] = {a[0], -a[1], -a[2], -a[3]};
  double turn[4];
  quaternion_product(back, b, turn);
  const double below = turn[0] + (turn[0] < 0 ? -1.0 : 1.0);
  for (int i = 0; i < 3; i++) {
    t[i] = turn[i + 1] / below;
  }
}

/* Value and three derivatives of a polynomial with four coefficients. */
static void polynomial(const double *c, double s, double *out) {
  out[0] = c[0] + s * (c[1] + s * (c[2] + s * c[3]));
  out[1] = c[1] + s * (2 * c[2] + s * 3 * c[3]);
  out[2] = 2 * c[2] + 6 * s * c[3];
  out[3] = 6 * c[3];
}

static void evaluate_phi(ball *b) {
  static const double above[4] = PHI_ABOVE, below[4] = PHI_BELOW;
  double n[4], d[4];
  polynomial(above, b->s, n);
  polynomial(below, b->s, d);
  const double r = 1.0 / d[0];
  b->phi[0] = n[0] * r;
  b->phi[1] = (n[1] - b->phi[0] * d[1]) * r;
  b->phi[2] = (n[2] - 2 * b->phi[1] * d[1] - b->phi[0] * d[2]) * r;
  b->phi[3] = (n[3] - 3 * b->phi[2] * d[1] - 3 * b->phi[1] * d[2] - b->phi[0] * d[3]) * r;
}

/* Quaternions of the middle and of the end, and w, from q1 and t. */
static void ball_moves(ball *b, const double *q1, double dt, double *qm, double *q2, double *w) {
  b->s = dot3(b->t, b->t);
  evaluate_phi(b);
  const double r = 1.0 / (1.0 + b->s), root = sqrt(r);
  const double half[4] = {root, root * b->t[0], root * b->t[1], root * b->t[2]};
  const double inc[4] = {(1.0 - b->s) * r, 2 * r * b->t[0], 2 * r * b->t[1], 2 * r * b->t[2]};
  quaternion_product(q1, half, qm);
  quaternion_product(q1, inc, q2);
  for (int i = 0; i < 3; i++) {
    w[i] = b->phi[0] * b->t[i] / dt;
  }
  const double *f = b->phi, s = b->s;
  const double m[3] = {f[0] * (1 - s) / 4, f[0] / 2, (f[0] + f[1] * (1 + s)) / 2};
  memcpy(b->m, m, sizeof m);
  memcpy(b->half, half, sizeof half);
  memcpy(b->inc, inc, sizeof inc);
}

/* What derivatives need besides. */
static void ball_slopes(ball *b) {
  const double *f = b->phi, *t = b->t, s = b->s, r = 2.0 / (1.0 + s);
  const double first[3] = {(f[1] * (1 - s) - f[0]) / 4, f[1] / 2, (2 * f[1] + f[2] * (1 + s)) / 2};
  const double second[3] = {(f[2] * (1 - s) - 2 * f[1]) / 4, f[2] / 2, (3 * f[2] + f[3] * (1 + s)) / 2};
  rotation_of(b->half, b->H);
  rotation_of(b->inc, b->I);
  memcpy(b->m1, first, sizeof first);
  memcpy(b->m2, second, sizeof second);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      b->K[3 * i + j] = i == j ? r : 0.0;
      b->X[3 * i + j] = 2 * f[1] * t[i] * t[j] + (i == j ? f[0] : 0.0);
      b->M[3 * i + j] = b->m[2] * t[i] * t[j] + (i == j ? b->m[0] : 0.0);
    }
  }
  add_hat(b->K, 3, -r, t);
  add_hat(b->M, 3, b->m[1], t);
  multiply3(b->H, 1, 3, b->K, 3, 1, b->N);
  for (int i = 0; i < 9; i++) {
    b->N[i] += b->K[i];
  }
}

/* out (3 rows, `stride` apart) += scale d(M g)/dt with sign 1, or d(M^T g)/dt with sign -1 */
static void add_momentum_slope(const ball *b, double *out, int stride, double scale, double sign, const double *g) {
  double turned[3];
  const double along = dot3(b->t, g), *t = b->t;
  cross(t, g, turned);
  for (int i = 0; i < 3; i++) {
    const double left = 2 * (b->m1[0] * g[i] + sign * b->m1[1] * turned[i] + b->m1[2] * t[i] * along);
    for (int j = 0; j < 3; j++) {
      out[i * stride + j] += scale * (left * t[j] + b->m[2] * t[i] * g[j] + (i == j ? b->m[2] * along : 0.0));
    }
  }
  add_hat(out, stride, -scale * sign * b->m[1], g);
}

#endif
