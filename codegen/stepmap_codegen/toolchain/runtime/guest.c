/* The part of the runtime that all QEMU guests share: files and exit by semihosting. */
#include "guest.h"

#include "semihosting.h"
#include "sm_bench.h"

uint32_t count_overhead;
static int input, output; /* handles; the files are in QEMU's working folder */

static int opened(const char *name, uintptr_t length, uintptr_t mode) {
  const uintptr_t block[] = {(uintptr_t)name, mode, length};
  const int handle = semihosting(SYS_OPEN, block);
  if (handle < 0) {
    say("cannot open ");
    say(name);
    say("\n");
    finish(ENDING_IO);
  }
  return handle;
}

int io_read(void *to, unsigned size) {
  const uintptr_t block[] = {(uintptr_t)input, (uintptr_t)to, size};
  const int left = semihosting(SYS_READ, block);
  if (left < 0 || (unsigned)left > size) {
    say("cannot read input\n");
    finish(ENDING_IO);
  }
  return (int)size - left;
}

int io_write(const void *from, unsigned size) {
  const uintptr_t block[] = {(uintptr_t)output, (uintptr_t)from, size};
  if (semihosting(SYS_WRITE, block) != 0) {
    say("cannot write output\n");
    finish(ENDING_IO);
  }
  return (int)size;
}

void say(const char *text) { semihosting(SYS_WRITE0, text); }

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
  const uintptr_t block[] = {ADP_STOPPED_APPLICATION_EXIT, (uintptr_t)ending};
  for (;;) {
    semihosting(SYS_EXIT_EXTENDED, block);
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
  input = opened("input", 5, MODE_READ);
  output = opened("output", 6, MODE_WRITE);
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
