/* A fault and a stack that is too long end in a restart, which is not taken for one that was asked for. */
#include <string.h>

#include "check.h"
#include "port.h"

static void test_the_reason_is_not_software(void) {
  CHECK(port_reset_reason() != PORT_RESET_SOFTWARE && port_reset_reason() != PORT_RESET_POWER);
}

static volatile unsigned deepest = UINT32_MAX;

static unsigned recurse(unsigned depth) { /* for ever, with a frame of its own each time */
  volatile uint8_t frame[256];
  frame[depth % sizeof frame] = (uint8_t)depth;
  return depth < deepest ? recurse(depth + 1U) + frame[0] : 0U;
}

/* What has happened so far, in the log: one mark before each fault. */
int main(void) {
  static const uint8_t MARK[8] = {0};
  port_init();
  const uint8_t *log = port_region_read(PORT_LOG_A);
  if (port_reset_reason() != PORT_RESET_SOFTWARE && log[0] == 0xFFU) {
    (void)port_region_write(PORT_LOG_A, 0, MARK, sizeof MARK);
    __asm__ volatile("udf #0");
  }
  CHECK_RUN(test_the_reason_is_not_software);
  if (log[8] == 0xFFU) {
    (void)port_region_write(PORT_LOG_A, 8, MARK, sizeof MARK);
    (void)recurse(0);
  }
  (void)port_region_erase(PORT_LOG_A);
  return check_done();
}
