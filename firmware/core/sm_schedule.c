#include "sm_schedule.h"

#include <string.h>

/* Offsets in the head of a blob, as sm_schedule.h lists them. */
enum {
  AT_VERSION = 4,
  AT_HEAD = 6,
  AT_COUNT = 16,
  AT_ENTRIES = 20,
  AT_SCALAR = 22,
  AT_PERIOD = 24,
  AT_HOLDS = 28,
  AT_STREAMS = 30
};

#define VERSION 1U
#define VERSION_GAIT 2U
#define CRC_BYTES 4U     /* at the end */
#define SCALAR_DOUBLE 2U /* the only scalar of 8 bytes; the others have 4 */
#define ALIGNMENT 8U     /* bytes; head and size are multiples of it, so that rows of doubles are aligned */

/* Four bits at a time: a table of 16 words instead of 256. table[i] is the remainder of the four bits i. */
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

static uint32_t read_le(const uint8_t *at, unsigned bytes) {
  uint32_t v = 0;
  for (unsigned i = bytes; i-- > 0U;) {
    v = v << 8 | at[i];
  }
  return v;
}

static uint32_t padded(uint32_t bytes) { return (bytes + ALIGNMENT - 1U) & ~(uint32_t)(ALIGNMENT - 1U); }

int sm_schedule_open(sm_schedule *s, const uint8_t *blob, size_t size, const sm_schedule_kind *kind) {
  if (size < SM_SCHEDULE_HEAD + CRC_BYTES || memcmp(blob, SM_SCHEDULE_MAGIC, SM_SCHEDULE_MAGIC_BYTES) != 0) {
    return SM_SCHEDULE_NONE;
  }
  const uint32_t version = read_le(blob + AT_VERSION, 2);
  if (version != VERSION && version != VERSION_GAIT) {
    return SM_SCHEDULE_VERSION;
  }
  if (memcmp(blob + SM_SCHEDULE_MODEL_AT, kind->model, sizeof kind->model) != 0) {
    return SM_SCHEDULE_MODEL;
  }
  const uint32_t count = read_le(blob + AT_COUNT, 4);
  const uint32_t entries = read_le(blob + AT_ENTRIES, 2);
  const uint32_t row_bytes = entries * (blob[AT_SCALAR] == SCALAR_DOUBLE ? 8U : 4U);
  if (entries != kind->entries || blob[AT_SCALAR] != kind->scalar || read_le(blob + AT_PERIOD, 4) != kind->period_us) {
    return SM_SCHEDULE_SHAPE;
  }
  const uint32_t head = padded(SM_SCHEDULE_HEAD + entries);
  const uint32_t more = read_le(blob + AT_STREAMS, 2);
  const uint32_t streams = version == VERSION ? more : 0U;
  const uint32_t gait = version == VERSION_GAIT ? more : 0U;
  const uint32_t holds = read_le(blob + AT_HOLDS, 2);
  if (read_le(blob + AT_HEAD, 2) != head || count == 0U || row_bytes == 0U || count > size / row_bytes ||
      streams > size / row_bytes || holds > 1U || gait >= count || (version == VERSION_GAIT && gait == 0U) ||
      size != padded(head + (count + holds + 2U * streams) * row_bytes + CRC_BYTES)) {
    return SM_SCHEDULE_SIZE;
  }
  if (sm_crc32(0, blob, size - CRC_BYTES) != read_le(blob + size - CRC_BYTES, CRC_BYTES)) {
    return SM_SCHEDULE_CHECKSUM;
  }
  s->rows = blob + head;
  s->count = count;
  s->row_bytes = row_bytes;
  s->has_hold = holds != 0U;
  s->streams = (uint16_t)streams;
  s->gait = (uint16_t)gait;
  return 0;
}

void sm_schedule_row(const sm_schedule *s, uint32_t k, void *row) {
  const uint32_t last = s->count - 1U;
  memcpy(row, s->rows + (size_t)(k < last ? k : last) * s->row_bytes, s->row_bytes);
}

void sm_schedule_hold(const sm_schedule *s, void *row) {
  memcpy(row, s->rows + (s->has_hold ? (size_t)s->count * s->row_bytes : 0U), s->row_bytes);
}

const uint8_t *sm_schedule_tangent(const sm_schedule *s, uint32_t i) {
  return s->rows + (size_t)(s->count + (s->has_hold ? 1U : 0U) + i) * s->row_bytes;
}
