#include "sm_clock.h"

#include "port.h"

uint32_t sm_clock_now_us(const sm_clock *c) { return c->is_virtual ? c->virtual_us : port_micros(); }

void sm_clock_select(sm_clock *c, bool is_virtual) {
  c->virtual_us = sm_clock_now_us(c);
  c->is_virtual = is_virtual;
  c->is_stamped = false;
}

void sm_clock_advance(sm_clock *c, uint32_t stamp_us) {
  const uint32_t passed = stamp_us - c->stamp_us;
  if (!c->is_stamped || (int32_t)passed > 0) {
    c->virtual_us += c->is_stamped ? passed : 0U;
    c->stamp_us = stamp_us;
    c->is_stamped = true;
  }
}
