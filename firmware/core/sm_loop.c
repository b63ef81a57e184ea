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
#define SILENCE_US 50000U /* without a byte: a frame that was begun will not be ended */
#define CHUNK 64U
#define STATUS_BEATS 10U  /* heartbeats to a LINK_STATUS */
#define RESTART_US 20000U /* so that the answer still leaves */

const sm_loop_config sm_loop_defaults = {.system = 1, .key = NULL, .late_us = SM_LATE_US, .watchdog_ms = 500};

static size_t output(void *context, const uint8_t *from, size_t size) {
  (void)context;
  return port_send(from, size);
}

void sm_loop_start(sm_loop *l, const sm_loop_config *config) {
  memset(l, 0, sizeof *l);
  l->config = config;
  sm_supervisor_start(&l->supervisor, &sm_supervisor_defaults, port_micros());
  sm_store_open(&l->store);
  const int tended = sm_store_tend(&l->store);
  l->linked = sm_link_start(&l->link, &l->store, config->system, config->key, output, NULL) == 0;
  sm_upload_start(&l->upload, &l->store, sm_model, config->key, sm_check_schedule);
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

static bool receive(sm_loop *l) {
  uint8_t bytes[CHUNK];
  const size_t count = port_receive(bytes, sizeof bytes);
  const uint32_t arrived = port_micros();
  if (count > 0U) {
    l->byte_us = arrived;
  } else if (!l->virtual_time &&
             arrived - l->byte_us > SILENCE_US) { /* one that thinks for long may do so in a frame */
    sm_link_give_up(&l->link);
  }
  size_t done = 0;
  while (l->linked) {
    sm_message message;
    done += sm_link_take(&l->link, bytes + done, count - done, &message);
    if (message.id == 0U) {
      break;
    }
    sm_turn_motors(l); /* to check a signature takes as long as a tick */
    take(l, &message, arrived);
  }
  return count > 0U;
}

static void beat(sm_loop *l) {
  sm_say_heartbeat(l);
  if (l->supervisor.state == SM_STATE_IDLE || l->supervisor.state == SM_STATE_FAULT) { /* nothing moves for long */
    const int tended = sm_store_tend(&l->store);
    l->faults = (uint16_t)(l->faults + (tended != 0 ? 1U : 0U));
  }
  if (l->beats++ % STATUS_BEATS == 0U) {
    sm_say_link_status(l);
    sm_say_timing(l);
    if (l->complaint != NULL) {
      sm_say_text(l, STEPMAP_SEVERITY_ERROR, l->complaint);
    }
  }
}

/* What time brings while it is that of the clock; else it passes with messages, or by itself when none come any more. */
static bool follow_clock(sm_loop *l, uint32_t clock) {
  const uint32_t dt = clock - l->poll_us;
  const bool due = dt >= SM_MOTOR_US;
  if (due) {
    l->poll_us = clock;
    l->virtual_us += l->virtual_time ? dt : 0U;
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_POLL});
    sm_obey(l);
    sm_turn_motors(l);
  }
  sm_catch_up(l);
  if (clock - l->heard_us > LINK_US) {
    l->heard_us = l->virtual_time ? l->heard_us : clock;
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_LINK_LOST});
    sm_obey(l);
  }
  return due;
}

void sm_loop_turn(sm_loop *l) {
  port_watchdog_feed();
  bool busy = receive(l);
  const uint32_t clock = port_micros();
  if (clock - l->beat_us >= BEAT_US) {
    l->beat_us = clock;
    beat(l);
  }
  if (!l->virtual_time || clock - l->heard_us > GONE_US) {
    busy = follow_clock(l, clock) || busy;
  } else {
    l->poll_us = clock;
  }
  if (l->restarting && clock - l->restart_us >= RESTART_US) {
    port_restart();
  }
  if (!busy) {
    port_idle();
  }
}
