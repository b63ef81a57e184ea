/* Vector table, start and faults. */
#include <stdint.h>

#include "registers.h"
#include "stm32.h"

/* From the link script. */
extern uint32_t link_stack_top[];
extern uint32_t link_data_load[];
extern uint32_t link_data_start[];
extern uint32_t link_data_end[];
extern uint32_t link_bss_start[];
extern uint32_t link_bss_end[];

int main(void);
void start_handler(void);
void fault_handler(void);
void fault_end(void);
void tick_handler(void);
void serial_handler(void);
void supply_handler(void);
void edges_handler(void);

#if CHIP_ENCODERS > CHIP_TIMER_ENCODERS
#define LAST_IRQ EXTI15_10_IRQ
#else
#define LAST_IRQ USART1_IRQ
#endif

typedef struct {
  const uint32_t *stack;
  void (*handlers[15U + LAST_IRQ + 1U])(void); /* 15 of the processor, then those of the chip from 0 on */
} vector_table;

extern const vector_table vectors;

/* The stack lies below everything else in RAM: one that grows too long leaves RAM and ends in fault_handler, instead of
 * in someone's variables. */
void start_handler(void) {
  SCB_VTOR = (uint32_t)(uintptr_t)&vectors; /* a bootloader that jumps here leaves its own */
  if (CHIP_FPU) {
    SCB_CPACR |= SCB_CPACR_FPU;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
  }
  const uint32_t *from = link_data_load;
  for (uint32_t *to = link_data_start; (uintptr_t)to < (uintptr_t)link_data_end; ++to) {
    *to = *from++;
  }
  for (uint32_t *to = link_bss_start; (uintptr_t)to < (uintptr_t)link_bss_end; ++to) {
    *to = 0;
  }
  (void)main();
  for (;;) {
    port_idle();
  }
}

/* Faults and interrupts nobody asked for. Takes a fresh stack: the old one may be the reason. */
__attribute__((naked)) void fault_handler(void) {
  __asm__ volatile("cpsid i\n\tldr r0, =link_stack_top\n\tmov sp, r0\n\tb fault_end");
}

/* Not port_restart: the reset counts as unknown, so a fault is never taken for a restart that was asked for. */
void fault_end(void) {
  motors_off();
  SCB_AIRCR = SCB_AIRCR_SYSRESETREQ;
  for (;;) {
  }
}

#define FAULT_4 fault_handler, fault_handler, fault_handler, fault_handler
#define EDGES_4 edges_handler, edges_handler, edges_handler, edges_handler
#define FAULT_12 FAULT_4, FAULT_4, FAULT_4

__attribute__((section(".vectors"), used)) const vector_table vectors = {
    link_stack_top,
    {start_handler, fault_handler, FAULT_12, tick_handler,
#if CHIP_ENCODERS > CHIP_TIMER_ENCODERS
     fault_handler, supply_handler, FAULT_4, EDGES_4, edges_handler, FAULT_12, edges_handler, FAULT_12, fault_handler,
     serial_handler, fault_handler, fault_handler, edges_handler
#else
     fault_handler, supply_handler, FAULT_12, FAULT_12, FAULT_4, FAULT_4, fault_handler, fault_handler, fault_handler,
     serial_handler
#endif
    },
};
