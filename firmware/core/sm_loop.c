#include "sm_loop.h"

#include <string.h>

#include "sm_axes.h"
#include "sm_clock.h"
#include "sm_host.h"
#include "sm_report.h"
#include "sm_select.h"
#include "sm_tick.h"

#define BEAT_US 200000U
#define LINK_US 1000000U
#define GONE_US 30000000U /* a host that lets time pass may think for long, but not for ever */
#define LATE_US 100000U   /* beyond what the line takes for it: the rest of a frame that was begun will not come */
#define STATUS_BEATS 10U  /* heartbeats to a LINK_STATUS */
#define RESTART_US 20000U /* so that the answer still leaves */

const sm_loop_config sm_loop_defaults = {.system = 1, .key = NULL, .late_us = SM_LATE_US, .watchdog_ms = 500};

enum { OWED_LINK = 1U, OWED_TIMING = 2U, OWED_COMPLAINT = 4U };

/* While real motors are on nothing waits for the line: what it does not take at once is left out. */
static size_t output(void *context, const uint8_t *from, size_t size) {
  const sm_loop *l = context;
  const bool waits = l->virtual_io || l->motion == SM_MOTION_OFF;
  return waits || port_send_room() >= size ? port_send(from, size) : 0U;
}

void sm_loop_start(sm_loop *l, const sm_loop_config *config) {
  memset(l, 0, sizeof *l);
  l->config = config;
  sm_supervisor_start(&l->supervisor, &sm_supervisor_defaults, port_micros());
  sm_store_open(&l->store);
  const int tended = sm_store_tend(&l->store);
  const uint8_t *id = port_board_id();
  l->linked = sm_link_start(&l->link, &l->store, config->system, config->key, id, output, l) == 0;
  sm_upload_start(&l->upload, &l->store, sm_model, config->key, id, sm_check_schedule);
  for (unsigned i = 0; i < SM_AXES; i++) {
    sm_motor_start(&l->motors[i], port_encoder(i), 0);
  }
  sm_choose_schedule(l);
  if (sm_self_test(&l->controller) != 0) {
    l->complaint = "self-test: the controller computes other numbers than when it was generated";
  } else if (tended != 0) {
    l->complaint = "self-test: the memory for counters and schedules cannot be written";
  } else if (!l->linked) {
    l->complaint = "self-test: the link could not be started";
  }
  const sm_event_kind result = l->complaint == NULL ? SM_EVENT_BOOTED : SM_EVENT_SELF_TEST_FAILED;
  (void)sm_supervise(&l->supervisor, port_micros(), (sm_event){.kind = result});
  sm_obey(l);
  l->motor_us = port_micros();
  l->poll_us = l->motor_us;
  l->uptime_us = l->motor_us;
  l->heard_us = l->motor_us;
  port_watchdog_start(config->watchdog_ms);
  sm_say_heartbeat(l);
}

static void take(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  if (l->restarting) {
    return;
  }
  l->heard_us = port_micros();
  switch (message->id) {
  case MAVLINK_MSG_ID_MEASUREMENT:
    sm_take_measurement(l, message, arrived_us);
    break;
  case MAVLINK_MSG_ID_VIRTUAL_ENCODER:
    sm_take_encoders(l, message);
    break;
  case MAVLINK_MSG_ID_COMMAND:
    sm_take_command(l, message);
    break;
  case MAVLINK_MSG_ID_PING:
    sm_take_ping(l, message);
    break;
  default:
    sm_take_upload(l, message);
    break;
  }
}

/* A frame that takes far longer than the line would is not ended any more. One that holds up time may think for long,
 * also in the middle of a frame. */
static void give_up_late_frame(sm_loop *l, uint32_t clock) {
  if (l->begun_after != l->link.gone) {
    l->begun_after = l->link.gone;
    l->begun_us = clock;
  }
  if (sm_link_begun(&l->link) == 0U) {
    l->begun_us = clock;
  } else if (!l->virtual_time && clock - l->begun_us > LATE_US) {
    const uint32_t baud_1000 = port_baud() / 1000U; /* bits per millisecond, ten to a byte */
    const uint32_t line_us = baud_1000 != 0U ? 10000U * (uint32_t)sm_link_begun(&l->link) / baud_1000 : 0U;
    if (clock - l->begun_us > line_us + LATE_US) {
      sm_link_give_up(&l->link);
    }
  }
}

/* Takes bytes up to the next message, or up to a signature that was wrong: a turn checks one at most. */
static bool receive(sm_loop *l, bool *heard) {
  if (l->chunk_done == l->chunk_size) {
    l->chunk_size = (uint8_t)port_receive(l->chunk, sizeof l->chunk);
    l->chunk_done = 0;
    l->chunk_us = port_micros();
  }
  const bool busy = l->chunk_size > 0U || l->link.pending;
  sm_message message = {.id = 0};
  if (l->linked) {
    const size_t left = (size_t)l->chunk_size - l->chunk_done;
    const size_t taken = sm_link_take(&l->link, l->chunk + l->chunk_done, left, &message);
    l->chunk_done = (uint8_t)(l->chunk_done + taken);
    give_up_late_frame(l, l->chunk_us);
  } else {
    l->chunk_done = l->chunk_size;
  }
  *heard = message.id != 0U;
  if (*heard) {
    sm_turn_motors(l); /* to check a signature takes as long as a tick */
    take(l, &message, l->chunk_us);
  }
  return busy;
}

static void beat(sm_loop *l) {
  sm_say_heartbeat(l);
  if (l->supervisor.state == SM_STATE_IDLE || l->supervisor.state == SM_STATE_FAULT) { /* nothing moves for long */
    const int tended = sm_store_tend(&l->store);
    l->faults = (uint16_t)(l->faults + (tended != 0 ? 1U : 0U));
  }
  if (l->beats++ % STATUS_BEATS == 0U) {
    l->owed = OWED_LINK | OWED_TIMING | (l->complaint != NULL ? OWED_COMPLAINT : 0U);
  }
}

/* One of the messages that go with some heartbeats. */
static void say_owed(sm_loop *l) {
  const uint8_t first = (uint8_t)(l->owed & -l->owed);
  l->owed = (uint8_t)(l->owed ^ first);
  if (first == OWED_LINK) {
    sm_say_link_status(l);
  } else if (first == OWED_TIMING) {
    sm_say_timing(l);
  } else {
    sm_say_text(l, STEPMAP_SEVERITY_ERROR, l->complaint);
  }
}

/* What is told by the clock, one message per turn and none in a turn that took one. */
static void tell(sm_loop *l, uint32_t clock) {
  if (clock - l->beat_us >= BEAT_US) {
    l->beat_us = clock;
    beat(l);
  } else if (l->owed != 0U) {
    say_owed(l);
  }
}

/* What time brings while it is that of the clock; else it passes with messages, or by itself when none come any more. */
static bool follow_clock(sm_loop *l, uint32_t clock) {
  const uint32_t dt = clock - l->poll_us;
  const bool due = dt >= SM_MOTOR_LEAST_US;
  if (due) {
    l->poll_us = clock;
    l->virtual_us += l->virtual_time ? dt : 0U;
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_POLL});
    sm_obey(l);
    sm_turn_motors(l);
    sm_catch_up(l);
  }
  if (clock - l->heard_us > LINK_US) {
    l->heard_us = l->virtual_time ? l->heard_us : clock;
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_LINK_LOST});
    sm_obey(l);
  }
  return due;
}

void sm_loop_turn(sm_loop *l) {
  port_watchdog_feed();
  bool heard;
  bool busy = receive(l, &heard);
  const uint32_t clock = port_micros();
  if (!heard || clock - l->beat_us >= 2U * BEAT_US) { /* not never, where every turn takes a message */
    tell(l, clock);
  }
  if (!l->virtual_time || clock - l->heard_us > GONE_US) {
    busy = follow_clock(l, clock) || busy;
  } else {
    l->poll_us = clock;
  }
  if (l->restarting && clock - l->restart_us >= RESTART_US) {
    port_restart();
  }
  if (!busy && l->owed == 0U) {
    port_idle();
  }
}
