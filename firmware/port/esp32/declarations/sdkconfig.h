#pragma once
/* The chip is chosen on the command line: -DCONFIG_IDF_TARGET_ESP32=1 or -DCONFIG_IDF_TARGET_ESP32C3=1 */
