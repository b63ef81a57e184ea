#pragma once
#define IRAM_ATTR
#define DRAM_ATTR
