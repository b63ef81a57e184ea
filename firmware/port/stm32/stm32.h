/* Between the files of port/stm32, which every STM32 shares, and those of a family. */
#ifndef STM32_H
#define STM32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port.h"
#include "registers.h"

/* Frequencies, in Hz. */
typedef struct {
  uint32_t core;
  uint32_t serial; /* what USART1 divides */
  uint32_t timers; /* what timers of motors count */
} clocks;

/* The output of a timer that drives a motor; channel 0 … 3. */
typedef struct {
  timer_registers *timer;
  unsigned channel;
} pwm_output;

/* A region in flash: its first byte, its size and what selects it for erasing. */
typedef struct {
  uint32_t start;
  size_t bytes;
  uint32_t page;
} flash_region;

/* Memory that no reset clears: neither zeroed nor filled by the start-up code. */
#define KEPT __attribute__((section(".noinit")))

/* What a family provides. */
extern const clocks chip_full;                        /* with the PLL */
extern const clocks chip_internal;                    /* without */
uint32_t chip_pll(bool crystal);                      /* sets the PLL up to give that; returns RCC_CFGR for it */
void chip_pins(void);                                 /* clocks of the peripherals, pins; motors off */
void chip_enable(bool on);                            /* the pin of the power stages */
bool chip_driver_fault(void);                         /* whether the pin of their fault line is low */
void chip_direction(unsigned motor, bool backwards);  /* the direction pin of one motor */
extern const pwm_output chip_pwm[];                   /* of PORT_MOTORS motors; all count clocks.timers */
extern timer_registers *const chip_encoders[];        /* of the first encoders, CHIP_TIMER_ENCODERS at most */
void edges_init(unsigned count);                      /* the encoders behind them, counted by interrupts */
int32_t edges_position(unsigned encoder);             /* of one of those, from 0 on */
uint32_t edges_lost(void);                            /* those that lost counts since the last call, a bit each */
bool chip_flash_writable(void);                       /* whether there is a flash interface that answers */
extern const flash_region chip_regions[PORT_REGIONS]; /* where flash keeps them */
int chip_flash_erase(uint32_t page);                  /* flash is unlocked */
int chip_flash_write(uint32_t address, const uint8_t *from, size_t size);
bool chip_brownout_low(void); /* whether the chip runs on where its flash cannot be written */
int chip_brownout_set(void);  /* sets that option for good; only where there is CHIP_BROWNOUT */

/* What they share. */
clocks clocks_init(void); /* the fastest clock there is; every wait is bounded */
void time_init(uint32_t core_hz);
void serial_init(uint32_t serial_hz);
void motors_init(uint32_t timers_hz);
void motors_off(void);        /* at once, from anywhere */
void encoders_sample(void);   /* every millisecond: extends 16-bit counters */
uint32_t encoders_lost(void); /* those that lost counts since the last call, a bit each; timers cannot tell */
void supply_init(void);
void reset_init(void); /* takes the reset flags */
void regions_init(void);

void serial_poll(void);      /* takes a byte that has come; runs from RAM */
void time_lost(uint32_t ms); /* milliseconds whose interrupts were missed */

static inline __attribute__((always_inline)) bool supply_is_low(void) { return (PWR_CSR & PWR_CSR_PVDO) != 0U; }

/* Writes `value`, which starts a flash operation, and waits for its end at most `limit_ms`; meanwhile feeds the
 * watchdog, receives and keeps the time. `half` writes 16 bits. Runs from RAM. Returns 0, or -1 when out of time, and
 * where the supply is too low, without writing. */
int flash_run(uint32_t where, uint32_t value, bool half, uint32_t limit_ms);

#endif
