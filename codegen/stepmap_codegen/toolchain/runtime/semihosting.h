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

#endif
