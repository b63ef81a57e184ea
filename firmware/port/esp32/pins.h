/* Pins; docs/boards.md has the table. */
#ifndef PINS_H
#define PINS_H

#include "esp_attr.h"
#include "port.h"
#include "sdkconfig.h"

typedef struct {
  int serial_send;
  int serial_receive;
  int enable;
  int fault; /* low: a driver's fault */
  int pwm[PORT_MOTORS];
  int direction[PORT_MOTORS];
  int encoder[PORT_ENCODERS][2];
} esp32_pins;

#if CONFIG_IDF_TARGET_ESP32
static const DRAM_ATTR esp32_pins PINS = {.serial_send = 1,
                                          .serial_receive = 3,
                                          .enable = 23,
                                          .fault = 27,
                                          .pwm = {18, 19},
                                          .direction = {21, 22},
                                          .encoder = {{32, 33}, {25, 26}}};
#elif CONFIG_IDF_TARGET_ESP32C3
static const DRAM_ATTR esp32_pins PINS = {.serial_send = 21,
                                          .serial_receive = 20,
                                          .enable = 10,
                                          .fault = 18,
                                          .pwm = {4, 5},
                                          .direction = {6, 8},
                                          .encoder = {{0, 1}, {3, 7}}};
#else
#error "no pins for this chip"
#endif

#endif
