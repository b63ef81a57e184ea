/* Receives a schedule into the bank that is not in use, and puts it into use.
 *
 * UPLOAD_BEGIN announces size, SHA-256, model and counter, with a code (HMAC) that only a holder of the key can make;
 * UPLOAD_CHUNK brings the bytes in order; UPLOAD_COMMIT verifies them. Any of them may get lost, come twice or late:
 * each is answered by a status that says where to go on, and none of them does harm twice. */
#ifndef SM_UPLOAD_H
#define SM_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sm_error.h"
#include "sm_link.h"
#include "sm_sha256.h"
#include "sm_store.h"

/* Whether the firmware can run a schedule: 0, or negative. */
typedef int (*sm_upload_check)(const uint8_t *blob, size_t size);

typedef struct {
  sm_store *store;
  const uint8_t *model;  /* 8 bytes */
  sm_upload_check check; /* NULL: any */
  STEPMAP_UPLOAD state;
  port_region bank;
  uint32_t size;
  uint32_t next;
  uint64_t counter;
  uint8_t digest[SM_DIGEST];
  bool has_key;
  uint8_t key[SM_DIGEST];
} sm_upload;

/* `model` is SM_MODEL_DIGEST of the generated code, and stays where it is; `key` and `board_id` as for sm_link_start. */
void sm_upload_start(sm_upload *u, sm_store *store, const uint8_t *model, const uint8_t *key, const uint8_t *board_id,
                     sm_upload_check check);

/* Takes an upload message and says what to answer; SM_ENONE for any other message. Nothing is
 * written unless `idle`. *activated is set where another schedule is in use from now on: sm_store_schedule
 * has it. */
SM_CHECKED int sm_upload_take(sm_upload *u, const sm_message *message, bool idle, mavlink_upload_status_t *answer,
                              bool *activated);

#endif
