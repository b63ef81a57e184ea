/* The contract of a board: core/ calls these functions and nothing else; registers and vendor headers live in
 * port/<board>/.
 *
 * Every function is called from the main loop only, except where it says otherwise. None of them allocates, and
 * every wait in them is bounded. */
#ifndef PORT_H
#define PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Motors and encoders that a board has, as its entry in the catalog says (stepmap_codegen/boards.py). */
#ifndef PORT_MOTORS
#define PORT_MOTORS 2U
#endif
#ifndef PORT_ENCODERS
#define PORT_ENCODERS 2U
#endif
#define PORT_BOARD_ID 12U /* bytes of a board's id: the unique id of an STM32 has 96 bits */
#define PORT_WRITE_UNIT                                                                                                \
  8U /* bytes; regions are written in multiples of it, the widest that a supported flash asks for */

/* Why the processor started. The numbers go over the wire. */
typedef enum {
  PORT_RESET_POWER = 0,
  PORT_RESET_PIN = 1,
  PORT_RESET_SOFTWARE = 2,
  PORT_RESET_WATCHDOG = 3,
  PORT_RESET_BROWNOUT = 4,
  PORT_RESET_UNKNOWN = 5
} port_reset;

/* What hardware tells by itself, one bit each. The numbers go over the wire. */
enum {
  PORT_ALARM_DRIVER = 1,   /* a motor driver pulls its fault line */
  PORT_ALARM_SUPPLY = 2,   /* the supply is too low to write flash, or was since the last call */
  PORT_ALARM_BROWNOUT = 4, /* the chip runs on below that: its brown-out level is an option that was not set */
  PORT_ALARM_ENCODER =
      256 /* times 2^n: both lines of encoder n changed at once since the last call, counts were lost */
};

/* Memory that outlives a reset. A slot holds one uploaded schedule, a log the counters (sm_store.h). */
typedef enum { PORT_SLOT_A = 0, PORT_SLOT_B = 1, PORT_LOG_A = 2, PORT_LOG_B = 3, PORT_REGIONS = 4 } port_region;

/* Starts clocks, pins, timers and the serial port; leaves the motors off. Called once, before anything else. */
void port_init(void);

/* Returns why the processor started; the same until the next start. */
port_reset port_reset_reason(void);

/* Returns PORT_BOARD_ID bytes that no other board has, the same after every start: of the chip where it has a
 * number. */
const uint8_t *port_board_id(void);

/* Returns the µs since the start; wraps after 71 minutes (2^32 µs). May be called from interrupts. */
uint32_t port_micros(void);

/* Sleeps until an interrupt, at most until the next millisecond. */
void port_idle(void);

/* Copies up to `room` received bytes to `to`, without waiting; returns how many. */
size_t port_receive(uint8_t *to, size_t room);

/* Returns how many received bytes were lost because port_receive came too late; counts up, wraps. */
uint32_t port_overruns(void);

/* Returns the bits per second of the line, ten to a byte; 0 where bytes come and go at once. */
uint32_t port_baud(void);

/* Returns the bytes that port_send takes without waiting. */
size_t port_send_room(void);

/* Queues bytes for sending; returns how many, fewer than `size` where the line stays busy for 20 ms. */
size_t port_send(const uint8_t *from, size_t size);

/* Switches the power stages of the motors. Off: the motors are free, whatever port_drive says. */
void port_enable(bool on);

/* Sets the effort of one motor, -1000 … 1000 per mille; motor 0 … PORT_MOTORS - 1. */
void port_drive(unsigned motor, int32_t effort);

/* Returns the counts of one encoder; wraps like an int32_t. encoder 0 … PORT_ENCODERS - 1. */
int32_t port_encoder(unsigned encoder);

/* Returns the alarms there are, a sum of PORT_ALARM_…; 0 where the board can notice none. */
uint32_t port_alarms(void);

/* Starts the watchdog: a reset follows when it is not fed for timeout_ms. It cannot be stopped again. */
void port_watchdog_start(uint32_t timeout_ms);

/* Feeds the watchdog. */
void port_watchdog_feed(void);

/* Returns the bytes of a region; 0 where the board has none. */
size_t port_region_size(port_region region);

/* Returns the content of a region, mapped to memory; NULL where its size is 0. */
const uint8_t *port_region_read(port_region region);

/* Sets a region to 0xFF. Returns 0, or negative on failure: parts of it may be erased then. May stop the processor for
 * seconds. Fails at once, and changes nothing, while the supply is too low. */
int port_region_erase(port_region region);

/* Clears bits of an erased part; offset and size are multiples of PORT_WRITE_UNIT. Returns 0 when the bytes read
 * back equal, else negative: parts of them may be written then. Fails while the supply is too low. */
int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size);

/* Returns whether regions outlive a loss of power; false where an emulator cannot write flash and RAM stands in for
 * it. */
bool port_region_lasting(void);

/* Restarts the processor. */
_Noreturn void port_restart(void);

#endif
