/* Time from SysTick: a millisecond interrupt, and the counter in between. */
#include "registers.h"
#include "stm32.h"

void tick_handler(void);

static volatile uint32_t milliseconds;
static uint32_t period; /* counts in a millisecond */

void time_init(uint32_t core_hz) {
  period = core_hz / 1000U;
  SYST_RVR = period - 1U;
  SYST_CVR = 0;
  SYST_CSR = SYST_CSR_CLKSOURCE | SYST_CSR_TICKINT | SYST_CSR_ENABLE;
}

/* All interrupts have the same priority, so none of them sees this one half done. */
void tick_handler(void) {
  milliseconds = milliseconds + 1U;
  encoders_sample();
}

void time_lost(uint32_t ms) { milliseconds = milliseconds + ms; }

uint32_t port_micros(void) {
  const uint32_t mask = interrupts_mask();
  uint32_t ms = milliseconds;
  uint32_t left = SYST_CVR;
  if (SCB_ICSR & SCB_ICSR_PENDSTSET) { /* a millisecond has ended that is not counted yet */
    left = SYST_CVR;
    ms += 1U;
  }
  interrupts_restore(mask);
  const uint32_t gone = left == 0U ? 0U : period - left; /* the counter shows 0 when the interrupt is due */
  return ms * 1000U + gone / (period / 1000U);
}
