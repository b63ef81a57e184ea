/* A board that is a process of this computer.
 *
 *   firmware [--serial LINE] [--regions FOLDER] [--baud RATE] [--power-cut N[:BYTES]] [--pins FILE] [--id HEX]
 *
 * or by environment: STEPMAP_SERIAL, STEPMAP_REGIONS, STEPMAP_BAUD, STEPMAP_POWER_CUT, STEPMAP_PINS, STEPMAP_ID.
 *
 *   LINE     stdio (as it is without the option), fd:N, a device, or pty: opens a pseudo terminal and says which
 *   FOLDER   where the regions are files; without it they are memory that outlives a restart and no more, or the files
 *            whose numbers are in STEPMAP_FD_bank_a, …_bank_b, …_journal_a, …_journal_b
 *   RATE     bits a second at which bytes come in, whether anyone takes them or not; without it they wait for ever
 *   N:BYTES  the power goes during the N-th write or erase of a region, BYTES after its start; without BYTES half-way
 *   FILE     shared memory with the pins of the motors (motors.c); without it the motors are ideal
 *   HEX      id of the board, 24 hexadecimal digits; without it that in the file board_id of FOLDER, which is made at the
 *            first start, and without FOLDER a random one
 *
 * STEPMAP_RESET (power, pin, software, watchdog, brownout) says why it starts. The end of the serial line ends it. */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdbool.h>
#include <stdint.h>

/* How a process ends that did not end by itself. */
enum { NATIVE_EXIT_USAGE = 64, NATIVE_EXIT_WATCHDOG = 71, NATIVE_EXIT_POWER_CUT = 72 };

/* What the motors get; for tests. */
bool native_enabled(void);
int32_t native_effort(unsigned axis);

/* Between the files of this folder. */
void native_serial_init(void);
void native_serial_wait(uint32_t longest_us);
void native_regions_init(void);
void native_identity_init(void);
void native_motors_init(void);
void native_usage(const char *problem) __attribute__((noreturn));
uint32_t native_number(const char *name, uint32_t otherwise);            /* of an environment variable */
void native_keep(const char *name, const char *prefix, uint32_t number); /* in the environment, for a restart */

#endif
