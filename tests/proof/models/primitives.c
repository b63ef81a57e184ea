/* Every way into sm_fixed.c, from any number: the analyser checks its text, and the contracts of sm_fixed.h beside
 * this file. Numbers come as positive, negative and zero, each by itself, since an interval has no hole at zero. */
#include "sm_fixed.h"

int32_t any_int(void);
int64_t any_long(void);
/*@ assigns \result \from low, high;
  @ ensures low <= \result <= high; */
int32_t between(int32_t low, int32_t high);

static int32_t either(int which) {
  return which == 0 ? 0 : which == 1 ? between(1, INT32_MAX) : between(INT32_MIN, -1);
}

void prove(void) {
  uint32_t overflowed = 0U;
  //@ loop unroll 3;
  for (int which = 0; which < 3; which++) {
    //@ loop unroll 257;
    for (int base = -128; base <= 128; base++) {
      (void)sm_reciprocal(either(which), base, 32U, &overflowed);
      (void)sm_div(any_int(), either(which), base, 32U, &overflowed);
      (void)sm_sqrt(either(which), base, 32U, &overflowed);
    }
  }
  (void)sm_sin_quadrants(any_long());
}
