/* The serial line: a file descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "native.h"
#include "port.h"
#include "ring.h"

#define ROOM 1024U
#define BUSY_MS 20

static uint8_t received_bytes[ROOM];
static ring received = {.bytes = received_bytes, .room = ROOM};
static uint32_t overruns;
static int reads = STDIN_FILENO;
static int writes = STDOUT_FILENO;
static uint32_t baud;   /* 0: bytes wait until there is room */
static uint32_t due_us; /* up to here, what came in has been taken */

static void use(int fd) {
  reads = fd;
  writes = fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  native_keep("STEPMAP_SERIAL", "fd:", (uint32_t)fd);
}

static void raw(int fd) {
  struct termios settings;
  if (tcgetattr(fd, &settings) == 0) {
    cfmakeraw(&settings);
    tcsetattr(fd, TCSANOW, &settings);
  }
}

/* The other end is held open too, so that the line does not end when a program lets go of it. */
static void open_pty(void) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master) || open(ptsname(master), O_RDWR | O_NOCTTY) < 0) {
    perror("pty");
    exit(NATIVE_EXIT_USAGE);
  }
  raw(master);
  fprintf(stderr, "%s\n", ptsname(master));
  use(master);
}

void native_serial_init(void) {
  const char *line = getenv("STEPMAP_SERIAL");
  reads = STDIN_FILENO;
  writes = STDOUT_FILENO;
  if (line && strncmp(line, "fd:", 3) == 0) {
    use(atoi(line + 3));
  } else if (line && strcmp(line, "pty") == 0) {
    open_pty();
  } else if (line && strcmp(line, "stdio") != 0) {
    const int fd = open(line, O_RDWR | O_NOCTTY);
    if (fd < 0) {
      perror(line);
      exit(NATIVE_EXIT_USAGE);
    }
    raw(fd);
    use(fd);
  }
  signal(SIGPIPE, SIG_IGN);
  baud = native_number("STEPMAP_BAUD", 0);
  received.taken = received.put;
  overruns = 0;
  due_us = port_micros();
}

static bool ready(int fd, short events, int timeout_ms) {
  struct pollfd one = {.fd = fd, .events = events};
  return poll(&one, 1, timeout_ms) > 0;
}

/* How many bytes may come in now: what fits, or what a line of this rate has brought since the last time. */
static size_t allowed(void) {
  if (baud == 0U) {
    return ROOM - ring_waiting(&received);
  }
  const uint32_t byte_ns = (uint32_t)(UINT64_C(10000000000) / baud); /* ten bits a byte */
  const uint32_t passed = port_micros() - due_us;
  const uint64_t bytes = (uint64_t)passed * 1000U / byte_ns;
  due_us += (uint32_t)(bytes * byte_ns / 1000U);
  return (size_t)bytes;
}

static void pump(void) {
  for (size_t left = allowed(); left > 0U && ready(reads, POLLIN, 0);) {
    uint8_t bytes[256];
    const ssize_t count = read(reads, bytes, left < sizeof bytes ? left : sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
      return;
    }
    if (count <= 0 && ring_waiting(&received) == 0U) {
      exit(0); /* the line has ended, and all of it was taken */
    }
    if (count <= 0) {
      return;
    }
    for (ssize_t i = 0; i < count; ++i) {
      overruns += ring_put(&received, bytes[i]) ? 0U : 1U;
    }
    left -= (size_t)count;
  }
}

void native_serial_wait(uint32_t longest_us) {
  struct pollfd one = {.fd = reads, .events = POLLIN};
  const struct timespec limit = {.tv_nsec = (long)longest_us * 1000};
  if (ring_waiting(&received) == 0U) {
    (void)ppoll(&one, baud == 0U ? 1 : 0, &limit, NULL);
  }
  pump();
}

size_t port_receive(uint8_t *to, size_t room) {
  pump();
  return ring_take(&received, to, room);
}

uint32_t port_overruns(void) { return overruns; }

uint32_t port_baud(void) { return baud; }

/* How much a pipe or a terminal still takes nobody says; one that takes something takes a frame, but for the last. */
size_t port_send_room(void) { return ready(writes, POLLOUT, 0) ? SIZE_MAX : 0U; }

size_t port_send(const uint8_t *from, size_t size) {
  size_t done = 0;
  while (done < size && ready(writes, POLLOUT, BUSY_MS)) {
    const ssize_t count = write(writes, from + done, size - done);
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      exit(0);
    }
    done += count > 0 ? (size_t)count : 0U;
  }
  return done;
}
