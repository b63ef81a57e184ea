#include "sm_upload.h"

#include <string.h>

#include "sm_schedule.h"

/* bytes; up to the end of the model digest, all that is read here: a shorter blob is no schedule */
#define SCHEDULE_MIN (SM_SCHEDULE_MODEL_AT + SM_STORE_NAME)

_Static_assert((int)STEPMAP_RESULT_OK == 0 && (int)STEPMAP_RESULT_ARGUMENT == -SM_EARGUMENT &&
                   (int)STEPMAP_RESULT_NONE == -SM_ENONE && (int)STEPMAP_RESULT_IO == -SM_EIO &&
                   (int)STEPMAP_RESULT_FULL == -SM_EFULL && (int)STEPMAP_RESULT_SIZE == -SM_ESIZE &&
                   (int)STEPMAP_RESULT_BUSY == -SM_EBUSY && (int)STEPMAP_RESULT_STATE == -SM_ESTATE &&
                   (int)STEPMAP_RESULT_KEY == -SM_EKEY && (int)STEPMAP_RESULT_REPLAY == -SM_EREPLAY &&
                   (int)STEPMAP_RESULT_MODEL == -SM_EMODEL && (int)STEPMAP_RESULT_DIGEST == -SM_EDIGEST &&
                   (int)STEPMAP_RESULT_FORMAT == -SM_EFORMAT && (int)STEPMAP_RESULT_ENUM_END == 13,
               "results on the wire are the errors with the sign turned around");
_Static_assert(offsetof(mavlink_upload_begin_t, mac) == 8U + 4U + SM_DIGEST + 8U + 2U, "the code covers all before it");
_Static_assert(sizeof((mavlink_upload_chunk_t *)0)->data % PORT_WRITE_UNIT == 0U, "slots are written in units");

void sm_upload_start(sm_upload *u, sm_store *store, const uint8_t *model, const uint8_t *key, const uint8_t *board_id,
                     sm_upload_check check) {
  memset(u, 0, sizeof *u);
  u->store = store;
  u->model = model;
  u->check = check;
  if (key != NULL) {
    sm_sha256_derive_key(key, "stepmap upload", board_id, u->key);
    u->has_key = true;
  }
}

static bool is_authentic(const sm_upload *u, const mavlink_upload_begin_t *m) {
  uint8_t code[SM_DIGEST];
  sm_sha256_hmac(u->key, m, offsetof(mavlink_upload_begin_t, mac), code);
  return u->has_key && sm_sha256_equal(code, m->mac, sizeof code);
}

/* Returns whether the schedule that is announced is the one in use. */
static bool is_in_use(const sm_upload *u, const mavlink_upload_begin_t *m) {
  const sm_store_record *record = &u->store->current;
  return record->active <= PORT_SLOT_B && record->slots[record->active].size == m->size &&
         memcmp(record->slots[record->active].name, m->digest, SM_STORE_NAME) == 0;
}

static void announce(sm_upload *u, const mavlink_upload_begin_t *m, STEPMAP_UPLOAD state, uint32_t next) {
  u->state = state;
  u->size = m->size;
  u->next = next;
  u->counter = m->counter;
  memcpy(u->digest, m->digest, sizeof u->digest);
}

static int on_begin(sm_upload *u, const mavlink_upload_begin_t *m, bool idle) {
  if (!is_authentic(u, m)) {
    return SM_EKEY;
  }
  if (memcmp(m->model, u->model, sizeof m->model) != 0) {
    return SM_EMODEL;
  }
  const bool open = u->state == STEPMAP_UPLOAD_RECEIVING || u->state == STEPMAP_UPLOAD_COMPLETE;
  const bool same = u->size == m->size && memcmp(u->digest, m->digest, sizeof u->digest) == 0;
  if (same && u->counter == m->counter && (open || u->state == STEPMAP_UPLOAD_ACTIVE)) {
    return 0; /* our answer got lost */
  }
  if (m->counter <= u->store->current.counter) {
    return SM_EREPLAY;
  }
  if (sm_store_capacity() == 0U) {
    return SM_ENONE;
  }
  if (m->size < SCHEDULE_MIN || m->size > sm_store_capacity()) {
    return SM_ESIZE;
  }
  if (!idle) {
    return SM_EBUSY;
  }
  if (open && same) {
    const int recorded = sm_store_set_counter(u->store, m->counter);
    u->counter = recorded == 0 ? m->counter : u->counter;
    return recorded;
  }
  if (is_in_use(u, m)) {
    announce(u, m, STEPMAP_UPLOAD_ACTIVE, m->size);
    return 0;
  }
  u->state = STEPMAP_UPLOAD_FAILED; /* the slot of an upload that was open is erased from here on */
  const int erased = sm_store_begin(u->store, m->counter, &u->slot);
  if (erased != 0) {
    return erased;
  }
  announce(u, m, STEPMAP_UPLOAD_RECEIVING, 0);
  return 0;
}

/* Writes a chunk; the last one is padded, in `m`, to the unit in which slots are written. */
static int on_chunk(sm_upload *u, mavlink_upload_chunk_t *m, bool idle) {
  if (u->state != STEPMAP_UPLOAD_RECEIVING || m->length == 0U || m->offset != u->next) {
    return 0; /* a query, repeated or too early: the answer tells where to go on */
  }
  const uint32_t left = u->size - u->next;
  if (m->length > sizeof m->data || m->length > left || (m->length % PORT_WRITE_UNIT != 0U && m->length != left)) {
    return SM_ESIZE;
  }
  if (!idle) {
    return SM_EBUSY;
  }
  const size_t padded = (m->length + PORT_WRITE_UNIT - 1U) / PORT_WRITE_UNIT * PORT_WRITE_UNIT;
  memset(m->data + m->length, 0xFF, padded - m->length);
  if (port_region_write(u->slot, u->next, m->data, padded) != 0) {
    u->state = STEPMAP_UPLOAD_FAILED;
    return SM_EIO;
  }
  u->next += m->length;
  if (u->next == u->size) {
    u->state = STEPMAP_UPLOAD_COMPLETE;
  }
  return 0;
}

static int verify_slot(const sm_upload *u) {
  const uint8_t *blob = port_region_read(u->slot);
  sm_sha256 sha;
  uint8_t digest[SM_DIGEST];
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, blob, u->size);
  sm_sha256_end(&sha, digest);
  if (!sm_sha256_equal(digest, u->digest, sizeof digest)) {
    return SM_EDIGEST;
  }
  if (memcmp(blob, SM_SCHEDULE_MAGIC, SM_SCHEDULE_MAGIC_BYTES) != 0) {
    return SM_EFORMAT;
  }
  if (memcmp(blob + SM_SCHEDULE_MODEL_AT, u->model, sizeof((mavlink_upload_begin_t *)0)->model) != 0) {
    return SM_EMODEL;
  }
  return u->check == NULL || u->check(blob, u->size) == 0 ? 0 : SM_EFORMAT;
}

static int on_commit(sm_upload *u, const mavlink_upload_commit_t *m, bool idle, bool *activated) {
  if (memcmp(m->digest, u->digest, sizeof m->digest) != 0) {
    return SM_ESTATE;
  }
  if (u->state == STEPMAP_UPLOAD_ACTIVE) {
    return 0; /* our answer got lost */
  }
  if (u->state != STEPMAP_UPLOAD_COMPLETE) {
    return SM_ESTATE;
  }
  if (!idle) {
    return SM_EBUSY;
  }
  int result = verify_slot(u);
  if (result != 0) {
    u->state = STEPMAP_UPLOAD_FAILED;
    return result;
  }
  result = sm_store_erase_ahead(u->store);
  if (result != 0) {
    return result;
  }
  result = sm_store_activate(u->store, u->slot, u->size, u->digest);
  if (result == 0) {
    u->state = STEPMAP_UPLOAD_ACTIVE;
    *activated = true;
  }
  return result;
}

int sm_upload_take(sm_upload *u, const sm_message *message, bool idle, mavlink_upload_status_t *answer,
                   bool *activated) {
  union {
    mavlink_upload_begin_t begin;
    mavlink_upload_chunk_t chunk;
    mavlink_upload_commit_t commit;
  } m;
  if (message->id < MAVLINK_MSG_ID_UPLOAD_BEGIN || message->id > MAVLINK_MSG_ID_UPLOAD_COMMIT) {
    return SM_ENONE;
  }
  sm_link_read(message, &m);
  bool changed = false;
  int result;
  if (message->id == MAVLINK_MSG_ID_UPLOAD_BEGIN) {
    result = on_begin(u, &m.begin, idle);
  } else if (message->id == MAVLINK_MSG_ID_UPLOAD_CHUNK) {
    result = on_chunk(u, &m.chunk, idle);
  } else {
    result = on_commit(u, &m.commit, idle, &changed);
  }
  memset(answer, 0, sizeof *answer);
  answer->counter = u->store->current.counter;
  answer->next = u->next;
  answer->size = u->size;
  answer->room = (uint32_t)sm_store_capacity();
  answer->target_system = message->system;
  answer->target_component = message->component;
  answer->state = (uint8_t)u->state;
  answer->result = (uint8_t)-result;
  memcpy(answer->digest, u->digest, sizeof answer->digest);
  *activated = changed;
  return 0;
}
