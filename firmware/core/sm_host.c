#include "sm_host.h"

#include <string.h>

#include "sm_loop.h"

/* Returns whether a motor is more than its following-error limit away from the start of the schedule. */
static bool is_far_from_start(const sm_loop *l) {
  bool far = false;
  for (unsigned i = 0; i < SM_AXES; i++) {
    const int64_t away = (int64_t)sm_numbers_as_motor(i, l->control.applied[i]) - l->axes.motors[i].position;
    const int32_t limit = sm_axes_config[i].following_limit;
    far = far || (sm_numbers_is_position(i) && (away > limit || away < -limit));
  }
  return far;
}

/* Returns whether a board can do what these options ask for. */
static bool are_possible(unsigned options) {
  const bool virtual_time = (options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U;
  const bool virtual_io = (options & STEPMAP_OPTION_VIRTUAL_IO) != 0U;
  /* Real motors need real time: virtual time stands still when the host does. */
  return (options & ~(unsigned)(STEPMAP_OPTION_VIRTUAL_IO | STEPMAP_OPTION_VIRTUAL_TIME)) == 0U &&
         (virtual_io || !virtual_time);
}

/* Returns whether the options ask for the other kind of motors, real or virtual. A calibration of one kind says
 * nothing about the other. */
static bool changes_motors(const sm_loop *l, unsigned options) {
  return l->axes.is_virtual != ((options & STEPMAP_OPTION_VIRTUAL_IO) != 0U);
}

static bool changes_clock(const sm_loop *l, unsigned options) {
  return l->clock.is_virtual != ((options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U);
}

/* Chooses motors and clock, real or virtual, and switches the real motors off. */
static void select_options(sm_loop *l, unsigned options) {
  sm_clock_select(&l->clock, (options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U);
  l->axes.is_virtual = (options & STEPMAP_OPTION_VIRTUAL_IO) != 0U;
  l->axes.has_virtual_stamp = false;
  l->axes.virtual_alarms = 0;
  l->timing.has_transit = false;
  l->axes.step_us = port_micros();
  l->poll_us = l->axes.step_us;
  port_enable(false);
}

static bool has_options(sm_event_kind kind) { return kind == SM_EVENT_ARM || kind == SM_EVENT_CALIBRATE; }

/* Returns why a command is refused, here or by the supervisor; SM_REASON_NONE where it is not. Changes nothing. */
static sm_reason refusal_of(const sm_loop *l, sm_event event, unsigned options) {
  sm_supervisor trial = l->supervisor;
  if (event.kind == SM_EVENT_ARM && trial.state == SM_STATE_IDLE && changes_motors(l, options)) {
    return SM_REASON_NOT_CALIBRATED;
  }
  /* A host that was told "armed with virtual motors" must not move real ones. */
  if (has_options(event.kind) && trial.state != SM_STATE_IDLE &&
      (changes_motors(l, options) || changes_clock(l, options))) {
    return SM_REASON_WRONG_STATE;
  }
  if (event.kind == SM_EVENT_RUN && trial.state == SM_STATE_ARMED && is_far_from_start(l)) {
    return SM_REASON_FAR_FROM_START;
  }
  (void)sm_supervisor_handle(&trial, sm_clock_now_us(&l->clock), event);
  return trial.refused != l->supervisor.refused ? trial.refusal : SM_REASON_NONE;
}

/* Hands a command to the supervisor and does what follows from the new state. */
static void command_supervisor(sm_loop *l, sm_event_kind kind, unsigned options, mavlink_command_ack_t *answer) {
  sm_supervisor *s = &l->supervisor;
  const sm_event event = {
      .kind = kind, .ready = l->selection.is_valid, .feedback = sm_numbers_has_forces() && !SM_GAIT};
  const sm_reason refusal = refusal_of(l, event, options);
  if (refusal != SM_REASON_NONE) {
    s->refused += 1U;
    s->refusal = refusal;
    answer->result = STEPMAP_RESULT_STATE;
    answer->reason = (uint8_t)refusal;
    return;
  }
  const sm_state before = s->state;
  if (before == SM_STATE_IDLE && has_options(kind)) {
    select_options(l, options); /* first: the event gets the time of the new clock */
  }
  (void)sm_supervisor_handle(s, sm_clock_now_us(&l->clock), event);
  if (kind == SM_EVENT_RESET) {
    for (unsigned i = 0; i < SM_AXES; i++) {
      sm_motor_reset(&l->axes.motors[i]);
    }
  } else if (before != s->state && s->state == SM_STATE_ARMED) {
    sm_tick_start_filter(l);
  } else if (before != s->state && s->state == SM_STATE_RUNNING) {
    sm_tick_start_run(l);
  } else if (before != s->state && s->state == SM_STATE_CALIBRATING) {
    sm_axes_calibration_start(l);
    l->timing.next_us = sm_clock_now_us(&l->clock);
  }
  answer->reason = (uint8_t)s->reason;
  sm_axes_apply_supervisor(l);
}

static void execute_command(sm_loop *l, const mavlink_command_t *m, mavlink_command_ack_t *answer) {
  static const sm_event_kind events[] = {
      [STEPMAP_COMMAND_ARM] = SM_EVENT_ARM,           [STEPMAP_COMMAND_RUN] = SM_EVENT_RUN,
      [STEPMAP_COMMAND_STOP] = SM_EVENT_STOP,         [STEPMAP_COMMAND_CALIBRATE] = SM_EVENT_CALIBRATE,
      [STEPMAP_COMMAND_RESET_FAULT] = SM_EVENT_RESET,
  };
  const bool with_options = m->command == STEPMAP_COMMAND_ARM || m->command == STEPMAP_COMMAND_CALIBRATE;
  if (m->command == STEPMAP_COMMAND_RESTART) {
    l->host.is_restarting = sm_supervisor_allowed(&l->supervisor).motion == SM_MOTION_OFF;
    l->host.restart_us = port_micros();
    answer->result = l->host.is_restarting ? STEPMAP_RESULT_OK : STEPMAP_RESULT_BUSY;
    answer->reason = (uint8_t)(l->host.is_restarting ? l->supervisor.reason : SM_REASON_WRONG_STATE);
  } else if (m->command == 0U || m->command >= sizeof events / sizeof events[0] ||
             (with_options && !are_possible(m->options))) {
    answer->result = STEPMAP_RESULT_ARGUMENT;
    answer->reason = (uint8_t)l->supervisor.reason;
  } else {
    command_supervisor(l, events[m->command], m->options, answer);
  }
}

/* Returns the last answer to a sender; for a new sender the place whose turn it is. */
static mavlink_command_ack_t *answer_to(sm_loop *l, const sm_message *message) {
  for (unsigned i = 0; i < SM_LINK_STREAMS; i++) {
    mavlink_command_ack_t *answer = &l->host.answers[i];
    if (answer->target_system == message->system && answer->target_component == message->component) {
      return answer;
    }
  }
  return &l->host.answers[l->host.evictions++ % SM_LINK_STREAMS];
}

void sm_host_on_command(sm_loop *l, const sm_message *message) {
  mavlink_command_t m;
  sm_link_read(message, &m);
  mavlink_command_ack_t *answer = answer_to(l, message);
  const bool repeated = answer->command == m.command && answer->token == m.token &&
                        answer->target_system == message->system && answer->target_component == message->component;
  /* To stop twice does no harm; to take a new stop for a repeated one would. */
  if (!repeated || m.command == STEPMAP_COMMAND_STOP) {
    *answer = (mavlink_command_ack_t){.token = m.token,
                                      .target_system = message->system,
                                      .target_component = message->component,
                                      .command = m.command};
    execute_command(l, &m, answer);
  }
  answer->state = (uint8_t)l->supervisor.state; /* the present one, also in a repeated answer */
  sm_report_send(l, MAVLINK_MSG_ID_COMMAND_ACK, answer);
}

void sm_host_on_ping(sm_loop *l, const sm_message *message) {
  mavlink_ping_t m;
  sm_link_read(message, &m);
  if (m.reply == 0U) {
    m.reply = 1;
    m.target_system = message->system;
    m.target_component = message->component;
    sm_report_send(l, MAVLINK_MSG_ID_PING, &m);
  }
}

void sm_host_on_upload(sm_loop *l, const sm_message *message) {
  mavlink_upload_status_t answer;
  bool activated = false;
  const bool idle = sm_supervisor_allowed(&l->supervisor).accept_upload;
  if (idle && message->id == MAVLINK_MSG_ID_UPLOAD_BEGIN) {
    /* Each leaves a record, and they may come faster than the heartbeats with which logs are erased ahead otherwise. */
    sm_loop_erase_ahead(l);
  }
  if (sm_upload_take(&l->upload, message, idle, &answer, &activated) != SM_ENONE) {
    if (activated) {
      sm_select_schedule(&l->selection, &l->store);
      sm_report_log(l, STEPMAP_SEVERITY_INFO, "another schedule is in use");
    }
    sm_report_send(l, MAVLINK_MSG_ID_UPLOAD_STATUS, &answer);
  }
}
