/* Between the parts of the runtime in a QEMU guest. */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>

#include "ending.h"

/* Bounds that guest.ld sets. The stack has the lowest addresses of the RAM, so that overflowing it traps. */
extern uint32_t ram_data_begin[], ram_data_end[], flash_data_begin[], ram_bss_begin[], ram_bss_end[];
extern uint32_t stack_bottom[], stack_top[];

/* Instructions of an interval with nothing in it. */
extern uint32_t count_overhead;

/* After the processor's own setup: fills the RAM, runs app() and ends. */
_Noreturn void guest_main(void);

/* Writes a text to QEMU's console: shown in the log of run()'s error. */
void say(const char *text);
void say_hex(uint32_t value);

/* Ends QEMU. */
_Noreturn void finish(enum ending ending);

#endif
