/* Flash of the F100: logs in the last two pages of 1 KiB. There are no slots. */
#include <string.h>

#include "registers.h"
#include "stm32.h"

#define FLASH_AR (*(reg32 *)(CHIP_FLASH + 0x14U))
#define CR_PG BIT(0)
#define CR_PER BIT(1)
#define CR_STRT BIT(6)

#define ERASE_MS 100U /* the data sheet's longest: 40 ms */
#define WRITE_MS 2U

const flash_region chip_regions[PORT_REGIONS] = {
    [PORT_LOG_A] = {.start = 0x0801F800U, .bytes = 1024U, .page = 0x0801F800U},
    [PORT_LOG_B] = {.start = 0x0801FC00U, .bytes = 1024U, .page = 0x0801FC00U},
};

/* The interface is locked whenever nothing is written; a bootloader may have left it open. */
bool chip_flash_writable(void) {
  FLASH_CR = CHIP_FLASH_LOCK;
  return FLASH_CR & CHIP_FLASH_LOCK;
}

int chip_flash_erase(uint32_t page) {
  FLASH_CR = CR_PER;
  FLASH_AR = page;
  return flash_run(CHIP_FLASH + 0x10U, CR_PER | CR_STRT, false, ERASE_MS);
}

int chip_flash_write(uint32_t address, const uint8_t *from, size_t size) {
  int status = 0;
  FLASH_CR = CR_PG;
  for (size_t i = 0; i < size && status == 0; i += sizeof(uint16_t)) {
    uint16_t half;
    memcpy(&half, from + i, sizeof half);
    status = flash_run(address + (uint32_t)i, half, true, WRITE_MS);
  }
  return status;
}

bool chip_brownout_low(void) { return false; }
