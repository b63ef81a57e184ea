/* Reports: the messages that the board sends. A message that the line does not take is counted by the link and is
 * not sent again. Main loop only. */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "sm_link.h"
#include "sm_numbers.h"
#include "sm_wide.h"

typedef struct sm_loop sm_loop; /* sm_loop.h */

/* Other files read it. sm_report.c writes it; faults and self_test_error are written where they occur. */
typedef struct {
  const char *self_test_error; /* why the self-test failed; NULL where it passed */
  uint32_t heartbeat_us;       /* µs, board clock: last periodic heartbeat */
  uint32_t heartbeats;         /* periodic ones; counter, wraps */
  uint32_t transitions;        /* of the supervisor that heartbeats have reported; counter, wraps */
  uint32_t uptime_ms;          /* ms since the start at uptime_us; wraps after 49 days */
  uint32_t uptime_us;          /* µs, board clock */
  uint16_t faults; /* faults of motors and supply and failed flash erasures since the start; counter, wraps */
  uint8_t pending; /* status messages that follow a heartbeat and are not yet sent, one bit each */
} sm_report;

/* Sends the mavlink_…_t of an id. */
void sm_report_send(sm_loop *l, uint32_t id, const void *payload);

/* Sends LOG; severity is a STEPMAP_SEVERITY. A text is cut to the length of the message's field. */
void sm_report_log(sm_loop *l, uint8_t severity, const char *text);

/* Sends HEARTBEAT with the present state. */
void sm_report_heartbeat(sm_loop *l);

/* Sends a heartbeat where the state has changed since the last one, and one before it for the state in between, if
 * there was one. */
void sm_report_transitions(sm_loop *l);

/* Sends what is due by `clock` (µs, board clock), one message at most: the periodic heartbeat, or one of the status
 * messages that follow every tenth. Returns whether it was a heartbeat. */
bool sm_report_periodic(sm_loop *l, uint32_t clock);

/* Returns whether no periodic heartbeat was sent for two of its periods. */
bool sm_report_is_overdue(const sm_loop *l, uint32_t clock);

/* Returns TELEMETRY of this tick, without tick_us; to be made before the prediction changes the estimate. wait_us is
 * µs from the arrival of the measurement to the start of the tick. */
sm_wide_telemetry sm_report_telemetry(const sm_loop *l, uint32_t wait_us);

/* Sends TELEMETRY of a tick that took took_us (µs). Motors are served between its parts. */
void sm_report_send_telemetry(sm_loop *l, sm_wide_telemetry *m, uint32_t took_us);

#if SM_MEASURE_ENCODERS
/* Sends MEASUREMENT with the channels that the board itself has measured; before the TELEMETRY of their tick. */
void sm_report_measurement(sm_loop *l);
#endif

#endif
