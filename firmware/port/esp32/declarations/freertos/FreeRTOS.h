#pragma once
#include <stdint.h>
typedef int BaseType_t;
typedef uint32_t TickType_t;
typedef struct tskTaskControlBlock *TaskHandle_t;
typedef struct QueueDefinition *QueueHandle_t;
#define pdTRUE ((BaseType_t)1)
void vTaskDelay(TickType_t ticks);
