/* Encoders on pin interrupts, for chips without pulse counters. An interrupt takes some microseconds: some ten thousand
 * counts a second are the limit. */
#include "driver/gpio.h"
#include "esp32.h"
#include "esp_attr.h"
#include "esp_intr_alloc.h"
#include "pins.h"
#include "port.h"

/* Steps from one pair of levels (2a + b) to the next, up where A leads; 0 where nothing moved or an edge was missed. */
static const DRAM_ATTR int8_t STEPS[4][4] = {{0, -1, 1, 0}, {1, 0, 0, -1}, {-1, 0, 0, 1}, {0, 1, -1, 0}};

static volatile int32_t positions[PORT_ENCODERS];
static volatile unsigned levels[PORT_ENCODERS];
static volatile bool lost[PORT_ENCODERS];

static unsigned IRAM_ATTR read_levels(unsigned axis) {
  const int a = gpio_get_level((gpio_num_t)PINS.encoder[axis][0]);
  const int b = gpio_get_level((gpio_num_t)PINS.encoder[axis][1]);
  return (a ? 2U : 0U) | (b ? 1U : 0U);
}

static void IRAM_ATTR edge(void *argument) {
  const unsigned axis = (unsigned)(uintptr_t)argument;
  const unsigned now = read_levels(axis);
  positions[axis] = (int32_t)((uint32_t)positions[axis] + (uint32_t)STEPS[levels[axis]][now]);
  if ((levels[axis] ^ now) == 3U) {
    lost[axis] = true; /* both inputs at once: an edge was missed */
  }
  levels[axis] = now;
}

void encoders_init(void) {
  ESP_ERROR_CHECK(gpio_install_isr_service(ESP_INTR_FLAG_IRAM)); /* also while flash is written */
  for (unsigned axis = 0; axis < PORT_ENCODERS; ++axis) {
    const gpio_config_t config = {.pin_bit_mask = (UINT64_C(1) << (unsigned)PINS.encoder[axis][0]) |
                                                  (UINT64_C(1) << (unsigned)PINS.encoder[axis][1]),
                                  .mode = GPIO_MODE_INPUT,
                                  .pull_up_en = GPIO_PULLUP_ENABLE,
                                  .intr_type = GPIO_INTR_ANYEDGE};
    ESP_ERROR_CHECK(gpio_config(&config));
    levels[axis] = read_levels(axis);
    for (unsigned input = 0; input < 2U; ++input) {
      ESP_ERROR_CHECK(gpio_isr_handler_add((gpio_num_t)PINS.encoder[axis][input], edge, (void *)(uintptr_t)axis));
    }
  }
}

int32_t port_encoder(unsigned axis) { return axis < PORT_ENCODERS ? positions[axis] : 0; }

uint32_t encoders_lost(void) {
  uint32_t encoders = 0;
  for (unsigned axis = 0; axis < PORT_ENCODERS; ++axis) {
    if (lost[axis]) {
      lost[axis] = false;
      encoders |= UINT32_C(1) << axis;
    }
  }
  return encoders;
}
