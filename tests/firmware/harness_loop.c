/* The whole firmware as a library: a port whose time, motors and line are those of the test. Sleeping lets time pass, so
 * a minute takes no time at all. */
#include <setjmp.h>
#include <string.h>

#include "harness_loop.h"

#include "flash.h"
#include "sm_loop.h"

#define ROOM 65536U
#define BUSY_US 20000U

static sm_loop loop;
static sm_loop_config config;
static uint8_t key_bytes[32];
static uint8_t waiting[ROOM];
static size_t waiting_size;
static uint8_t sent[ROOM];
static size_t sent_size;
static size_t line_room = ROOM;
static uint32_t clock_us;
static uint32_t slow_us;   /* that each look at the clock takes */
static uint32_t enable_us; /* that power on takes */
static uint32_t filter_us; /* that the filter takes */
static uint32_t fed_us;
static uint32_t watchdog_us;
static uint32_t overruns;
static int32_t encoders[PORT_ENCODERS];
static uint32_t alarms;
static loop_facts facts;
static jmp_buf restarted;

void port_init(void) {}
port_reset port_reset_reason(void) { return PORT_RESET_PIN; }
const uint8_t *port_board_id(void) { return (const uint8_t *)"loop harness"; }

uint32_t port_micros(void) {
  clock_us += slow_us;
  return clock_us;
}

void port_idle(void) { clock_us += 1000U - clock_us % 1000U; }

size_t port_receive(uint8_t *to, size_t room) {
  const size_t count = waiting_size < room ? waiting_size : room;
  memcpy(to, waiting, count);
  waiting_size -= count;
  memmove(waiting, waiting + count, waiting_size);
  return count;
}

uint32_t port_overruns(void) { return overruns; }

uint32_t port_baud(void) { return 460800U; }

size_t port_send_room(void) { return line_room - (sent_size < line_room ? sent_size : line_room); }

size_t port_send(const uint8_t *from, size_t size) {
  const size_t room = port_send_room();
  size_t count = size;
  if (size > room) {
    count = room;
    clock_us += BUSY_US; /* as ports do */
  }
  memcpy(sent + sent_size, from, count);
  sent_size += count;
  return count;
}

void port_enable(bool on) {
  facts.enabled = on;
  clock_us += on ? enable_us : 0U;
}

void port_drive(unsigned axis, int32_t effort) {
  if (axis >= PORT_MOTORS || effort < -1000 || effort > 1000 || (effort != 0 && facts.enabled == 0U)) {
    facts.disobeyed++;
    return;
  }
  facts.drives[axis] = effort;
}

int32_t port_encoder(unsigned axis) { return encoders[axis]; }

uint32_t port_alarms(void) { return alarms; }

void port_watchdog_start(uint32_t timeout_ms) {
  watchdog_us = timeout_ms * 1000U;
  fed_us = clock_us;
}

void port_watchdog_feed(void) {
  facts.starved += watchdog_us != 0U && clock_us - fed_us > watchdog_us ? 1U : 0U;
  fed_us = clock_us;
  facts.fed++;
}

/* The linker puts this in place of the generated one: --wrap=sm_update. */
uint32_t __real_sm_update(sm_controller *c, uint32_t valid);
uint32_t __wrap_sm_update(sm_controller *c, uint32_t valid);

uint32_t __wrap_sm_update(sm_controller *c, uint32_t valid) {
  clock_us += filter_us;
  return __real_sm_update(c, valid);
}

_Noreturn void port_restart(void) {
  facts.restarts++;
  longjmp(restarted, 1);
}

/* For the test ----------------------------------------------------------------------------------------------------- */

void board_init(void) {
  memset(flash, 0xFF, sizeof flash);
  memset(&facts, 0, sizeof facts);
  memset(encoders, 0, sizeof encoders);
  flash_fail(0);
  flash_renew();
  waiting_size = sent_size = 0;
  line_room = ROOM;
  clock_us = slow_us = enable_us = filter_us = watchdog_us = overruns = alarms = 0;
}

int board_start(const uint8_t *key, uint8_t system) {
  config = sm_loop_defaults;
  config.system = system;
  if (key != NULL) {
    memcpy(key_bytes, key, sizeof key_bytes);
    config.key = key_bytes;
  }
  waiting_size = sent_size = 0;
  sm_loop_start(&loop, &config);
  return 0;
}

int board_turn(void) {
  if (setjmp(restarted) != 0) {
    return 1;
  }
  sm_loop_turn(&loop);
  return 0;
}

void board_feed(const uint8_t *from, size_t size) {
  if (waiting_size + size <= ROOM) {
    memcpy(waiting + waiting_size, from, size);
    waiting_size += size;
  }
}

size_t board_sent(uint8_t *to, size_t room) {
  const size_t count = sent_size < room ? sent_size : room;
  memcpy(to, sent, count);
  sent_size = 0;
  return count;
}

void board_facts(loop_facts *f) {
  const sm_supervisor *s = &loop.supervisor;
  facts.state = (uint32_t)s->state;
  facts.reason = (uint32_t)s->reason;
  facts.motion = (uint32_t)loop.axes.motion;
  facts.calibrated = s->calibrated;
  facts.transitions = s->transitions;
  facts.refused = s->refused;
  facts.stale = s->stale;
  facts.accepted = s->accepted;
  facts.saturated = s->saturated;
  facts.overruns = s->overruns;
  facts.gated_consecutive = s->gated_consecutive;
  facts.at_end = s->at_end;
  facts.nis_sum = s->nis_sum;
  facts.variance_ratio = s->variance_ratio;
  facts.tick = loop.control.tick;
  facts.uploaded = loop.selection.is_uploaded;
  facts.has_schedule = loop.selection.is_valid;
  facts.faults = loop.report.faults;
  facts.ticking = loop.timing.is_ticking;
  facts.virtual_io = loop.axes.is_virtual;
  facts.virtual_time = loop.clock.is_virtual;
  facts.motors_late = s->motors_late;
  facts.motor_longest = loop.axes.longest_us;
  facts.forged = loop.link.counts.forged;
  for (unsigned i = 0; i < SM_AXES && i < PORT_MOTORS; i++) {
    facts.positions[i] = loop.axes.motors[i].position;
    facts.targets[i] = loop.axes.motors[i].target;
#if SM_FIXED
    facts.applied[i] = loop.control.applied[i];
#else
    const float narrow = (float)loop.control.applied[i];
    memcpy(&facts.applied[i], &narrow, sizeof narrow);
#endif
  }
  *f = facts;
}

/* Time the board was asleep; its watchdog too. */
void board_pass(uint32_t us) {
  clock_us += us;
  fed_us += us;
}

uint32_t board_clock(void) { return clock_us; }
void board_encoder(unsigned axis, int32_t counts) { encoders[axis] = counts; }
void board_slow(uint32_t look_us, uint32_t obey_us) {
  slow_us = look_us;
  enable_us = obey_us;
}

void board_slow_filter(uint32_t us) { filter_us = us; }
void board_jam(size_t room) { line_room = room; }
void board_fail_flash(uint32_t nth) { flash_fail(nth); }
void board_age(uint32_t ms) { loop.report.uptime_ms = ms; }

/* The last cell of each log does not become 1 again. */
void board_wear_logs(void) {
  for (port_region log = PORT_LOG_A; log <= PORT_LOG_B; log++) {
    flash_wear(log, flash_sizes[log] - 1U, 1);
  }
}
void board_alarm(uint32_t all) { alarms = all; }
void board_overrun(uint32_t count) { overruns = count; }
void board_set(uint32_t variance, int32_t value) { loop.control.controller.P[variance] = (sm_real)value; }
