/* Two motors: PWM on TIM3, encoders on TIM2 and TIM4. */
#include "registers.h"
#include "stm32.h"

#define PWM_HZ 20000U /* above what one hears */

static timer_registers *const ENCODERS[PORT_AXES] = {TIM2, TIM4};

static uint32_t pwm_period;
static bool enabled;
static volatile int32_t positions[PORT_AXES];
static uint16_t counts[PORT_AXES];

void motors_init(uint32_t timers_hz) {
  pwm_period = timers_hz / PWM_HZ;
  TIM3->PSC = 0;
  TIM3->ARR = pwm_period - 1U;
  TIM3->CCMR1 = TIM_CCMR1_PWM;
  TIM3->CCER = TIM_CCER_1_2;
  TIM3->EGR = TIM_EGR_UG;
  TIM3->CR1 = TIM_CR1_CEN;
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    ENCODERS[axis]->ARR = 0xFFFFU;
    ENCODERS[axis]->CCMR1 = TIM_CCMR1_INPUTS;
    ENCODERS[axis]->SMCR = TIM_SMCR_ENCODER;
    ENCODERS[axis]->CR1 = TIM_CR1_CEN;
  }
}

void motors_off(void) {
  chip_enable(false);
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    TIM3->CCR[axis] = 0;
  }
}

void port_enable(bool on) {
  if (on && !enabled) {
    chip_enable(true);
  } else if (!on) {
    motors_off();
  }
  enabled = on;
}

/* Compare values act at once, not at the next period: the output is low while the direction changes. */
void port_drive(unsigned axis, int32_t effort) {
  if (!enabled || axis >= PORT_AXES) {
    return;
  }
  const bool backwards = effort < 0;
  const uint32_t size = backwards ? 0U - (uint32_t)effort : (uint32_t)effort;
  TIM3->CCR[axis] = 0;
  chip_direction(axis, backwards);
  TIM3->CCR[axis] = (size < 1000U ? size : 1000U) * pwm_period / 1000U;
}

void encoders_sample(void) {
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    const uint16_t count = (uint16_t)ENCODERS[axis]->CNT;
    const int16_t moved = (int16_t)(uint16_t)(count - counts[axis]);
    counts[axis] = count;
    positions[axis] = (int32_t)((uint32_t)positions[axis] + (uint32_t)moved);
  }
}

int32_t port_encoder(unsigned axis) {
  if (axis >= PORT_AXES) {
    return 0;
  }
  const uint32_t mask = interrupts_mask();
  encoders_sample();
  const int32_t position = positions[axis];
  interrupts_restore(mask);
  return position;
}
