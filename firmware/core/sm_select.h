/* Selection of the schedule in use: the uploaded one where it fits this model, else the one compiled in. Main loop
 * only. */
#ifndef SM_SELECT_H
#define SM_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sm_error.h"
#include "sm_schedule.h"
#include "sm_store.h"

/* Other files read it; only sm_select_schedule writes it. */
typedef struct {
  sm_schedule schedule;        /* only where is_valid */
  uint8_t name[SM_STORE_NAME]; /* first bytes of its SHA-256; zeros without a schedule */
  bool is_valid;               /* there is a schedule for this model */
  bool is_uploaded;            /* it is an uploaded one */
} sm_selection;

extern const uint8_t sm_select_model[SM_STORE_NAME]; /* names model, formats and program of the controller */

/* Returns 0 where a blob of `size` bytes is a schedule for this model, else one of SM_SCHEDULE_…. An
 * sm_upload_check. */
SM_CHECKED int sm_select_check(const uint8_t *blob, size_t size);

/* Selects the schedule and sets all of *s. Reads and hashes all of it. */
void sm_select_schedule(sm_selection *s, const sm_store *store);

#endif
