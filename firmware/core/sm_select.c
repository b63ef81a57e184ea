#include "sm_select.h"

#include <string.h>

#include "controller.h"
#include "schedule.h"
#include "sm_sha256.h"
#include "sm_stream.h"

const uint8_t sm_select_model[SM_STORE_NAME] = SM_MODEL_DIGEST;

static sm_schedule_kind kind_of_model(void) {
  sm_schedule_kind kind = {.entries = SM_NROW, .scalar = SM_SCALAR, .period_us = SM_PERIOD_US};
  memcpy(kind.model, sm_select_model, sizeof kind.model);
  return kind;
}

/* Opens a blob for this model, as sm_schedule_open does; it must have what set-points need. */
SM_CHECKED static int open_schedule(sm_schedule *s, const uint8_t *blob, size_t size) {
  const sm_schedule_kind kind = kind_of_model();
  const int result = sm_schedule_open(s, blob, size, &kind);
  return result == 0 && s->streams != SM_STREAMS ? SM_SCHEDULE_SHAPE : result;
}

int sm_select_check(const uint8_t *blob, size_t size) {
  sm_schedule s;
  return open_schedule(&s, blob, size);
}

void sm_select_schedule(sm_selection *s, const sm_store *store) {
  const uint8_t *blob = (const uint8_t *)sm_schedule_image;
  size_t size = SM_SCHEDULE_BYTES;
  const uint8_t *stored = NULL;
  size_t stored_size = 0;
  s->is_uploaded = sm_store_schedule(store, &stored, &stored_size) == 0 && sm_select_check(stored, stored_size) == 0;
  if (s->is_uploaded) {
    blob = stored;
    size = stored_size;
  }
  s->is_valid = open_schedule(&s->schedule, blob, size) == 0;
  memset(s->name, 0, sizeof s->name);
  if (s->is_valid) {
    uint8_t digest[SM_DIGEST];
    sm_sha256 hash;
    sm_sha256_start(&hash);
    sm_sha256_add(&hash, blob, size);
    sm_sha256_end(&hash, digest);
    memcpy(s->name, digest, sizeof s->name);
  }
}
