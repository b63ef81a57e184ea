#include "sm_fixed.h"

int32_t sm_reciprocal(int32_t d, int base, uint32_t *lost) {
  if (d == 0) {
    return sm_saturated(0, lost);
  }
  const uint32_t size = d < 0 ? 0U - (uint32_t)d : (uint32_t)d;
  const int up = __builtin_clz(size) - 1; /* -1 for |d| = 2^31 */
  const uint32_t m = up >= 0 ? size << up : size >> 1;
  const uint32_t rough = UINT32_C(0x80000000) / (m >> 15);
  const int64_t error = (INT64_C(1) << 46) - (int64_t)((uint64_t)m * rough);
  const int64_t y = ((int64_t)rough << 15) + ((error * (int64_t)rough) >> 31);
  const int right = base - up;
  int64_t v = INT64_MAX;
  if (right > 62) {
    v = 0;
  } else if (right > 0) {
    v = (y + (INT64_C(1) << (right - 1))) >> right;
  } else if (right > -31) {
    v = y * (INT64_C(1) << -right);
  }
  return sm_limit(d < 0 ? -v : v, lost);
}
