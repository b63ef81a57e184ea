/* 168 MHz from any crystal with whole megahertz, or from the internal oscillator of 16 MHz. */
#include "registers.h"
#include "stm32.h"

#ifndef STEPMAP_CRYSTAL_HZ
#define STEPMAP_CRYSTAL_HZ 8000000U
#endif

_Static_assert(STEPMAP_CRYSTAL_HZ % 1000000U == 0U && STEPMAP_CRYSTAL_HZ >= 4000000U && STEPMAP_CRYSTAL_HZ <= 26000000U,
               "the crystal has whole megahertz, 4 to 26");

#define RCC_PLLCFGR (*(reg32 *)0x40023804U)
#define PLLCFGR_N_336_P_2_Q_7 ((UINT32_C(336) << 6) | (UINT32_C(7) << 24)) /* 1 MHz to 336 MHz, halved */
#define PLLCFGR_HSE BIT(22)
#define CFGR_BUSES ((UINT32_C(5) << 10) | (UINT32_C(4) << 13)) /* APB1 a quarter, APB2 half of the core's clock */
#define ACR_CACHES_5_WAITS (BIT(8) | BIT(9) | BIT(10) | UINT32_C(5))

const clocks chip_full = {.core = 168000000U, .serial = 84000000U, .timers = 84000000U};
const clocks chip_internal = {.core = 16000000U, .serial = 16000000U, .timers = 16000000U};

uint32_t chip_pll(bool crystal) {
  const uint32_t source_hz = crystal ? STEPMAP_CRYSTAL_HZ : chip_internal.core;
  RCC_PLLCFGR = PLLCFGR_N_336_P_2_Q_7 | (crystal ? PLLCFGR_HSE : 0U) | source_hz / 1000000U;
  FLASH_ACR = ACR_CACHES_5_WAITS;
  return CFGR_BUSES;
}
