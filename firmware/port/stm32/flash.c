/* Waiting for flash. Nothing can be read from flash meanwhile, not even code, so this runs from RAM. */
#include "registers.h"
#include "stm32.h"

__attribute__((section(".ramcode"), noinline)) int flash_run(uint32_t where, uint32_t value, bool half,
                                                             uint32_t limit_ms) {
  if (supply_is_low()) {
    return -1;
  }
  const uint32_t mask = interrupts_mask();
  const bool pending = SCB_ICSR & SCB_ICSR_PENDSTSET;
  uint32_t ms = 0;
  (void)SYST_CSR; /* clears its flag */
  if (half) {
    *(volatile uint16_t *)where = (uint16_t)value;
  } else {
    *(reg32 *)where = value;
  }
  __asm__ volatile("dsb" ::: "memory");
  while ((FLASH_SR & CHIP_FLASH_BUSY) && ms < limit_ms) {
    if (SYST_CSR & SYST_CSR_COUNTFLAG) {
      ms += 1U;
    }
    IWDG_KR = IWDG_FEED;
    serial_poll();
  }
  const bool done = (FLASH_SR & CHIP_FLASH_BUSY) == 0U;
  time_lost(pending || ms == 0U ? ms : ms - 1U); /* the first missed tick is still pending */
  interrupts_restore(mask);
  return done ? 0 : -1;
}
