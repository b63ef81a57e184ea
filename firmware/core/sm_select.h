/* Which schedule is in use. */
#ifndef SM_SELECT_H
#define SM_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "sm_loop.h"

extern const uint8_t sm_model[SM_STORE_NAME]; /* names model, formats and program of the controller */

/* 0 where the blob is a schedule for this model, else negative. */
SM_CHECKED int sm_check_schedule(const uint8_t *blob, size_t size);

/* The uploaded schedule if there is one for this model, else the one in the image. */
void sm_choose_schedule(sm_loop *l);

#endif
