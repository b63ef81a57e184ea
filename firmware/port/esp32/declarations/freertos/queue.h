#pragma once
#include "freertos/FreeRTOS.h"
typedef struct QueueDefinition *QueueHandle_t;
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, TickType_t ticks);
BaseType_t xQueuePeek(QueueHandle_t queue, void *item, TickType_t ticks);
