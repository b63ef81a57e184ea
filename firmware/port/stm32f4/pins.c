/* Pins of the F405; docs/boards.md has the table. */
#include "pins.h"

#include "registers.h"
#include "stm32.h"

#define TIM5 ((timer_registers *)0x40000C00U)
#define TIM8 ((timer_registers *)0x40010400U)
#define TIM12 ((timer_registers *)0x40001800U)
#define RCC_AHB1ENR (*(reg32 *)0x40023830U)
#define RCC_APB2ENR (*(reg32 *)0x40023844U)

_Static_assert(PORT_MOTORS <= CHIP_MOTORS, "the chip has no more motors");
_Static_assert(PORT_ENCODERS <= CHIP_ENCODERS, "the chip has no more encoders");

enum { TIMER2 = 1, TIMER3_TO_5 = 2, TIMER8 = 3, SERIAL = 7, TIMER12 = 9 }; /* alternate functions */

/* A pin and the function that a timer has there. */
typedef struct {
  gpio_registers *gpio;
  unsigned pin;
  uint32_t function;
} timer_pin;

#define ENABLE_PIN 5U                                                             /* of GPIOB */
#define FAULT_PIN 8U                                                              /* of GPIOB, low: a driver's fault */
static const unsigned DIRECTION_PINS[CHIP_MOTORS] = {0U, 1U, 10U, 11U, 12U, 13U}; /* of GPIOB */

/* TIM3 and TIM12 count the same clock. */
const pwm_output chip_pwm[CHIP_MOTORS] = {{TIM3, 0U}, {TIM3, 1U}, {TIM3, 2U}, {TIM3, 3U}, {TIM12, 0U}, {TIM12, 1U}};
static const timer_pin PWM_PINS[CHIP_MOTORS] = {
    {GPIOA, 6U, TIMER3_TO_5}, {GPIOA, 7U, TIMER3_TO_5}, {GPIOC, 8U, TIMER3_TO_5},
    {GPIOC, 9U, TIMER3_TO_5}, {GPIOB, 14U, TIMER12},    {GPIOB, 15U, TIMER12},
};

/* TIM1 counts encoders, too, but its inputs are where the serial port is. */
timer_registers *const chip_encoders[CHIP_TIMER_ENCODERS] = {TIM5, TIM4, TIM8, TIM2};
static const timer_pin ENCODER_PINS[CHIP_TIMER_ENCODERS][2] = {
    {{GPIOA, 0U, TIMER3_TO_5}, {GPIOA, 1U, TIMER3_TO_5}},
    {{GPIOB, 6U, TIMER3_TO_5}, {GPIOB, 7U, TIMER3_TO_5}},
    {{GPIOC, 6U, TIMER8}, {GPIOC, 7U, TIMER8}},
    {{GPIOA, 15U, TIMER2}, {GPIOB, 3U, TIMER2}},
};

static void output(gpio_registers *gpio, unsigned pin) {
  gpio->BSRR = BIT(pin + 16U);
  gpio->MODER = (gpio->MODER & ~(UINT32_C(3) << (2U * pin))) | (UINT32_C(1) << (2U * pin));
}

/* With a pull-up. */
static void input(gpio_registers *gpio, unsigned pin) {
  gpio->PUPDR = (gpio->PUPDR & ~(UINT32_C(3) << (2U * pin))) | (UINT32_C(1) << (2U * pin));
  gpio->MODER &= ~(UINT32_C(3) << (2U * pin));
}

static void alternate(gpio_registers *gpio, unsigned pin, uint32_t function, bool pull_up) {
  reg32 *afr = &gpio->AFR[pin / 8U];
  *afr = (*afr & ~(UINT32_C(15) << (4U * (pin % 8U)))) | (function << (4U * (pin % 8U)));
  gpio->PUPDR = (gpio->PUPDR & ~(UINT32_C(3) << (2U * pin))) | ((pull_up ? UINT32_C(1) : 0U) << (2U * pin));
  gpio->MODER = (gpio->MODER & ~(UINT32_C(3) << (2U * pin))) | (UINT32_C(2) << (2U * pin));
}

static void encoder_pin(unsigned encoder, unsigned i) {
  static const uint8_t edge_pins[EDGE_ENCODERS][2] = EDGE_PINS;
  if (encoder < CHIP_TIMER_ENCODERS) {
    const timer_pin *at = &ENCODER_PINS[encoder][i];
    alternate(at->gpio, at->pin, at->function, true);
  } else {
    input(GPIOC, edge_pins[encoder - CHIP_TIMER_ENCODERS][i]);
  }
}

void chip_pins(void) {
  RCC_AHB1ENR |= BIT(0) | BIT(1) | BIT(2);                   /* GPIOA, GPIOB, GPIOC */
  RCC_APB1ENR |= BIT(0) | BIT(1) | BIT(2) | BIT(3) | BIT(6); /* TIM2, TIM3, TIM4, TIM5, TIM12 */
  RCC_APB2ENR |= BIT(1) | BIT(4) | BIT(14);                  /* TIM8, USART1, SYSCFG */
  (void)RCC_APB2ENR;                                         /* a clock runs two cycles after it is switched on */
  output(GPIOB, ENABLE_PIN);
  input(GPIOB, FAULT_PIN);
  for (unsigned motor = 0; motor < PORT_MOTORS; ++motor) {
    output(GPIOB, DIRECTION_PINS[motor]);
    alternate(PWM_PINS[motor].gpio, PWM_PINS[motor].pin, PWM_PINS[motor].function, false);
  }
  for (unsigned encoder = 0; encoder < PORT_ENCODERS; ++encoder) {
    for (unsigned i = 0; i < 2U; ++i) {
      encoder_pin(encoder, i);
    }
  }
  alternate(GPIOA, 9U, SERIAL, false);
  alternate(GPIOA, 10U, SERIAL, true);
}

void chip_enable(bool on) { GPIOB->BSRR = BIT(on ? ENABLE_PIN : ENABLE_PIN + 16U); }

/* Pins that are not there, on an emulator, read 0 whatever was written. */
bool chip_driver_fault(void) { return GPIOB->MODER != 0U && (GPIOB->IDR & BIT(FAULT_PIN)) == 0U; }

void chip_direction(unsigned motor, bool backwards) {
  GPIOB->BSRR = BIT(backwards ? DIRECTION_PINS[motor] : DIRECTION_PINS[motor] + 16U);
}
