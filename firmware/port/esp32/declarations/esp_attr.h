#pragma once
/* As ESP-IDF does: a section of its own for each use. */
#define DECLARED_TEXT_(x) #x
#define DECLARED_TEXT(x) DECLARED_TEXT_(x)
#define IRAM_ATTR __attribute__((section(".iram1." DECLARED_TEXT(__COUNTER__))))
#define DRAM_ATTR __attribute__((section(".dram1." DECLARED_TEXT(__COUNTER__))))
