/* Two motors: PWM from LEDC, direction and enable from plain pins. */
#include "driver/gpio.h"
#include "driver/ledc.h"
#include "esp32.h"
#include "esp_attr.h"
#include "pins.h"
#include "port.h"

#define PWM_HZ 20000U
#define PWM_FULL 2048 /* 11 bits, the finest at this frequency */

static bool enabled;
static bool backward[PORT_MOTORS];

static void output(int pin) {
  const gpio_config_t config = {.pin_bit_mask = UINT64_C(1) << (unsigned)pin, .mode = GPIO_MODE_OUTPUT};
  ESP_ERROR_CHECK(gpio_set_level((gpio_num_t)pin, 0));
  ESP_ERROR_CHECK(gpio_config(&config));
}

void motors_init(void) {
  output(PINS.enable);
  const gpio_config_t fault = {
      .pin_bit_mask = UINT64_C(1) << (unsigned)PINS.fault, .mode = GPIO_MODE_INPUT, .pull_up_en = GPIO_PULLUP_ENABLE};
  ESP_ERROR_CHECK(gpio_config(&fault));
  const ledc_timer_config_t timer = {.speed_mode = LEDC_LOW_SPEED_MODE,
                                     .duty_resolution = LEDC_TIMER_11_BIT,
                                     .timer_num = LEDC_TIMER_0,
                                     .freq_hz = PWM_HZ,
                                     .clk_cfg = LEDC_AUTO_CLK};
  ESP_ERROR_CHECK(ledc_timer_config(&timer));
  for (unsigned axis = 0; axis < PORT_MOTORS; ++axis) {
    const ledc_channel_config_t channel = {.gpio_num = PINS.pwm[axis],
                                           .speed_mode = LEDC_LOW_SPEED_MODE,
                                           .channel = (ledc_channel_t)axis,
                                           .timer_sel = LEDC_TIMER_0,
                                           .duty = 0};
    output(PINS.direction[axis]);
    ESP_ERROR_CHECK(ledc_channel_config(&channel));
  }
}

static void set_duty(unsigned axis, uint32_t duty) {
  (void)ledc_set_duty(LEDC_LOW_SPEED_MODE, (ledc_channel_t)axis, duty);
  (void)ledc_update_duty(LEDC_LOW_SPEED_MODE, (ledc_channel_t)axis);
}

/* Also from a panic, with the cache of flash off: code and data are in RAM, those of gpio_set_level by
 * CONFIG_GPIO_CTRL_FUNC_IN_IRAM. */
void IRAM_ATTR motors_off(void) { (void)gpio_set_level((gpio_num_t)PINS.enable, 0); }

void port_enable(bool on) {
  if (!on) {
    motors_off();
    for (unsigned axis = 0; axis < PORT_MOTORS; ++axis) {
      set_duty(axis, 0);
    }
  } else if (!enabled) {
    (void)gpio_set_level((gpio_num_t)PINS.enable, 1);
  }
  enabled = on;
}

void port_drive(unsigned axis, int32_t effort) {
  if (!enabled || axis >= PORT_MOTORS) {
    return;
  }
  const uint32_t size = effort < 0 ? 0U - (uint32_t)effort : (uint32_t)effort;
  if (backward[axis] != (effort < 0)) { /* old effort in the new direction: until the period of 50 us ends, no longer */
    set_duty(axis, 0);
    backward[axis] = effort < 0;
    (void)gpio_set_level((gpio_num_t)PINS.direction[axis], backward[axis]);
  }
  set_duty(axis, (size < 1000U ? size : 1000U) * PWM_FULL / 1000U);
}

/* The supply tells nothing: a brown-out resets the chip, as ESP-IDF sets it up. */
uint32_t port_alarms(void) {
  const bool fault = gpio_get_level((gpio_num_t)PINS.fault) == 0;
  return (fault ? PORT_ALARM_DRIVER : 0U) | PORT_ALARM_ENCODER * encoders_lost();
}
