/* Pins of the F100; docs/boards.md has the table. */
#include "registers.h"
#include "stm32.h"

typedef struct {
  reg32 CR[2];
  reg32 IDR;
  reg32 ODR;
  reg32 BSRR;
} gpio_registers;

#define GPIOA ((gpio_registers *)0x40010800U)
#define GPIOB ((gpio_registers *)0x40010C00U)
#define RCC_APB2ENR (*(reg32 *)0x40021018U)

_Static_assert(PORT_MOTORS <= CHIP_MOTORS, "the chip has no more motors");
_Static_assert(PORT_ENCODERS <= CHIP_ENCODERS, "the chip has no more encoders");

#define ENABLE_PIN 5U                                         /* of GPIOB */
#define FAULT_PIN 8U                                          /* of GPIOB, low: a driver's fault */
static const unsigned DIRECTION_PINS[CHIP_MOTORS] = {0U, 1U}; /* of GPIOB */

const pwm_output chip_pwm[CHIP_MOTORS] = {{TIM3, 0U}, {TIM3, 1U}};
timer_registers *const chip_encoders[CHIP_ENCODERS] = {TIM2, TIM4};

enum { OUTPUT = 0x2, INPUT_PULLED = 0x8, ALTERNATE = 0xA }; /* outputs are push-pull, up to 2 MHz */

/* `high`: the level of an output, the direction of a pull. */
static void configure(gpio_registers *gpio, unsigned pin, uint32_t mode, bool high) {
  gpio->BSRR = BIT(high ? pin : pin + 16U);
  reg32 *cr = &gpio->CR[pin / 8U];
  *cr = (*cr & ~(UINT32_C(15) << (4U * (pin % 8U)))) | (mode << (4U * (pin % 8U)));
}

void chip_pins(void) {
  RCC_APB2ENR |= BIT(2) | BIT(3) | BIT(14); /* GPIOA, GPIOB, USART1 */
  RCC_APB1ENR |= BIT(0) | BIT(1) | BIT(2);  /* TIM2, TIM3, TIM4 */
  (void)RCC_APB1ENR;                        /* a clock runs two cycles after it is switched on */
  configure(GPIOB, ENABLE_PIN, OUTPUT, false);
  configure(GPIOB, FAULT_PIN, INPUT_PULLED, true);
  for (unsigned motor = 0; motor < PORT_MOTORS; ++motor) {
    configure(GPIOB, DIRECTION_PINS[motor], OUTPUT, false);
  }
  configure(GPIOA, 6U, ALTERNATE, false);
  configure(GPIOA, 7U, ALTERNATE, false);
  configure(GPIOA, 0U, INPUT_PULLED, true);
  configure(GPIOA, 1U, INPUT_PULLED, true);
  configure(GPIOB, 6U, INPUT_PULLED, true);
  configure(GPIOB, 7U, INPUT_PULLED, true);
  configure(GPIOA, 9U, ALTERNATE, true);
  configure(GPIOA, 10U, INPUT_PULLED, true);
}

void chip_enable(bool on) { GPIOB->BSRR = BIT(on ? ENABLE_PIN : ENABLE_PIN + 16U); }

/* Pins that are not there, on an emulator, read 0 whatever was written. */
bool chip_driver_fault(void) { return GPIOB->CR[0] != 0U && (GPIOB->IDR & BIT(FAULT_PIN)) == 0U; }

void chip_direction(unsigned motor, bool backwards) {
  GPIOB->BSRR = BIT(backwards ? DIRECTION_PINS[motor] : DIRECTION_PINS[motor] + 16U);
}
