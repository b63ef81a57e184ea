/* What the board tells its host. What the line does not take is counted by the link. */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include <stdint.h>

#include "sm_loop.h"

void sm_say(sm_loop *l, uint32_t id, const void *payload);
void sm_say_text(sm_loop *l, uint8_t severity, const char *text);
void sm_say_heartbeat(sm_loop *l);

/* Heartbeats where the state has changed since the last; the state in between has its own. */
void sm_say_changes(sm_loop *l);

void sm_say_timing(sm_loop *l);
void sm_say_link_status(sm_loop *l);

/* Of this tick, as far as it is known before the estimate moves on: tick_us is not. */
mavlink_telemetry_t sm_telemetry(const sm_loop *l, uint32_t wait_us);

/* 65535 for more. */
uint16_t sm_short_time(uint32_t us);

#endif
