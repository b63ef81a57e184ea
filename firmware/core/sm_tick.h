/* Ticks: a measurement, or half a period without one, then filter, law and motors. */
#ifndef SM_TICK_H
#define SM_TICK_H

#include <stdint.h>

#include "sm_loop.h"

/* The filter begins where the schedule begins, and so do the commands: run is refused where the motors are not. */
void sm_begin_filter(sm_loop *l);

void sm_begin_run(sm_loop *l);

/* Ticks that are half a period late are done without a measurement: one at a time, so that motors and messages are not
 * kept waiting, or all at once where time passes with messages. After a long silence only the last of them are. */
void sm_catch_up(sm_loop *l);

/* A tick with this measurement, unless it is too late for one. */
void sm_take_measurement(sm_loop *l, const sm_message *message, uint32_t arrived_us);

/* Virtual encoders: what is due by then, and the efforts in answer. */
void sm_take_encoders(sm_loop *l, const sm_message *message);

#endif
