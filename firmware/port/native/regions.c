/* Regions: files that behave like flash, and a power supply that fails on request. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "native.h"
#include "port.h"

/* Slots are called banks and logs journals on the outside: a rename would lose what boards have stored. */
static const char *const NAMES[PORT_REGIONS] = {
    [PORT_SLOT_A] = "bank_a", [PORT_SLOT_B] = "bank_b", [PORT_LOG_A] = "journal_a", [PORT_LOG_B] = "journal_b"};
static const size_t SIZES[PORT_REGIONS] = {
    [PORT_SLOT_A] = 2097152, [PORT_SLOT_B] = 2097152, [PORT_LOG_A] = 1024, [PORT_LOG_B] = 1024};

static uint8_t *contents[PORT_REGIONS];
static bool lasting;
static uint32_t operations_left; /* until the power goes; 0: it stays */
static size_t cut_after;         /* bytes into that operation; SIZE_MAX: half of them */

static void give_up(const char *folder, port_region region) {
  const char *const why = strerror(errno);
  if (folder) {
    fprintf(stderr, "%s/%s: %s; --regions wants a folder that is there and can be written\n", folder, NAMES[region],
            why);
  } else {
    fprintf(stderr, "%s: %s\n", NAMES[region], why);
  }
  exit(NATIVE_EXIT_USAGE);
}

static int open_region(const char *folder, port_region region) {
  if (!folder) {
    return memfd_create(NAMES[region], 0); /* no close-on-exec: it outlives a restart */
  }
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", folder, NAMES[region]) >= (int)sizeof path) {
    native_usage("the name of the folder is too long");
  }
  return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* A file that is shorter than the region is erased where it ends. */
static void map_region(const char *folder, port_region region) {
  char variable[64];
  snprintf(variable, sizeof variable, "STEPMAP_FD_%s", NAMES[region]);
  const bool kept = !folder && getenv(variable);
  const int fd = kept ? (int)native_number(variable, 0) : open_region(folder, region);
  const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  if (size < 0 || ftruncate(fd, (off_t)SIZES[region])) {
    give_up(folder, region);
  }
  void *content = mmap(NULL, SIZES[region], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (content == MAP_FAILED) {
    give_up(folder, region);
  }
  contents[region] = content;
  if ((size_t)size < SIZES[region]) {
    memset(contents[region] + size, 0xFF, SIZES[region] - (size_t)size);
  }
  if (folder) {
    close(fd);
  } else {
    native_keep(variable, "", (uint32_t)fd);
  }
}

/* Regions are as long as they are: a limit on the length of files is meant for what grows, such as recordings. */
static void lift_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
  }
}

void native_regions_init(void) {
  lift_limit();
  const char *folder = getenv("STEPMAP_REGIONS");
  lasting = folder != NULL;
  for (unsigned region = 0; region < PORT_REGIONS; ++region) {
    map_region(folder, (port_region)region);
  }
  const char *cut = getenv("STEPMAP_POWER_CUT");
  const char *bytes = cut ? strchr(cut, ':') : NULL;
  operations_left = native_number("STEPMAP_POWER_CUT", 0);
  cut_after = bytes ? strtoul(bytes + 1, NULL, 10) : SIZE_MAX;
}

/* How many bytes of an operation happen: all of them, unless the power goes. */
static size_t powered(size_t size) {
  if (operations_left != 1U) {
    return size;
  }
  const size_t bytes = cut_after == SIZE_MAX ? size / 2U : cut_after;
  return bytes < size ? bytes : size;
}

static void count_operation(void) {
  if (operations_left == 1U) {
    _exit(NATIVE_EXIT_POWER_CUT);
  }
  if (operations_left > 1U) {
    operations_left -= 1U;
    const char *bytes = strchr(getenv("STEPMAP_POWER_CUT"), ':');
    char text[64];
    snprintf(text, sizeof text, "%u%s", (unsigned)operations_left, bytes ? bytes : "");
    setenv("STEPMAP_POWER_CUT", text, 1); /* a restart goes on counting */
  }
}

size_t port_region_size(port_region region) { return region < PORT_REGIONS ? SIZES[region] : 0U; }

const uint8_t *port_region_read(port_region region) { return region < PORT_REGIONS ? contents[region] : NULL; }

bool port_region_lasting(void) { return lasting; }

int port_region_erase(port_region region) {
  if (region >= PORT_REGIONS || (port_alarms() & PORT_ALARM_SUPPLY) != 0U) {
    return -1;
  }
  const size_t bytes = powered(SIZES[region]);
  memset(contents[region], 0xFF, bytes);
  if (bytes < SIZES[region]) {
    contents[region][bytes] |= 0x55U; /* erased in part */
  }
  count_operation();
  return 0;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  const size_t room = port_region_size(region);
  if (offset > room || size > room - offset || offset % PORT_WRITE_UNIT != 0U || size % PORT_WRITE_UNIT != 0U ||
      (port_alarms() & PORT_ALARM_SUPPLY) != 0U) {
    return -1;
  }
  uint8_t *to = contents[region] + offset;
  const size_t bytes = powered(size);
  for (size_t i = 0; i < bytes; ++i) {
    to[i] &= from[i];
  }
  if (bytes < size) {
    to[bytes] &= (uint8_t)(from[bytes] | 0x55U); /* written in part */
  }
  count_operation();
  return memcmp(to, from, size) == 0 ? 0 : -1;
}
