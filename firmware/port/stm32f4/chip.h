/* STM32F405: what differs between families. Addresses and bits from RM0090. */
#ifndef CHIP_H
#define CHIP_H

#define CHIP_FPU 1
#define CHIP_USART1 0x40011000U
#define CHIP_WATCHDOG_HZ 32000U
#define CHIP_UNIQUE_ID 0x1FFF7A10U /* 96 bits */

#define CHIP_RCC 0x40023800U
#define CHIP_RCC_CFGR 0x08U
#define CHIP_RCC_CSR 0x74U
#define CHIP_RCC_APB1ENR 0x40U
#define CHIP_EXTI 0x40013C00U

#define CHIP_FLASH 0x40023C00U
#define CHIP_FLASH_BUSY BIT(16)
#define CHIP_FLASH_ERRORS (BIT(1) | BIT(4) | BIT(5) | BIT(6) | BIT(7))
#define CHIP_FLASH_LOCK BIT(31)

/* Falls at 2.85 to 2.99 V, rises at 3.10 V at most, below 3.3 V - 5 %: 32 bits of flash at once want 2.7 V */
#define CHIP_SUPPLY_LEVEL (UINT32_C(6) << 5)
#define CHIP_BROWNOUT 1 /* brown-out levels are an option */

/* Motors and encoders that there are pins and timers for */
#define CHIP_MOTORS 6U
#define CHIP_ENCODERS 8U
#define CHIP_TIMER_ENCODERS 4U /* the first of them; the others by interrupts */

/* Sizes of queues, and of what stands in for regions where flash cannot be written */
#define CHIP_RECEIVE_BYTES 1024U
#define CHIP_SEND_BYTES 1024U
#define CHIP_RAM_SLOT_BYTES 40960U
#define CHIP_RAM_LOG_BYTES 1024U

#endif
