#include "sm_loop.h"

#include <string.h>

#define LINK_US 1000000U      /* µs without a message until the link counts as lost: 30 measurements at 30 Hz */
#define GONE_US 30000000U     /* µs; a host that holds up virtual time may think for long, but not for ever */
#define FRAME_LATE_US 100000U /* µs beyond what the line takes for a frame, after which its rest will not come */
#define RESTART_US 20000U     /* µs from the restart command to the restart, so that its answer still leaves */
#define ERASE_WAIT_FIRST 5U   /* heartbeats after an erase that failed: one second */
#define ERASE_WAIT_MAX 18000U /* heartbeats: an hour */
#define BITS_PER_BYTE 10U     /* on the line: a start bit, eight, a stop bit */

const sm_loop_config sm_loop_defaults = {
    .system = 1, .key = NULL, .sensor_delay_us = SM_SENSOR_DELAY_US, .watchdog_ms = 500};

/* While real motors are on nothing waits for the line: a message that it does not take at once is left out. */
static size_t output(void *context, const uint8_t *from, size_t size) {
  const sm_loop *l = context;
  const bool waits = l->axes.is_virtual || l->axes.motion == SM_MOTION_OFF;
  return waits || port_send_room() >= size ? port_send(from, size) : 0U;
}

/* Returns what the self-test found wrong; NULL where it passed. */
static const char *self_test(sm_loop *l, bool storage_works) {
  if (sm_self_test(&l->control.controller) != 0) {
    return "self-test: the controller computes other numbers than when it was generated";
  }
  if (!storage_works) {
    return "self-test: the memory for counters and schedules cannot be written";
  }
  return l->receiver.is_linked ? NULL : "self-test: the link could not be started";
}

void sm_loop_start(sm_loop *l, const sm_loop_config *config) {
  memset(l, 0, sizeof *l);
  l->config = config;
  sm_supervisor_start(&l->supervisor, &sm_supervisor_defaults, port_micros());
  sm_store_open(&l->store);
  l->axes.alarms = port_alarms();
  const bool storage_works = sm_axes_supply_low(l) || sm_store_erase_ahead(&l->store) == 0;
  const uint8_t *id = port_board_id();
  l->receiver.is_linked = sm_link_start(&l->link, &l->store, config->system, config->key, id, output, l) == 0;
  sm_upload_start(&l->upload, &l->store, sm_select_model, config->key, id, sm_select_check);
  for (unsigned i = 0; i < SM_AXES; i++) {
    sm_motor_start(&l->axes.motors[i], sm_numbers_is_position(i) ? port_encoder(sm_numbers_encoder(i)) : 0, 0);
  }
  sm_select_schedule(&l->selection, &l->store);
  l->report.self_test_error = self_test(l, storage_works);
  const sm_event_kind result = l->report.self_test_error == NULL ? SM_EVENT_BOOTED : SM_EVENT_SELF_TEST_FAILED;
  sm_loop_event(l, result);
  sm_axes_apply_supervisor(l);
  sm_axes_heed(l, l->axes.alarms);
  const uint32_t clock = port_micros();
  l->axes.step_us = clock;
  l->poll_us = clock;
  l->report.uptime_us = clock;
  l->receiver.heard_us = clock;
  port_watchdog_start(config->watchdog_ms);
  sm_report_heartbeat(l);
}

void sm_loop_event(sm_loop *l, sm_event_kind kind) {
  (void)sm_supervisor_handle(&l->supervisor, sm_clock_now_us(&l->clock), (sm_event){.kind = kind});
}

void sm_loop_erase_ahead(sm_loop *l) {
  if (sm_store_erase_ahead(&l->store) == 0) {
    l->erase_wait = 0;
    return;
  }
  l->report.faults++;
  const uint32_t next_wait = l->erase_wait > 0U ? 2U * l->erase_wait : ERASE_WAIT_FIRST;
  l->erase_wait = (uint16_t)(next_wait < ERASE_WAIT_MAX ? next_wait : ERASE_WAIT_MAX);
  l->erase_left = l->erase_wait;
}

/* Whether a heartbeat is one at which an erase may be tried. */
static bool may_erase(sm_loop *l) {
  if (l->erase_wait > 0U && l->erase_left > 0U) {
    l->erase_left--;
    return false;
  }
  const sm_state state = l->supervisor.state;
  return (state == SM_STATE_IDLE || state == SM_STATE_FAULT) && !sm_axes_supply_low(l);
}

static void dispatch(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  if (l->host.is_restarting) {
    return;
  }
  l->receiver.heard_us = port_micros();
  switch (message->id) {
  case SM_WIDE_MEASUREMENT:
    sm_tick_on_measurement(l, message, arrived_us);
    break;
#if SM_STREAMS > 0
  case MAVLINK_MSG_ID_SET_POINT:
    sm_stream_on_set_point(l, message);
    break;
#endif
  case SM_WIDE_ENCODER:
    sm_tick_on_encoders(l, message);
    break;
  case MAVLINK_MSG_ID_COMMAND:
    sm_host_on_command(l, message);
    break;
  case MAVLINK_MSG_ID_PING:
    sm_host_on_ping(l, message);
    break;
  default:
    sm_host_on_upload(l, message);
    break;
  }
}

/* Drops a partial frame that takes far longer than the line would. A host that holds up virtual time may pause for
 * long, also in the middle of a frame. */
static void drop_late_frame(sm_loop *l, uint32_t clock) {
  sm_loop_receiver *r = &l->receiver;
  if (r->frame_dropped != l->link.dropped) {
    r->frame_dropped = l->link.dropped;
    r->frame_us = clock;
  }
  if (sm_link_partial_bytes(&l->link) == 0U) {
    r->frame_us = clock;
  } else if (!l->clock.is_virtual && clock - r->frame_us > FRAME_LATE_US) {
    const uint32_t bits_per_ms = port_baud() / 1000U;
    const uint32_t frame_bits = BITS_PER_BYTE * (uint32_t)sm_link_partial_bytes(&l->link);
    const uint32_t line_us = bits_per_ms != 0U ? 1000U * frame_bits / bits_per_ms : 0U;
    if (clock - r->frame_us > line_us + FRAME_LATE_US) {
      sm_link_drop_partial(&l->link);
    }
  }
}

/* Parses bytes up to the next message, or up to a signature that was wrong: a turn checks one at most. Returns
 * whether there were bytes; *heard is whether there was a message. */
static bool receive(sm_loop *l, bool *heard) {
  sm_loop_receiver *r = &l->receiver;
  if (r->chunk_parsed == r->chunk_size) {
    r->chunk_size = (uint8_t)port_receive(r->chunk, sizeof r->chunk);
    r->chunk_parsed = 0;
    r->chunk_us = port_micros();
  }
  const bool busy = r->chunk_size > 0U || l->link.pending;
  sm_message message = {.id = 0};
  if (r->is_linked) {
    const size_t left = (size_t)r->chunk_size - r->chunk_parsed;
    const size_t taken = sm_link_take(&l->link, r->chunk + r->chunk_parsed, left, &message);
    r->chunk_parsed = (uint8_t)(r->chunk_parsed + taken);
    drop_late_frame(l, r->chunk_us);
  } else {
    r->chunk_parsed = r->chunk_size;
  }
  *heard = message.id != 0U;
  if (*heard) {
    sm_axes_step(l); /* to check a signature takes as long as a tick */
    dispatch(l, &message, r->chunk_us);
  }
  return busy;
}

/* Sends what is due by the clock, and uses the time of a heartbeat, while nothing moves, to erase flash. */
static void report(sm_loop *l, uint32_t clock) {
  if (sm_report_periodic(l, clock) && may_erase(l)) {
    sm_loop_erase_ahead(l);
  }
}

/* Polls supervisor, motors and missed ticks by the board's clock. Virtual time passes with messages instead, or by
 * the clock when the host has gone. Returns whether a poll was due. */
static bool poll(sm_loop *l, uint32_t clock) {
  const uint32_t dt = clock - l->poll_us;
  const bool due = dt >= SM_AXES_DUE_US;
  if (due) {
    l->poll_us = clock;
    l->clock.virtual_us += l->clock.is_virtual ? dt : 0U;
    sm_loop_event(l, SM_EVENT_POLL);
    sm_axes_apply_supervisor(l);
    sm_axes_step(l);
    sm_tick_run_due(l);
  }
  if (clock - l->receiver.heard_us > LINK_US) {
    l->receiver.heard_us = l->clock.is_virtual ? l->receiver.heard_us : clock;
    sm_loop_event(l, SM_EVENT_LINK_LOST);
    sm_axes_apply_supervisor(l);
  }
  return due;
}

void sm_loop_turn(sm_loop *l) {
  port_watchdog_feed();
  bool heard;
  bool busy = receive(l, &heard);
  const uint32_t clock = port_micros();
  if (!heard ||
      sm_report_is_overdue(l, clock)) { /* one message per turn, but heartbeats also where every turn has one */
    report(l, clock);
  }
  if (!l->clock.is_virtual || clock - l->receiver.heard_us > GONE_US) {
    busy = poll(l, clock) || busy;
  } else {
    l->poll_us = clock;
  }
  if (l->host.is_restarting && clock - l->host.restart_us >= RESTART_US) {
    port_restart();
  }
  if (!busy && l->report.pending == 0U) {
    port_idle();
  }
}
