/* 24 MHz from a crystal of 8 MHz, or from half of the internal oscillator of 8 MHz. */
#include "registers.h"
#include "stm32.h"

#define CFGR_CRYSTAL_TIMES_3 (BIT(16) | (UINT32_C(1) << 18))
#define CFGR_INTERNAL_HALF_TIMES_6 (UINT32_C(4) << 18)

const clocks chip_full = {.core = 24000000U, .serial = 24000000U, .timers = 24000000U};
const clocks chip_internal = {.core = 8000000U, .serial = 8000000U, .timers = 8000000U};

uint32_t chip_pll(bool crystal) { return crystal ? CFGR_CRYSTAL_TIMES_3 : CFGR_INTERNAL_HALF_TIMES_6; }
