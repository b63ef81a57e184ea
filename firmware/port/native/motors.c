/* Motors without inertia, their speed the effort, each with an encoder; or, where STEPMAP_PINS names a file, those of another process.
 *
 * That file is shared memory with int32_t enabled, effort[PORT_MOTORS], counts[PORT_ENCODERS], alarms; the process that
 * simulates the robot reads enabled and efforts and writes counts and alarms (PORT_ALARM_…). */
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
  volatile int32_t effort[PORT_MOTORS];
  volatile int32_t counts[PORT_ENCODERS];
  volatile int32_t alarms;
} native_pins;

static native_pins *pins; /* NULL: motors of our own */
static bool enabled;
static int32_t efforts[PORT_MOTORS];
static int64_t positions[PORT_ENCODERS]; /* in counts / (1000 * 1000) */
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
  for (unsigned encoder = 0; encoder < PORT_ENCODERS; ++encoder) {
    positions[encoder] = 0;
  }
  then_us = port_micros();
}

static void turn(void) {
  const uint32_t now_us = port_micros();
  for (unsigned motor = 0; motor < PORT_MOTORS && motor < PORT_ENCODERS; ++motor) {
    positions[motor] += (int64_t)efforts[motor] * FULL_COUNTS_PER_MS * (now_us - then_us);
  }
  then_us = now_us;
}

void port_enable(bool on) {
  turn();
  enabled = on;
  for (unsigned motor = 0; motor < PORT_MOTORS && !on; ++motor) {
    efforts[motor] = 0;
  }
  for (unsigned motor = 0; pins && motor < PORT_MOTORS; ++motor) {
    pins->effort[motor] = efforts[motor];
  }
  if (pins) {
    pins->enabled = on;
  }
}

void port_drive(unsigned motor, int32_t effort) {
  if (enabled && motor < PORT_MOTORS) {
    turn();
    efforts[motor] = effort > 1000 ? 1000 : effort < -1000 ? -1000 : effort;
    if (pins) {
      pins->effort[motor] = efforts[motor];
    }
  }
}

int32_t port_encoder(unsigned encoder) {
  if (encoder >= PORT_ENCODERS) {
    return 0;
  }
  if (pins) {
    return pins->counts[encoder];
  }
  turn();
  return (int32_t)(positions[encoder] / 1000000);
}

uint32_t port_alarms(void) { return pins ? (uint32_t)pins->alarms : 0U; }

bool native_enabled(void) { return enabled; }

int32_t native_effort(unsigned motor) { return motor < PORT_MOTORS ? efforts[motor] : 0; }
