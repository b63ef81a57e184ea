/* Semihosting: calls that QEMU answers for the guest. Arm's specification, the RISC-V variant of it for RISC-V. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stdint.h>

enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ = 1, MODE_WRITE = 5 }; /* "rb" and "wb" */
enum { ADP_STOPPED_APPLICATION_EXIT = 0x20026 };

static inline int semihosting(int operation, const void *argument) {
#if defined(__arm__)
  register int result __asm__("r0") = operation;
  register const void *block __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(result) : "r"(block) : "memory");
#elif defined(__riscv)
  register int result __asm__("a0") = operation;
  register const void *block __asm__("a1") = argument;
  /* The shifts mark the break as a call; all three uncompressed and, aligned to 16, in one page. */
  __asm__ volatile(".balign 16\n\t"
                   ".option push\n\t"
                   ".option norvc\n\t"
                   "slli zero, zero, 0x1f\n\t"
                   "ebreak\n\t"
                   "srai zero, zero, 7\n\t"
                   ".option pop"
                   : "+r"(result)
                   : "r"(block)
                   : "memory");
#else
#error "no semihosting on this processor"
#endif
  return result;
}

/* The five calls that guest.c makes; simcall.h has the same ones for Xtensa. */

/* A handle, or a negative number. */
static inline int host_open(const char *name, uint32_t length, int writing) {
  const uintptr_t block[] = {(uintptr_t)name, writing ? MODE_WRITE : MODE_READ, length};
  return semihosting(SYS_OPEN, block);
}

/* How many bytes were read, or a negative number. */
static inline int host_read(int handle, void *to, uint32_t size) {
  const uintptr_t block[] = {(uintptr_t)handle, (uintptr_t)to, size};
  const int left = semihosting(SYS_READ, block);
  return left < 0 ? left : (int)size - left;
}

/* How many bytes were written, or a negative number. */
static inline int host_write(int handle, const void *from, uint32_t size) {
  const uintptr_t block[] = {(uintptr_t)handle, (uintptr_t)from, size};
  const int left = semihosting(SYS_WRITE, block);
  return left < 0 ? left : (int)size - left;
}

static inline void host_say(const char *text) { semihosting(SYS_WRITE0, text); }

static inline void host_exit(int code) {
  const uintptr_t block[] = {ADP_STOPPED_APPLICATION_EXIT, (uintptr_t)code};
  semihosting(SYS_EXIT_EXTENDED, block);
}

#endif
