/* Motors and encoders by timers; which ones is in pins.c of the family. */
#include "registers.h"
#include "stm32.h"

#define EDGES (CHIP_ENCODERS > CHIP_TIMER_ENCODERS) /* whether interrupts count some of the encoders */
#define TIMED (PORT_ENCODERS < CHIP_TIMER_ENCODERS ? PORT_ENCODERS : CHIP_TIMER_ENCODERS) /* encoders with a timer */
#define PWM_HZ 20000U                                                                     /* above what one hears */

static uint32_t pwm_period;
static bool enabled;
static volatile int32_t positions[TIMED];
static uint16_t counts[TIMED];

void motors_init(uint32_t timers_hz) {
  pwm_period = timers_hz / PWM_HZ;
  for (unsigned motor = 0; motor < PORT_MOTORS; ++motor) {
    timer_registers *timer = chip_pwm[motor].timer;
    const unsigned channel = chip_pwm[motor].channel;
    timer->PSC = 0;
    timer->ARR = pwm_period - 1U;
    timer->CCMR[channel / 2U] |= TIM_CCMR_PWM << (8U * (channel % 2U));
    timer->CCER |= BIT(4U * channel);
    timer->EGR = TIM_EGR_UG;
    timer->CR1 = TIM_CR1_CEN;
  }
  for (unsigned encoder = 0; encoder < TIMED; ++encoder) {
    timer_registers *timer = chip_encoders[encoder];
    timer->ARR = 0xFFFFU;
    timer->CCMR[0] = TIM_CCMR1_INPUTS;
    timer->SMCR = TIM_SMCR_ENCODER;
    timer->CR1 = TIM_CR1_CEN;
  }
#if EDGES
  edges_init(PORT_ENCODERS - TIMED);
#endif
}

void motors_off(void) {
  chip_enable(false);
  for (unsigned motor = 0; motor < PORT_MOTORS; ++motor) {
    chip_pwm[motor].timer->CCR[chip_pwm[motor].channel] = 0;
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
void port_drive(unsigned motor, int32_t effort) {
  if (!enabled || motor >= PORT_MOTORS) {
    return;
  }
  const bool backwards = effort < 0;
  const uint32_t size = backwards ? 0U - (uint32_t)effort : (uint32_t)effort;
  reg32 *compare = &chip_pwm[motor].timer->CCR[chip_pwm[motor].channel];
  *compare = 0;
  chip_direction(motor, backwards);
  *compare = (size < 1000U ? size : 1000U) * pwm_period / 1000U;
}

void encoders_sample(void) {
  for (unsigned encoder = 0; encoder < TIMED; ++encoder) {
    const uint16_t count = (uint16_t)chip_encoders[encoder]->CNT;
    const int16_t moved = (int16_t)(uint16_t)(count - counts[encoder]);
    counts[encoder] = count;
    positions[encoder] = (int32_t)((uint32_t)positions[encoder] + (uint32_t)moved);
  }
}

uint32_t encoders_lost(void) {
#if EDGES
  return edges_lost() << TIMED;
#else
  return 0;
#endif
}

int32_t port_encoder(unsigned encoder) {
  if (encoder >= PORT_ENCODERS) {
    return 0;
  }
#if EDGES
  if (encoder >= TIMED) {
    return edges_position(encoder - TIMED);
  }
#endif
  const uint32_t mask = interrupts_mask();
  encoders_sample();
  const int32_t position = positions[encoder];
  interrupts_restore(mask);
  return position;
}
