/* Flash storage: what outlives a reset. Which schedule is in use, and counters that never go back.
 *
 * Two slots hold schedules, two logs hold records of 48 bytes; the valid record with the highest sequence is the
 * current one. A record is written once, behind the last, and carries a CRC-32: one that was cut off does not count.
 * A full log is followed by the other one, which was erased ahead of that; its first record, with sequence 0, marks
 * that the erase was not cut off. A record names a slot only after all of it was written and verified, and no record
 * names it any more when it is erased again. So a loss of power leaves the old or the new schedule, never neither.
 *
 * A write that is cut off may leave cells that read differently each time. What such a record says counts for as long as
 * it can be read: nothing is accepted from the line before a whole one was written behind it. The place behind the last
 * record is filled with zeros after every start, as a cut-off write that cannot be seen may be there; its number is not
 * used again. That takes logs of five records and more.
 *
 * Erasing stops the processor for up to seconds on some chips. Only sm_store_erase_ahead and sm_store_begin erase:
 * call them while nothing moves. A board without logs keeps all of this in RAM until the next reset.
 *
 * Every function is called from the main loop only. */
#ifndef SM_STORE_H
#define SM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port.h"
#include "sm_error.h"

#define SM_STORE_NAME 8U    /* bytes: the first of the SHA-256 that names a schedule */
#define SM_STORE_NONE 0xFFU /* sm_store_record.active where no slot is in use: the byte of erased flash */

typedef struct {
  uint32_t size;               /* bytes of the schedule; 0: empty */
  uint8_t name[SM_STORE_NAME]; /* of its SHA-256 */
} sm_store_slot;

/* A record, as it lies in a log: little endian, without padding. */
typedef struct {
  uint32_t crc;           /* CRC-32 of all that follows */
  uint32_t sequence;      /* number of the record; 0 marks an erased log */
  uint64_t counter;       /* of the last upload that was begun; only grows */
  uint32_t window_start;  /* start of the replay window after a reset, in 2^16 timestamps: above all that were used */
  uint8_t active;         /* PORT_SLOT_A, PORT_SLOT_B or SM_STORE_NONE */
  uint8_t reserved[3];    /* 0 */
  sm_store_slot slots[2]; /* content of slots A and B */
} sm_store_record;

/* Other files read it; only the functions below write it. */
typedef struct {
  sm_store_record current; /* what counts now */
  uint32_t log_records;    /* records that a log holds; 0 without logs */
  uint32_t next_record;    /* index of the next one to write, 0 … log_records */
  port_region write_log;   /* the log it is written to */
  port_region current_log; /* the log that holds the current record */
  bool other_erased;       /* the log that does not hold the current record is erased */
  bool is_doubtful;        /* a write that a reset cut off may have left the next record half written, and unseen */
  bool other_doubtful;     /* the same of the first record of the erased log */
} sm_store;

/* Reads the logs and verifies the slot in use; where that is damaged the slot before it is used, or none. Erases and
 * writes nothing. */
void sm_store_open(sm_store *s);

/* Erases the other log where it will be needed soon; does nothing otherwise. 0, or SM_EIO: to be tried again later. */
SM_CHECKED int sm_store_erase_ahead(sm_store *s);

/* Sets *blob and *size (bytes) to the uploaded schedule in use; SM_ENONE, and neither is touched, where there is
 * none. */
SM_CHECKED int sm_store_schedule(const sm_store *s, const uint8_t **blob, size_t *size);

/* Returns the bytes that a schedule may have; 0 where the board has no slots. */
size_t sm_store_capacity(void);

/* Records the counter of an upload that goes on. SM_EREPLAY where it is not above the last, SM_EFULL where the log
 * is full and the other not erased, SM_EIO. The counter stays as it was on failure. */
SM_CHECKED int sm_store_set_counter(sm_store *s, uint64_t counter);

/* Records the counter, erases the slot that is not in use, and sets *slot to it. As sm_store_set_counter, and
 * SM_ENONE without slots. *slot is not touched on failure (SM_EIO may come after the counter was recorded); the slot
 * in use never is. */
SM_CHECKED int sm_store_begin(sm_store *s, uint64_t counter, port_region *slot);

/* Puts a slot that was written and verified into use: `size` bytes, whose SHA-256 begins with `name`. SM_EARGUMENT,
 * SM_EFULL, SM_EIO: the old slot stays in use. */
SM_CHECKED int sm_store_activate(sm_store *s, port_region slot, uint32_t size, const uint8_t name[SM_STORE_NAME]);

/* Returns how often logs were erased since the first start, both together, counted by the records written; flash wears by
 * it. */
uint32_t sm_store_erases(const sm_store *s);

/* Returns the start of the replay window: the least signing timestamp (10 µs) that was never used. Frames with older
 * ones may be repetitions. */
uint64_t sm_store_window_start(const sm_store *s);

/* Makes sure that a signing timestamp will lie before the replay window after the next reset. Records a start that
 * is ten minutes ahead, so that it seldom has to write, and one a year ahead with the last record there is room for.
 * SM_EFULL, SM_EIO: the timestamp must not be used; SM_ESIZE: it is not a 48-bit timestamp. */
SM_CHECKED int sm_store_reserve(sm_store *s, uint64_t timestamp);

#endif
