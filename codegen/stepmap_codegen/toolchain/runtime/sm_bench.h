/* What a program that is measured on a target provides, and what it is given there.
 *
 * The same program runs on the PC and in QEMU: run() hands it bytes, and gets back the bytes it wrote. */
#ifndef SM_BENCH_H
#define SM_BENCH_H

#include <stdint.h>

/* The program. 0 is success; anything else makes run() raise, with this number in its log. */
int app(void);

/* Reads up to size bytes of run()'s data. Returns how many: fewer than size only at the end of the data. */
int io_read(void *to, unsigned size);

/* Appends size bytes to what run() returns. Returns size; a write that fails ends the program, and run() raises. */
int io_write(const void *from, unsigned size);

/* Instructions executed between count_begin() and the next count_end(), their own cost taken off: 0 if there is nothing
 * between them. Always 0 on the PC, where nothing is counted. An interval too long for the target's timer ends the
 * program, and run() raises; see docs/targets.md for the limits. */
void count_begin(void);
uint32_t count_end(void);

#endif
