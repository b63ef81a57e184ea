/* The whole firmware on a port whose time, motors and line are those of the test; see harness_loop.c. */
#ifndef HARNESS_LOOP_H
#define HARNESS_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "port.h"

typedef struct {
  uint32_t state;
  uint32_t reason;
  uint32_t motion;
  uint32_t calibrated;
  uint32_t transitions;
  uint32_t refused;
  uint32_t stale;
  uint32_t accepted;
  uint32_t saturated;
  uint32_t overruns;
  uint32_t gated_consecutive;
  uint32_t at_end;
  uint32_t nis_sum;
  uint32_t variance_ratio;
  uint32_t tick;
  uint32_t uploaded;
  uint32_t has_schedule;
  uint32_t faults;
  uint32_t ticking;
  uint32_t virtual_io;
  uint32_t virtual_time;
  uint32_t enabled;
  uint32_t restarts;
  uint32_t fed;
  uint32_t starved; /* the watchdog was not fed in time */
  uint32_t motors_late;
  uint32_t motor_longest;
  uint32_t forged;    /* frames with a wrong signature */
  uint32_t disobeyed; /* efforts other than 0 while off, or axes that do not exist */
  int32_t drives[PORT_MOTORS];
  int32_t positions[PORT_MOTORS]; /* of the motors, Q8 counts */
  int32_t targets[PORT_MOTORS];
  int32_t applied[PORT_MOTORS]; /* commands, as words of messages */
} loop_facts;

void board_init(void);
int board_start(const uint8_t *key, uint8_t system);
int board_turn(void);
void board_feed(const uint8_t *from, size_t size);
size_t board_sent(uint8_t *to, size_t room);
void board_facts(loop_facts *f);
void board_pass(uint32_t us);
uint32_t board_clock(void);
void board_encoder(unsigned axis, int32_t counts);
void board_slow(uint32_t look_us, uint32_t obey_us);
void board_slow_filter(uint32_t us);
void board_jam(size_t room);
void board_fail_flash(uint32_t nth);
void board_wear_logs(void);
void board_age(uint32_t ms);
void board_set(uint32_t variance, int32_t value);
void board_alarm(uint32_t all);
void board_overrun(uint32_t count);

#endif
