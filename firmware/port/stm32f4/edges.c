/* Encoders for which there is no timer: both edges of both inputs interrupt. Their pins are on GPIOC. */
#include "pins.h"
#include "registers.h"
#include "stm32.h"

#define SYSCFG_EXTICR ((reg32 *)0x40013808U)
#define EXTICR_GPIOC UINT32_C(2)

/* Interrupts of the lines 0 to 4, 5 to 9 and 10 to 15. */
static const uint8_t IRQS[] = {EXTI0_IRQ,      EXTI0_IRQ + 1U, EXTI0_IRQ + 2U, EXTI0_IRQ + 3U,
                               EXTI0_IRQ + 4U, EXTI9_5_IRQ,    EXTI15_10_IRQ};

static const uint8_t PINS[EDGE_ENCODERS][2] = EDGE_PINS;

static volatile int32_t positions[EDGE_ENCODERS];
static uint8_t levels[EDGE_ENCODERS];     /* A and 2 B */
static volatile bool lost[EDGE_ENCODERS]; /* both inputs changed at once */

static uint8_t level(unsigned encoder) {
  const uint32_t inputs = GPIOC->IDR;
  return (uint8_t)((inputs >> PINS[encoder][0] & 1U) | (inputs >> PINS[encoder][1] & 1U) << 1);
}

void edges_init(unsigned count) {
  for (unsigned encoder = 0; encoder < count; ++encoder) {
    levels[encoder] = level(encoder);
    for (unsigned i = 0; i < 2U; ++i) {
      const unsigned line = PINS[encoder][i];
      SYSCFG_EXTICR[line / 4U] |= EXTICR_GPIOC << (4U * (line % 4U));
      EXTI->RTSR |= BIT(line);
      EXTI->FTSR |= BIT(line);
      EXTI->IMR |= BIT(line);
    }
  }
  for (unsigned i = 0; i < sizeof IRQS && count > 0U; ++i) {
    NVIC_ISER[IRQS[i] / 32U] = BIT(IRQS[i] % 32U);
  }
}

/* Counts as timers do: up where A leads B, four per period. Both inputs at once are an edge that was missed. */
void edges_handler(void) {
  static const int8_t steps[16] = {0, 1, -1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 0, -1, 1, 0}; /* by 4 level before + now */
  EXTI->PR = EXTI->PR & ~EXTI_SUPPLY;                                                   /* a one clears its line */
  for (unsigned encoder = 0; encoder < EDGE_ENCODERS; ++encoder) {
    const uint8_t now = level(encoder);
    positions[encoder] += steps[4U * levels[encoder] + now];
    if ((levels[encoder] ^ now) == 3U) {
      lost[encoder] = true;
    }
    levels[encoder] = now;
  }
}

int32_t edges_position(unsigned encoder) { return positions[encoder]; }

uint32_t edges_lost(void) {
  uint32_t encoders = 0;
  for (unsigned encoder = 0; encoder < EDGE_ENCODERS; ++encoder) {
    if (lost[encoder]) {
      lost[encoder] = false;
      encoders |= BIT(encoder);
    }
  }
  return encoders;
}
