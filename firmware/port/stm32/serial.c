/* USART1: bytes come in by interrupt into a queue and go out of another.
 *
 * The queue to send is emptied as far as the port takes bytes at once, the rest by interrupt. Where the port is always
 * ready nothing is left to the interrupt, so it need not exist. */
#include "registers.h"
#include "ring.h"
#include "stm32.h"

#ifndef STEPMAP_BAUD
#define STEPMAP_BAUD 460800U
#endif

#define BUSY_US 20000U /* port_send gives up after this long */

void serial_handler(void);

static uint8_t received_bytes[CHIP_RECEIVE_BYTES];
static uint8_t sent_bytes[CHIP_SEND_BYTES];
static ring received = {.bytes = received_bytes, .room = sizeof received_bytes};
static ring sent = {.bytes = sent_bytes, .room = sizeof sent_bytes};
static volatile uint32_t overruns;

_Static_assert((CHIP_RECEIVE_BYTES & (CHIP_RECEIVE_BYTES - 1U)) == 0U, "a queue's size is a power of two");
_Static_assert((CHIP_SEND_BYTES & (CHIP_SEND_BYTES - 1U)) == 0U, "a queue's size is a power of two");

void serial_init(uint32_t serial_hz) {
  USART1->BRR = (serial_hz + STEPMAP_BAUD / 2U) / STEPMAP_BAUD;
  USART1->CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
  NVIC_ISER[USART1_IRQ / 32U] = BIT(USART1_IRQ % 32U);
}

__attribute__((section(".ramcode"), noinline)) void serial_poll(void) {
  const uint32_t status = USART1->SR;
  if ((status & (USART_SR_RXNE | USART_SR_ORE)) == 0U) {
    return;
  }
  const uint8_t byte = (uint8_t)USART1->DR; /* clears both flags */
  if (status & USART_SR_ORE) {
    overruns = overruns + 1U; /* one byte or more, the port does not say */
  }
  if ((status & USART_SR_RXNE) && !ring_put(&received, byte)) {
    overruns = overruns + 1U;
  }
}

/* Sends what the port takes at once. Interrupts are masked, or this is one. */
static void pump(void) {
  uint8_t byte;
  while ((USART1->SR & USART_SR_TXE) && ring_take(&sent, &byte, 1)) {
    USART1->DR = byte;
  }
  if (ring_waiting(&sent)) {
    USART1->CR1 |= USART_CR1_TXEIE;
  } else {
    USART1->CR1 &= ~USART_CR1_TXEIE;
  }
}

void serial_handler(void) {
  serial_poll();
  if (USART1->CR1 & USART_CR1_TXEIE) {
    pump();
  }
}

size_t port_receive(uint8_t *to, size_t room) { return ring_take(&received, to, room); }

uint32_t port_overruns(void) { return overruns; }

uint32_t port_baud(void) { return STEPMAP_BAUD; }

size_t port_send_room(void) { return CHIP_SEND_BYTES - ring_waiting(&sent); }

size_t port_send(const uint8_t *from, size_t size) {
  const uint32_t start = port_micros();
  size_t done = 0;
  while (done < size) {
    if (ring_put(&sent, from[done])) {
      done += 1U;
    } else if (port_micros() - start >= BUSY_US) {
      break;
    }
    if (done == size || ring_waiting(&sent) == CHIP_SEND_BYTES) {
      const uint32_t mask = interrupts_mask();
      pump();
      interrupts_restore(mask);
    }
  }
  return done;
}

/* Masked interrupts still end the sleep, so a byte that comes just before it is not slept on. */
void port_idle(void) {
  const uint32_t mask = interrupts_mask();
  if (ring_waiting(&received) == 0U) {
    __asm__ volatile("dsb\n\twfi" ::: "memory");
  }
  interrupts_restore(mask);
}
