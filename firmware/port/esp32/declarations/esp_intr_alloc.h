#pragma once
#define ESP_INTR_FLAG_IRAM (1 << 10)
