/* GPIO of the F405, and the encoders that no timer counts; docs/boards.md has the table. */
#ifndef PINS_H
#define PINS_H

#include "registers.h"

typedef struct {
  reg32 MODER;
  reg32 OTYPER;
  reg32 OSPEEDR;
  reg32 PUPDR;
  reg32 IDR;
  reg32 ODR;
  reg32 BSRR;
  reg32 LCKR;
  reg32 AFR[2];
} gpio_registers;

#define GPIOA ((gpio_registers *)0x40020000U)
#define GPIOB ((gpio_registers *)0x40020400U)
#define GPIOC ((gpio_registers *)0x40020800U)

#define EDGE_ENCODERS 4U
#define EDGE_PINS                                                                                                      \
  {                                                                                                                    \
    {0U, 1U}, {2U, 3U}, {4U, 5U}, { 10U, 11U }                                                                         \
  } /* A and B, of GPIOC: every one a line of its own */

#endif
