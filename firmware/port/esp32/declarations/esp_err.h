#pragma once
typedef int esp_err_t;
#define ESP_OK 0
void declared_error_check(esp_err_t code);
#define ESP_ERROR_CHECK(code) declared_error_check(code)
