/* What a board must provide. core/ calls these and nothing else; registers and vendor headers live in port/<board>/.
 *
 * All functions may be called from the main loop only, except where noted. None of them allocates, and every wait in
 * them is bounded. */
#ifndef PORT_H
#define PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_AXES 2U      /* motors with encoders */
#define PORT_BOARD_ID 12U /* bytes of a board's id */

/* Why the processor started. */
typedef enum {
  PORT_RESET_POWER = 0,
  PORT_RESET_PIN = 1,
  PORT_RESET_SOFTWARE = 2,
  PORT_RESET_WATCHDOG = 3,
  PORT_RESET_BROWNOUT = 4,
  PORT_RESET_UNKNOWN = 5
} port_reset;

/* Memory that outlives a reset. A bank holds one uploaded schedule, a journal the counters. */
typedef enum { PORT_BANK_A = 0, PORT_BANK_B = 1, PORT_JOURNAL_A = 2, PORT_JOURNAL_B = 3, PORT_REGIONS = 4 } port_region;

/* Clocks, pins, timers and the serial port. Leaves the motors off. Never waits for ever. */
void port_init(void);

port_reset port_reset_reason(void);

/* PORT_BOARD_ID bytes that no other board has, the same after every start: of the chip where it has a number. */
const uint8_t *port_board_id(void);

/* Microseconds since start; wraps after 71 minutes. May be called from interrupts. */
uint32_t port_micros(void);

/* Sleeps until an interrupt, at most until the next millisecond. */
void port_idle(void);

/* Takes up to `room` received bytes; returns how many. */
size_t port_receive(uint8_t *to, size_t room);

/* Received bytes that were lost because nobody took them in time; counts up. */
uint32_t port_overruns(void);

/* Bits per second of the line, ten to a byte; 0 where bytes come and go at once. */
uint32_t port_baud(void);

/* Bytes that port_send takes without waiting. */
size_t port_send_room(void);

/* Sends bytes; returns how many were taken, fewer than `size` where the line stays busy for 20 ms. */
size_t port_send(const uint8_t *from, size_t size);

/* Power stages of the motors. Off: the motors are free, whatever port_drive says. */
void port_enable(bool on);

/* Effort of one motor, -1000 … 1000 per mille. */
void port_drive(unsigned axis, int32_t effort);

/* Position of one motor in encoder counts; wraps like an int32_t. */
int32_t port_encoder(unsigned axis);

/* A reset follows when the watchdog is not fed for this long. It cannot be stopped again. */
void port_watchdog_start(uint32_t timeout_ms);
void port_watchdog_feed(void);

/* Bytes of a region; 0 where the board has none. */
size_t port_region_size(port_region region);

/* A region's content, mapped to memory; NULL where its size is 0. */
const uint8_t *port_region_read(port_region region);

/* Sets a region to 0xFF. 0 when done, negative on failure. */
int port_region_erase(port_region region);

/* Clears bits of an erased part; offset and size are multiples of 8. 0 when done and read back equal, else negative. */
int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size);

/* Whether the regions outlive a loss of power; false where an emulator cannot write flash and RAM stands in for it. */
bool port_region_lasting(void);

/* Restarts the processor. */
_Noreturn void port_restart(void);

#endif
