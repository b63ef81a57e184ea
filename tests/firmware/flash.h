/* Memory that outlives resets, as flash: an erase sets all bits, a write clears some, each 8 bytes once, zeros aside.
 * Either can be cut off by a loss of power, or fail; cells may read differently each time, be worn, or change by
 * themselves. Breaking the contract of port.h aborts. */
#ifndef FLASH_H
#define FLASH_H

#include <setjmp.h>
#include <stdbool.h>
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

/* The n-th operation from now is done and says that it failed, 0 for none. */
void flash_deny(uint32_t nth);

/* From now on bits that an operation was changing when power was lost read differently each time: as 1 `ones` times out
 * of 256, by chance. 0 ends that, and cells stay as they were read last. */
void flash_weaken(uint32_t ones, uint32_t seed);

/* Whether all of those bits that are read at once read alike; until flash_renew. */
void flash_agree(bool alike);

/* A cell that does not become 1 again, however often it is erased. */
void flash_wear(port_region region, uint32_t at, uint8_t bits);

/* Bits that change by themselves. */
void flash_rot(port_region region, uint32_t at, uint8_t bits);

/* Memory as new: no worn cells, none that read differently. */
void flash_renew(void);

#endif
