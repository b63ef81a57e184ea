/* What only the process on this computer does: a serial line with a rate, a power supply that fails, a watchdog. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "native.h"
#include "port.h"

static char folder[] = "/tmp/stepmap_XXXXXX";

static void fresh_folder(void) {
  strcpy(folder, "/tmp/stepmap_XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  setenv("STEPMAP_REGIONS", folder, 1);
}

static void remove_folder(void) {
  static const char *const names[] = {"bank_a", "bank_b", "journal_a", "journal_b"};
  for (size_t i = 0; i < 4U; ++i) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    CHECK(unlink(path) == 0);
  }
  CHECK(rmdir(folder) == 0);
  unsetenv("STEPMAP_REGIONS");
}

/* How a child ends that starts the port and runs `act`. */
static int end_of(void (*act)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    port_init();
    act();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static const uint8_t BYTES[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void erase_and_write(void) {
  (void)!port_region_erase(PORT_SLOT_A);
  (void)!port_region_write(PORT_SLOT_A, 0, BYTES, sizeof BYTES);
  (void)!port_region_write(PORT_SLOT_A, 16, BYTES, sizeof BYTES);
}

static void test_regions_outlive_the_process(void) {
  fresh_folder();
  CHECK(end_of(erase_and_write) == 0);
  port_init();
  CHECK(port_region_lasting());
  CHECK(memcmp(port_region_read(PORT_SLOT_A), BYTES, sizeof BYTES) == 0);
  remove_folder();
}

static void test_power_goes_in_the_middle_of_a_write(void) {
  fresh_folder();
  setenv("STEPMAP_POWER_CUT", "3", 1);
  CHECK(end_of(erase_and_write) == NATIVE_EXIT_POWER_CUT);
  unsetenv("STEPMAP_POWER_CUT");
  port_init();
  const uint8_t *slot = port_region_read(PORT_SLOT_A);
  CHECK(memcmp(slot, BYTES, sizeof BYTES) == 0);
  CHECK(memcmp(slot + 16, BYTES, 8) == 0);
  CHECK(slot[24] != 0xFFU && slot[24] != BYTES[8]); /* neither old nor new */
  CHECK(slot[25] == 0xFFU);
  remove_folder();
}

static void test_power_goes_where_it_is_told(void) {
  fresh_folder();
  setenv("STEPMAP_POWER_CUT", "2:3", 1);
  CHECK(end_of(erase_and_write) == NATIVE_EXIT_POWER_CUT);
  setenv("STEPMAP_POWER_CUT", "1:5", 1);
  CHECK(end_of(erase_and_write) == NATIVE_EXIT_POWER_CUT);
  unsetenv("STEPMAP_POWER_CUT");
  port_init();
  CHECK(port_region_read(PORT_SLOT_A)[0] == 0xFFU);
  CHECK(port_region_read(PORT_SLOT_A)[2] == 0xFFU);
  remove_folder();
}

static void starve(void) {
  port_watchdog_start(20);
  for (;;) {
    port_idle();
  }
}

static void test_a_starved_watchdog_ends_the_process(void) { CHECK(end_of(starve) == NATIVE_EXIT_WATCHDOG); }

/* A line with this rate brings bytes whether anyone takes them or not: the queue of 1024 overflows. */
static void take_late(void) {
  static uint8_t bytes[3000];
  int line[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, line)) {
    _exit(1);
  }
  native_keep("STEPMAP_SERIAL", "fd:", (uint32_t)line[1]);
  port_init();
  if (write(line[0], bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
    _exit(2);
  }
  usleep(100000);
  const size_t taken = port_receive(bytes, sizeof bytes);
  _exit(taken == 1024U && port_overruns() == sizeof bytes - 1024U ? 10 : 20);
}

static void test_bytes_nobody_takes_are_lost_and_counted(void) {
  setenv("STEPMAP_BAUD", "460800", 1);
  CHECK(end_of(take_late) == 10);
  unsetenv("STEPMAP_BAUD");
  CHECK(end_of(take_late) == 20); /* without a rate they wait */
}

static void test_motors_turn_only_when_enabled(void) {
  port_init();
  port_drive(0, 500);
  CHECK(!native_enabled() && native_effort(0) == 0);
  port_enable(true);
  CHECK(native_effort(0) == 0); /* what was asked for before does not count */
  port_drive(0, 2000);
  CHECK(native_effort(0) == 1000);
  usleep(2000);
  CHECK(port_encoder(0) >= 40 && port_encoder(1) == 0);
  port_enable(false);
  CHECK(native_effort(0) == 0);
}

int main(void) {
  port_init();
  CHECK_RUN(test_regions_outlive_the_process);
  CHECK_RUN(test_power_goes_in_the_middle_of_a_write);
  CHECK_RUN(test_power_goes_where_it_is_told);
  CHECK_RUN(test_a_starved_watchdog_ends_the_process);
  CHECK_RUN(test_bytes_nobody_takes_are_lost_and_counted);
  CHECK_RUN(test_motors_turn_only_when_enabled);
  return check_done();
}
