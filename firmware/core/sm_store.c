#include "sm_store.h"

#include <string.h>

#include "sm_schedule.h" /* sm_crc32 */
#include "sm_sha256.h"

_Static_assert(sizeof(sm_store_record) == 48U && sizeof(sm_store_record) % 8U == 0U,
               "records lie in memory as they are");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little endian");

#define AHEAD 916U           /* ten minutes in units of 2^16 timestamps of 10 us */
#define FAR_AHEAD 131837U    /* a day: when the journal fills up and nobody has time to erase the other */
#define YEAR_AHEAD 48120300U /* with the last record there is room for: a board that runs on and on stays in touch */
#define LAST_SLOTS 4U
#define TIMESTAMPS (UINT64_C(1) << 48)

static port_region other_journal(port_region journal) {
  return journal == PORT_JOURNAL_A ? PORT_JOURNAL_B : PORT_JOURNAL_A;
}

static uint32_t checksum(const sm_store_record *r) {
  return sm_crc32(0, (const uint8_t *)r + sizeof r->crc, sizeof *r - sizeof r->crc);
}

static bool valid(const sm_store_record *r) { return r->crc == checksum(r); }

static sm_store_record record_at(port_region journal, uint32_t slot) {
  sm_store_record r;
  memcpy(&r, port_region_read(journal) + slot * sizeof r, sizeof r);
  return r;
}

static bool blank(port_region journal, uint32_t slot) {
  const uint8_t *at = port_region_read(journal) + slot * sizeof(sm_store_record);
  uint8_t all = 0xFF;
  for (size_t i = 0; i < sizeof(sm_store_record); i++) {
    all &= at[i];
  }
  return all == 0xFFU;
}

/* The slot behind the last one in which anything was written. */
static uint32_t end_of(const sm_store *s, port_region journal) {
  uint32_t end = s->slots;
  while (end > 0U && blank(journal, end - 1U)) {
    end--;
  }
  return end;
}

/* A journal that was erased, and not cut off at it. */
static bool is_fresh(const sm_store *s, port_region journal) {
  const sm_store_record first = record_at(journal, 0);
  return valid(&first) && first.sequence == 0U && end_of(s, journal) == 1U;
}

static int write_record(port_region journal, uint32_t slot, sm_store_record *r) {
  r->crc = checksum(r);
  return port_region_write(journal, slot * sizeof *r, (const uint8_t *)r, sizeof *r) == 0 ? 0 : SM_EIO;
}

static int append(sm_store *s, sm_store_record next) {
  s->now.sequence++; /* also where the write fails: no two records share one */
  next.sequence = s->now.sequence;
  if (s->slots == 0U) {
    s->now = next;
    return 0;
  }
  if (s->slot >= s->slots) {
    if (!s->fresh) {
      return SM_EFULL;
    }
    s->journal = other_journal(s->held);
    s->slot = 1;
    s->fresh = false;
  }
  const uint32_t slot = s->slot++;
  const int result = write_record(s->journal, slot, &next);
  if (result == 0) {
    s->now = next;
    s->held = s->journal;
  }
  return result;
}

static bool intact(const sm_store *s, unsigned bank) {
  const sm_store_bank *b = &s->now.banks[bank];
  const size_t room = port_region_size((port_region)bank);
  if (b->size == 0U || b->size > room) {
    return false;
  }
  sm_sha256 sha;
  uint8_t digest[SM_DIGEST];
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, port_region_read((port_region)bank), b->size);
  sm_sha256_end(&sha, digest);
  return memcmp(digest, b->name, SM_STORE_NAME) == 0;
}

/* The bank the record names; where it is damaged, the other one; else none. */
static void choose_bank(sm_store *s) {
  const uint8_t first = s->now.active;
  if (first > PORT_BANK_B) {
    return;
  }
  if (!intact(s, first)) {
    const uint8_t second = first ^ 1U;
    s->now.banks[first].size = 0;
    s->now.active = intact(s, second) ? second : SM_STORE_NONE;
  }
}

void sm_store_open(sm_store *s) {
  memset(s, 0, sizeof *s);
  s->now.active = SM_STORE_NONE;
  const size_t size_a = port_region_size(PORT_JOURNAL_A);
  const size_t size_b = port_region_size(PORT_JOURNAL_B);
  s->slots = (uint32_t)((size_a < size_b ? size_a : size_b) / sizeof(sm_store_record));
  if (s->slots < 2U) { /* the first is spent on saying that the journal is erased */
    s->slots = 0;
    return;
  }
  s->held = PORT_JOURNAL_B; /* where no record is found the first one goes to the other journal */
  s->slot = s->slots;
  for (unsigned j = PORT_JOURNAL_A; j <= PORT_JOURNAL_B; j++) {
    for (uint32_t slot = 0; slot < s->slots; slot++) {
      const sm_store_record r = record_at((port_region)j, slot);
      if (valid(&r) && r.sequence > s->now.sequence) {
        s->now = r;
        s->held = (port_region)j;
        s->slot = end_of(s, (port_region)j);
      }
    }
  }
  s->journal = s->held;
  s->fresh = is_fresh(s, other_journal(s->held));
  choose_bank(s);
}

int sm_store_tend(sm_store *s) {
  const bool stuck = s->slot >= s->slots;
  const bool filling = s->journal == s->held && 2U * s->slot >= s->slots;
  if (s->slots == 0U || s->fresh || !(stuck || filling)) {
    return 0;
  }
  const port_region journal = other_journal(s->held);
  sm_store_record mark;
  memset(&mark, 0, sizeof mark);
  if (port_region_erase(journal) != 0 || write_record(journal, 0, &mark) != 0) {
    return SM_EIO;
  }
  s->fresh = true;
  return 0;
}

int sm_store_schedule(const sm_store *s, const uint8_t **blob, size_t *size) {
  if (s->now.active > PORT_BANK_B) {
    return SM_ENONE;
  }
  *blob = port_region_read((port_region)s->now.active);
  *size = s->now.banks[s->now.active].size;
  return 0;
}

size_t sm_store_room(void) {
  const size_t a = port_region_size(PORT_BANK_A);
  const size_t b = port_region_size(PORT_BANK_B);
  return (a < b ? a : b) / 8U * 8U;
}

static int count(sm_store *s, sm_store_record next, uint64_t counter) {
  if (counter <= s->now.counter) {
    return SM_EREPLAY;
  }
  next.counter = counter;
  return append(s, next);
}

int sm_store_count(sm_store *s, uint64_t counter) { return count(s, s->now, counter); }

int sm_store_begin(sm_store *s, uint64_t counter, port_region *bank) {
  if (sm_store_room() == 0U) {
    return SM_ENONE;
  }
  int result = sm_store_tend(s);
  if (result != 0) {
    return result;
  }
  const port_region target = s->now.active == PORT_BANK_A ? PORT_BANK_B : PORT_BANK_A;
  sm_store_record next = s->now;
  memset(&next.banks[target], 0, sizeof next.banks[target]);
  result = count(s, next, counter);
  if (result != 0) {
    return result;
  }
  if (port_region_erase(target) != 0) {
    return SM_EIO;
  }
  *bank = target;
  return 0;
}

int sm_store_activate(sm_store *s, port_region bank, uint32_t size, const uint8_t name[SM_STORE_NAME]) {
  if (bank > PORT_BANK_B || size == 0U || size > sm_store_room()) {
    return SM_EARGUMENT;
  }
  sm_store_record next = s->now;
  next.active = (uint8_t)bank;
  next.banks[bank].size = size;
  memcpy(next.banks[bank].name, name, SM_STORE_NAME);
  return append(s, next);
}

uint64_t sm_store_floor(const sm_store *s) { return (uint64_t)s->now.ceiling << 16; }

int sm_store_reserve(sm_store *s, uint64_t timestamp) {
  if (timestamp >= TIMESTAMPS - (UINT64_C(1) << 16)) {
    return SM_ESIZE;
  }
  if (timestamp < sm_store_floor(s)) {
    return 0;
  }
  const uint32_t unit = (uint32_t)(timestamp >> 16);
  const uint32_t left = s->slots - s->slot + (s->fresh ? s->slots - 1U : 0U); /* records; not read without journals */
  const uint32_t ahead = left > LAST_SLOTS || s->slots == 0U ? AHEAD : left > 1U ? FAR_AHEAD : YEAR_AHEAD;
  sm_store_record next = s->now;
  next.ceiling = unit < UINT32_MAX - ahead ? unit + ahead : UINT32_MAX;
  return append(s, next);
}
