#include "sm_tick.h"

#include <string.h>

#include "sm_axes.h"
#include "sm_clock.h"
#include "sm_report.h"

#define CATCH_UP 30U /* ticks without a measurement that are made up for at once */
#define AHEAD_US ((uint32_t)SM_AHEAD * SM_PERIOD_US)
#define HALF_PERIOD ((int32_t)(SM_PERIOD_US / 2U))
/* When ticks are due is the mean of when the last measurements came: one that is late does not move it far. 1 % between
 * the clocks puts it 0.24 periods off; measurements that come ±0.4 periods off move it by 0.034, 1 σ. */
#define STEADY 24U
#define AGE_LARGEST 1000000U /* µs; far beyond what is taken */
#define SILENT 5U            /* ticks without a measurement, after which when they came before means nothing */

static void statistics(sm_loop *l, uint32_t taken) {
  static const uint8_t diagonal[SM_VARIANCES] = SM_P_DIAGONAL;
  static const sm_real limit[SM_VARIANCES] = SM_P_LIMIT;
  uint32_t spread = 0;
  for (unsigned i = 0; i < SM_VARIANCES; i++) {
    const uint32_t s = sm_spread_of(l->controller.P[diagonal[i]], limit[i]);
    spread = s > spread ? s : spread;
  }
  uint32_t sum = 0;
  uint32_t count = 0;
  for (unsigned i = 0; i < SM_NZ; i++) {
    if (taken >> i & 1U) {
      const uint32_t nis = sm_normalized(&l->controller, i);
      sum += nis < UINT32_C(0x01000000) ? nis : UINT32_C(0x01000000);
      count++;
    }
  }
  const sm_event event = {
      .kind = SM_EVENT_STATISTICS, .used = taken, .nis = count ? sum / count : 0U, .spread = spread};
  (void)sm_supervise(&l->supervisor, sm_now_us(l), event);
}

static void put(sm_real *to, const sm_real *from) {
  for (unsigned i = 0; i < SM_AXES; i++) {
    to[i] = from[i];
  }
}

#if SM_AHEAD > 0
/* Measurements are SM_AHEAD periods old when they come: the law is that of where the commands since then will have led,
 * and the filter goes on with the oldest of these. */
static void law(sm_loop *l) {
  l->ahead = l->controller;
  for (unsigned k = 0; k < SM_AHEAD; k++) {
    put(l->ahead.u, l->issued[k]);
    sm_predict(&l->ahead);
    sm_turn_motors(l);
  }
  sm_schedule_row(&l->schedule, l->tick + SM_AHEAD, l->ahead.row);
  sm_law(&l->ahead);
  put(l->controller.u, l->ahead.u);
}

static void put_in_effect(sm_loop *l) {
  put(l->controller.u, l->issued[0]);
  for (unsigned k = 0; k + 1U < SM_AHEAD; k++) {
    put(l->issued[k], l->issued[k + 1U]);
  }
  put(l->issued[SM_AHEAD - 1], l->applied);
}
#else
static void law(sm_loop *l) {
  sm_schedule_row(&l->schedule, l->tick, l->controller.row);
  sm_law(&l->controller);
}

static void put_in_effect(sm_loop *l) { put(l->controller.u, l->applied); }
#endif

/* Commands as the law wants them, as the supervisor allows them, and within limits. */
static void command(sm_loop *l, int32_t late_us) {
  const bool follow = sm_supervised(&l->supervisor).motion == SM_MOTION_FOLLOW;
  if (l->running) {
    law(l);
    if (l->tick + 1U == l->schedule.count) {
      (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_SCHEDULE_END});
    }
  }
  const uint32_t before = l->limited;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (follow) {
      l->applied[i] = sm_limited(i, l->controller.u[i], l->applied[i], &l->limited);
      if (sm_moves(i)) {
        sm_motor_command(&l->motors[i], &sm_motors[i], sm_as_motor(i, l->applied[i]), late_us);
      }
    } else if (!sm_moves(i)) {
      l->applied[i] = 0;
    }
  }
  put_in_effect(l);
  if (l->limited != before) {
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_SATURATED});
  }
}

/* With a measurement that was age_us old when it arrived, delay_us of it on its way. */
static void tick(sm_loop *l, uint32_t valid, uint32_t arrived_us, uint32_t age_us, uint32_t delay_us) {
  const uint32_t begin = port_micros();
  l->taken = sm_measure(&l->controller, valid);
  for (uint32_t left = valid & ~l->taken; left != 0U; left &= left - 1U) {
    l->gated++;
  }
  if (valid != 0U) {
    const sm_event event = {.kind = SM_EVENT_MEASUREMENT,
                            .sequence = l->sequence,
                            .stamp_us = sm_now_us(l) - age_us,
                            .used = l->taken,
                            .gated = valid & ~l->taken};
    (void)sm_supervise(&l->supervisor, sm_now_us(l), event);
  }
  statistics(l, l->taken);
  sm_obey(l);
  sm_turn_motors(l);
  const uint32_t wait_us = begin - arrived_us;
  /* For virtual motors it is still the time of the last encoders: what has passed since then comes with the next. */
  command(l, (int32_t)((l->virtual_io ? age_us - delay_us : age_us + wait_us) - AHEAD_US));
  sm_obey(l);
  mavlink_telemetry_t message = sm_telemetry(l, wait_us); /* before the estimate moves on */
  sm_predict(&l->controller);
  sm_turn_motors(l);
  const uint32_t took_us = port_micros() - begin;
  l->tick_longest = took_us > l->tick_longest ? took_us : l->tick_longest;
  message.tick_us = sm_short_time(took_us);
  sm_say(l, MAVLINK_MSG_ID_TELEMETRY, &message);
  sm_turn_motors(l);
  if (l->running) {
    l->tick++;
  }
  if (!l->virtual_time && took_us > SM_PERIOD_US) {
    (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_OVERRUN});
  }
}

void sm_catch_up(sm_loop *l) {
  const unsigned most = l->virtual_time ? CATCH_UP : 1U;
  for (unsigned k = 0; k < most && l->ticking && (int32_t)(sm_now_us(l) - l->due_us) > HALF_PERIOD; k++) {
    port_watchdog_feed();
    l->due_us += SM_PERIOD_US;
    l->missed++;
    tick(l, 0, port_micros(), AHEAD_US, 0);
  }
  const int32_t behind = (int32_t)(sm_now_us(l) - l->due_us);
  if (behind > (l->virtual_time ? HALF_PERIOD : (int32_t)(CATCH_UP * SM_PERIOD_US))) {
    l->due_us = sm_now_us(l);
  }
}

void sm_begin_filter(sm_loop *l) {
  memset(&l->controller, 0, sizeof l->controller);
  sm_start(&l->controller);
  for (unsigned i = 0; i < SM_AXES; i++) {
    l->applied[i] = sm_state_as_command(&l->controller, i);
  }
#if SM_AHEAD > 0
  for (unsigned k = 0; k < SM_AHEAD; k++) {
    put(l->issued[k], l->applied);
  }
#endif
  l->ticking = true;
  l->running = false;
  l->due_us = sm_now_us(l);
  l->steady = 0;
  l->missed = 0;
  l->tick = 0;
  l->gated = 0;
  l->lost_before = 0;
}

void sm_begin_run(sm_loop *l) {
  l->running = true;
  l->tick = 0;
  l->gated = 0;
  l->lost_before = l->controller.lost;
}

/* One that comes after its tick was done without it would make one tick too many. Its number tells it from one that is
 * early; but one that is almost due is taken whatever its number: some senders do not count what they leave out. */
static bool is_done(const sm_loop *l, uint32_t sequence, uint32_t stamp_us) {
  const int32_t early = (int32_t)(l->due_us - stamp_us);
  const bool passed = sequence - l->sequence <= l->missed;
  return l->ticking && l->steady > 0U && early > (passed ? HALF_PERIOD / 2 : HALF_PERIOD);
}

/* When the next is due, after one has come. The first of them, and the first after a silence, says it alone. */
static void expect_next(sm_loop *l, uint32_t stamp_us) {
  const int32_t late = (int32_t)(stamp_us - l->due_us);
  l->steady += l->steady < STEADY ? 1U : 0U;
  l->due_us += SM_PERIOD_US + (uint32_t)(late / (int32_t)l->steady);
  l->missed = 0;
}

/* How much longer a measurement was on its way than the fastest of late: after a stall of the line the old ones come
 * first. The least is given up slowly, since clocks differ: by 1/256 of what is above it, 0.9 ms at 100 ppm. */
static uint32_t delay(sm_loop *l, uint32_t stamp_us, uint32_t arrived_us) {
  const uint32_t offset = arrived_us - stamp_us;
  const int32_t more = (int32_t)(offset - l->offset_us);
  if (!l->offset_known || more < 0) {
    l->offset_us = offset;
    l->offset_known = true;
    return 0;
  }
  l->offset_us += (uint32_t)more / 256U;
  return (uint32_t)more;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

void sm_take_measurement(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  mavlink_measurement_t m;
  sm_link_read(message, &m);
  sm_pass_time(l, m.stamp_us);
  const uint32_t stamp = sm_now_us(l);
  const uint32_t late = l->virtual_time ? 0U : least(delay(l, m.stamp_us, arrived_us), AGE_LARGEST);
  const uint32_t age = least(m.age_us, AGE_LARGEST) + late + l->config->late_us;
  sm_catch_up(l);
  l->steady = l->missed < SILENT ? l->steady : 0U;
  if (is_done(l, m.sequence, stamp) || !sm_is_new(&l->supervisor, stamp, m.sequence, stamp - age)) {
    (void)sm_supervise(&l->supervisor, stamp, (sm_event){.kind = SM_EVENT_STALE});
    return;
  }
  for (unsigned i = 0; i < SM_NZ; i++) {
    l->controller.z[i] = sm_from_word(m.z[i]);
  }
  l->sequence = m.sequence;
  const uint32_t valid = m.valid & ((1U << SM_NZ) - 1U);
  const sm_event event = {.kind = SM_EVENT_MEASUREMENT, .sequence = m.sequence, .stamp_us = stamp - age, .used = valid};
  if (l->supervisor.state == SM_STATE_CALIBRATING) {
    (void)sm_supervise(&l->supervisor, stamp, event);
    sm_calibrate(l, valid);
  } else if (l->ticking) {
    tick(l, valid, arrived_us, age, late);
    expect_next(l, stamp);
  } else {
    (void)sm_supervise(&l->supervisor, stamp, event);
  }
}

void sm_take_encoders(sm_loop *l, const sm_message *message) {
  mavlink_virtual_encoder_t m;
  sm_link_read(message, &m);
  if (!l->virtual_io) {
    return;
  }
  const int32_t since = (int32_t)(m.stamp_us - l->encoders_us);
  const uint32_t dt = !l->paced ? SM_MOTOR_US : since > 0 ? (uint32_t)since : 0U;
  l->encoders_us = m.stamp_us;
  l->paced = true;
  sm_pass_time(l, m.stamp_us);
  memcpy(l->encoders, m.counts, sizeof l->encoders);
  (void)sm_supervise(&l->supervisor, sm_now_us(l), (sm_event){.kind = SM_EVENT_POLL});
  sm_obey(l);
  sm_catch_up(l);
  mavlink_virtual_actuator_t answer = {.stamp_us = m.stamp_us};
  for (unsigned i = 0; i < SM_AXES; i++) {
    answer.effort[i] = (int16_t)sm_effort(l, i, dt);
  }
  answer.enabled = l->motion != SM_MOTION_OFF;
  sm_say(l, MAVLINK_MSG_ID_VIRTUAL_ACTUATOR, &answer);
}
