/* Two motors without inertia, whose speed is the effort. */
#include "native.h"
#include "port.h"

#define FULL_COUNTS_PER_MS 20 /* at an effort of 1000 */

static bool enabled;
static int32_t efforts[PORT_AXES];
static int64_t positions[PORT_AXES]; /* in counts / (1000 * 1000) */
static uint32_t then_us;

void native_motors_init(void) {
  port_enable(false);
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    positions[axis] = 0;
  }
  then_us = port_micros();
}

static void turn(void) {
  const uint32_t now_us = port_micros();
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    positions[axis] += (int64_t)efforts[axis] * FULL_COUNTS_PER_MS * (now_us - then_us);
  }
  then_us = now_us;
}

void port_enable(bool on) {
  turn();
  enabled = on;
  for (unsigned axis = 0; axis < PORT_AXES && !on; ++axis) {
    efforts[axis] = 0;
  }
}

void port_drive(unsigned axis, int32_t effort) {
  if (enabled && axis < PORT_AXES) {
    turn();
    efforts[axis] = effort > 1000 ? 1000 : effort < -1000 ? -1000 : effort;
  }
}

int32_t port_encoder(unsigned axis) {
  if (axis >= PORT_AXES) {
    return 0;
  }
  turn();
  return (int32_t)(positions[axis] / 1000000);
}

bool native_enabled(void) { return enabled; }

int32_t native_effort(unsigned axis) { return axis < PORT_AXES ? efforts[axis] : 0; }
