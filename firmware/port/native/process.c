/* Start, time, watchdog and restart of the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "native.h"
#include "port.h"

static const char *const OPTIONS[][2] = {
    {"--serial", "STEPMAP_SERIAL"},       {"--regions", "STEPMAP_REGIONS"}, {"--baud", "STEPMAP_BAUD"},
    {"--power-cut", "STEPMAP_POWER_CUT"}, {"--pins", "STEPMAP_PINS"},       {"--id", "STEPMAP_ID"},
};
static const char *const RESETS[] = {
    [PORT_RESET_POWER] = "power",       [PORT_RESET_PIN] = "pin",           [PORT_RESET_SOFTWARE] = "software",
    [PORT_RESET_WATCHDOG] = "watchdog", [PORT_RESET_BROWNOUT] = "brownout",
};

static char *program = "stepmap";
static struct timespec started;
static uint32_t watchdog_ms;

void native_usage(const char *problem) {
  fprintf(stderr,
          "%s: %s\nusage: %s [--serial stdio|pty|fd:N|DEVICE] [--regions FOLDER] [--baud RATE] "
          "[--power-cut N[:BYTES]] [--pins FILE] [--id HEX]\n",
          program, problem, program);
  exit(NATIVE_EXIT_USAGE);
}

/* Before main, which has no arguments: glibc hands them to constructors too. */
__attribute__((constructor)) static void take_arguments(int argc, char **argv) {
  program = argc > 0 ? argv[0] : program;
  for (int i = 1; i < argc; i += 2) {
    const char *variable = NULL;
    for (size_t option = 0; option < sizeof OPTIONS / sizeof *OPTIONS; ++option) {
      variable = strcmp(argv[i], OPTIONS[option][0]) == 0 ? OPTIONS[option][1] : variable;
    }
    if (!variable || i + 1 == argc) {
      native_usage(variable ? "an option without its value" : "an argument that is none");
    }
    setenv(variable, argv[i + 1], 1);
  }
}

uint32_t native_number(const char *name, uint32_t otherwise) {
  const char *text = getenv(name);
  if (!text) {
    return otherwise;
  }
  char *end;
  errno = 0;
  const unsigned long number = strtoul(text, &end, 10);
  if (end == text || (*end != '\0' && *end != ':') || errno || number > UINT32_MAX) {
    native_usage(name);
  }
  return (uint32_t)number;
}

void native_keep(const char *name, const char *prefix, uint32_t number) {
  char text[32];
  snprintf(text, sizeof text, "%s%u", prefix, (unsigned)number);
  setenv(name, text, 1);
}

void port_init(void) {
  clock_gettime(CLOCK_MONOTONIC, &started);
  native_regions_init();
  native_identity_init();
  native_motors_init();
  native_serial_init();
}

port_reset port_reset_reason(void) {
  const char *text = getenv("STEPMAP_RESET");
  for (size_t reason = 0; text && reason < sizeof RESETS / sizeof *RESETS; ++reason) {
    if (strcmp(text, RESETS[reason]) == 0) {
      return (port_reset)reason;
    }
  }
  return text ? PORT_RESET_UNKNOWN : PORT_RESET_POWER;
}

uint32_t port_micros(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t us = (int64_t)(now.tv_sec - started.tv_sec) * 1000000 + (now.tv_nsec - started.tv_nsec) / 1000;
  return (uint32_t)us;
}

void port_idle(void) { native_serial_wait(1000U - port_micros() % 1000U); }

static volatile sig_atomic_t late;

static void arm_watchdog(void) {
  const struct itimerval timer = {
      .it_value = {.tv_sec = watchdog_ms / 1000U, .tv_usec = (watchdog_ms % 1000U) * 1000U}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

/* Twice in a row: a computer with much else to do may let this process wait as long as once. */
static void starved(int number) {
  (void)number;
  if (late) {
    _exit(NATIVE_EXIT_WATCHDOG);
  }
  late = 1;
  arm_watchdog();
}

void port_watchdog_start(uint32_t timeout_ms) {
  const struct sigaction action = {.sa_handler = starved};
  sigaction(SIGALRM, &action, NULL);
  watchdog_ms = timeout_ms;
  port_watchdog_feed();
}

void port_watchdog_feed(void) {
  if (watchdog_ms) {
    late = 0;
    arm_watchdog();
  }
}

/* The same process from its beginning: serial line and regions stay open, their numbers are in the environment. */
_Noreturn void port_restart(void) {
  const struct itimerval never = {0};
  setitimer(ITIMER_REAL, &never, NULL);
  setenv("STEPMAP_RESET", "software", 1);
  char *const arguments[] = {program, NULL};
  execv("/proc/self/exe", arguments);
  perror("restart");
  abort();
}
