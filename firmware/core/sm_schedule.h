/* Schedule: reads a blob with the reference and the gains of every tick, in the formats of the generated code.
 *
 *   0  4  "SMS1"
 *   4  2  version, 1; 2 for a robot that walks
 *   6  2  bytes before the first row
 *   8  8  digest of the model it was made for
 *  16  4  rows, one per tick
 *  20  2  entries per row
 *  22  1  scalar: 0 int32_t, 1 float, 2 double
 *  23  1  word length in bits
 *  24  4  period in microseconds
 *  28  2  1 where a row that holds the start follows those of the ticks, else 0
 *  30  2  version 1: streamed set-points, n: 2n rows with the tangent of equilibria follow (sm_follow.h);
 *         version 2: rows of a step of the plan, fewer than all: the others are for landings that are late (sm_walk.h)
 *  32  n  fraction bits of each entry, then zeros up to a multiple of 8
 *         rows, one after another, then the one that holds the start, then tangents; zeros
 *  -4  4  CRC-32 of all before; the size is a multiple of 8
 *
 * Numbers are little endian, as all supported chips are. The blob must be aligned to four bytes (eight for double) and
 * must stay where it is while the schedule is used. The functions keep no memory and may be called from anywhere. */
#ifndef SM_SCHEDULE_H
#define SM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SM_SCHEDULE_MAGIC "SMS1"   /* the first bytes of a blob */
#define SM_SCHEDULE_MAGIC_BYTES 4U /* of them, without the terminating zero */
#define SM_SCHEDULE_MODEL_AT 8U    /* offset of the digest of the model, 8 bytes */
#define SM_SCHEDULE_HEAD 32U       /* bytes in front of the fraction bits */

enum {
  SM_SCHEDULE_NONE = -1,     /* no blob at all */
  SM_SCHEDULE_VERSION = -2,  /* made by another version */
  SM_SCHEDULE_MODEL = -3,    /* made for another model */
  SM_SCHEDULE_SHAPE = -4,    /* entries, scalar or period are not those of the controller */
  SM_SCHEDULE_CHECKSUM = -5, /* damaged */
  SM_SCHEDULE_SIZE = -6      /* smaller or larger than its head says, or empty */
};

/* An open schedule. */
typedef struct {
  const uint8_t *rows; /* the first row, inside of the blob */
  uint32_t count;      /* rows, at least 1 */
  uint32_t row_bytes;  /* bytes per row */
  bool has_hold;       /* a row that holds the start follows them */
  uint16_t streams;    /* streamed set-points, each with two rows behind all others */
  uint16_t gait;       /* rows of a step of a robot that walks; 0 for all others */
} sm_schedule;

/* What the controller expects of a schedule. */
typedef struct {
  uint8_t model[8];   /* SM_MODEL_DIGEST */
  uint16_t entries;   /* SM_NROW */
  uint8_t scalar;     /* SM_SCALAR: 0 int32_t, 1 float, 2 double */
  uint32_t period_us; /* SM_PERIOD_US */
} sm_schedule_kind;

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a blob of `size` bytes against *kind. 0 and *s set, or one of the codes above and *s not touched. Reads all
 * of the blob, for its CRC. */
__attribute__((warn_unused_result)) int sm_schedule_open(sm_schedule *s, const uint8_t *blob, size_t size,
                                                         const sm_schedule_kind *kind);

/* Copies schedule entry k, row_bytes, to `row`; after the last one the last one again. */
void sm_schedule_row(const sm_schedule *s, uint32_t k, void *row);

/* Copies the row that holds the start, row_bytes, to `row`; where there is none, schedule entry 0. */
void sm_schedule_hold(const sm_schedule *s, void *row);

/* Returns row i of the tangent of equilibria, 0 … 2 streams - 1, inside of the blob: row_bytes, aligned as the blob is. */
const uint8_t *sm_schedule_tangent(const sm_schedule *s, uint32_t i);

/* Returns the CRC-32 (polynomial 0xEDB88320, as in Ethernet and zip) of `size` bytes that follow others whose CRC-32 is
 * `crc`; 0 for the first. */
uint32_t sm_crc32(uint32_t crc, const uint8_t *from, size_t size);

#ifdef __cplusplus
}
#endif

#endif
