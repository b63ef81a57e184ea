/* The time of the loop: that of the board, or that of the stamps of messages. */
#ifndef SM_CLOCK_H
#define SM_CLOCK_H

#include <stdint.h>

#include "sm_loop.h"

uint32_t sm_now_us(const sm_loop *l);

/* Virtual time passes as much as stamps do, wherever they begin. It never goes back. */
void sm_pass_time(sm_loop *l, uint32_t stamp_us);

#endif
