/* A restart is known as one, and regions outlive it. */
#include <string.h>

#include "check.h"
#include "port.h"

static const uint8_t MESSAGE[8] = {'b', 'e', 'f', 'o', 'r', 'e', '!', '\n'};

static void test_the_reason_is_known(void) { CHECK(port_reset_reason() == PORT_RESET_SOFTWARE); }

static void test_regions_outlive_it(void) { CHECK(memcmp(port_region_read(PORT_LOG_A), MESSAGE, sizeof MESSAGE) == 0); }

/* Without a restart that was asked for this is the first start: leave a message and ask for one. */
int main(void) {
  port_init();
  if (port_reset_reason() != PORT_RESET_SOFTWARE && port_region_erase(PORT_LOG_A) == 0 &&
      port_region_write(PORT_LOG_A, 0, MESSAGE, sizeof MESSAGE) == 0) {
    port_restart();
  }
  CHECK_RUN(test_the_reason_is_known);
  CHECK_RUN(test_regions_outlive_it);
  return check_done();
}
