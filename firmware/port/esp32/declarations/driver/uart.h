#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "esp_err.h"
#include "freertos/FreeRTOS.h"
#include "freertos/queue.h"
typedef enum { UART_NUM_0 = 0, UART_NUM_1 = 1 } uart_port_t;
typedef enum { UART_DATA_8_BITS = 3 } uart_word_length_t;
typedef enum { UART_PARITY_DISABLE = 0 } uart_parity_t;
typedef enum { UART_STOP_BITS_1 = 1 } uart_stop_bits_t;
typedef enum { UART_HW_FLOWCTRL_DISABLE = 0 } uart_hw_flowcontrol_t;
typedef enum { UART_SCLK_DEFAULT = 4 } uart_sclk_t;
typedef enum { UART_DATA, UART_BREAK, UART_BUFFER_FULL, UART_FIFO_OVF } uart_event_type_t;
typedef struct {
  uart_event_type_t type;
  size_t size;
  bool timeout_flag;
} uart_event_t;
typedef struct {
  int baud_rate;
  uart_word_length_t data_bits;
  uart_parity_t parity;
  uart_stop_bits_t stop_bits;
  uart_hw_flowcontrol_t flow_ctrl;
  uint8_t rx_flow_ctrl_thresh;
  uart_sclk_t source_clk;
} uart_config_t;
#define UART_PIN_NO_CHANGE (-1)
esp_err_t uart_driver_install(uart_port_t port, int receive_bytes, int send_bytes, int events, QueueHandle_t *queue,
                              int interrupt_flags);
esp_err_t uart_param_config(uart_port_t port, const uart_config_t *config);
esp_err_t uart_set_pin(uart_port_t port, int send, int receive, int rts, int cts);
int uart_read_bytes(uart_port_t port, void *to, uint32_t size, TickType_t ticks);
int uart_write_bytes(uart_port_t port, const void *from, size_t size);
esp_err_t uart_get_tx_buffer_free_size(uart_port_t port, size_t *size);
