/* What sm_fixed.c takes from gcc, as contracts: equal.py shows that gcc's own definition keeps them. */
#ifndef SM_BUILTINS_H
#define SM_BUILTINS_H

#include <stdint.h>

/* Zeros before the first one of v, which is not 0: there gcc promises nothing. */
/*@ requires some: v > 0;
  @ assigns \result \from v;
  @ behavior lower:
  @   assumes v <= 0x7FFFFFFF;
  @   ensures 1 <= \result <= 31;
  @ behavior upper:
  @   assumes v > 0x7FFFFFFF;
  @   ensures \result == 0;
  @ complete behaviors;
  @ disjoint behaviors; */
int sm_clz(uint32_t v);

#define __builtin_clz(v) sm_clz(v)

#endif
