/* Memory that outlives resets, as flash: an erase sets all bits, a write clears some, each 8 bytes once. Either can be cut
 * off by a loss of power, or fail. Breaking the contract of port.h aborts. */
#ifndef FLASH_H
#define FLASH_H

#include <setjmp.h>
#include <stdint.h>

#include "port.h"

#define FLASH_ROOM (128U * 1024U)

extern uint8_t flash[PORT_REGIONS][FLASH_ROOM];
extern uint32_t flash_sizes[PORT_REGIONS];
extern uint32_t flash_operations; /* erases and writes so far */
extern jmp_buf flash_power_loss;  /* where a loss of power leads to */

/* Power is lost at the n-th operation from now, 0 for never, after so many bytes of it; what is next is half done. */
void flash_cut(uint32_t nth, uint32_t bytes, uint32_t seed);

/* The n-th operation from now fails, 0 for none. */
void flash_fail(uint32_t nth);

#endif
