#include "sm_report.h"

#include <string.h>

#include "sm_select.h"

#define PROTOCOL 2U

_Static_assert(SM_NX <= STEPMAP_LIMIT_STATES, "messages cannot carry so many states");
_Static_assert(SM_NZ <= STEPMAP_LIMIT_CHANNELS, "messages cannot carry so many measured values");
_Static_assert(SM_AXES <= STEPMAP_LIMIT_COMMANDS, "messages cannot carry so many commands");
_Static_assert(MAVLINK_MSG_TELEMETRY_FIELD_WORDS_LEN ==
                       STEPMAP_LIMIT_STATES + STEPMAP_LIMIT_CHANNELS + STEPMAP_LIMIT_COMMANDS &&
                   MAVLINK_MSG_MEASUREMENT_FIELD_Z_LEN == STEPMAP_LIMIT_CHANNELS &&
                   MAVLINK_MSG_VIRTUAL_ENCODER_FIELD_COUNTS_LEN == STEPMAP_LIMIT_COMMANDS &&
                   MAVLINK_MSG_VIRTUAL_ACTUATOR_FIELD_EFFORT_LEN == STEPMAP_LIMIT_COMMANDS,
               "the dialect's arrays are as long as its limits");
_Static_assert(STEPMAP_LIMIT_CHANNELS <= 16, "channels are bits of 16");
_Static_assert(MAVLINK_MSG_HEARTBEAT_FIELD_BOARD_ID_LEN == PORT_BOARD_ID, "heartbeats carry the whole id");

void sm_say(sm_loop *l, uint32_t id, const void *payload) {
  const int result = l->linked ? sm_link_send(&l->link, id, payload) : SM_EARGUMENT;
  (void)result; /* what the line did not take is counted there */
}

void sm_say_text(sm_loop *l, uint8_t severity, const char *text) {
  mavlink_log_t message = {.stamp_us = port_micros(), .severity = severity};
  const size_t size = strlen(text);
  memcpy(message.text, text, size < sizeof message.text ? size : sizeof message.text);
  sm_say(l, MAVLINK_MSG_ID_LOG, &message);
}

/* Longer than the clock goes without beginning again. */
static uint32_t uptime_ms(sm_loop *l) {
  const uint32_t passed_ms = (port_micros() - l->uptime_us) / 1000U;
  l->uptime_us += passed_ms * 1000U;
  l->uptime_ms += passed_ms;
  return l->uptime_ms;
}

static void say_state(sm_loop *l, sm_state state, sm_reason reason) {
  mavlink_heartbeat_t m = {
      .uptime_ms = uptime_ms(l),
      .tick = l->tick,
      .state = (uint8_t)state,
      .reason = (uint8_t)reason,
      .start = (uint8_t)port_reset_reason(),
      .protocol = PROTOCOL,
  };
  unsigned flags = SM_FIXED ? STEPMAP_FLAG_FIXED_POINT : 0U;
  flags |= l->config->key != NULL ? STEPMAP_FLAG_HAS_KEY : 0U;
  flags |= l->uploaded ? STEPMAP_FLAG_UPLOADED : 0U;
  flags |= port_region_lasting() ? STEPMAP_FLAG_LASTING : 0U;
  flags |= l->virtual_io ? STEPMAP_FLAG_VIRTUAL_IO : 0U;
  flags |= l->virtual_time ? STEPMAP_FLAG_VIRTUAL_TIME : 0U;
  flags |= l->supervisor.calibrated ? STEPMAP_FLAG_CALIBRATED : 0U;
  flags |= sm_store_room() > 0U ? STEPMAP_FLAG_TAKES_UPLOADS : 0U;
  m.flags = (uint16_t)flags;
  memcpy(m.model, sm_model, sizeof m.model);
  memcpy(m.schedule, l->schedule_name, sizeof m.schedule);
  memcpy(m.board_id, port_board_id(), sizeof m.board_id);
  sm_say(l, MAVLINK_MSG_ID_HEARTBEAT, &m);
}

void sm_say_heartbeat(sm_loop *l) {
  l->told = l->supervisor.transitions;
  say_state(l, l->supervisor.state, l->supervisor.reason);
}

void sm_say_changes(sm_loop *l) {
  const sm_supervisor *s = &l->supervisor;
  if (s->transitions - l->told > 1U) {
    say_state(l, s->previous, s->previous_reason);
  }
  if (s->transitions != l->told) {
    sm_say_heartbeat(l);
  }
}

void sm_say_timing(sm_loop *l) {
  const mavlink_timing_t m = {.motor_us = l->motor_longest, .tick_us = l->tick_longest};
  sm_say(l, MAVLINK_MSG_ID_TIMING, &m);
}

uint16_t sm_short_time(uint32_t us) { return (uint16_t)(us < UINT16_MAX ? us : UINT16_MAX); }

mavlink_telemetry_t sm_telemetry(const sm_loop *l, uint32_t wait_us) {
  mavlink_telemetry_t m = {
      .stamp_us = l->virtual_time ? l->stamp_us : port_micros(),
      .tick = l->tick,
      .sequence = l->sequence,
      .saturations = l->controller.lost - l->lost_before,
      .gated = l->gated,
      .wait_us = sm_short_time(wait_us),
      .faults = l->faults,
      .taken = (uint16_t)l->taken,
      .state = (uint8_t)l->supervisor.state,
      .reason = (uint8_t)l->supervisor.reason,
      .states = SM_NX,
      .channels = SM_NZ,
      .commands = SM_AXES,
  };
  for (unsigned i = 0; i < SM_NX; i++) {
    m.words[i] = sm_as_word(l->controller.x[i]);
  }
  for (unsigned i = 0; i < SM_NZ; i++) {
    m.words[SM_NX + i] = (l->taken >> i & 1U) ? sm_as_word(l->controller.e[i]) : 0;
  }
  for (unsigned i = 0; i < SM_AXES; i++) {
    m.words[SM_NX + SM_NZ + i] = sm_as_word(l->applied[i]);
  }
  return m;
}

void sm_say_link_status(sm_loop *l) {
  const sm_link_counts *n = &l->link.counts;
  const mavlink_link_status_t m = {.received = n->received,
                                   .noise = n->noise,
                                   .damaged = n->damaged,
                                   .bare = n->bare,
                                   .forged = n->forged,
                                   .replayed = n->replayed,
                                   .unsaved = n->unsaved,
                                   .elsewhere = n->elsewhere,
                                   .sent = n->sent,
                                   .unsent = n->unsent,
                                   .overruns = port_overruns()};
  sm_say(l, MAVLINK_MSG_ID_LINK_STATUS, &m);
}
