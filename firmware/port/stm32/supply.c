/* The supply of the chip, watched by its programmable voltage detector, and what else hardware tells by itself. */
#include "registers.h"
#include "stm32.h"

#define TRIES 20000U /* 10 ms and more: the detector's start, and the rest of a rising supply */

void supply_handler(void);

static volatile bool fell; /* since port_alarms was called last */

void supply_init(void) {
  RCC_APB1ENR |= RCC_APB1ENR_PWREN;
  (void)RCC_APB1ENR; /* a clock runs two cycles after it is switched on */
  PWR_CR |= CHIP_SUPPLY_LEVEL | PWR_CR_PVDE;
  for (uint32_t i = 0; i < TRIES && supply_is_low(); ++i) {
  }
  EXTI->RTSR |= EXTI_SUPPLY; /* the detector's output rises where the supply falls */
  EXTI->PR = EXTI_SUPPLY;
  EXTI->IMR |= EXTI_SUPPLY;
  NVIC_ISER[PVD_IRQ / 32U] = BIT(PVD_IRQ % 32U);
}

/* Motors pull a supply down: they are off before the main loop hears of it. */
void supply_handler(void) {
  EXTI->PR = EXTI_SUPPLY;
  fell = true;
  motors_off();
}

uint32_t port_alarms(void) {
  const bool low = fell || supply_is_low();
  if (fell) {
    fell = false; /* one that falls again in between is told by `low` */
  }
  return (low ? PORT_ALARM_SUPPLY : 0U) | (chip_driver_fault() ? PORT_ALARM_DRIVER : 0U) |
         (chip_brownout_low() ? PORT_ALARM_BROWNOUT : 0U) | PORT_ALARM_ENCODER * encoders_lost();
}
