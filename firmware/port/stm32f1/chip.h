/* STM32F100: what differs between families. Addresses and bits from RM0041. */
#ifndef CHIP_H
#define CHIP_H

#define CHIP_FPU 0
#define CHIP_USART1 0x40013800U
#define CHIP_WATCHDOG_HZ 40000U
#define CHIP_UNIQUE_ID 0x1FFFF7E8U /* 96 bits */

#define CHIP_RCC 0x40021000U
#define CHIP_RCC_CFGR 0x04U
#define CHIP_RCC_CSR 0x24U
#define CHIP_RCC_APB1ENR 0x1CU
#define CHIP_EXTI 0x40010400U

#define CHIP_FLASH 0x40022000U
#define CHIP_FLASH_BUSY BIT(0)
#define CHIP_FLASH_ERRORS (BIT(2) | BIT(4))
#define CHIP_FLASH_LOCK BIT(7)

/* Falls at 2.66 to 2.90 V, rises at 3.00 V at most; the chip and its flash work down to 2.0 V */
#define CHIP_SUPPLY_LEVEL (UINT32_C(7) << 5)
#define CHIP_BROWNOUT 0 /* one fixed level */

/* Motors and encoders that there are pins and timers for */
#define CHIP_MOTORS 2U
#define CHIP_ENCODERS 2U
#define CHIP_TIMER_ENCODERS 2U

/* Sizes of queues, and of what stands in for regions where flash cannot be written. 8 KiB of RAM leave no room for
 * slots: the schedule is compiled in. */
#define CHIP_RECEIVE_BYTES 512U
#define CHIP_SEND_BYTES 512U
#define CHIP_RAM_SLOT_BYTES 0U
#define CHIP_RAM_LOG_BYTES 256U

#endif
