/* UART0 through the driver of ESP-IDF, which has its own interrupt and queues. */
#include "driver/uart.h"
#include "esp32.h"
#include "freertos/FreeRTOS.h"
#include "freertos/queue.h"
#include "freertos/task.h"
#include "pins.h"
#include "port.h"

#ifndef STEPMAP_BAUD
#define STEPMAP_BAUD 460800
#endif

#define LINE UART_NUM_0
#define RECEIVE_BYTES 1024
#define SEND_BYTES 1024
#define EVENTS 32
#define BUSY_US 20000U

static QueueHandle_t events;
static uint32_t overruns;

void serial_init(void) {
  const uart_config_t config = {
      .baud_rate = STEPMAP_BAUD,
      .data_bits = UART_DATA_8_BITS,
      .parity = UART_PARITY_DISABLE,
      .stop_bits = UART_STOP_BITS_1,
      .flow_ctrl = UART_HW_FLOWCTRL_DISABLE,
      .source_clk = UART_SCLK_DEFAULT,
  };
  ESP_ERROR_CHECK(uart_driver_install(LINE, RECEIVE_BYTES, SEND_BYTES, EVENTS, &events, 0));
  ESP_ERROR_CHECK(uart_param_config(LINE, &config));
  ESP_ERROR_CHECK(uart_set_pin(LINE, PINS.serial_send, PINS.serial_receive, UART_PIN_NO_CHANGE, UART_PIN_NO_CHANGE));
}

/* The driver tells what was lost in events, one byte or more each. */
static void take_events(void) {
  uart_event_t event;
  for (unsigned i = 0; i < EVENTS && xQueueReceive(events, &event, 0) == pdTRUE; ++i) {
    if (event.type == UART_FIFO_OVF || event.type == UART_BUFFER_FULL) {
      overruns += 1U;
    }
  }
}

size_t port_receive(uint8_t *to, size_t room) {
  take_events();
  const int count = uart_read_bytes(LINE, to, (uint32_t)room, 0);
  return count > 0 ? (size_t)count : 0U;
}

uint32_t port_overruns(void) {
  take_events();
  return overruns;
}

uint32_t port_baud(void) { return STEPMAP_BAUD; }

size_t port_send_room(void) {
  size_t room = 0;
  return uart_get_tx_buffer_free_size(LINE, &room) == ESP_OK ? room : 0U;
}

size_t port_send(const uint8_t *from, size_t size) {
  const uint32_t start = port_micros();
  size_t done = 0;
  while (done < size && port_micros() - start < BUSY_US) {
    size_t room = 0;
    if (uart_get_tx_buffer_free_size(LINE, &room) != ESP_OK || room == 0U) {
      vTaskDelay(1);
      continue;
    }
    const int count = uart_write_bytes(LINE, from + done, room < size - done ? room : size - done);
    done += count > 0 ? (size_t)count : 0U;
  }
  return done;
}

/* A tick is a millisecond: CONFIG_FREERTOS_HZ=1000. */
void port_idle(void) {
  uart_event_t event;
  (void)xQueuePeek(events, &event, 1);
}
