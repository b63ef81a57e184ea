#include "soak_robot.h"

#include <string.h>

#include "flash.h"
#include "sm_axes.h"
#include "sm_supervisor.h"

#define COUNTS 20000           /* per metre */
#define AGED_MS 120000U        /* before its uptime wraps, at most */
#define PARTS 2U               /* encoder messages per tick */
#define CLOCK_AHEAD 123456789U /* µs of the host's clock before the board's */

static const uint8_t z_bits[SM_NZ] = SM_Z_BITS;
static const uint8_t u_bits[SM_NU] = SM_U_BITS;

soak_robot robot;

loop_facts look(void) {
  loop_facts f;
  board_facts(&f);
  return f;
}

/* The firmware begins, as often as it takes: power may be lost in that, too. */
void start(void) {
  host_hear();
  while (setjmp(flash_power_loss) != 0) {
    soak_counted.power_losses++;
  }
  board_start(robot.key, 1);
  board_age(chance_of(500000) ? UINT32_MAX - chance_below(AGED_MS) : 0U);
  host_started();
  host_hear();
}

static void turn(void) {
  if (setjmp(flash_power_loss) != 0) {
    soak_counted.power_losses++;
    start();
  } else if (board_turn() != 0) {
    soak_counted.restarts++;
    start();
  }
  const uint32_t clock = board_clock();
  soak_counted.clock_wraps += clock < robot.clock_before ? 1U : 0U;
  robot.clock_before = clock;
  host_hear();
}

/* Lets the board read what was sent to it. */
void serve(void) {
  for (unsigned i = 0; i < 4U; i++) {
    turn();
  }
}

/* Motors and clocks ----------------------------------------------------------------------------------------------- */

/* A millisecond with the board's own motors. */
void pass_ms(void) {
  const uint32_t begin = board_clock();
  do {
    turn();
  } while (board_clock() - begin < 1000U);
  host_pass(board_clock() - begin);
  robot.frame_us += board_clock() - begin;
  const loop_facts f = look();
  for (unsigned i = 0; i < PORT_ENCODERS; i++) {
    robot.position[i] += f.enabled != 0U && robot.stuck[i] == 0U ? 60 * f.drives[i] : 0;
    board_encoder(i, (int32_t)(robot.position[i] / 1000));
  }
  if (robot.late_ms > 0U && --robot.late_ms == 0U) {
    host_send(MAVLINK_MSG_ID_MEASUREMENT, &robot.late);
  }
}

void pass_virtual(uint32_t us) {
  const uint32_t before = robot.stamp_us;
  robot.stamp_us += us;
  host_pass(us);
  soak_counted.stamp_wraps += robot.stamp_us < before ? 1U : 0U;
}

void send_encoders(void) {
  mavlink_virtual_encoder_t m = {.stamp_us = robot.stamp_us, .alarms = (uint16_t)robot.alarms};
  memcpy(m.counts, robot.counts, sizeof robot.counts);
  host_send(MAVLINK_MSG_ID_VIRTUAL_ENCODER, &m);
  serve();
}

/* Virtual motors that get to their commands. */
static void move_virtual(uint32_t us) {
  const loop_facts f = look();
  int32_t begin[PORT_ENCODERS];
  memcpy(begin, robot.counts, sizeof begin);
  for (uint32_t part = 1; part <= PARTS; part++) {
    pass_virtual(us / PARTS);
    for (unsigned i = 0; i < SM_NU; i++) {
      const int64_t goal = (((int64_t)f.applied[i] - robot.plan.start_u[i]) * COUNTS) >> u_bits[i];
      const int64_t way = robot.stuck[i] > 0U ? 0 : (goal - begin[i]) * (int64_t)part / (int64_t)PARTS;
      robot.counts[i] = (int32_t)(begin[i] + way);
    }
    send_encoders();
  }
}

void pass(uint32_t us) {
  if (robot.is_virtual) {
    move_virtual(us);
    return;
  }
  for (uint32_t ms = us / 1000U; ms > 0U; ms--) {
    pass_ms();
  }
}

/* Measurements ---------------------------------------------------------------------------------------------------- */

/* What a camera sees now: the mass as planned, the motors where they are, and noise of so many mm. */
mavlink_measurement_t seen(int32_t noise) {
  const loop_facts f = look();
  const uint32_t row = f.tick < robot.plan.rows ? f.tick : robot.plan.rows - 1U;
  mavlink_measurement_t m = {.stamp_us = robot.is_virtual ? robot.stamp_us : board_clock() + CLOCK_AHEAD,
                             .valid = (1U << SM_NZ) - 1U};
  for (unsigned i = 0; i < SM_NZ; i++) {
    const unsigned motor = i - (SM_NZ - SM_NU);
    int64_t value = f.state >= SM_STATE_RUNNING ? robot.plan.view[row * SM_NZ + i] : robot.plan.start[i];
    if (i >= SM_NZ - SM_NU) {
      const int64_t at = robot.is_virtual ? robot.counts[motor] : robot.position[motor] / 1000;
      value = robot.plan.start[i] + at * ((INT64_C(1) << z_bits[i]) / COUNTS);
    }
    value += chance_around(((1 << z_bits[i]) / 1000) * noise);
    m.z[i] = (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
  }
  return m;
}

void measure(int32_t noise) {
  mavlink_measurement_t m = seen(noise);
  m.sequence = ++host.sequence;
  host_send(MAVLINK_MSG_ID_MEASUREMENT, &m);
  serve();
}
