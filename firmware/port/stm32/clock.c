/* The fastest clock from the crystal, or from the internal oscillator where there is none; else that oscillator itself.
 * The bits used here are at the same places in both families. */
#include "registers.h"
#include "stm32.h"

#define RCC_CR (*(reg32 *)CHIP_RCC)
#define RCC_CFGR (*(reg32 *)(CHIP_RCC + CHIP_RCC_CFGR))
#define CR_HSIRDY BIT(1)
#define CR_HSEON BIT(16)
#define CR_HSERDY BIT(17)
#define CR_CSSON BIT(19)
#define CR_PLLON BIT(24)
#define CR_PLLRDY BIT(25)
#define CFGR_SW_MASK UINT32_C(3)
#define CFGR_SW_PLL UINT32_C(2)
#define CFGR_SWS_MASK (UINT32_C(3) << 2)
#define CFGR_SWS_PLL (UINT32_C(2) << 2)

#define TRIES 100000U /* 50 ms and more; a crystal takes 2 ms */

static bool comes(const reg32 *reg, uint32_t mask, uint32_t value) {
  for (uint32_t i = 0; i < TRIES; ++i) {
    if ((*reg & mask) == value) {
      return true;
    }
  }
  return false;
}

/* Back to the internal oscillator: ST's bootloader starts a program with its own PLL on, and a PLL that runs cannot be
 * set up. After a reset there is nothing to do. */
static bool stop_pll(void) {
  RCC_CFGR &= ~CFGR_SW_MASK;
  if (!comes(&RCC_CFGR, CFGR_SWS_MASK, 0)) {
    return false;
  }
  RCC_CR &= ~CR_PLLON;
  return comes(&RCC_CR, CR_PLLRDY, 0);
}

static bool start_pll(void) {
  RCC_CR |= CR_HSEON;
  const bool crystal = comes(&RCC_CR, CR_HSERDY, CR_HSERDY);
  const uint32_t configuration = chip_pll(crystal);
  RCC_CFGR = configuration;
  RCC_CR |= CR_PLLON;
  if (!comes(&RCC_CR, CR_PLLRDY, CR_PLLRDY)) {
    return false;
  }
  RCC_CFGR = configuration | CFGR_SW_PLL;
  if (!comes(&RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL)) {
    return false;
  }
  if (crystal) {
    RCC_CR |= CR_CSSON; /* a crystal that stops later ends in fault_handler */
  }
  return true;
}

clocks clocks_init(void) {
  /* Every chip starts on its internal oscillator: where that is missing, clocks are not modelled, and it is fast. */
  if ((RCC_CR & CR_HSIRDY) == 0U) {
    return chip_full;
  }
  /* At full speed flash is read with the waits of 2.7 V and more: below that the clock stays slow until a restart. */
  if (!supply_is_low() && stop_pll() && start_pll()) {
    return chip_full;
  }
  (void)stop_pll();
  RCC_CFGR = 0;
  return chip_internal;
}
