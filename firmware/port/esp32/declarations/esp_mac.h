#pragma once
#include <stdint.h>

#include "esp_err.h"
esp_err_t esp_efuse_mac_get_default(uint8_t *mac);
