/* Two motors: without inertia, their speed the effort; or, where STEPMAP_PINS names a file, those of another process.
 *
 * That file is shared memory with int32_t enabled, effort[PORT_AXES], counts[PORT_AXES]; the process that simulates the
 * robot reads the first three and writes the last two. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native.h"
#include "port.h"

#define FULL_COUNTS_PER_MS 20 /* at an effort of 1000 */

typedef struct {
  volatile int32_t enabled;
  volatile int32_t effort[PORT_AXES];
  volatile int32_t counts[PORT_AXES];
} native_pins;

static native_pins *pins; /* NULL: motors of our own */
static bool enabled;
static int32_t efforts[PORT_AXES];
static int64_t positions[PORT_AXES]; /* in counts / (1000 * 1000) */
static uint32_t then_us;

static native_pins *open_pins(const char *path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  void *memory = size < (off_t)sizeof(native_pins)
                     ? MAP_FAILED
                     : mmap(NULL, sizeof(native_pins), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    fprintf(stderr, "%s: no file of %zu bytes or more that can be shared\n", path, sizeof(native_pins));
    exit(NATIVE_EXIT_USAGE);
  }
  close(fd);
  return memory;
}

void native_motors_init(void) {
  const char *path = getenv("STEPMAP_PINS");
  pins = path ? open_pins(path) : NULL;
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
  for (unsigned axis = 0; pins && axis < PORT_AXES; ++axis) {
    pins->effort[axis] = efforts[axis];
  }
  if (pins) {
    pins->enabled = on;
  }
}

void port_drive(unsigned axis, int32_t effort) {
  if (enabled && axis < PORT_AXES) {
    turn();
    efforts[axis] = effort > 1000 ? 1000 : effort < -1000 ? -1000 : effort;
    if (pins) {
      pins->effort[axis] = efforts[axis];
    }
  }
}

int32_t port_encoder(unsigned axis) {
  if (axis >= PORT_AXES) {
    return 0;
  }
  if (pins) {
    return pins->counts[axis];
  }
  turn();
  return (int32_t)(positions[axis] / 1000000);
}

bool native_enabled(void) { return enabled; }

int32_t native_effort(unsigned axis) { return axis < PORT_AXES ? efforts[axis] : 0; }
