/* Start, watchdog and restart. */
#include "registers.h"
#include "stm32.h"

#define ASKED UINT32_C(0x5EA1DB07) /* in `request`: this reset was asked for by port_restart */
#define WATCHDOG_RELOAD_MAX 4095U
#define WATCHDOG_DIVIDER_MAX 6U /* 4 << 6 = 256 */

static KEPT uint32_t request;
static port_reset reason;

void port_init(void) {
  reset_init();
  supply_init();
  const clocks hz = clocks_init();
  chip_pins();
  motors_off();
  time_init(hz.core);
  motors_init(hz.timers);
  serial_init(hz.serial);
  regions_init();
#ifdef STEPMAP_SET_BROWNOUT
#if !CHIP_BROWNOUT
#error "this chip has no brown-out level to set: build without STEPMAP_SET_BROWNOUT"
#endif
  if (port_region_lasting() && chip_brownout_low()) {
    (void)chip_brownout_set(); /* port_alarms tells where it failed */
  }
#endif
}

/* A pin reset leaves only its own flag; every other reset pulls the pin too, so that one is asked last. Power-on sets
 * the brown-out flag too, so that one is asked after it. */
static port_reset from_flags(uint32_t flags) {
  if (flags & (RCC_CSR_IWDGRSTF | RCC_CSR_WWDGRSTF)) {
    return PORT_RESET_WATCHDOG;
  }
  if (flags & RCC_CSR_SFTRSTF) {
    return PORT_RESET_UNKNOWN; /* a fault or a debugger: port_restart leaves its mark */
  }
  if (flags & RCC_CSR_PORRSTF) {
    return PORT_RESET_POWER;
  }
  if (flags & RCC_CSR_BORRSTF) {
    return PORT_RESET_BROWNOUT;
  }
  return (flags & RCC_CSR_PINRSTF) ? PORT_RESET_PIN : PORT_RESET_UNKNOWN;
}

void reset_init(void) {
  reason = from_flags(RCC_CSR);
  if (reason == PORT_RESET_UNKNOWN && request == ASKED) {
    reason = PORT_RESET_SOFTWARE;
  }
  request = 0;
  RCC_CSR |= RCC_CSR_RMVF;
}

port_reset port_reset_reason(void) { return reason; }

void port_watchdog_start(uint32_t timeout_ms) {
  const uint32_t longest = (WATCHDOG_RELOAD_MAX << (2U + WATCHDOG_DIVIDER_MAX)) / (CHIP_WATCHDOG_HZ / 1000U);
  const uint32_t counts = (timeout_ms < longest ? timeout_ms : longest) * (CHIP_WATCHDOG_HZ / 1000U);
  uint32_t divider = 0;
  while (divider < WATCHDOG_DIVIDER_MAX && (counts >> (2U + divider)) > WATCHDOG_RELOAD_MAX) {
    divider += 1U;
  }
  IWDG_KR = IWDG_START;
  IWDG_KR = IWDG_UNLOCK;
  IWDG_PR = divider;
  IWDG_RLR = counts >> (2U + divider);
  const uint32_t start = port_micros();
  while (IWDG_SR != 0U && port_micros() - start < 5000U) { /* the watchdog's slow clock takes both over */
  }
  IWDG_KR = IWDG_FEED;
}

void port_watchdog_feed(void) { IWDG_KR = IWDG_FEED; }

_Noreturn void port_restart(void) {
  (void)interrupts_mask();
  motors_off();
  request = ASKED;
  __asm__ volatile("dsb" ::: "memory");
  SCB_AIRCR = SCB_AIRCR_SYSRESETREQ;
  for (;;) {
  }
}
