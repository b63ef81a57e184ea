#include "sm_host.h"

#include <string.h>

#include "sm_axes.h"
#include "sm_clock.h"
#include "sm_report.h"
#include "sm_select.h"
#include "sm_tick.h"

static bool far_from_start(const sm_loop *l) {
  bool far = false;
  for (unsigned i = 0; i < SM_AXES; i++) {
    const int64_t away = (int64_t)sm_as_motor(i, l->applied[i]) - l->motors[i].position;
    far = far || (sm_moves(i) && (away > sm_motors[i].following || away < -sm_motors[i].following));
  }
  return far;
}

static bool possible(unsigned options) {
  const bool timed = (options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U;
  const bool moved_by_messages = (options & STEPMAP_OPTION_VIRTUAL_IO) != 0U;
  /* Real motors need the real time: the virtual one stands still when the host does. */
  return (options & ~(unsigned)(STEPMAP_OPTION_VIRTUAL_IO | STEPMAP_OPTION_VIRTUAL_TIME)) == 0U &&
         (moved_by_messages || !timed);
}

/* Whether these are motors of the other kind, real ones or those of messages. The zero of the ones is not that of the
 * others. */
static bool other_motors(const sm_loop *l, unsigned options) {
  return l->virtual_io != ((options & STEPMAP_OPTION_VIRTUAL_IO) != 0U);
}

static bool other_time(const sm_loop *l, unsigned options) {
  return l->virtual_time != ((options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U);
}

static void choose_virtual(sm_loop *l, unsigned options) {
  l->virtual_us = sm_now_us(l);
  l->virtual_io = (options & STEPMAP_OPTION_VIRTUAL_IO) != 0U;
  l->virtual_time = (options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U;
  l->stamped = false;
  l->paced = false;
  l->offset_known = false;
  l->motor_us = port_micros();
  l->poll_us = l->motor_us;
  port_enable(false);
}

static bool chooses_motors(sm_event_kind kind) { return kind == SM_EVENT_ARM || kind == SM_EVENT_CALIBRATE; }

/* Why a command is refused, here or by the supervisor; SM_REASON_NONE where it is not. */
static sm_reason objection(const sm_loop *l, sm_event event, unsigned options) {
  sm_supervisor trial = l->supervisor;
  if (event.kind == SM_EVENT_ARM && trial.state == SM_STATE_IDLE && other_motors(l, options)) {
    return SM_REASON_NOT_CALIBRATED;
  }
  /* Whoever is told that a board is armed with the motors of messages must not move real ones. */
  if (chooses_motors(event.kind) && trial.state != SM_STATE_IDLE &&
      (other_motors(l, options) || other_time(l, options))) {
    return SM_REASON_WRONG_STATE;
  }
  if (event.kind == SM_EVENT_RUN && trial.state == SM_STATE_ARMED && far_from_start(l)) {
    return SM_REASON_FAR_FROM_START;
  }
  (void)sm_supervise(&trial, sm_now_us(l), event);
  return trial.refused != l->supervisor.refused ? trial.refusal : SM_REASON_NONE;
}

/* What the supervisor makes of a command, and what follows from that. */
static void command_supervisor(sm_loop *l, sm_event_kind kind, unsigned options, mavlink_command_ack_t *answer) {
  sm_supervisor *s = &l->supervisor;
  const sm_event event = {.kind = kind, .ready = l->has_schedule};
  const sm_reason refusal = objection(l, event, options);
  if (refusal != SM_REASON_NONE) {
    s->refused += 1U;
    s->refusal = refusal;
    answer->result = STEPMAP_RESULT_STATE;
    answer->reason = (uint8_t)refusal;
    return;
  }
  const sm_state before = s->state;
  if (before == SM_STATE_IDLE && chooses_motors(kind)) {
    choose_virtual(l, options); /* first: it is another time then */
  }
  (void)sm_supervise(s, sm_now_us(l), event);
  if (kind == SM_EVENT_RESET) {
    for (unsigned i = 0; i < SM_AXES; i++) {
      sm_motor_reset(&l->motors[i]);
    }
  } else if (before != s->state && s->state == SM_STATE_ARMED) {
    sm_begin_filter(l);
  } else if (before != s->state && s->state == SM_STATE_RUNNING) {
    sm_begin_run(l);
  } else if (before != s->state && s->state == SM_STATE_CALIBRATING) {
    sm_begin_calibration(l);
  }
  answer->reason = (uint8_t)s->reason;
  sm_obey(l);
}

static void carry_out(sm_loop *l, const mavlink_command_t *m, mavlink_command_ack_t *answer) {
  static const sm_event_kind events[] = {
      [STEPMAP_COMMAND_ARM] = SM_EVENT_ARM,           [STEPMAP_COMMAND_RUN] = SM_EVENT_RUN,
      [STEPMAP_COMMAND_STOP] = SM_EVENT_STOP,         [STEPMAP_COMMAND_CALIBRATE] = SM_EVENT_CALIBRATE,
      [STEPMAP_COMMAND_RESET_FAULT] = SM_EVENT_RESET,
  };
  const bool chooses = m->command == STEPMAP_COMMAND_ARM || m->command == STEPMAP_COMMAND_CALIBRATE;
  if (m->command == STEPMAP_COMMAND_RESTART) {
    l->restarting = sm_supervised(&l->supervisor).motion == SM_MOTION_OFF;
    l->restart_us = port_micros();
    answer->result = l->restarting ? STEPMAP_RESULT_OK : STEPMAP_RESULT_BUSY;
    answer->reason = (uint8_t)(l->restarting ? l->supervisor.reason : SM_REASON_WRONG_STATE);
  } else if (m->command == 0U || m->command >= sizeof events / sizeof events[0] || (chooses && !possible(m->options))) {
    answer->result = STEPMAP_RESULT_ARGUMENT;
    answer->reason = (uint8_t)l->supervisor.reason;
  } else {
    command_supervisor(l, events[m->command], m->options, answer);
  }
}

/* The last answer to a sender, or that to someone who got his longest ago. */
static mavlink_command_ack_t *answer_to(sm_loop *l, const sm_message *message) {
  for (unsigned i = 0; i < SM_LINK_STREAMS; i++) {
    mavlink_command_ack_t *answer = &l->answers[i];
    if (answer->target_system == message->system && answer->target_component == message->component) {
      return answer;
    }
  }
  return &l->answers[l->answered++ % SM_LINK_STREAMS];
}

void sm_take_command(sm_loop *l, const sm_message *message) {
  mavlink_command_t m;
  sm_link_read(message, &m);
  mavlink_command_ack_t *answer = answer_to(l, message);
  const bool again = answer->command == m.command && answer->token == m.token &&
                     answer->target_system == message->system && answer->target_component == message->component;
  /* To stop twice does no harm; to take a stop for one that was carried out before would. */
  if (!again || m.command == STEPMAP_COMMAND_STOP) {
    *answer = (mavlink_command_ack_t){.token = m.token,
                                      .target_system = message->system,
                                      .target_component = message->component,
                                      .command = m.command};
    carry_out(l, &m, answer);
  }
  answer->state = (uint8_t)l->supervisor.state; /* now, also where it was carried out long ago */
  sm_say(l, MAVLINK_MSG_ID_COMMAND_ACK, answer);
}

void sm_take_ping(sm_loop *l, const sm_message *message) {
  mavlink_ping_t m;
  sm_link_read(message, &m);
  if (m.reply == 0U) {
    m.reply = 1;
    m.target_system = message->system;
    m.target_component = message->component;
    sm_say(l, MAVLINK_MSG_ID_PING, &m);
  }
}

void sm_take_upload(sm_loop *l, const sm_message *message) {
  mavlink_upload_status_t answer;
  bool activated = false;
  const bool idle = sm_supervised(&l->supervisor).accept_upload;
  if (idle && message->id == MAVLINK_MSG_ID_UPLOAD_BEGIN) {
    /* Each leaves a record, and they may come faster than heartbeats, with which the store is tended else. */
    l->faults = (uint16_t)(l->faults + (sm_store_tend(&l->store) != 0 ? 1U : 0U));
  }
  if (sm_upload_take(&l->upload, message, idle, &answer, &activated) != SM_ENONE) {
    if (activated) {
      sm_choose_schedule(l);
      sm_say_text(l, STEPMAP_SEVERITY_INFO, "another schedule is in use");
    }
    sm_say(l, MAVLINK_MSG_ID_UPLOAD_STATUS, &answer);
  }
}
