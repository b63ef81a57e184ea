/* Between the files of this folder. */
#ifndef ESP32_H
#define ESP32_H

#include <stdint.h>

void serial_init(void);
void motors_init(void);
void motors_off(void); /* the power stages, at once, from anywhere */
void encoders_init(void);
uint32_t encoders_lost(void); /* those that lost counts since the last call, a bit each */
void regions_init(void);

#endif
