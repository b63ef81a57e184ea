/* Cortex-M0+, M3 and M4F in QEMU: vectors, faults, and instructions counted by SysTick.
 *
 * Under -icount every instruction takes the same virtual time, so SysTick advances TICKS_PER_125 ticks in 125 of them.
 * One instruction is more than two ticks: rounding gives the exact number. */
#include "guest.h"
#include "sm_bench.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REGISTER(0xE000E010U) /* SysTick control and status */
#define SYST_RVR REGISTER(0xE000E014U) /* reload value */
#define SYST_CVR REGISTER(0xE000E018U) /* current value; writing restarts it and clears COUNTFLAG */
#define CCR REGISTER(0xE000ED14U)      /* configuration and control */
#define CFSR REGISTER(0xE000ED28U)     /* why a fault happened */
#define CPACR REGISTER(0xE000ED88U)    /* access to coprocessors */

#define SYST_24_BITS 0x00FFFFFFU
#define SYST_ENABLE 0x5U /* running, from the processor's clock, without an interrupt */
#define SYST_COUNTFLAG (1U << 16)
#define CCR_DIV_0_TRP (1U << 4)

void count_begin(void) { SYST_CVR = 0; }

uint32_t count_end(void) {
  const uint32_t ticks = (0U - SYST_CVR) & SYST_24_BITS;
  if (SYST_CSR & SYST_COUNTFLAG) {
    say("more than 2^24 SysTick ticks between count_begin() and count_end()\n");
    finish(ENDING_COUNT);
  }
  return (ticks * 125U + TICKS_PER_125 / 2U) / TICKS_PER_125 - count_overhead;
}

/* frame: where the processor put r0-r3, r12, lr, pc and psr, if there was room. */
_Noreturn void fault_report(const uint32_t *frame);
void fault_report(const uint32_t *frame) {
  if (frame < stack_bottom || frame + 8 > stack_top) {
    say("stack overflow\n");
    finish(ENDING_STACK);
  }
  say("fault: pc ");
  say_hex(frame[6]);
  say(" CFSR ");
  say_hex(CFSR);
  say("\n");
  finish(ENDING_FAULT);
}

/* The stack may be what failed: begins a new one. */
__attribute__((naked)) static void fault(void) {
  __asm__ volatile("mov r0, sp\n\t"
                   "ldr r1, =stack_top\n\t"
                   "mov sp, r1\n\t"
                   "ldr r1, =fault_report\n\t"
                   "bx r1");
}

static _Noreturn void reset(void) {
#ifdef __ARM_FP
  CPACR |= 0xFU << 20; /* the FPU is coprocessors 10 and 11 */
  __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#ifndef __ARM_ARCH_6M__ /* which does not divide */
  CCR |= CCR_DIV_0_TRP;
#endif
  SYST_RVR = SYST_24_BITS;
  SYST_CSR = SYST_ENABLE;
  guest_main();
}

/* What the processor reads first: its stack and, by number, where exceptions go. Interrupts are never enabled. */
__attribute__((section(".vectors"), used)) static const struct {
  // cppcheck-suppress unusedStructMember
  uint32_t *stack;
  // cppcheck-suppress unusedStructMember
  void (*handlers[15])(void);
} vectors = {stack_top,
             {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault}};
