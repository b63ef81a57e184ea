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

#define FLASH_OPTKEYR (*(reg32 *)(CHIP_FLASH + 0x08U))
#define FLASH_OPTCR (*(reg32 *)(CHIP_FLASH + 0x14U))
#define FLASH_OPTKEY1 UINT32_C(0x08192A3B)
#define FLASH_OPTKEY2 UINT32_C(0x4C5D6E7F)
#define OPTCR_OPTLOCK BIT(0)
#define OPTCR_OPTSTRT BIT(1)
#define OPTCR_BOR_LEV (UINT32_C(3) << 2) /* 0: level 3, in reset below 2.75 to 2.88 V; 3: off, 1.8 V */

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

bool chip_brownout_low(void) { return (FLASH_OPTCR & OPTCR_BOR_LEV) != 0U; }

int chip_brownout_set(void) {
  FLASH_OPTKEYR = FLASH_OPTKEY1;
  FLASH_OPTKEYR = FLASH_OPTKEY2;
  const uint32_t before = FLASH_OPTCR & ~(OPTCR_OPTLOCK | OPTCR_OPTSTRT);
  const uint32_t wanted = before & ~OPTCR_BOR_LEV; /* all others stay */
  FLASH_OPTCR = wanted;
  const int status = flash_run(CHIP_FLASH + 0x14U, wanted | OPTCR_OPTSTRT, false, ERASE_MS);
  FLASH_OPTCR = (status == 0 ? wanted : before) | OPTCR_OPTLOCK;
  return status;
}
