/* RV32 in QEMU: start, traps, and instructions counted by the processor's own counter.
 *
 * Under -icount shift=0 that counter is exact. Its lower word is enough: 2^32 instructions are minutes in QEMU. */
#include "guest.h"
#include "sm_bench.h"

static uint32_t begin;

static inline uint32_t retired(void) {
  uint32_t count;
  __asm__ volatile("csrr %0, minstret" : "=r"(count)::"memory");
  return count;
}

void count_begin(void) { begin = retired(); }

uint32_t count_end(void) { return retired() - begin - count_overhead; }

_Noreturn void trap_report(const uint32_t *stack);
void trap_report(const uint32_t *stack) {
  uint32_t pc;
  uint32_t cause;
  uint32_t value;
  if (stack < stack_bottom || stack > stack_top) {
    say("stack overflow\n");
    finish(ENDING_STACK);
  }
  __asm__ volatile("csrr %0, mepc" : "=r"(pc));
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  __asm__ volatile("csrr %0, mtval" : "=r"(value));
  say("fault: pc ");
  say_hex(pc);
  say(" mcause ");
  say_hex(cause);
  say(" mtval ");
  say_hex(value);
  say("\n");
  finish(ENDING_FAULT);
}

/* The stack may be what failed: begins a new one. */
__attribute__((naked, aligned(4))) static void trap(void) {
  __asm__ volatile("mv a0, sp\n\t"
                   "la sp, stack_top\n\t"
                   "tail trap_report");
}

_Noreturn void setup(void);
void setup(void) {
  /* Devices are below the RAM, and some take any write: memory protection traps what leaves the stack downwards. */
  const uint32_t no_access_below = 0x88; /* locked, so for us too; up to the address, without any permission */
  __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
  __asm__ volatile("csrw pmpaddr0, %0" ::"r"((uintptr_t)stack_bottom >> 2));
  __asm__ volatile("csrw pmpcfg0, %0" ::"r"(no_access_below));
  guest_main();
}

/* At the lowest address of the RAM, where QEMU begins. */
__attribute__((naked, section(".start"), used)) void start(void);
void start(void) {
  __asm__ volatile("la sp, stack_top\n\t"
                   "tail setup");
}
