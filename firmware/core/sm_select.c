#include "sm_select.h"

#include <string.h>

#include "schedule.h"

const uint8_t sm_model[SM_STORE_NAME] = SM_MODEL_DIGEST;

static sm_schedule_kind kind_of_model(void) {
  sm_schedule_kind kind = {.entries = SM_NROW, .scalar = SM_SCALAR, .period_us = SM_PERIOD_US};
  memcpy(kind.model, sm_model, sizeof kind.model);
  return kind;
}

int sm_check_schedule(const uint8_t *blob, size_t size) {
  const sm_schedule_kind kind = kind_of_model();
  sm_schedule s;
  return sm_schedule_open(&s, blob, size, &kind);
}

void sm_choose_schedule(sm_loop *l) {
  const uint8_t *blob = (const uint8_t *)sm_schedule_image;
  size_t size = SM_SCHEDULE_BYTES;
  const uint8_t *stored = NULL;
  size_t stored_size = 0;
  l->uploaded = sm_store_schedule(&l->store, &stored, &stored_size) == 0 && sm_check_schedule(stored, stored_size) == 0;
  if (l->uploaded) {
    blob = stored;
    size = stored_size;
  }
  const sm_schedule_kind kind = kind_of_model();
  l->has_schedule = sm_schedule_open(&l->schedule, blob, size, &kind) == 0;
  memset(l->schedule_name, 0, sizeof l->schedule_name);
  if (l->has_schedule) {
    uint8_t digest[SM_DIGEST];
    sm_sha256 hash;
    sm_sha256_start(&hash);
    sm_sha256_add(&hash, blob, size);
    sm_sha256_end(&hash, digest);
    memcpy(l->schedule_name, digest, sizeof l->schedule_name);
  }
}
