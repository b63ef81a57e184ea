/* The id of a board that is a process: as told, that of its folder, or a new one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "native.h"
#include "port.h"

#define DIGITS (2U * PORT_BOARD_ID)

static uint8_t id[PORT_BOARD_ID];

static bool parse(const char *text, size_t size) {
  if (size != DIGITS || strspn(text, "0123456789abcdefABCDEF") < DIGITS) {
    return false;
  }
  for (unsigned i = 0; i < PORT_BOARD_ID; ++i) {
    const char pair[3] = {text[2U * i], text[2U * i + 1U], '\0'};
    id[i] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return true;
}

static void write_digits(char text[DIGITS + 1U]) {
  for (unsigned i = 0; i < PORT_BOARD_ID; ++i) {
    snprintf(text + 2U * i, 3, "%02x", id[i]);
  }
}

static void make(void) {
  if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id) {
    perror("getrandom");
    exit(NATIVE_EXIT_USAGE);
  }
}

static void give_up(const char *path) {
  fprintf(stderr, "%s: %s; remove it, and the board gets another id\n", path, errno ? strerror(errno) : "no id");
  exit(NATIVE_EXIT_USAGE);
}

/* The file is linked to its name when it is whole: a process that is killed leaves no half of an id. */
static void keep(const char *folder, const char *path) {
  char text[DIGITS + 1U];
  char from[64];
  make();
  write_digits(text);
  const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
  if (fd < 0 || write(fd, text, DIGITS) != (ssize_t)DIGITS ||
      (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) && errno != EEXIST)) {
    give_up(path);
  }
  close(fd);
}

static void read_folder(const char *folder) {
  char path[4096];
  char text[DIGITS + 2U] = "";
  if (snprintf(path, sizeof path, "%s/board_id", folder) >= (int)sizeof path) {
    native_usage("the name of the folder is too long");
  }
  if (access(path, F_OK)) {
    keep(folder, path);
  }
  errno = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1U); /* another process may have been first */
  if (fd < 0 || size < 0 || !parse(text, (size_t)size)) {
    give_up(path);
  }
  close(fd);
}

void native_identity_init(void) {
  const char *told = getenv("STEPMAP_ID");
  const char *folder = getenv("STEPMAP_REGIONS");
  if (told && !parse(told, strlen(told))) {
    native_usage("--id wants 24 hexadecimal digits");
  } else if (!told && folder) {
    read_folder(folder);
  } else if (!told) {
    char text[DIGITS + 1U];
    make();
    write_digits(text);
    setenv("STEPMAP_ID", text, 1); /* a restart keeps it */
  }
}

const uint8_t *port_board_id(void) { return id; }
