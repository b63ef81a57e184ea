/* Pins of the F405; docs/boards.md has the table. */
#include "registers.h"
#include "stm32.h"

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
#define RCC_AHB1ENR (*(reg32 *)0x40023830U)
#define RCC_APB1ENR (*(reg32 *)0x40023840U)
#define RCC_APB2ENR (*(reg32 *)0x40023844U)

#define ENABLE_PIN 5U                                       /* of GPIOB */
static const unsigned DIRECTION_PINS[PORT_AXES] = {0U, 1U}; /* of GPIOB */

enum { TIMER2 = 1, TIMER3_4 = 2, SERIAL = 7 }; /* alternate functions */

static void output(gpio_registers *gpio, unsigned pin) {
  gpio->BSRR = BIT(pin + 16U);
  gpio->MODER = (gpio->MODER & ~(UINT32_C(3) << (2U * pin))) | (UINT32_C(1) << (2U * pin));
}

static void alternate(gpio_registers *gpio, unsigned pin, uint32_t function, bool pull_up) {
  reg32 *afr = &gpio->AFR[pin / 8U];
  *afr = (*afr & ~(UINT32_C(15) << (4U * (pin % 8U)))) | (function << (4U * (pin % 8U)));
  gpio->PUPDR = (gpio->PUPDR & ~(UINT32_C(3) << (2U * pin))) | ((pull_up ? UINT32_C(1) : 0U) << (2U * pin));
  gpio->MODER = (gpio->MODER & ~(UINT32_C(3) << (2U * pin))) | (UINT32_C(2) << (2U * pin));
}

void chip_pins(void) {
  RCC_AHB1ENR |= BIT(0) | BIT(1);          /* GPIOA, GPIOB */
  RCC_APB1ENR |= BIT(0) | BIT(1) | BIT(2); /* TIM2, TIM3, TIM4 */
  RCC_APB2ENR |= BIT(4);                   /* USART1 */
  (void)RCC_APB2ENR;                       /* a clock runs two cycles after it is switched on */
  output(GPIOB, ENABLE_PIN);
  for (unsigned axis = 0; axis < PORT_AXES; ++axis) {
    output(GPIOB, DIRECTION_PINS[axis]);
  }
  alternate(GPIOA, 6U, TIMER3_4, false);
  alternate(GPIOA, 7U, TIMER3_4, false);
  alternate(GPIOA, 0U, TIMER2, true);
  alternate(GPIOA, 1U, TIMER2, true);
  alternate(GPIOB, 6U, TIMER3_4, true);
  alternate(GPIOB, 7U, TIMER3_4, true);
  alternate(GPIOA, 9U, SERIAL, false);
  alternate(GPIOA, 10U, SERIAL, true);
}

void chip_enable(bool on) { GPIOB->BSRR = BIT(on ? ENABLE_PIN : ENABLE_PIN + 16U); }

void chip_direction(unsigned axis, bool backwards) {
  GPIOB->BSRR = BIT(backwards ? DIRECTION_PINS[axis] : DIRECTION_PINS[axis] + 16U);
}
