/* The reader of schedules under coverage-guided input: a blob, or one with a right head and checksum whose numbers are
 * the input's. Whatever opens is read row by row to its end, and nothing outside of it. */
#include <stdlib.h>
#include <string.h>

#include "sm_schedule.h"

static void put(uint8_t *at, uint32_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) {
    at[i] = (uint8_t)(value >> 8 * i);
  }
}

/* Reads all there is; sanitizers see where that leaves the blob. */
static uint32_t read_all(const sm_schedule *s, const uint8_t *blob, size_t size) {
  uint8_t *row = malloc(s->row_bytes);
  uint32_t sum = 0;
  if (row == NULL || s->count == 0U || s->row_bytes == 0U || s->rows < blob) {
    abort();
  }
  for (uint32_t k = 0; k < s->count + 2U; k++) {
    sm_schedule_row(s, k, row);
    sum += row[s->row_bytes - 1U];
  }
  sm_schedule_row(s, UINT32_MAX, row);
  sm_schedule_hold(s, row);
  sum += row[0];
  for (uint32_t i = 0; i < 2U * (uint32_t)s->streams; i++) {
    const uint8_t *at = sm_schedule_tangent(s, i);
    if (at < blob || at + s->row_bytes > blob + size) {
      abort();
    }
    memcpy(row, at, s->row_bytes);
    sum += row[s->row_bytes - 1U];
  }
  if (s->gait >= s->count) {
    abort();
  }
  free(row);
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sm_schedule_kind kind = {.model = {1, 2, 3, 4, 5, 6, 7, 8}, .entries = 3, .scalar = 0, .period_us = 33333};
  if (size < 2U) {
    return 0;
  }
  const uint8_t how = data[0];
  kind.scalar = how % 4U;
  kind.entries = (uint16_t)(how >= 250U ? 0U : how >= 240U ? 65535U : data[1] % 40U);
  data += 2;
  size -= 2U;
  uint64_t *words = malloc((size + 15U) / 8U * 8U); /* aligned to eight bytes, as flash is */
  if (words == NULL) {
    abort();
  }
  uint8_t *blob = (uint8_t *)words;
  memcpy(blob, data, size);
  if ((how & 16U) != 0U && size >= SM_SCHEDULE_HEAD + 4U) {
    memcpy(blob, SM_SCHEDULE_MAGIC, SM_SCHEDULE_MAGIC_BYTES);
    memcpy(blob + SM_SCHEDULE_MODEL_AT, kind.model, sizeof kind.model);
    put(blob + 4, 1U + (how >> 5 & 1U), 2);
    put(blob + 6, (SM_SCHEDULE_HEAD + kind.entries + 7U) & ~7U, 2);
    put(blob + 20, kind.entries, 2);
    blob[22] = kind.scalar;
    put(blob + 24, kind.period_us, 4);
    put(blob + size - 4U, sm_crc32(0, blob, size - 4U), 4);
  }
  sm_schedule s;
  memset(&s, 0x5A, sizeof s);
  const sm_schedule before = s;
  const int result = sm_schedule_open(&s, blob, size, &kind);
  volatile uint32_t sum = result == 0 ? read_all(&s, blob, size) : 0U;
  (void)sum;
  if (result != 0 && memcmp(&s, &before, sizeof s) != 0) {
    abort();
  }
  free(words);
  return 0;
}
