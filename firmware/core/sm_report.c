#include "sm_report.h"

#include <string.h>

#include "sm_loop.h"

#define PROTOCOL 3U           /* version of the dialect, as docs/wire.md counts it */
#define HOST_SYSTEM 255U      /* as docs/wire.md has it */
#define HEARTBEAT_US 200000U  /* µs between periodic heartbeats: hosts wait at most so long to see a board */
#define STATUS_HEARTBEATS 10U /* heartbeats from one set of status messages to the next: 2 s */

/* Status messages that follow a heartbeat: bits of sm_report.pending, the least is sent first. */
enum { PENDING_LINK = 1U, PENDING_TIMING = 2U, PENDING_SELF_TEST = 4U };

_Static_assert(SM_NX <= STEPMAP_LIMIT_STATES, "messages cannot carry so many states");
_Static_assert(SM_NZ <= STEPMAP_LIMIT_CHANNELS, "messages cannot carry so many measured values");
_Static_assert(SM_AXES <= STEPMAP_LIMIT_COMMANDS, "messages cannot carry so many commands");
_Static_assert(SM_STREAMS <= STEPMAP_STREAM_LIMIT_SET_POINTS, "messages cannot carry so many set-points");
_Static_assert(SM_ENCODERS <= STEPMAP_LIMIT_ENCODERS, "messages cannot carry so many encoders");
_Static_assert(!SM_GAIT || SM_NZ < MAVLINK_MSG_MEASUREMENT_FIELD_Z_LEN, "no room for the age of a contact");
_Static_assert(SM_WORDS <= STEPMAP_LIMIT_STATES + STEPMAP_LIMIT_CHANNELS + STEPMAP_LIMIT_COMMANDS,
               "telemetry cannot carry the modes of gaps");
_Static_assert(MAVLINK_MSG_WIDE_MEASUREMENT_FIELD_Z_LEN == STEPMAP_LIMIT_CHANNELS &&
                   MAVLINK_MSG_WIDE_VIRTUAL_ENCODER_FIELD_COUNTS_LEN == STEPMAP_LIMIT_ENCODERS &&
                   MAVLINK_MSG_WIDE_VIRTUAL_ACTUATOR_FIELD_EFFORT_LEN == STEPMAP_LIMIT_COMMANDS &&
                   MAVLINK_MSG_SET_POINT_FIELD_VALUES_LEN == STEPMAP_STREAM_LIMIT_SET_POINTS &&
                   MAVLINK_MSG_SET_POINT_STATUS_FIELD_VALUE_LEN == STEPMAP_STREAM_LIMIT_SET_POINTS,
               "the dialect's arrays are as long as its limits");
_Static_assert(MAVLINK_MSG_MEASUREMENT_FIELD_Z_LEN <= 16 && STEPMAP_LIMIT_CHANNELS < 32, "channels are bits");
_Static_assert(MAVLINK_MSG_HEARTBEAT_FIELD_BOARD_ID_LEN == PORT_BOARD_ID, "heartbeats carry the whole id");

void sm_report_send(sm_loop *l, uint32_t id, const void *payload) {
  const int result = l->receiver.is_linked ? sm_link_send(&l->link, id, payload) : SM_EARGUMENT;
  (void)result; /* what the line did not take is counted there */
}

void sm_report_log(sm_loop *l, uint8_t severity, const char *text) {
  mavlink_log_t message = {.stamp_us = port_micros(), .severity = severity};
  const size_t size = strlen(text);
  memcpy(message.text, text, size < sizeof message.text ? size : sizeof message.text);
  sm_report_send(l, MAVLINK_MSG_ID_LOG, &message);
}

/* Returns the ms since the start, for longer than the clock goes without wrapping. */
static uint32_t uptime_ms(sm_report *r) {
  const uint32_t passed_ms = (port_micros() - r->uptime_us) / 1000U;
  r->uptime_us += passed_ms * 1000U;
  r->uptime_ms += passed_ms;
  return r->uptime_ms;
}

static void send_heartbeat(sm_loop *l, sm_state state, sm_reason reason) {
  mavlink_heartbeat_t m = {
      .uptime_ms = uptime_ms(&l->report),
      .tick = l->control.tick,
      .state = (uint8_t)state,
      .reason = (uint8_t)reason,
      .start = (uint8_t)port_reset_reason(),
      .protocol = PROTOCOL,
  };
  unsigned flags = SM_FIXED ? STEPMAP_FLAG_FIXED_POINT : 0U;
  flags |= l->config->key != NULL ? STEPMAP_FLAG_HAS_KEY : 0U;
  flags |= l->selection.is_uploaded ? STEPMAP_FLAG_UPLOADED : 0U;
  flags |= port_region_lasting() ? STEPMAP_FLAG_LASTING : 0U;
  flags |= l->axes.is_virtual ? STEPMAP_FLAG_VIRTUAL_IO : 0U;
  flags |= l->clock.is_virtual ? STEPMAP_FLAG_VIRTUAL_TIME : 0U;
  flags |= l->supervisor.calibrated ? STEPMAP_FLAG_CALIBRATED : 0U;
  flags |= sm_store_capacity() > 0U ? STEPMAP_FLAG_TAKES_UPLOADS : 0U;
  const uint32_t alarms = l->axes.alarms | l->axes.virtual_alarms;
  flags |= (alarms & PORT_ALARM_SUPPLY) != 0U ? STEPMAP_FLAG_SUPPLY_LOW : 0U;
  flags |= (alarms & PORT_ALARM_BROWNOUT) != 0U ? STEPMAP_FLAG_NO_BROWNOUT : 0U;
  m.flags = (uint16_t)flags;
  memcpy(m.model, sm_select_model, sizeof m.model);
  memcpy(m.schedule, l->selection.name, sizeof m.schedule);
  memcpy(m.board_id, port_board_id(), sizeof m.board_id);
  sm_report_send(l, MAVLINK_MSG_ID_HEARTBEAT, &m);
}

void sm_report_heartbeat(sm_loop *l) {
  l->report.transitions = l->supervisor.transitions;
  send_heartbeat(l, l->supervisor.state, l->supervisor.reason);
}

void sm_report_transitions(sm_loop *l) {
  const sm_supervisor *s = &l->supervisor;
  if (s->transitions - l->report.transitions > 1U) {
    send_heartbeat(l, s->previous, s->previous_reason);
  }
  if (s->transitions != l->report.transitions) {
    sm_report_heartbeat(l);
  }
}

/* Returns a time as 16 bits, 65535 for more. */
static uint16_t us16(uint32_t us) { return (uint16_t)(us < UINT16_MAX ? us : UINT16_MAX); }

/* Returns a word of telemetry: of the estimate, the innovations, the commands, or the modes where there are some. */
static int32_t word_of(const sm_tick_control *k, unsigned i) {
  if (i < SM_NX) {
    return sm_numbers_to_wire(k->controller.x[i]);
  }
  if (i < SM_NX + SM_NZ) {
    const unsigned channel = i - SM_NX;
    return (k->accepted >> channel & 1U) ? sm_numbers_to_wire(k->controller.e[channel]) : 0;
  }
#ifdef SM_NMODE
  if (i >= SM_NX + SM_NZ + SM_AXES) {
    return sm_numbers_to_wire(k->controller.mode[i - SM_NX - SM_NZ - SM_AXES]);
  }
#endif
  return sm_numbers_to_wire(k->applied[i - SM_NX - SM_NZ]);
}

/* Returns what telemetry has besides its words. */
static sm_wide_head telemetry_head(const sm_loop *l, uint32_t wait_us) {
  const sm_tick_control *k = &l->control;
  return (sm_wide_head) {
    .stamp_us = l->clock.is_virtual ? l->clock.stamp_us : port_micros(), .tick = k->tick, .sequence = k->sequence,
    .saturations = k->controller.overflows - k->overflows_at_start, .gated = k->gated, .wait_us = us16(wait_us),
    .faults = l->report.faults, .taken = (sm_wide_mask)k->accepted, .state = (uint8_t)l->supervisor.state,
    .reason = (uint8_t)l->supervisor.reason, .states = SM_NX, .channels = SM_NZ, .commands = SM_AXES,
#if SM_WIDE_PARTS
    .parts = (SM_WORDS + SM_WIDE_PART - 1U) / SM_WIDE_PART,
#endif
  };
}

#if SM_WIDE_PARTS
sm_wide_telemetry sm_report_telemetry(const sm_loop *l, uint32_t wait_us) {
  sm_wide_telemetry m = {.head = telemetry_head(l, wait_us)};
  for (unsigned i = 0; i < SM_WORDS; i++) {
    m.words[i] = word_of(&l->control, i);
  }
  return m;
}

void sm_report_send_telemetry(sm_loop *l, sm_wide_telemetry *m, uint32_t took_us) {
  m->head.tick_us = us16(took_us);
  for (unsigned begin = 0; begin < SM_WORDS; begin += SM_WIDE_PART) {
    const unsigned left = SM_WORDS - begin;
    memset(m->head.words, 0, sizeof m->head.words);
    memcpy(m->head.words, m->words + begin, (left < SM_WIDE_PART ? left : SM_WIDE_PART) * sizeof m->words[0]);
    sm_report_send(l, MAVLINK_MSG_ID_WIDE_TELEMETRY, &m->head);
    m->head.part++;
    sm_axes_step(l); /* to sign a part takes as long as a tick of a small model */
  }
}
#else
sm_wide_telemetry sm_report_telemetry(const sm_loop *l, uint32_t wait_us) {
  sm_wide_telemetry m = telemetry_head(l, wait_us);
  for (unsigned i = 0; i < SM_WORDS; i++) {
    m.words[i] = word_of(&l->control, i);
  }
  return m;
}

void sm_report_send_telemetry(sm_loop *l, sm_wide_telemetry *m, uint32_t took_us) {
  m->tick_us = us16(took_us);
  sm_report_send(l, MAVLINK_MSG_ID_TELEMETRY, m);
}
#endif

#if SM_MEASURE_ENCODERS
void sm_report_measurement(sm_loop *l) {
  sm_wide_measurement m = {
      .stamp_us = l->clock.is_virtual ? l->clock.stamp_us : port_micros(),
      .sequence = l->control.sequence,
      .valid = (sm_wide_valid)((1U << SM_NZ) - 1U),
      .target_system = HOST_SYSTEM,
  };
  for (unsigned i = 0; i < SM_NZ; i++) {
    m.z[i] = sm_numbers_to_wire(l->control.controller.z[i]);
  }
  sm_report_send(l, SM_WIDE_MEASUREMENT, &m);
}
#endif

static void send_link_status(sm_loop *l) {
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
                                   .overruns = port_overruns(),
                                   .erases = sm_store_erases(&l->store)};
  sm_report_send(l, MAVLINK_MSG_ID_LINK_STATUS, &m);
}

static void send_timing(sm_loop *l) {
  const mavlink_timing_t m = {.motor_us = l->axes.longest_us, .tick_us = l->timing.longest_us};
  sm_report_send(l, MAVLINK_MSG_ID_TIMING, &m);
}

/* Sends the first status message that is pending. */
static void send_pending(sm_loop *l) {
  sm_report *r = &l->report;
  const uint8_t first = (uint8_t)(r->pending & -r->pending);
  r->pending = (uint8_t)(r->pending ^ first);
  if (first == PENDING_LINK) {
    send_link_status(l);
  } else if (first == PENDING_TIMING) {
    send_timing(l);
  } else {
    sm_report_log(l, STEPMAP_SEVERITY_ERROR, r->self_test_error);
  }
}

bool sm_report_periodic(sm_loop *l, uint32_t clock) {
  sm_report *r = &l->report;
  if (clock - r->heartbeat_us < HEARTBEAT_US) {
    if (r->pending != 0U) {
      send_pending(l);
    }
    return false;
  }
  r->heartbeat_us = clock;
  sm_report_heartbeat(l);
  if (r->heartbeats++ % STATUS_HEARTBEATS == 0U) {
    r->pending = PENDING_LINK | PENDING_TIMING | (r->self_test_error != NULL ? PENDING_SELF_TEST : 0U);
  }
  return true;
}

bool sm_report_is_overdue(const sm_loop *l, uint32_t clock) {
  return clock - l->report.heartbeat_us >= 2U * HEARTBEAT_US;
}
