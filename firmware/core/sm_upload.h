/* Upload: receives a schedule into the flash slot that is not in use, and puts it into use.
 *
 * UPLOAD_BEGIN announces size, SHA-256, model and counter, with a message authentication code (HMAC) that only a
 * holder of the key can make; UPLOAD_CHUNK brings the bytes in order; UPLOAD_COMMIT verifies them. Any of them may
 * get lost, come twice or late: each is answered by a status that tells where to go on, and a repeated one changes
 * nothing.
 *
 * Every function is called from the main loop only. */
#ifndef SM_UPLOAD_H
#define SM_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sm_error.h"
#include "sm_link.h"
#include "sm_sha256.h"
#include "sm_store.h"

/* Returns 0 where the firmware can run a schedule of `size` bytes, else negative. */
typedef int (*sm_upload_check)(const uint8_t *blob, size_t size);

/* Only the functions below write it. */
typedef struct {
  sm_store *store;
  const uint8_t *model;      /* 8 bytes: SM_MODEL_DIGEST of the generated code */
  sm_upload_check check;     /* NULL: any schedule of this model will do */
  STEPMAP_UPLOAD state;      /* of the dialect */
  port_region slot;          /* that is written, while receiving or complete */
  uint32_t size;             /* bytes announced */
  uint32_t next;             /* offset of the next chunk, bytes */
  uint64_t counter;          /* of UPLOAD_BEGIN; each upload has a higher one */
  uint8_t digest[SM_DIGEST]; /* SHA-256 announced */
  bool has_key;
  uint8_t key[SM_DIGEST]; /* derived for uploads and this board */
} sm_upload;

/* Resets all of *u. `model` is kept by reference; `key` and `board_id` as for sm_link_start. */
void sm_upload_start(sm_upload *u, sm_store *store, const uint8_t *model, const uint8_t *key, const uint8_t *board_id,
                     sm_upload_check check);

/* Handles an upload message: returns 0 and sets *answer to the status to send and *activated to whether another
 * schedule is in use from now on (sm_store_schedule has it). SM_ENONE for any other message: nothing is touched.
 * Flash is written only where `idle`; writing stops the processor. */
SM_CHECKED int sm_upload_take(sm_upload *u, const sm_message *message, bool idle, mavlink_upload_status_t *answer,
                              bool *activated);

#endif
