#include "sm_clock.h"

uint32_t sm_now_us(const sm_loop *l) { return l->virtual_time ? l->virtual_us : port_micros(); }

void sm_pass_time(sm_loop *l, uint32_t stamp_us) {
  const uint32_t passed = stamp_us - l->stamp_us;
  if (!l->stamped || (int32_t)passed > 0) {
    l->virtual_us += l->stamped ? passed : 0U;
    l->stamp_us = stamp_us;
    l->stamped = true;
  }
}
