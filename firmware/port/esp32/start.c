/* Start, time, watchdog and restart, on ESP-IDF 5.1 or newer. */
#include "esp32.h"
#include "esp_attr.h"
#include "esp_mac.h"
#include "esp_system.h"
#include "esp_task_wdt.h"
#include "esp_timer.h"
#include "port.h"

int main(void);
void app_main(void);

static uint8_t board_id[PORT_BOARD_ID];

void app_main(void) { (void)main(); }

void port_init(void) {
  motors_init();
  encoders_init();
  serial_init();
  regions_init();
  (void)esp_efuse_mac_get_default(board_id); /* six bytes, as they were written when the chip was made */
}

const uint8_t *port_board_id(void) { return board_id; }

/* A panic counts as unknown, so it is never taken for a restart that was asked for. */
port_reset port_reset_reason(void) {
  switch (esp_reset_reason()) {
  case ESP_RST_POWERON:
    return PORT_RESET_POWER;
  case ESP_RST_EXT:
    return PORT_RESET_PIN;
  case ESP_RST_SW:
    return PORT_RESET_SOFTWARE;
  case ESP_RST_INT_WDT:
  case ESP_RST_TASK_WDT:
  case ESP_RST_WDT:
    return PORT_RESET_WATCHDOG;
  case ESP_RST_BROWNOUT:
    return PORT_RESET_BROWNOUT;
  default:
    return PORT_RESET_UNKNOWN;
  }
}

uint32_t port_micros(void) { return (uint32_t)esp_timer_get_time(); }

void port_watchdog_start(uint32_t timeout_ms) {
  const esp_task_wdt_config_t config = {.timeout_ms = timeout_ms, .idle_core_mask = 0, .trigger_panic = true};
  if (esp_task_wdt_init(&config) != ESP_OK) {
    (void)esp_task_wdt_reconfigure(&config); /* ESP-IDF has started it already */
  }
  (void)esp_task_wdt_add(NULL);
}

void port_watchdog_feed(void) { (void)esp_task_wdt_reset(); }

/* Pins and PWM go on while a processor that panicked restarts, so the motors are switched off before. The linker puts
 * this in place of ESP-IDF's handler: --wrap=esp_panic_handler. */
void __real_esp_panic_handler(void *info);
void __wrap_esp_panic_handler(void *info);

void IRAM_ATTR __wrap_esp_panic_handler(void *info) {
  motors_off();
  __real_esp_panic_handler(info);
}

_Noreturn void port_restart(void) {
  port_enable(false);
  esp_restart();
}
