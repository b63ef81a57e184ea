/* The robot. docs/firmware.md tells how it is built. */
#include "port.h"
#include "sm_key.h"
#include "sm_loop.h"

#ifndef STEPMAP_SYSTEM
#define STEPMAP_SYSTEM 1
#endif

_Static_assert(STEPMAP_SYSTEM >= 1 && STEPMAP_SYSTEM <= 254, "boards have system ids 1 to 254");

int main(void) {
  static sm_loop loop;
  static sm_loop_config config;
  config = sm_loop_defaults;
  config.system = STEPMAP_SYSTEM;
#ifdef SM_KEY
  static const uint8_t key[32] = SM_KEY;
  config.key = key;
#endif
  port_init();
  sm_loop_start(&loop, &config);
  for (;;) {
    sm_loop_turn(&loop);
  }
}
