/* The runtime on the PC: the same files in the working folder, nothing counted. */
#include <stdio.h>
#include <stdlib.h>

#include "ending.h"
#include "sm_bench.h"

static FILE *input, *output;

_Noreturn static void failed(const char *what) {
  perror(what);
  exit(ENDING_IO);
}

int io_read(void *to, unsigned size) {
  const size_t count = fread(to, 1, size, input);
  if (ferror(input)) {
    failed("cannot read");
  }
  return (int)count;
}

int io_write(const void *from, unsigned size) {
  if (fwrite(from, 1, size, output) != size) {
    failed("cannot write");
  }
  return (int)size;
}

void count_begin(void) {}

uint32_t count_end(void) { return 0; }

int main(void) {
  input = fopen("input", "rb");
  output = fopen("output", "wb");
  if (input == NULL || output == NULL) {
    failed("cannot open input and output");
  }
  const int result = app();
  if (result != 0) {
    fprintf(stderr, "app() returned 0x%08x\n", (unsigned)result);
    return ENDING_APP;
  }
  if (fclose(output) != 0) {
    failed("cannot write");
  }
  return ENDING_WELL;
}
