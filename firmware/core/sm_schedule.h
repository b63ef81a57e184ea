/* Reads a schedule blob: the reference and the gains of every tick, in the formats of the generated code.
 *
 *   0  4  "SMS1"
 *   4  2  version, 1
 *   6  2  bytes before the rows
 *   8  8  digest of the model it was made for
 *  16  4  rows
 *  20  2  entries of a row
 *  22  1  scalar: 0 int32_t, 1 float, 2 double
 *  23  1  word length in bits
 *  24  4  period in microseconds
 *  28  4  0
 *  32  n  fraction bits of each entry, then zeros up to a multiple of 8
 *         rows, one after another; zeros
 *  -4  4  CRC-32 of all before; the size is a multiple of 8
 *
 * Numbers are little endian, as all supported chips are. The blob must be aligned to four bytes (eight for double) and
 * must stay where it is while the schedule is used. */
#ifndef SM_SCHEDULE_H
#define SM_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#define SM_SCHEDULE_HEAD 32U

enum {
  SM_SCHEDULE_NONE = -1,     /* no blob at all */
  SM_SCHEDULE_VERSION = -2,  /* made by another version */
  SM_SCHEDULE_MODEL = -3,    /* made for another model */
  SM_SCHEDULE_SHAPE = -4,    /* entries, scalar or period are not those of the controller */
  SM_SCHEDULE_CHECKSUM = -5, /* damaged */
  SM_SCHEDULE_SIZE = -6      /* smaller or larger than its head says, or empty */
};

typedef struct {
  const uint8_t *rows;
  uint32_t count;
  uint32_t row_bytes;
} sm_schedule;

/* What the controller expects. */
typedef struct {
  uint8_t model[8];
  uint16_t entries;
  uint8_t scalar;
  uint32_t period_us;
} sm_schedule_kind;

/* 0 and *s set, or a negative code and *s untouched. */
__attribute__((warn_unused_result)) int sm_schedule_open(sm_schedule *s, const uint8_t *blob, size_t size,
                                                         const sm_schedule_kind *kind);

/* Copies row k to `row`; after the last row the last one again. */
void sm_schedule_row(const sm_schedule *s, uint32_t k, void *row);

/* CRC-32 (polynomial 0xEDB88320, as in Ethernet and zip) of `size` bytes; `crc` is 0 at first. */
uint32_t sm_crc32(uint32_t crc, const uint8_t *from, size_t size);

#endif
