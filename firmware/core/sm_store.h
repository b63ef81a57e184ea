/* What outlives a reset: which schedule is in use, and counters that never go back.
 *
 * Two banks hold schedules, two journals hold records of 48 bytes; the valid record with the highest sequence is the
 * present. A record is written once, behind the last, and carries a CRC-32: cut off anywhere it is not there. A full
 * journal is followed by the other one, which was erased before; its first record, with sequence 0, says that the
 * erase was not cut off. A bank is named by a record only after all of it was written and verified, and no record names
 * it before it is erased again. So a loss of power leaves the old or the new schedule, never neither.
 *
 * Erasing stops the processor for up to seconds on some chips. Only sm_store_tend and sm_store_begin erase: call them
 * while nothing moves. A board without journals keeps all this until the next reset. */
#ifndef SM_STORE_H
#define SM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port.h"
#include "sm_error.h"

#define SM_STORE_NAME 8U /* bytes of a SHA-256 that name a schedule */

typedef struct {
  uint32_t size; /* 0: empty */
  uint8_t name[SM_STORE_NAME];
} sm_store_bank;

/* A record, as it lies in a journal. */
typedef struct {
  uint32_t crc; /* CRC-32 of what follows */
  uint32_t sequence;
  uint64_t counter; /* of the last upload that was begun */
  uint32_t ceiling; /* above every signing timestamp used, in units of 2^16 */
  uint8_t active;   /* PORT_BANK_A, PORT_BANK_B or SM_STORE_NONE */
  uint8_t reserved[3];
  sm_store_bank banks[2];
} sm_store_record;

#define SM_STORE_NONE 0xFFU

typedef struct {
  sm_store_record now;
  uint32_t slots;      /* records a journal holds; 0 without journals */
  uint32_t slot;       /* next one to write */
  port_region journal; /* where it is */
  port_region held;    /* where the present record is */
  bool fresh;          /* the journal without the present record is erased */
} sm_store;

/* Reads the journals and verifies the bank in use; where it is damaged, the one before. */
void sm_store_open(sm_store *s);

/* Erases a journal where that will be needed soon; otherwise does nothing. SM_EIO. */
SM_CHECKED int sm_store_tend(sm_store *s);

/* The uploaded schedule in use; SM_ENONE where there is none. */
SM_CHECKED int sm_store_schedule(const sm_store *s, const uint8_t **blob, size_t *size);

/* Bytes a schedule may have; 0 where uploads are not possible. */
size_t sm_store_room(void);

/* Keeps the counter of an upload that goes on. SM_EREPLAY where it is not above the last, SM_EFULL, SM_EIO. */
SM_CHECKED int sm_store_count(sm_store *s, uint64_t counter);

/* Keeps the counter and empties the bank that is not in use; *bank is it. As sm_store_count, and SM_ENONE. */
SM_CHECKED int sm_store_begin(sm_store *s, uint64_t counter, port_region *bank);

/* Puts a bank that was written and verified into use. SM_EFULL, SM_EIO: the old one stays in use. */
SM_CHECKED int sm_store_activate(sm_store *s, port_region bank, uint32_t size, const uint8_t name[SM_STORE_NAME]);

/* The least signing timestamp that was never used: all below may be heard again. */
uint64_t sm_store_floor(const sm_store *s);

/* Makes sure that a signing timestamp is below the floor after the next reset. Writes ten minutes ahead, so that it
 * seldom has to write, and a year with the last record there is room for until a journal is erased. SM_EFULL, SM_EIO: the timestamp must not be used; SM_ESIZE: not a 48-bit timestamp. */
SM_CHECKED int sm_store_reserve(sm_store *s, uint64_t timestamp);

#endif
