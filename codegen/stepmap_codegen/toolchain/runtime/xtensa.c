/* Xtensa LX106 in QEMU: start, exceptions, and instructions counted by the processor's cycle counter.
 *
 * Under -icount every instruction takes the same virtual time, so CCOUNT advances TICKS_PER_25 ticks in 25 of them. One
 * instruction is more than two ticks: rounding gives the exact number. */
#include "guest.h"
#include "sm_bench.h"

static uint32_t begin;

static inline uint32_t ticks(void) {
  uint32_t count;
  __asm__ volatile("rsr %0, ccount" : "=r"(count)::"memory");
  return count;
}

void count_begin(void) { begin = ticks(); }

uint32_t count_end(void) {
  const uint32_t passed = ticks() - begin;
  if (passed > UINT32_MAX / 32U) { /* or the product below would overflow */
    say("more than 2^27 ticks of CCOUNT between count_begin() and count_end()\n");
    finish(ENDING_COUNT);
  }
  return (passed * 25U + TICKS_PER_25 / 2U) / TICKS_PER_25 - count_overhead;
}

_Noreturn void exception_report(uint32_t pc, const uint32_t *stack);
void exception_report(uint32_t pc, const uint32_t *stack) {
  uint32_t cause;
  uint32_t address;
  if (stack < stack_bottom || stack > stack_top) {
    say("stack overflow\n");
    finish(ENDING_STACK);
  }
  __asm__ volatile("rsr %0, exccause" : "=r"(cause));
  __asm__ volatile("rsr %0, excvaddr" : "=r"(address));
  say("fault: pc ");
  say_hex(pc);
  say(" EXCCAUSE ");
  say_hex(cause);
  say(" EXCVADDR ");
  say_hex(address);
  say("\n");
  finish(ENDING_FAULT);
}

/* This core's places of the vectors after VECBASE: a break, the NMI, exceptions without and with PS.UM, and one within
 * another. The stack may be what failed: exceptions begin a new one. gcc has no naked functions for this processor. */
__asm__(".section .vectors, \"ax\"\n\t"
        ".balign 256\n"
        "vectors:\n\t"
        ".org vectors + 0x10\n\t"
        "j at_break\n\t"
        ".org vectors + 0x20\n\t"
        "j at_nmi\n\t"
        ".org vectors + 0x30\n\t"
        "j at_exception\n\t"
        ".org vectors + 0x50\n\t"
        "j at_exception\n\t"
        ".org vectors + 0x70\n\t"
        "j at_double\n\t"
        ".balign 4\n\t"
        ".literal_position\n"
        "at_break:\n\t"
        "rsr a2, epc2\n\t"
        "j at_any\n"
        "at_nmi:\n\t"
        "rsr a2, epc3\n\t"
        "j at_any\n"
        "at_double:\n\t"
        "rsr a2, depc\n\t"
        "j at_any\n"
        "at_exception:\n\t"
        "rsr a2, epc1\n"
        "at_any:\n\t"
        "mov a3, a1\n\t"
        "movi a1, stack_top\n\t"
        "movi a0, exception_report\n\t"
        "jx a0\n\t"
        ".balign 4\n\t"
        ".global start\n\t"
        ".type start, @function\n"
        "start:\n\t"
        "movi a1, stack_top\n\t"
        "movi a2, vectors\n\t"
        "wsr a2, vecbase\n\t"
        "movi a2, 0\n\t"
        "wsr a2, intenable\n\t"
        "wsr a2, ps\n\t" /* or an exception would be one within another, and a break nothing */
        "rsync\n\t"
        "movi a0, guest_main\n\t"
        "jx a0\n\t"
        ".size start, . - start\n\t"
        ".text\n");
