/* Flash of the F405: sectors of 128 KiB at the end, so that an image is one piece from the start of flash and flashing it
 * leaves slots and logs alone. Of a log's sector the first 16 KiB are used; searching more takes longer. */
#include <string.h>

#include "registers.h"
#include "stm32.h"

#define CR_PG BIT(0)
#define CR_SER BIT(1)
#define CR_SECTOR(n) ((n) << 3)
#define CR_WORDS (UINT32_C(2) << 8) /* 32 bits at once, for 2.7 V and more */
#define CR_STRT BIT(16)
#define ACR_DCEN BIT(10)
#define ACR_DCRST BIT(12)

#define ERASE_MS 4000U /* the data sheet's longest: 2 s */
#define WRITE_MS 2U

const flash_region chip_regions[PORT_REGIONS] = {
    [PORT_SLOT_A] = {.start = 0x08080000U, .bytes = 131072U, .page = 8U},
    [PORT_SLOT_B] = {.start = 0x080A0000U, .bytes = 131072U, .page = 9U},
    [PORT_LOG_A] = {.start = 0x080C0000U, .bytes = 16384U, .page = 10U},
    [PORT_LOG_B] = {.start = 0x080E0000U, .bytes = 16384U, .page = 11U},
};

/* The interface is locked whenever nothing is written; a bootloader may have left it open. */
bool chip_flash_writable(void) {
  FLASH_CR = CHIP_FLASH_LOCK;
  return FLASH_CR & CHIP_FLASH_LOCK;
}

/* The cache in front of flash does not see writes. */
static void forget_cache(void) {
  FLASH_ACR &= ~ACR_DCEN;
  FLASH_ACR |= ACR_DCRST;
  FLASH_ACR &= ~ACR_DCRST;
  FLASH_ACR |= ACR_DCEN;
}

int chip_flash_erase(uint32_t page) {
  FLASH_CR = CR_SER | CR_SECTOR(page) | CR_WORDS;
  const int status = flash_run(CHIP_FLASH + 0x10U, CR_SER | CR_SECTOR(page) | CR_WORDS | CR_STRT, false, ERASE_MS);
  forget_cache();
  return status;
}

int chip_flash_write(uint32_t address, const uint8_t *from, size_t size) {
  int status = 0;
  FLASH_CR = CR_PG | CR_WORDS;
  for (size_t i = 0; i < size && status == 0; i += sizeof(uint32_t)) {
    uint32_t word;
    memcpy(&word, from + i, sizeof word);
    status = flash_run(address + (uint32_t)i, word, false, WRITE_MS);
  }
  forget_cache();
  return status;
}
