#include "flash.h"

#include <stdlib.h>
#include <string.h>

_Alignas(8) uint8_t flash[PORT_REGIONS][FLASH_ROOM];
uint32_t flash_sizes[PORT_REGIONS] = {36864U, 36864U, 1024U, 1024U};
uint32_t flash_operations;
jmp_buf flash_power_loss;

static uint32_t cut_at;
static uint32_t cut_bytes;
static uint32_t fail_at;
static uint32_t deny_at;
static uint32_t noise;

/* Cells whose content is not certain, and what each of the regions reads as. */
static uint8_t weak[PORT_REGIONS][FLASH_ROOM];
static uint8_t worn[PORT_REGIONS][FLASH_ROOM];
static uint8_t rotten[PORT_REGIONS][FLASH_ROOM];
static bool has_weak[PORT_REGIONS];
static bool is_spoilt[PORT_REGIONS]; /* worn or rotten somewhere */
static _Alignas(8) uint8_t seen[PORT_REGIONS][FLASH_ROOM];
static uint32_t weak_ones; /* of 256; 0: cells are certain */
static bool weak_alike;    /* one throw of the dice for all cells that are read at once */
static uint32_t dice = 1;

void flash_cut(uint32_t nth, uint32_t bytes, uint32_t seed) {
  cut_at = nth > 0U ? flash_operations + nth : 0U;
  cut_bytes = bytes;
  noise = seed;
}

void flash_fail(uint32_t nth) { fail_at = nth > 0U ? flash_operations + nth : 0U; }

void flash_deny(uint32_t nth) { deny_at = nth > 0U ? flash_operations + nth : 0U; }

void flash_weaken(uint32_t ones, uint32_t seed) {
  weak_ones = ones;
  dice = seed | 1U;
}

void flash_agree(bool alike) { weak_alike = alike; }

void flash_wear(port_region region, uint32_t at, uint8_t bits) {
  worn[region][at] |= bits;
  is_spoilt[region] = true;
  flash[region][at] &= (uint8_t)~bits;
}

void flash_rot(port_region region, uint32_t at, uint8_t bits) {
  flash[region][at] ^= bits;
  rotten[region][at] |= bits;
  is_spoilt[region] = true;
}

void flash_renew(void) {
  for (port_region region = 0; region < PORT_REGIONS; region++) {
    if (has_weak[region] || is_spoilt[region]) {
      memset(weak[region], 0, sizeof weak[region]);
      memset(worn[region], 0, sizeof worn[region]);
      memset(rotten[region], 0, sizeof rotten[region]);
    }
    has_weak[region] = false;
    is_spoilt[region] = false;
  }
  weak_ones = 0;
  weak_alike = false;
}

/* A bit of chance. */
static bool reads_as_one(void) {
  dice ^= dice << 13;
  dice ^= dice >> 17;
  dice ^= dice << 5;
  return (dice >> 8 & 255U) < weak_ones;
}

/* Notes which bits an operation that is cut off would still have changed or has just changed. */
static void weaken(port_region region, size_t at, uint8_t before, uint8_t meant) {
  if (weak_ones > 0U && before != meant) {
    weak[region][at] |= before ^ meant;
    has_weak[region] = true;
  }
}

static uint8_t random_byte(void) {
  noise = noise * 1664525U + 1013904223U;
  return (uint8_t)(noise >> 24);
}

static _Noreturn void lose_power(void) {
  cut_at = 0;
  longjmp(flash_power_loss, 1);
}

size_t port_region_size(port_region region) { return flash_sizes[region]; }

const uint8_t *port_region_read(port_region region) {
  if (flash_sizes[region] == 0U || !has_weak[region]) {
    return flash_sizes[region] > 0U ? flash[region] : NULL;
  }
  const bool alike = weak_alike && reads_as_one();
  for (uint32_t i = 0; i < flash_sizes[region]; i++) {
    uint8_t chance = 0;
    for (uint8_t bits = weak[region][i]; bits != 0U; bits = (uint8_t)(bits & (bits - 1U))) {
      chance |= (weak_alike ? alike : reads_as_one()) ? (uint8_t)(bits & -bits) : 0U;
    }
    seen[region][i] = (uint8_t)((flash[region][i] & ~weak[region][i]) | chance);
  }
  return seen[region];
}

static void lower(uint8_t *to, unsigned value) { *to = (uint8_t)(*to & value); }

bool port_region_lasting(void) { return true; }

int port_region_erase(port_region region) {
  const uint32_t size = flash_sizes[region];
  flash_operations++;
  if (flash_operations == cut_at) {
    const uint32_t done = cut_bytes < size ? cut_bytes : size;
    for (uint32_t i = 0; i < size; i++) {
      const uint8_t before = flash[region][i];
      flash[region][i] = i < done ? 0xFFU : flash[region][i] | random_byte();
      weaken(region, i, before, 0xFF);
    }
    lose_power();
  }
  if (flash_operations == fail_at) {
    return -1;
  }
  memset(weak[region], 0, size);
  memset(rotten[region], 0, size);
  bool clean = flash_operations != deny_at;
  for (uint32_t i = 0; i < size; i++) {
    flash[region][i] = (uint8_t)~worn[region][i];
    clean = clean && worn[region][i] == 0U;
  }
  return clean ? 0 : -1;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  uint8_t *at = flash[region] + offset;
  flash_operations++;
  if (offset % 8U != 0U || size % 8U != 0U || offset + size > flash_sizes[region]) {
    abort();
  }
  for (size_t i = offset; i < offset + size; i++) {
    const bool spoilt = (worn[region][i] | weak[region][i] | rotten[region][i]) != 0U;
    if (flash[region][i] != 0xFFU && from[i - offset] != 0U && !spoilt) {
      abort();
    }
  }
  if (flash_operations == cut_at) {
    const size_t done = cut_bytes < size ? cut_bytes : size;
    const size_t begun = done / 8U * 8U + 8U;
    for (size_t i = 0; i < size && i < begun; i++) {
      weaken(region, offset + i, at[i], from[i]);
      lower(&at[i], i < done ? from[i] : from[i] | random_byte());
    }
    lose_power();
  }
  if (flash_operations == fail_at) {
    lower(&at[0], 0);
    return -1;
  }
  for (size_t i = 0; i < size; i++) {
    weak[region][offset + i] &= from[i]; /* a bit that was written is certain */
    lower(&at[i], from[i]);
  }
  return flash_operations != deny_at && memcmp(port_region_read(region) + offset, from, size) == 0 ? 0 : -1;
}
