#include "sm_schedule.h"

#include <string.h>

/* Four bits at a time: sixteen words of table instead of 256. */
uint32_t sm_crc32(uint32_t crc, const uint8_t *from, size_t size) {
  static const uint32_t table[16] = {0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U,
                                     0x4DB26158U, 0x5005713CU, 0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU,
                                     0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU};
  crc = ~crc;
  for (size_t i = 0; i < size; i++) {
    crc ^= from[i];
    crc = (crc >> 4) ^ table[crc & 15U];
    crc = (crc >> 4) ^ table[crc & 15U];
  }
  return ~crc;
}

static uint32_t word(const uint8_t *at, unsigned bytes) {
  uint32_t v = 0;
  for (unsigned i = bytes; i-- > 0U;) {
    v = v << 8 | at[i];
  }
  return v;
}

static uint32_t padded(uint32_t bytes) { return (bytes + 7U) & ~UINT32_C(7); }

int sm_schedule_open(sm_schedule *s, const uint8_t *blob, size_t size, const sm_schedule_kind *kind) {
  if (size < SM_SCHEDULE_HEAD + 4U || memcmp(blob, "SMS1", 4) != 0) {
    return SM_SCHEDULE_NONE;
  }
  if (word(blob + 4, 2) != 1U) {
    return SM_SCHEDULE_VERSION;
  }
  if (memcmp(blob + 8, kind->model, sizeof kind->model) != 0) {
    return SM_SCHEDULE_MODEL;
  }
  const uint32_t count = word(blob + 16, 4);
  const uint32_t entries = word(blob + 20, 2);
  const uint32_t row_bytes = entries * (blob[22] == 2U ? 8U : 4U);
  if (entries != kind->entries || blob[22] != kind->scalar || word(blob + 24, 4) != kind->period_us) {
    return SM_SCHEDULE_SHAPE;
  }
  const uint32_t head = padded(SM_SCHEDULE_HEAD + entries);
  if (word(blob + 6, 2) != head || count == 0U || row_bytes == 0U || count > size / row_bytes ||
      size != padded(head + count * row_bytes + 4U)) {
    return SM_SCHEDULE_SIZE;
  }
  if (sm_crc32(0, blob, size - 4U) != word(blob + size - 4U, 4)) {
    return SM_SCHEDULE_CHECKSUM;
  }
  s->rows = blob + head;
  s->count = count;
  s->row_bytes = row_bytes;
  return 0;
}

void sm_schedule_row(const sm_schedule *s, uint32_t k, void *row) {
  const uint32_t last = s->count - 1U;
  memcpy(row, s->rows + (size_t)(k < last ? k : last) * s->row_bytes, s->row_bytes);
}
