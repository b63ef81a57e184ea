#include "sm_tick.h"

#include <string.h>

#include "sm_loop.h"

#define MISSED_MAX 30U  /* ticks, one second at 30 Hz: more missed ones in a row are left out */
#define SILENT_TICKS 5U /* without a measurement, after which next_us is a guess: when they came before means nothing */
#define HALF_PERIOD_US ((int32_t)(SM_PERIOD_US / 2U))
#define DELAY_US ((uint32_t)SM_DELAY_SAMPLES * SM_PERIOD_US) /* that the prediction makes up for */
/* The next sample time is a mean over so many measurements: a single late one moves it by a 24th of its lateness.
 * Clocks that differ by 1 % put it 24 % of a period off; measurements that come evenly within ±0.4 periods move it
 * by 0.034, 1 σ. */
#define FILTER_COUNT 24U
#define AGE_MAX_US 1000000U /* µs, ten times what the supervisor accepts: sums of ages stay far from wrapping */
#define TRANSIT_FORGET 256U /* 1/256 per tick forgets the least transit time: 0.9 ms behind at 100 ppm */
#define NIS_MAX (UINT32_C(1) << 24)   /* Q8; the sum over all channels fits 32 bits */
#define CHANNELS ((1U << SM_NZ) - 1U) /* bits of all channels; contacts are above them, from SM_GAIT_BIT on */

#if SM_NP > 256
typedef uint16_t sm_place; /* in P */
#else
typedef uint8_t sm_place;
#endif

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Tells the supervisor how consistent the filter is: mean NIS of the accepted channels and largest variance ratio. */
static void report_consistency(sm_loop *l, uint32_t accepted) {
  static const sm_place diagonal[SM_VARIANCES] = SM_P_DIAGONAL;
  static const sm_real limit[SM_VARIANCES] = SM_P_LIMIT;
  const sm_controller *c = &l->control.controller;
  uint32_t ratio = 0;
  for (unsigned i = 0; i < SM_VARIANCES; i++) {
    ratio = max_u32(sm_numbers_variance_ratio(c->P[diagonal[i]], limit[i]), ratio);
  }
  uint32_t sum = 0;
  uint32_t count = 0;
  for (unsigned i = 0; i < SM_NZ; i++) {
    if (accepted >> i & 1U) {
      sum += min_u32(sm_numbers_nis(c, i), NIS_MAX);
      count++;
    }
  }
  const sm_event event = {
      .kind = SM_EVENT_STATISTICS, .accepted = accepted, .nis = count ? sum / count : 0U, .variance_ratio = ratio};
  (void)sm_supervisor_handle(&l->supervisor, sm_clock_now_us(&l->clock), event);
}

static void copy_commands(sm_real *to, const sm_real *from) {
  for (unsigned i = 0; i < SM_AXES; i++) {
    to[i] = from[i];
  }
}

/* Copies schedule entry k; before the run, the row that holds the start. */
static void copy_row(const sm_loop *l, uint32_t k, sm_real *row) {
  if (l->control.is_running) {
    sm_schedule_row(&l->selection.schedule, k, row);
  } else {
    sm_schedule_hold(&l->selection.schedule, row);
  }
}

#if SM_DELAY_SAMPLES > 0
/* Measurements are SM_DELAY_SAMPLES periods old when they come: the feedback acts on the state that the commands
 * since then will have led to, and the filter goes on with the oldest of these. */
static void state_feedback(sm_loop *l) {
  sm_tick_control *k = &l->control;
  k->predicted = k->controller;
  for (unsigned i = 0; i < SM_DELAY_SAMPLES; i++) {
    copy_commands(k->predicted.u, k->input_history[i]);
    sm_predict(&k->predicted);
    sm_axes_step(l);
  }
  copy_row(l, k->tick + SM_DELAY_SAMPLES, k->predicted.row);
  sm_stream_step(l, k->tick + SM_DELAY_SAMPLES, &k->predicted);
  sm_state_feedback(&k->predicted);
  copy_commands(k->controller.u, k->predicted.u);
}

/* Sets the input of the prediction: the oldest command, which is in effect; the new one joins the history. */
static void apply_input(sm_tick_control *k) {
  copy_commands(k->controller.u, k->input_history[0]);
  for (unsigned i = 0; i + 1U < SM_DELAY_SAMPLES; i++) {
    copy_commands(k->input_history[i], k->input_history[i + 1U]);
  }
  copy_commands(k->input_history[SM_DELAY_SAMPLES - 1], k->applied);
}
#else
static void state_feedback(sm_loop *l) {
#if SM_GAIT
  sm_gait_copy_row(l);
#else
  copy_row(l, l->control.tick, l->control.controller.row);
#endif
  sm_stream_step(l, l->control.tick, &l->control.controller);
  sm_state_feedback(&l->control.controller);
}

/* Sets the input of the prediction: the command that was really applied. */
static void apply_input(sm_tick_control *k) { copy_commands(k->controller.u, k->applied); }
#endif

/* Commands from the state feedback, where the supervisor allows motion, within their limits; while the start is held
 * those of forces alone. Motors get them late_us (µs) after the instant they belong to. */
static void command_motors(sm_loop *l, int32_t late_us) {
  sm_tick_control *k = &l->control;
  const sm_motion motion = sm_supervisor_allowed(&l->supervisor).motion;
  const bool follow = motion == SM_MOTION_FOLLOW;
  const bool holds_start = sm_numbers_has_forces() && !SM_GAIT && motion == SM_MOTION_START;
  if (k->is_running || holds_start) {
    state_feedback(l);
  }
  if (!SM_GAIT && k->is_running && k->tick + 1U == l->selection.schedule.count) {
    sm_loop_event(l, SM_EVENT_SCHEDULE_END);
  }
  const uint32_t before = k->limited;
  for (unsigned i = 0; i < SM_AXES; i++) {
    const bool is_position = sm_numbers_is_position(i);
    if (follow || (holds_start && !is_position)) {
      k->applied[i] = sm_numbers_limit_command(i, k->controller.u[i], k->applied[i], &k->limited);
    } else if (!is_position) {
      k->applied[i] = 0;
    }
    if (follow && is_position) {
      sm_motor_command(&l->axes.motors[i], &sm_axes_config[i], sm_numbers_as_motor(i, k->applied[i]), late_us);
    }
  }
  apply_input(k);
  if (k->limited != before) {
    sm_loop_event(l, SM_EVENT_SATURATED);
  }
}

/* Filter update with the valid channels of controller.z; a measurement that was made age_us (µs) ago. */
static void update_filter(sm_loop *l, uint32_t valid, uint32_t age_us) {
  sm_tick_control *k = &l->control;
  k->accepted = sm_update(&k->controller, valid);
  const uint32_t gated = valid & ~k->accepted;
  for (uint32_t left = gated; left != 0U; left &= left - 1U) {
    k->gated++;
  }
  if (valid != 0U) {
    const sm_event event = {.kind = SM_EVENT_MEASUREMENT,
                            .sequence = k->sequence,
                            .stamp_us = sm_clock_now_us(&l->clock) - age_us,
                            .accepted = k->accepted,
                            .gated = gated};
    (void)sm_supervisor_handle(&l->supervisor, sm_clock_now_us(&l->clock), event);
  }
  report_consistency(l, k->accepted);
}

/* One tick, with a measurement that was age_us old when it arrived, transit_us of them in transit. */
static void tick(sm_loop *l, uint32_t valid, uint32_t arrived_us, uint32_t age_us, uint32_t transit_us) {
  const uint32_t begin = port_micros();
  sm_gait_begin(l, valid >> SM_GAIT_BIT, l->timing.contact_age);
  update_filter(l, valid & CHANNELS, age_us);
  sm_axes_apply_supervisor(l);
  sm_axes_step(l);
  const uint32_t wait_us = begin - arrived_us;
  /* Virtual motors are still at the time of the last encoders: what has passed since then comes with the next ones. */
  const uint32_t late_us = l->axes.is_virtual ? age_us - transit_us : age_us + wait_us;
  command_motors(l, (int32_t)(late_us - DELAY_US));
  sm_axes_apply_supervisor(l);
  sm_wide_telemetry message = sm_report_telemetry(l, wait_us); /* before the prediction changes the estimate */
  sm_predict(&l->control.controller);
  sm_axes_step(l);
  const uint32_t took_us = port_micros() - begin;
  l->timing.longest_us = max_u32(took_us, l->timing.longest_us);
  sm_stream_report(l);
  sm_report_send_telemetry(l, &message, took_us);
  sm_axes_step(l);
  if (l->control.is_running) {
    l->control.tick++;
  }
  if (!l->clock.is_virtual && took_us > SM_PERIOD_US) {
    sm_loop_event(l, SM_EVENT_OVERRUN);
  }
}

#if SM_MEASURE_ENCODERS
#define DUE_AFTER_US (-1) /* past its sample time */

static bool has_due_ticks(const sm_loop *l) {
  const bool has_counts = !l->axes.is_virtual || l->axes.has_virtual_stamp;
  return has_counts && (l->timing.is_ticking || l->supervisor.state == SM_STATE_CALIBRATING);
}

/* A tick of its own: with what the encoders show. */
static void run_due_tick(sm_loop *l) {
  if (l->supervisor.state == SM_STATE_CALIBRATING) {
    sm_axes_calibration_look(l);
    return;
  }
  sm_axes_measure(l);
  l->control.sequence++;
  const uint32_t begin_us = port_micros();
  sm_report_measurement(l);
  tick(l, CHANNELS, begin_us, 0, 0);
}
#else
#define DUE_AFTER_US HALF_PERIOD_US /* past its sample time; then no measurement will come for it */

static bool has_due_ticks(const sm_loop *l) { return l->timing.is_ticking; }

/* A tick without a measurement. */
static void run_due_tick(sm_loop *l) {
  l->timing.missed++;
  tick(l, 0, port_micros(), DELAY_US, 0);
}
#endif

void sm_tick_run_due(sm_loop *l) {
  sm_tick_timing *t = &l->timing;
  const unsigned most = l->clock.is_virtual ? MISSED_MAX : 1U;
  for (unsigned k = 0; k < most && has_due_ticks(l); k++) {
    if ((int32_t)(sm_clock_now_us(&l->clock) - t->next_us) <= DUE_AFTER_US) {
      break;
    }
    port_watchdog_feed();
    t->next_us += SM_PERIOD_US;
    run_due_tick(l);
  }
  const int32_t behind_us = (int32_t)(sm_clock_now_us(&l->clock) - t->next_us);
  if (behind_us > (l->clock.is_virtual ? HALF_PERIOD_US : (int32_t)(MISSED_MAX * SM_PERIOD_US))) {
    t->next_us = sm_clock_now_us(&l->clock);
  }
}

/* The first commands: positions of the start, and the forces that hold it. */
static void hold_start(sm_loop *l) {
  sm_tick_control *k = &l->control;
  if (sm_numbers_has_forces()) {
    copy_row(l, 0, k->controller.row);
    sm_state_feedback(&k->controller);
  }
  for (unsigned i = 0; i < SM_AXES; i++) {
    k->applied[i] = 0;
    k->applied[i] = sm_numbers_is_position(i)
                        ? sm_numbers_state_as_command(&k->controller, i)
                        : sm_numbers_limit_command(i, k->controller.u[i], k->applied[i], &k->limited);
  }
}

void sm_tick_start_filter(sm_loop *l) {
  sm_tick_control *k = &l->control;
  memset(&k->controller, 0, sizeof k->controller);
  sm_start(&k->controller);
  k->is_running = false;
  sm_stream_start(l);
  hold_start(l);
#if SM_DELAY_SAMPLES > 0
  for (unsigned i = 0; i < SM_DELAY_SAMPLES; i++) {
    copy_commands(k->input_history[i], k->applied);
  }
#endif
  k->tick = 0;
  k->gated = 0;
  k->overflows_at_start = 0;
  l->timing.is_ticking = true;
  l->timing.next_us = sm_clock_now_us(&l->clock);
  l->timing.filter_count = 0;
  l->timing.missed = 0;
}

void sm_tick_start_run(sm_loop *l) {
  l->control.is_running = true;
  l->control.tick = 0;
  l->control.gated = 0;
  l->control.overflows_at_start = l->control.controller.overflows;
  sm_gait_start(l);
}

/* Returns whether a measurement comes after its tick was run without it: it would give one tick too many. Its
 * sequence tells it from one that is early; but one that is almost due is used whatever its sequence, since some
 * senders do not count the measurements that they leave out. */
static bool is_stale(const sm_loop *l, uint32_t sequence, uint32_t stamp_us) {
  const sm_tick_timing *t = &l->timing;
  const int32_t early_us = (int32_t)(t->next_us - stamp_us);
  const bool was_missed = sequence - l->control.sequence <= t->missed;
  return t->is_ticking && t->filter_count > 0U && early_us > (was_missed ? HALF_PERIOD_US / 2 : HALF_PERIOD_US);
}

/* Predicts the next sample time after a measurement came at stamp_us. The first one, and the first after a silence,
 * fixes it alone. */
static void predict_next_sample(sm_tick_timing *t, uint32_t stamp_us) {
  const int32_t late_us = (int32_t)(stamp_us - t->next_us);
  t->filter_count += t->filter_count < FILTER_COUNT ? 1U : 0U;
  t->next_us += SM_PERIOD_US + (uint32_t)(late_us / (int32_t)t->filter_count);
  t->missed = 0;
}

/* Returns the transit-time excess in µs: how much longer a measurement was in transit than the fastest of late.
 * After a stall of the line the oldest come first. The least transit time is forgotten slowly, since clocks differ. */
static uint32_t transit_excess(sm_tick_timing *t, uint32_t stamp_us, uint32_t arrived_us) {
  const uint32_t transit_us = arrived_us - stamp_us;
  const int32_t excess_us = (int32_t)(transit_us - t->transit_us);
  if (!t->has_transit || excess_us < 0) {
    t->transit_us = transit_us;
    t->has_transit = true;
    return 0;
  }
  t->transit_us += (uint32_t)excess_us / TRANSIT_FORGET;
  return (uint32_t)excess_us;
}

void sm_tick_on_measurement(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  sm_tick_timing *t = &l->timing;
  sm_wide_measurement m;
  sm_link_read(message, &m);
  sm_clock_advance(&l->clock, m.stamp_us);
  const uint32_t now_us = sm_clock_now_us(&l->clock);
  if (SM_MEASURE_ENCODERS) {
    (void)sm_supervisor_handle(&l->supervisor, now_us, (sm_event){.kind = SM_EVENT_STALE});
    return;
  }
  const uint32_t excess = l->clock.is_virtual ? 0U : min_u32(transit_excess(t, m.stamp_us, arrived_us), AGE_MAX_US);
  const uint32_t age = min_u32(m.age_us, AGE_MAX_US) + excess + l->config->sensor_delay_us;
  sm_tick_run_due(l);
  t->filter_count = t->missed < SILENT_TICKS ? t->filter_count : 0U;
  if (is_stale(l, m.sequence, now_us) || !sm_supervisor_is_new(&l->supervisor, now_us, m.sequence, now_us - age)) {
    (void)sm_supervisor_handle(&l->supervisor, now_us, (sm_event){.kind = SM_EVENT_STALE});
    return;
  }
  for (unsigned i = 0; i < SM_NZ; i++) {
    l->control.controller.z[i] = sm_numbers_from_wire(m.z[i]);
  }
  l->control.sequence = m.sequence;
  const uint32_t valid = m.valid & CHANNELS;
  if (t->is_ticking && l->supervisor.state != SM_STATE_CALIBRATING) {
#if SM_GAIT
    t->contact_age = sm_numbers_from_wire(m.z[SM_NZ]);
#endif
    tick(l, m.valid, arrived_us, age, excess);
    predict_next_sample(t, now_us);
    return;
  }
  const sm_event event = {
      .kind = SM_EVENT_MEASUREMENT, .sequence = m.sequence, .stamp_us = now_us - age, .accepted = valid};
  const bool calibrating = l->supervisor.state == SM_STATE_CALIBRATING;
  (void)sm_supervisor_handle(&l->supervisor, now_us, event);
  if (calibrating) {
    sm_axes_calibration_add(l, valid);
  }
}

void sm_tick_on_encoders(sm_loop *l, const sm_message *message) {
  sm_axes *a = &l->axes;
  sm_wide_encoder m;
  sm_link_read(message, &m);
  if (!a->is_virtual) {
    return;
  }
  const int32_t since_us = (int32_t)(m.stamp_us - a->virtual_stamp_us);
  const uint32_t dt = !a->has_virtual_stamp ? SM_AXES_STEP_US : since_us > 0 ? (uint32_t)since_us : 0U;
  a->virtual_stamp_us = m.stamp_us;
  a->has_virtual_stamp = true;
  sm_clock_advance(&l->clock, m.stamp_us);
  memcpy(a->virtual_counts, m.counts, sizeof a->virtual_counts);
  a->virtual_alarms = m.alarms;
  sm_loop_event(l, SM_EVENT_POLL);
  sm_axes_apply_supervisor(l);
  sm_axes_heed(l, m.alarms);
  sm_tick_run_due(l);
  sm_wide_actuator answer = {.stamp_us = m.stamp_us};
  for (unsigned i = 0; i < SM_AXES; i++) {
    answer.effort[i] = (int16_t)sm_axes_effort(l, i, dt);
  }
  answer.enabled = a->motion != SM_MOTION_OFF;
  if (answer.enabled == 0U) { /* the fault of a later motor came after the efforts of those before it */
    memset(answer.effort, 0, sizeof answer.effort);
  }
  sm_report_send(l, SM_WIDE_ACTUATOR, &answer);
}
