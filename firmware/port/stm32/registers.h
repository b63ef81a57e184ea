/* Registers that the STM32 families in this folder share, as far as they are used. Names are those of ST's reference
 * manuals RM0090 (F4) and RM0041 (F100) and of ARM's manual of the Cortex-M; addresses that differ are in chip.h. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include <stdint.h>

#include "chip.h"

typedef volatile uint32_t reg32;

#define BIT(n) (UINT32_C(1) << (n))

/* Processor */
#define SYST_CSR (*(reg32 *)0xE000E010U)
#define SYST_RVR (*(reg32 *)0xE000E014U)
#define SYST_CVR (*(reg32 *)0xE000E018U)
#define SYST_CSR_ENABLE BIT(0)
#define SYST_CSR_TICKINT BIT(1)
#define SYST_CSR_CLKSOURCE BIT(2)
#define SYST_CSR_COUNTFLAG BIT(16)

#define NVIC_ISER ((reg32 *)0xE000E100U)
#define SCB_ICSR (*(reg32 *)0xE000ED04U)
#define SCB_ICSR_PENDSTSET BIT(26)
#define SCB_VTOR (*(reg32 *)0xE000ED08U)
#define SCB_AIRCR (*(reg32 *)0xE000ED0CU)
#define SCB_AIRCR_SYSRESETREQ (UINT32_C(0x05FA0000) | BIT(2))
#define SCB_CPACR (*(reg32 *)0xE000ED88U)
#define SCB_CPACR_FPU (UINT32_C(0xF) << 20)

/* Serial port */
typedef struct {
  reg32 SR;
  reg32 DR;
  reg32 BRR;
  reg32 CR1;
  reg32 CR2;
  reg32 CR3;
} usart_registers;

#define USART1 ((usart_registers *)CHIP_USART1)
#define USART1_IRQ 37U
#define PVD_IRQ 1U
#define EXTI0_IRQ 6U
#define EXTI9_5_IRQ 23U
#define EXTI15_10_IRQ 40U
#define USART_SR_ORE BIT(3)
#define USART_SR_RXNE BIT(5)
#define USART_SR_TXE BIT(7)
#define USART_CR1_RE BIT(2)
#define USART_CR1_TE BIT(3)
#define USART_CR1_RXNEIE BIT(5)
#define USART_CR1_TXEIE BIT(7)
#define USART_CR1_UE BIT(13)

/* Timers */
typedef struct {
  reg32 CR1;
  reg32 CR2;
  reg32 SMCR;
  reg32 DIER;
  reg32 SR;
  reg32 EGR;
  reg32 CCMR[2];
  reg32 CCER;
  reg32 CNT;
  reg32 PSC;
  reg32 ARR;
  reg32 RCR;
  reg32 CCR[4];
} timer_registers;

#define TIM2 ((timer_registers *)0x40000000U)
#define TIM3 ((timer_registers *)0x40000400U)
#define TIM4 ((timer_registers *)0x40000800U)
#define TIM_CR1_CEN BIT(0)
#define TIM_EGR_UG BIT(0)
#define TIM_SMCR_ENCODER UINT32_C(3)    /* both edges of both inputs */
#define TIM_CCMR_PWM (UINT32_C(6) << 4) /* first channel of the register: active below the compare value */
#define TIM_CCMR1_INPUTS (BIT(0) | BIT(8) | (UINT32_C(3) << 4) | (UINT32_C(3) << 12)) /* filtered over 8 clocks */

/* Supply: the detector is line 16 of EXTI */
#define PWR_CR (*(reg32 *)0x40007000U)
#define PWR_CSR (*(reg32 *)0x40007004U)
#define PWR_CR_PVDE BIT(4)
#define PWR_CSR_PVDO BIT(2)
#define RCC_APB1ENR (*(reg32 *)(CHIP_RCC + CHIP_RCC_APB1ENR))
#define RCC_APB1ENR_PWREN BIT(28)

typedef struct {
  reg32 IMR;
  reg32 EMR;
  reg32 RTSR;
  reg32 FTSR;
  reg32 SWIER;
  reg32 PR;
} exti_registers;

#define EXTI ((exti_registers *)CHIP_EXTI)
#define EXTI_SUPPLY BIT(16)

/* Watchdog */
#define IWDG_KR (*(reg32 *)0x40003000U)
#define IWDG_PR (*(reg32 *)0x40003004U)
#define IWDG_RLR (*(reg32 *)0x40003008U)
#define IWDG_SR (*(reg32 *)0x4000300CU)
#define IWDG_FEED UINT32_C(0xAAAA)
#define IWDG_UNLOCK UINT32_C(0x5555)
#define IWDG_START UINT32_C(0xCCCC)

/* Flash: the same places in both families; bits of CR and SR are in chip.h */
#define FLASH_ACR (*(reg32 *)(CHIP_FLASH + 0x00U))
#define FLASH_KEYR (*(reg32 *)(CHIP_FLASH + 0x04U))
#define FLASH_SR (*(reg32 *)(CHIP_FLASH + 0x0CU))
#define FLASH_CR (*(reg32 *)(CHIP_FLASH + 0x10U))
#define FLASH_KEY1 UINT32_C(0x45670123)
#define FLASH_KEY2 UINT32_C(0xCDEF89AB)

#define RCC_CSR (*(reg32 *)(CHIP_RCC + CHIP_RCC_CSR))

/* Reset flags: the same bits in both families; the F100 has no brown-out flag and leaves bit 25 at 0 */
#define RCC_CSR_RMVF BIT(24)
#define RCC_CSR_BORRSTF BIT(25)
#define RCC_CSR_PINRSTF BIT(26)
#define RCC_CSR_PORRSTF BIT(27)
#define RCC_CSR_SFTRSTF BIT(28)
#define RCC_CSR_IWDGRSTF BIT(29)
#define RCC_CSR_WWDGRSTF BIT(30)

/* Masks interrupts; returns what `interrupts_restore` needs. */
static inline __attribute__((always_inline)) uint32_t interrupts_mask(void) {
  uint32_t before;
  __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(before)::"memory");
  return before;
}

static inline __attribute__((always_inline)) void interrupts_restore(uint32_t before) {
  __asm__ volatile("msr primask, %0" ::"r"(before) : "memory");
}

#endif
