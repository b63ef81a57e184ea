/* Says which board this is and why it started, then echoes what it hears. */
#include <string.h>

#include "port.h"

static const char *const REASONS[] = {
    [PORT_RESET_POWER] = "power",       [PORT_RESET_PIN] = "pin",           [PORT_RESET_SOFTWARE] = "software",
    [PORT_RESET_WATCHDOG] = "watchdog", [PORT_RESET_BROWNOUT] = "brownout", [PORT_RESET_UNKNOWN] = "unknown",
};

static void say(const char *text) { (void)port_send((const uint8_t *)text, strlen(text)); }

int main(void) {
  port_init();
  say("stepmap " STEPMAP_BOARD " reset=");
  say(REASONS[port_reset_reason()]);
  say("\n");
  for (;;) {
    uint8_t bytes[64];
    const size_t count = port_receive(bytes, sizeof bytes);
    if (count == 0U) {
      port_idle();
    } else {
      (void)port_send(bytes, count);
    }
  }
}
