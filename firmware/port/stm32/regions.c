/* Regions in flash, or in RAM where the flash interface does not answer. */
#include <string.h>

#include "registers.h"
#include "stm32.h"

#define FRESH UINT32_C(0x0DDBA115) /* in `ram.mark`: the content is ours, from before a reset */

static KEPT struct {
  uint32_t mark;
  uint8_t slots[2][CHIP_RAM_SLOT_BYTES];
  uint8_t logs[2][CHIP_RAM_LOG_BYTES];
} ram;

static bool in_flash;

static uint8_t *ram_start(port_region region) {
  return region <= PORT_SLOT_B ? ram.slots[region] : ram.logs[region - PORT_LOG_A];
}

void regions_init(void) {
  in_flash = chip_flash_writable();
  if (!in_flash && ram.mark != FRESH) {
    memset(ram.slots, 0xFF, sizeof ram.slots);
    memset(ram.logs, 0xFF, sizeof ram.logs);
    ram.mark = FRESH;
  }
}

bool port_region_lasting(void) { return in_flash; }

size_t port_region_size(port_region region) {
  if (region >= PORT_REGIONS) {
    return 0;
  }
  if (in_flash) {
    return chip_regions[region].bytes;
  }
  return region <= PORT_SLOT_B ? CHIP_RAM_SLOT_BYTES : CHIP_RAM_LOG_BYTES;
}

const uint8_t *port_region_read(port_region region) {
  if (port_region_size(region) == 0U) {
    return NULL;
  }
  return in_flash ? (const uint8_t *)chip_regions[region].start : ram_start(region);
}

static void unlock(void) {
  FLASH_KEYR = FLASH_KEY1;
  FLASH_KEYR = FLASH_KEY2;
  FLASH_SR = CHIP_FLASH_ERRORS; /* of an operation before this one; cleared by writing ones */
}

static int lock(int status) {
  const uint32_t errors = FLASH_SR & CHIP_FLASH_ERRORS;
  FLASH_CR = CHIP_FLASH_LOCK;
  return errors ? -1 : status;
}

int port_region_erase(port_region region) {
  const size_t size = port_region_size(region);
  if (size == 0U) {
    return -1;
  }
  if (!in_flash) {
    memset(ram_start(region), 0xFF, size);
    return 0;
  }
  unlock();
  if (lock(chip_flash_erase(chip_regions[region].page))) {
    return -1;
  }
  const uint8_t *content = port_region_read(region);
  for (size_t i = 0; i < size; ++i) {
    if (content[i] != 0xFFU) {
      return -1;
    }
  }
  return 0;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  const size_t room = port_region_size(region);
  if (offset > room || size > room - offset || offset % PORT_WRITE_UNIT != 0U || size % PORT_WRITE_UNIT != 0U) {
    return -1;
  }
  if (in_flash) {
    unlock();
    if (lock(chip_flash_write(chip_regions[region].start + (uint32_t)offset, from, size))) {
      return -1;
    }
  } else {
    uint8_t *to = ram_start(region) + offset;
    for (size_t i = 0; i < size; ++i) {
      to[i] &= from[i];
    }
  }
  return memcmp(port_region_read(region) + offset, from, size) == 0 ? 0 : -1;
}
