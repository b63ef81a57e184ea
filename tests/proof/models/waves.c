/* Goes through all angles of sm_sin_quadrants: sine and cosine of every t are within -2^30 and 2^30. A quadrant is one
 * of both, with either sign. The cosine is that of t^2, which t and -t have in common. */
#include "sm_fixed.c"

#define ONE (INT32_C(1) << 30)

int main(void) {
  int outside = 0;
  for (int64_t t = INT32_MIN; t <= INT32_MAX; t++) {
    const int32_t y = sm_high((int32_t)t, polynomial(sine, sm_high((int32_t)t, (int32_t)t)));
    outside |= (y > ONE) | (y < -ONE);
  }
  for (int64_t t = INT32_MIN; t <= 0; t++) {
    const int32_t y = polynomial(cosine, sm_high((int32_t)t, (int32_t)t));
    outside |= (y > ONE) | (y < -ONE);
  }
  return outside;
}
