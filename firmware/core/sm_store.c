#include "sm_store.h"

#include <string.h>

#include "sm_schedule.h" /* sm_crc32 */
#include "sm_sha256.h"

_Static_assert(sizeof(sm_store_record) == 48U && sizeof(sm_store_record) % PORT_WRITE_UNIT == 0U,
               "records lie in flash as they are");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little endian");

#define ERASED 0xFFU /* every byte of erased flash */

/* Timestamps are 48 bits of 10 µs. A replay window starts at a multiple of 2^16 of them, 0.65536 s. */
#define TIMESTAMP_END (UINT64_C(1) << 48)
#define WINDOW_SHIFT 16U
/* How far ahead a window is recorded, in units of 0.65536 s. The last records reach further, since a robot that runs
 * on and on gives no time to erase the other log: it must stay in touch. */
#define RESERVE_TEN_MINUTES 916U /* 600 s / 0.65536 s, rounded up */
#define RESERVE_DAY 131837U      /* 86 400 s, a little more: with the last records, the very last excepted */
#define RESERVE_YEAR 48120300U   /* 365 days, a little more: with the very last record */
#define LAST_RECORDS 4U          /* three days, then the year */

static port_region other_log(port_region log) { return log == PORT_LOG_A ? PORT_LOG_B : PORT_LOG_A; }

static uint32_t checksum(const sm_store_record *r) {
  return sm_crc32(0, (const uint8_t *)r + sizeof r->crc, sizeof *r - sizeof r->crc);
}

static bool is_valid(const sm_store_record *r) { return r->crc == checksum(r); }

static sm_store_record record_at(port_region log, uint32_t index) {
  sm_store_record r;
  memcpy(&r, port_region_read(log) + index * sizeof r, sizeof r);
  return r;
}

static bool is_blank(port_region log, uint32_t index) {
  const uint8_t *at = port_region_read(log) + index * sizeof(sm_store_record);
  uint8_t all = ERASED;
  for (size_t i = 0; i < sizeof(sm_store_record); i++) {
    all &= at[i];
  }
  return all == ERASED;
}

/* Returns the index behind the last record in which anything was written. */
static uint32_t log_end(const sm_store *s, port_region log) {
  uint32_t end = s->log_records;
  while (end > 0U && is_blank(log, end - 1U)) {
    end--;
  }
  return end;
}

/* Whether a log holds nothing but the mark that its erase was not cut off, and has room for a record besides the one
 * that a start leaves out. */
static bool is_erased(const sm_store *s, port_region log) {
  const sm_store_record mark = record_at(log, 0);
  return is_valid(&mark) && mark.sequence == 0U && log_end(s, log) == 1U && s->log_records > 2U;
}

static int write_record(port_region log, uint32_t index, sm_store_record *r) {
  r->crc = checksum(r);
  return port_region_write(log, index * sizeof *r, (const uint8_t *)r, sizeof *r) == 0 ? 0 : SM_EIO;
}

/* Goes on in the other log where this one is full. SM_EFULL where the other is not erased. */
static int turn_log(sm_store *s) {
  if (s->next_record < s->log_records) {
    return 0;
  }
  if (!s->other_erased) {
    return SM_EFULL;
  }
  s->write_log = other_log(s->current_log);
  s->next_record = 1;
  s->other_erased = false;
  s->is_doubtful = s->other_doubtful;
  return 0;
}

/* Fills the place of a record that looks empty with zeros, which flash takes whatever is there: a write that was cut off
 * before this start may have left cells that read as empty now and as something else later. What the zeros cannot
 * repair is not looked at again either way. */
static void fill_doubtful(sm_store *s) {
  const uint8_t zeros[sizeof(sm_store_record)] = {0};
  const int result = port_region_write(s->write_log, s->next_record * sizeof zeros, zeros, sizeof zeros);
  (void)result;
  s->next_record++;
  s->is_doubtful = false;
}

static int append(sm_store *s, sm_store_record next) {
  s->current.sequence++; /* also where the write fails: no two records share a number */
  next.sequence = s->current.sequence;
  if (s->log_records == 0U) {
    s->current = next;
    return 0;
  }
  int turned = turn_log(s);
  while (turned == 0 && s->is_doubtful) {
    fill_doubtful(s);
    turned = turn_log(s);
  }
  if (turned != 0) {
    return turned;
  }
  const uint32_t index = s->next_record++;
  const int result = write_record(s->write_log, index, &next);
  if (result == 0) {
    s->current = next;
    s->current_log = s->write_log;
  }
  return result;
}

static bool is_intact(const sm_store *s, unsigned slot) {
  const sm_store_slot *content = &s->current.slots[slot];
  const size_t room = port_region_size((port_region)slot);
  if (content->size == 0U || content->size > room) {
    return false;
  }
  sm_sha256 sha;
  uint8_t digest[SM_DIGEST];
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, port_region_read((port_region)slot), content->size);
  sm_sha256_end(&sha, digest);
  return memcmp(digest, content->name, SM_STORE_NAME) == 0;
}

/* Uses the slot that the record names; where that is damaged the other one; else none. */
static void choose_slot(sm_store *s) {
  const uint8_t active = s->current.active;
  if (active > PORT_SLOT_B) {
    return;
  }
  if (!is_intact(s, active)) {
    const uint8_t other = active ^ 1U;
    s->current.slots[active].size = 0;
    s->current.active = is_intact(s, other) ? other : SM_STORE_NONE;
  }
}

void sm_store_open(sm_store *s) {
  memset(s, 0, sizeof *s);
  s->current.active = SM_STORE_NONE;
  const size_t size_a = port_region_size(PORT_LOG_A);
  const size_t size_b = port_region_size(PORT_LOG_B);
  s->log_records = (uint32_t)((size_a < size_b ? size_a : size_b) / sizeof(sm_store_record));
  if (s->log_records < 2U) { /* the first is the mark of an erased log */
    s->log_records = 0;
    return;
  }
  s->current_log = PORT_LOG_B; /* where no record is found the first one goes to the other log */
  s->next_record = s->log_records;
  for (unsigned j = PORT_LOG_A; j <= PORT_LOG_B; j++) {
    for (uint32_t index = 0; index < s->log_records; index++) {
      const sm_store_record r = record_at((port_region)j, index);
      if (is_valid(&r) && r.sequence > s->current.sequence) {
        s->current = r;
        s->current_log = (port_region)j;
        s->next_record = log_end(s, (port_region)j);
      }
    }
  }
  s->write_log = s->current_log;
  s->other_erased = is_erased(s, other_log(s->current_log));
  s->is_doubtful = true;
  s->other_doubtful = true;
  s->current.sequence++; /* that of a record which was cut off, and cannot be read now, is not used again */
  choose_slot(s);
}

int sm_store_erase_ahead(sm_store *s) {
  const bool full = s->next_record >= s->log_records;
  const bool half_full = s->write_log == s->current_log && 2U * s->next_record >= s->log_records;
  if (s->log_records == 0U || s->other_erased || !(full || half_full)) {
    return 0;
  }
  const port_region log = other_log(s->current_log);
  sm_store_record mark;
  memset(&mark, 0, sizeof mark);
  if (port_region_erase(log) != 0 || write_record(log, 0, &mark) != 0) {
    return SM_EIO;
  }
  s->other_erased = true;
  s->other_doubtful = false;
  return 0;
}

int sm_store_schedule(const sm_store *s, const uint8_t **blob, size_t *size) {
  if (s->current.active > PORT_SLOT_B) {
    return SM_ENONE;
  }
  *blob = port_region_read((port_region)s->current.active);
  *size = s->current.slots[s->current.active].size;
  return 0;
}

size_t sm_store_capacity(void) {
  const size_t a = port_region_size(PORT_SLOT_A);
  const size_t b = port_region_size(PORT_SLOT_B);
  return (a < b ? a : b) / PORT_WRITE_UNIT * PORT_WRITE_UNIT;
}

static int append_counter(sm_store *s, sm_store_record next, uint64_t counter) {
  if (counter <= s->current.counter) {
    return SM_EREPLAY;
  }
  next.counter = counter;
  return append(s, next);
}

int sm_store_set_counter(sm_store *s, uint64_t counter) { return append_counter(s, s->current, counter); }

int sm_store_begin(sm_store *s, uint64_t counter, port_region *slot) {
  if (sm_store_capacity() == 0U) {
    return SM_ENONE;
  }
  int result = sm_store_erase_ahead(s);
  if (result != 0) {
    return result;
  }
  const port_region target = s->current.active == PORT_SLOT_A ? PORT_SLOT_B : PORT_SLOT_A;
  sm_store_record next = s->current;
  memset(&next.slots[target], 0, sizeof next.slots[target]);
  result = append_counter(s, next, counter);
  if (result != 0) {
    return result;
  }
  if (port_region_erase(target) != 0) {
    return SM_EIO;
  }
  *slot = target;
  return 0;
}

int sm_store_activate(sm_store *s, port_region slot, uint32_t size, const uint8_t name[SM_STORE_NAME]) {
  if (slot > PORT_SLOT_B || size == 0U || size > sm_store_capacity()) {
    return SM_EARGUMENT;
  }
  sm_store_record next = s->current;
  next.active = (uint8_t)slot;
  next.slots[slot].size = size;
  memcpy(next.slots[slot].name, name, SM_STORE_NAME);
  return append(s, next);
}

uint32_t sm_store_erases(const sm_store *s) {
  return s->log_records > 1U ? s->current.sequence / (s->log_records - 1U) : 0U;
}

uint64_t sm_store_window_start(const sm_store *s) { return (uint64_t)s->current.window_start << WINDOW_SHIFT; }

/* Returns how many records there is room for without an erase; not read without logs. */
static uint32_t records_left(const sm_store *s) {
  const uint32_t here = s->log_records - s->next_record;
  const uint32_t other = s->other_erased ? s->log_records - 1U : 0U;
  return here - (here > 0U && s->is_doubtful ? 1U : 0U) + other - (other > 0U && s->other_doubtful ? 1U : 0U);
}

int sm_store_reserve(sm_store *s, uint64_t timestamp) {
  if (timestamp >= TIMESTAMP_END - (UINT64_C(1) << WINDOW_SHIFT)) {
    return SM_ESIZE;
  }
  if (timestamp < sm_store_window_start(s)) {
    return 0;
  }
  const uint32_t unit = (uint32_t)(timestamp >> WINDOW_SHIFT);
  const uint32_t left = records_left(s);
  const uint32_t reserve = left > LAST_RECORDS || s->log_records == 0U ? RESERVE_TEN_MINUTES
                           : left > 1U                                 ? RESERVE_DAY
                                                                       : RESERVE_YEAR;
  sm_store_record next = s->current;
  next.window_start = unit < UINT32_MAX - reserve ? unit + reserve : UINT32_MAX;
  return append(s, next);
}
