/* Runs of the whole firmware in simulated time with faults by chance: of line, camera, motors, encoders, clock, flash and
 * power. Half of the runs are with motors and time of messages, half with the board's own; soak.py counts them.
 *
 * Whatever happens: no motor has power in a state without motion, or gets an effort without power; the watchdog is fed;
 * nothing that was not signed with the key reaches the filter; ticks count up; and the board can be started again. */
#include <string.h>

#include "flash.h"
#include "sm_axes.h"
#include "sm_supervisor.h"
#include "soak_robot.h"

#define MINUTE_US 60000000U
#define RUN_TICKS 400U
#define OPERATOR_TRIES 30U /* of a command, or of a start */
#define BEFORE_WRAP_US (UINT32_MAX - MINUTE_US)

/* What happens at a tick. */
typedef enum {
  RESET,
  POWER_CUT,
  FLASH_FAILS,
  FLASH_LIES,
  STOP,
  ANY_COMMAND,
  SILENCE,
  PAUSE,
  ENCODER_JUMPS,
  MOTOR_STUCK,
  LINE_JAMMED,
  SLOW,
  OVERRUN,
  ALARM,
  MISSING,
  WRONG,
  REPEATED,
  LATE,
  PARTIAL,
  OLD,
  EVENTS
} event;

_Static_assert(EVENTS == SOAK_EVENTS, "each is counted");

static const uint32_t rates[EVENTS] = {
    [RESET] = 500,        [POWER_CUT] = 300,  [FLASH_FAILS] = 200, [FLASH_LIES] = 200,    [STOP] = 1500,
    [ANY_COMMAND] = 1000, [SILENCE] = 200,    [PAUSE] = 500,       [ENCODER_JUMPS] = 500, [MOTOR_STUCK] = 500,
    [LINE_JAMMED] = 300,  [SLOW] = 300,       [OVERRUN] = 300,     [ALARM] = 300,         [MISSING] = 30000,
    [WRONG] = 20000,      [REPEATED] = 10000, [LATE] = 10000,      [PARTIAL] = 20000,     [OLD] = 5000,
}; /* per million ticks */

/* Clocks, stamps and sequences begin a minute before they wrap. The rows of the plan are kept by reference. Returns the
 * bytes of soak_counts. */
size_t soak_open(const uint8_t *key, uint64_t seed, const soak_plan *plan);

/* A run, from whatever state the last one left; returns the promise that was broken, NULL where none was. */
const char *soak_run(void);
/* Counts so far, and a digest of every byte that the board sent. */
void soak_told(soak_counts *counts, uint8_t digest[32]);

static uint32_t token;
static uint32_t tick_before; /* of the run */
static uint32_t slow;        /* ticks that the processor is still slow */
static uint32_t jammed;      /* ticks that the line is still jammed */

static void check(void) {
  const loop_facts f = look();
  const bool moves = f.state >= SM_STATE_ARMED && f.state <= SM_STATE_STOPPED;
  SOAK_CHECK(f.disobeyed == 0U);
  SOAK_CHECK(f.starved == 0U);
  SOAK_CHECK(f.state < SOAK_STATES);
  SOAK_CHECK(f.enabled == 0U || (moves && f.virtual_io == 0U));
  SOAK_CHECK(f.tick == 0U || f.tick >= tick_before || f.state <= SM_STATE_ARMED);
  tick_before = f.tick;
}

static void measure_badly(const bool now[EVENTS]) {
  if (now[MISSING]) {
    host.sequence++;
    return;
  }
  mavlink_measurement_t m = seen(now[WRONG] ? 300 : 2);
  m.sequence = now[REPEATED] ? host.sequence : ++host.sequence;
  m.valid = now[PARTIAL] ? (uint16_t)chance_below(1U << SM_NZ) : m.valid;
  m.age_us = now[OLD] ? chance_below(1U << chance_below(32)) : 0U;
  if (now[LATE] && robot.late_ms == 0U) {
    robot.late = m;
    robot.late_ms = 1U + chance_below(60);
    return;
  }
  host_send(MAVLINK_MSG_ID_MEASUREMENT, &m);
  serve();
}

/* The operator ---------------------------------------------------------------------------------------------------- */

static bool command(uint8_t number, uint16_t options) {
  token++;
  const mavlink_command_t m = {.token = token, .options = options, .command = number};
  host.answer = (mavlink_command_ack_t){.token = token - 1U};
  for (unsigned tries = 0; tries < OPERATOR_TRIES && host.answer.token != token; tries++) {
    host_send(MAVLINK_MSG_ID_COMMAND, &m);
    serve();
  }
  return host.answer.token == token && host.answer.result == STEPMAP_RESULT_OK;
}

static void release(void) {
  board_slow(0, 0);
  board_slow_filter(0);
  board_jam(SIZE_MAX);
  host.is_jammed = false;
  board_alarm(0);
  robot.alarms = 0;
  slow = jammed = robot.late_ms = 0;
  memset(robot.stuck, 0, sizeof robot.stuck);
}

static void to_the_start(void) {
  memset(robot.counts, 0, sizeof robot.counts);
  memset(robot.position, 0, sizeof robot.position);
  if (robot.is_virtual) {
    send_encoders();
  } else {
    pass_ms();
  }
}

/* From whatever state to a run, as an operator does it; false where the line, or a reset, came between. */
static bool begin(void) {
  const uint16_t options = robot.is_virtual ? STEPMAP_OPTION_VIRTUAL_IO | STEPMAP_OPTION_VIRTUAL_TIME : 0U;
  const mavlink_ping_t ping = {.sequence = 1};
  host_send(MAVLINK_MSG_ID_PING, &ping);
  serve();
  (void)command(STEPMAP_COMMAND_STOP, 0);
  (void)command(STEPMAP_COMMAND_RESET_FAULT, 0);
  if (chance_of(20000) && command(STEPMAP_COMMAND_RESTART, 0)) {
    for (unsigned ms = 0; ms < 50U; ms++) {
      pass_ms();
    }
  }
  to_the_start();
  (void)command(STEPMAP_COMMAND_RESET_FAULT, 0); /* an encoder that is moved by hand may be one */
  if (!command(STEPMAP_COMMAND_CALIBRATE, options)) {
    return false;
  }
  for (unsigned k = 0; k < 2U * SM_AXES_CALIBRATIONS && look().state == SM_STATE_CALIBRATING; k++) {
    if (robot.is_virtual) {
      send_encoders();
    }
    measure(2);
    if (robot.is_virtual) {
      pass_virtual(20000);
    } else {
      pass(20000);
    }
  }
  if (!command(STEPMAP_COMMAND_ARM, options)) {
    return false;
  }
  measure(2);
  pass(SM_PERIOD_US);
  return command(STEPMAP_COMMAND_RUN, 0);
}

/* One tick and what goes wrong in it ------------------------------------------------------------------------------- */

static void disturb_board(const bool now[EVENTS]) {
  if (now[POWER_CUT]) {
    flash_weaken(chance_below(256), chance_below(UINT32_MAX));
    flash_cut(1U + chance_below(4), chance_below(64), chance_below(UINT32_MAX));
  }
  if (now[FLASH_FAILS]) {
    flash_fail(1U + chance_below(4));
  }
  if (now[FLASH_LIES]) {
    flash_deny(1U + chance_below(4));
  }
  if (now[RESET] || (now[POWER_CUT] && chance_of(500000))) {
    soak_counted.resets++;
    start();
  }
  if (now[SLOW]) {
    slow = 1U + chance_below(10);
    board_slow(chance_below(20), chance_below(3000));
    board_slow_filter(chance_below(2U * SM_PERIOD_US));
  }
  if (now[LINE_JAMMED]) {
    jammed = 1U + chance_below(10);
    board_jam(chance_below(300));
    host.is_jammed = true;
  }
  if (now[ALARM]) {
    static const uint32_t kinds[] = {PORT_ALARM_DRIVER, PORT_ALARM_SUPPLY, PORT_ALARM_BROWNOUT, PORT_ALARM_ENCODER,
                                     2U * PORT_ALARM_ENCODER};
    robot.alarms = kinds[chance_below(sizeof kinds / sizeof kinds[0])];
    board_alarm(robot.alarms);
  }
  if (now[OVERRUN]) {
    board_overrun(chance_below(UINT32_MAX));
  }
}

static void disturb_robot(const bool now[EVENTS]) {
  const uint32_t motor = chance_below(PORT_ENCODERS);
  if (now[ENCODER_JUMPS]) {
    const int32_t jump = (int32_t)chance_below(1U << (1U + chance_below(14))) * (chance_of(500000) ? 1 : -1);
    robot.counts[motor] += jump;
    robot.position[motor] += 1000 * (int64_t)jump;
  }
  if (now[MOTOR_STUCK]) {
    robot.stuck[motor] = 1U + chance_below(30);
  }
  if (now[PAUSE]) { /* time goes on without a message */
    pass_virtual(robot.is_virtual ? chance_below(1U << (10U + chance_below(13))) : 0U);
  }
  if (now[SILENCE]) { /* a board whose time is that of messages waits for half a minute */
    for (uint32_t left = chance_below(robot.is_virtual ? 40000 : 2000); left > 0U; left--) {
      pass_ms();
    }
  }
}

static void wind_down(void) {
  if (chance_of(200000)) {
    robot.alarms = 0;
    board_alarm(0);
  }
  for (unsigned i = 0; i < PORT_ENCODERS; i++) {
    robot.stuck[i] -= robot.stuck[i] > 0U ? 1U : 0U;
  }
  if (slow > 0U && --slow == 0U) {
    board_slow(0, 0);
    board_slow_filter(0);
  }
  if (jammed > 0U && --jammed == 0U) {
    board_jam(SIZE_MAX);
    host.is_jammed = false;
  }
}

static void tick(void) {
  bool now[EVENTS];
  for (unsigned kind = 0; kind < EVENTS; kind++) {
    now[kind] = chance_of(rates[kind]);
    soak_counted.events[kind] += now[kind] ? 1U : 0U;
  }
  disturb_board(now);
  disturb_robot(now);
  if (now[STOP]) {
    (void)command(STEPMAP_COMMAND_STOP, 0);
  }
  if (now[ANY_COMMAND]) {
    (void)command((uint8_t)chance_below(9), (uint16_t)chance_below(5));
  }
  measure_badly(now);
  if (robot.is_virtual) {
    pass(SM_PERIOD_US);
    if (robot.late_ms > 0U) {
      robot.late_ms = 0;
      host_send(MAVLINK_MSG_ID_MEASUREMENT, &robot.late);
    }
  } else {
    while (robot.frame_us < SM_PERIOD_US) {
      pass_ms();
    }
    robot.frame_us -= robot.frame_us < 2U * SM_PERIOD_US ? SM_PERIOD_US : robot.frame_us;
  }
  wind_down();
  check();
}

/* For soak.py ----------------------------------------------------------------------------------------------------- */

size_t soak_open(const uint8_t *key, uint64_t seed, const soak_plan *plan) {
  memset(&robot, 0, sizeof robot);
  robot.plan = *plan;
  memcpy(robot.key, key, sizeof robot.key);
  chance_seed(seed);
  board_init();
  flash_cut(0, 0, 0);
  flash_deny(0);
  flash_weaken(0, 1);
  flash_operations = 0;
  token = 0;
  host_open(key);
  board_pass(BEFORE_WRAP_US);
  robot.clock_before = board_clock();
  robot.stamp_us = BEFORE_WRAP_US;
  host.sequence = UINT32_MAX - 900U;
  release();
  start();
  board_age(UINT32_MAX - MINUTE_US / 1000U);
  return sizeof(soak_counts);
}

const char *soak_run(void) {
  robot.is_virtual = chance_of(500000);
  release();
  unsigned tries = 0;
  while (!begin()) {
    soak_counted.failed_starts++;
    SOAK_CHECK(++tries < OPERATOR_TRIES);
    if (soak_failed != NULL) {
      return soak_failed;
    }
    if (tries % 3U == 0U) { /* an operator's last resort */
      soak_counted.resets++;
      start();
    }
  }
  soak_counted.runs++;
  soak_counted.real_runs += robot.is_virtual ? 0U : 1U;
  robot.frame_us = tick_before = 0;
  for (unsigned k = 0; k < RUN_TICKS && soak_failed == NULL; k++) {
    tick();
    const uint32_t state = look().state;
    if (state != SM_STATE_RUNNING && state != SM_STATE_HOLDING && state != SM_STATE_ARMED) {
      break;
    }
  }
  const loop_facts f = look();
  soak_counted.ends[f.reason % SOAK_REASONS]++;
  return soak_failed;
}

void soak_told(soak_counts *counts, uint8_t digest[32]) {
  *counts = soak_counted;
  host_digest(digest);
}
