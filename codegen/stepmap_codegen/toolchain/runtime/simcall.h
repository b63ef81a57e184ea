/* Xtensa's semihosting: the instruction simcall, which QEMU's machine "sim" answers for the guest. */
#ifndef SIMCALL_H
#define SIMCALL_H

#include <stdint.h>

enum { SIMCALL_EXIT = 1, SIMCALL_READ = 3, SIMCALL_WRITE = 4, SIMCALL_OPEN = 5 };
enum { HOST_RDONLY = 0, HOST_NEW = 01 | 0100 | 01000 }; /* Linux: O_WRONLY | O_CREAT | O_TRUNC; QEMU hands them on */
enum { HOST_MODE = 0644, HOST_STDOUT = 1 };

static inline int simcall(int operation, uint32_t first, uint32_t second, uint32_t third) {
  register int result __asm__("a2") = operation;
  register uint32_t a __asm__("a3") = first; /* the host's errno afterwards */
  register uint32_t b __asm__("a4") = second;
  register uint32_t c __asm__("a5") = third;
  __asm__ volatile("simcall" : "+r"(result), "+r"(a) : "r"(b), "r"(c) : "memory");
  return result;
}

static inline int host_open(const char *name, uint32_t length, int writing) {
  (void)length;
  return simcall(SIMCALL_OPEN, (uint32_t)name, writing ? HOST_NEW : HOST_RDONLY, HOST_MODE);
}

static inline int host_read(int handle, void *to, uint32_t size) {
  return simcall(SIMCALL_READ, (uint32_t)handle, (uint32_t)to, size);
}

static inline int host_write(int handle, const void *from, uint32_t size) {
  return simcall(SIMCALL_WRITE, (uint32_t)handle, (uint32_t)from, size);
}

static inline void host_say(const char *text) {
  uint32_t length = 0;
  while (text[length] != '\0') {
    ++length;
  }
  (void)host_write(HOST_STDOUT, text, length);
}

static inline void host_exit(int code) { (void)simcall(SIMCALL_EXIT, (uint32_t)code, 0, 0); }

#endif
