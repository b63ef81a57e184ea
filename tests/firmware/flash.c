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
static uint32_t noise;

void flash_cut(uint32_t nth, uint32_t bytes, uint32_t seed) {
  cut_at = nth > 0U ? flash_operations + nth : 0U;
  cut_bytes = bytes;
  noise = seed;
}

void flash_fail(uint32_t nth) { fail_at = nth > 0U ? flash_operations + nth : 0U; }

static uint8_t random_byte(void) {
  noise = noise * 1664525U + 1013904223U;
  return (uint8_t)(noise >> 24);
}

static _Noreturn void lose_power(void) {
  cut_at = 0;
  longjmp(flash_power_loss, 1);
}

size_t port_region_size(port_region region) { return flash_sizes[region]; }

const uint8_t *port_region_read(port_region region) { return flash_sizes[region] > 0U ? flash[region] : NULL; }

bool port_region_lasting(void) { return true; }

int port_region_erase(port_region region) {
  const uint32_t size = flash_sizes[region];
  flash_operations++;
  if (flash_operations == cut_at) {
    const uint32_t done = cut_bytes < size ? cut_bytes : size;
    memset(flash[region], 0xFF, done);
    for (uint32_t i = done; i < size; i++) {
      flash[region][i] |= random_byte();
    }
    lose_power();
  }
  if (flash_operations == fail_at) {
    return -1;
  }
  memset(flash[region], 0xFF, size);
  return 0;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  uint8_t *at = flash[region] + offset;
  flash_operations++;
  if (offset % 8U != 0U || size % 8U != 0U || offset + size > flash_sizes[region]) {
    abort();
  }
  for (size_t i = 0; i < size; i++) {
    if (at[i] != 0xFFU) {
      abort();
    }
  }
  if (flash_operations == cut_at) {
    const size_t done = cut_bytes < size ? cut_bytes : size;
    memcpy(at, from, done);
    for (size_t i = done; i < size && i < done / 8U * 8U + 8U; i++) {
      at[i] = from[i] | random_byte();
    }
    lose_power();
  }
  if (flash_operations == fail_at) {
    at[0] = 0;
    return -1;
  }
  memcpy(at, from, size);
  return 0;
}
