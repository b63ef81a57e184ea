/* Encoders on pulse counters, for chips that have them. */
#include "driver/gpio.h"
#include "driver/pulse_cnt.h"
#include "esp32.h"
#include "pins.h"
#include "port.h"

#define LIMIT 30000 /* the driver adds up what the 16-bit counter has counted up to here */
#define GLITCH_NS 1000

static pcnt_unit_handle_t units[PORT_ENCODERS];

/* Counts the edges of one input, up or down by the level of the other: up where A leads. */
static void count(pcnt_unit_handle_t unit, int edge, int level, pcnt_channel_edge_action_t rising,
                  pcnt_channel_edge_action_t falling) {
  const pcnt_chan_config_t config = {.edge_gpio_num = edge, .level_gpio_num = level};
  pcnt_channel_handle_t channel;
  ESP_ERROR_CHECK(pcnt_new_channel(unit, &config, &channel));
  ESP_ERROR_CHECK(pcnt_channel_set_edge_action(channel, rising, falling));
  ESP_ERROR_CHECK(
      pcnt_channel_set_level_action(channel, PCNT_CHANNEL_LEVEL_ACTION_KEEP, PCNT_CHANNEL_LEVEL_ACTION_INVERSE));
}

void encoders_init(void) {
  for (unsigned axis = 0; axis < PORT_ENCODERS; ++axis) {
    const pcnt_unit_config_t config = {.low_limit = -LIMIT, .high_limit = LIMIT, .flags = {.accum_count = 1}};
    const pcnt_glitch_filter_config_t filter = {.max_glitch_ns = GLITCH_NS};
    const int a = PINS.encoder[axis][0];
    const int b = PINS.encoder[axis][1];
    const gpio_config_t inputs = {.pin_bit_mask = (UINT64_C(1) << (unsigned)a) | (UINT64_C(1) << (unsigned)b),
                                  .mode = GPIO_MODE_INPUT,
                                  .pull_up_en = GPIO_PULLUP_ENABLE}; /* not every ESP-IDF switches them on below */
    ESP_ERROR_CHECK(gpio_config(&inputs));
    ESP_ERROR_CHECK(pcnt_new_unit(&config, &units[axis]));
    ESP_ERROR_CHECK(pcnt_unit_set_glitch_filter(units[axis], &filter));
    count(units[axis], a, b, PCNT_CHANNEL_EDGE_ACTION_DECREASE, PCNT_CHANNEL_EDGE_ACTION_INCREASE);
    count(units[axis], b, a, PCNT_CHANNEL_EDGE_ACTION_INCREASE, PCNT_CHANNEL_EDGE_ACTION_DECREASE);
    ESP_ERROR_CHECK(pcnt_unit_add_watch_point(units[axis], -LIMIT));
    ESP_ERROR_CHECK(pcnt_unit_add_watch_point(units[axis], LIMIT));
    ESP_ERROR_CHECK(pcnt_unit_enable(units[axis]));
    ESP_ERROR_CHECK(pcnt_unit_clear_count(units[axis]));
    ESP_ERROR_CHECK(pcnt_unit_start(units[axis]));
  }
}

int32_t port_encoder(unsigned axis) {
  int position = 0;
  return axis < PORT_ENCODERS && pcnt_unit_get_count(units[axis], &position) == ESP_OK ? position : 0;
}

uint32_t encoders_lost(void) { return 0; } /* a pulse counter cannot tell */
