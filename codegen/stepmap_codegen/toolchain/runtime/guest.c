/* The part of the runtime that all QEMU guests share: files and exit by semihosting. */
#include "guest.h"

#ifdef __XTENSA__
#include "simcall.h"
#else
#include "semihosting.h"
#endif
#include "sm_bench.h"

uint32_t count_overhead;
static int input, output; /* handles; the files are in QEMU's working folder */

static int opened(const char *name, uint32_t length, int writing) {
  const int handle = host_open(name, length, writing);
  if (handle < 0) {
    say("cannot open ");
    say(name);
    say("\n");
    finish(ENDING_IO);
  }
  return handle;
}

int io_read(void *to, unsigned size) {
  const int count = host_read(input, to, size);
  if (count < 0 || (unsigned)count > size) {
    say("cannot read input\n");
    finish(ENDING_IO);
  }
  return count;
}

int io_write(const void *from, unsigned size) {
  if (host_write(output, from, size) != (int)size) {
    say("cannot write output\n");
    finish(ENDING_IO);
  }
  return (int)size;
}

void say(const char *text) { host_say(text); }

void say_hex(uint32_t value) {
  char text[9];
  for (int i = 0; i < 8; ++i) {
    text[i] = "0123456789abcdef"[value >> 28];
    value <<= 4;
  }
  text[8] = '\0';
  say("0x");
  say(text);
}

void finish(enum ending ending) {
  for (;;) {
    host_exit((int)ending);
  }
}

void guest_main(void) {
  /* Volatile, or the compiler may see memcpy and memset here and want a C library before RAM is ready. */
  volatile uint32_t *to = ram_data_begin;
  for (const uint32_t *from = flash_data_begin; to != ram_data_end; ++to, ++from) {
    *to = *from;
  }
  for (to = ram_bss_begin; to != ram_bss_end; ++to) {
    *to = 0;
  }
  input = opened("input", 5, 0);
  output = opened("output", 6, 1);
  count_begin();
  count_overhead = count_end(); /* called from another file, as by any program, so nothing is inlined */
  const int result = app();
  if (result != 0) {
    say("app() returned ");
    say_hex((uint32_t)result);
    say("\n");
    finish(ENDING_APP);
  }
  finish(ENDING_WELL);
}
