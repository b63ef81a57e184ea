#include "sm_loop.h"

#include <string.h>

#include "schedule.h"
#include "sm_fixed.h"

#define MOTOR_US 1000U
#define BEAT_US 200000U
#define LINK_US 1000000U
#define CHUNK 64U
#define CATCH_UP 30U      /* ticks without a measurement that are made up for at once */
#define STATUS_BEATS 10U  /* heartbeats to a LINK_STATUS */
#define RESTART_US 20000U /* so that the answer still leaves */
#define HALF_PERIOD ((int32_t)(SM_PERIOD_US / 2U))

static const uint8_t MODEL[8] = SM_MODEL_DIGEST;
static const sm_motor_config MOTORS[SM_LOOP_MOTORS] = SM_MOTOR_CONFIGS;
static const int8_t COMMAND_STATE[SM_LOOP_MOTORS] = SM_U_STATE;
static const int8_t COMMAND_CHANNEL[SM_LOOP_MOTORS] = SM_U_CHANNEL;

const sm_loop_config sm_loop_defaults = {.system = 1, .key = NULL, .late_us = 0, .watchdog_ms = 500};

/* Numbers of the model --------------------------------------------------------------------------------------------- */

static const sm_real LOW[SM_LOOP_MOTORS] = SM_U_LOW;
static const sm_real HIGH[SM_LOOP_MOTORS] = SM_U_HIGH;
static const sm_real STEP[SM_LOOP_MOTORS] = SM_U_STEP;

#if SM_FIXED

static const int8_t STATE_BITS[SM_NX] = SM_X_BITS;
static const int8_t COMMAND_BITS[SM_LOOP_MOTORS] = SM_U_BITS;
static const int8_t CHANNEL_BITS[SM_NZ] = SM_Z_BITS;
static const int8_t ERROR_BITS[SM_NZ] = SM_E_BITS;
static const int8_t VARIANCE_BITS[SM_NZ] = SM_S_BITS;
static const int32_t AXIS_SCALE[SM_LOOP_MOTORS] = SM_AXIS_SCALE;
static const int8_t AXIS_SHIFT[SM_LOOP_MOTORS] = SM_AXIS_SHIFT;

static sm_real moved(sm_real v, int right) {
  uint32_t lost = 0;
  if (right > 31 || right < -31) {
    return 0;
  }
  return right > 0 ? sm_right(v, (unsigned)right) : sm_left(v, (unsigned)-right, &lost);
}

static sm_real state_as_command(const sm_controller *c, unsigned i) {
  const unsigned state = (unsigned)COMMAND_STATE[i];
  return moved(c->x[state], STATE_BITS[state] - COMMAND_BITS[i]);
}

static sm_real channel_as_command(const sm_controller *c, unsigned i) {
  const unsigned channel = (unsigned)COMMAND_CHANNEL[i];
  return moved(c->z[channel], CHANNEL_BITS[channel] - COMMAND_BITS[i]);
}

/* A command in the unit of its motor: Q8 counts, or effort. */
static int32_t as_motor(unsigned i, sm_real command) {
  const int shift = AXIS_SHIFT[i];
  uint32_t lost = 0;
  return sm_limit(((int64_t)command * AXIS_SCALE[i] + (INT64_C(1) << (shift - 1))) >> shift, &lost);
}

static sm_real limited(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  const sm_command_limits limits = {.low = LOW[i], .high = HIGH[i], .step = STEP[i]};
  return sm_limit_command(&limits, wanted, last, count);
}

/* e²/s with 8 fraction bits */
static uint32_t normalized(const sm_controller *c, unsigned channel) {
  uint32_t lost = 0;
  const int32_t square = sm_high(c->e[channel], c->e[channel]);
  const int bits = 2 * ERROR_BITS[channel] - 32;
  const int32_t q = sm_div(square, c->s[channel], 61 + bits - VARIANCE_BITS[channel] - 8, 32U, &lost);
  return q > 0 ? (uint32_t)q : 0U;
}

static uint32_t spread_of(sm_real variance, sm_real limit) {
  return variance <= 0 ? UINT32_MAX : (uint32_t)variance / ((uint32_t)limit >> 8 | 1U);
}

static int32_t as_word(sm_real v) { return v; }
static sm_real from_word(int32_t v) { return v; }

#else

static const sm_real AXIS_SCALE[SM_LOOP_MOTORS] = SM_AXIS_SCALE;

static sm_real state_as_command(const sm_controller *c, unsigned i) { return c->x[(unsigned)COMMAND_STATE[i]]; }
static sm_real channel_as_command(const sm_controller *c, unsigned i) { return c->z[(unsigned)COMMAND_CHANNEL[i]]; }

static int32_t as_motor(unsigned i, sm_real command) {
  const sm_real v = command * AXIS_SCALE[i];
  const sm_real most = (sm_real)SM_MOTOR_TRAVEL; /* a NaN becomes a limit, too */
  return v > -most ? (int32_t)(v < most ? v : most) : -SM_MOTOR_TRAVEL;
}

static sm_real limited(unsigned i, sm_real wanted, sm_real last, uint32_t *count) {
  sm_real v = wanted > LOW[i] ? wanted : LOW[i]; /* a NaN becomes the limit */
  v = v < HIGH[i] ? v : HIGH[i];
  v = v > last - STEP[i] ? v : last - STEP[i];
  v = v < last + STEP[i] ? v : last + STEP[i];
  *count += v < wanted || v > wanted ? 1U : 0U;
  return v;
}

static uint32_t normalized(const sm_controller *c, unsigned channel) {
  const sm_real q = c->e[channel] * c->e[channel] / c->s[channel] * (sm_real)256;
  return q < (sm_real)1e9 ? (uint32_t)q : UINT32_C(1000000000);
}

static uint32_t spread_of(sm_real variance, sm_real limit) {
  const sm_real q = variance / limit * (sm_real)256;
  return q > 0 && q < (sm_real)1e9 ? (uint32_t)q : UINT32_MAX;
}

static int32_t as_word(sm_real v) {
  const float narrow = (float)v;
  int32_t word;
  memcpy(&word, &narrow, sizeof word);
  return word;
}

static sm_real from_word(int32_t v) {
  float narrow;
  memcpy(&narrow, &v, sizeof narrow);
  return narrow;
}

#endif

/* Time, messages --------------------------------------------------------------------------------------------------- */

static uint32_t now_us(const sm_loop *l) { return l->virtual_time ? l->virtual_us : port_micros(); }

/* Virtual time passes as much as stamps do, wherever they begin. It never goes back. */
static void pass_time(sm_loop *l, uint32_t stamp_us) {
  const uint32_t passed = stamp_us - l->stamp_us;
  if (!l->stamped || (int32_t)passed > 0) {
    l->virtual_us += l->stamped ? passed : 0U;
    l->stamp_us = stamp_us;
    l->stamped = true;
  }
}

static size_t output(void *context, const uint8_t *from, size_t size) {
  (void)context;
  return port_send(from, size);
}

static void say(sm_loop *l, uint32_t id, const void *payload) {
  const int result = l->linked ? sm_link_send(&l->link, id, payload) : SM_EARGUMENT;
  (void)result; /* what the line did not take is counted there */
}

static void log_text(sm_loop *l, uint8_t severity, const char *text) {
  mavlink_log_t message = {.stamp_us = port_micros(), .severity = severity};
  const size_t size = strlen(text);
  memcpy(message.text, text, size < sizeof message.text ? size : sizeof message.text);
  say(l, MAVLINK_MSG_ID_LOG, &message);
}

static void heartbeat(sm_loop *l) {
  mavlink_heartbeat_t m = {
      .uptime_ms = port_micros() / 1000U,
      .tick = l->tick,
      .state = (uint8_t)l->supervisor.state,
      .reason = (uint8_t)l->supervisor.reason,
      .start = (uint8_t)port_reset_reason(),
      .protocol = 1,
  };
  unsigned flags = SM_FIXED ? STEPMAP_FLAG_FIXED_POINT : 0U;
  flags |= l->config->key != NULL ? STEPMAP_FLAG_HAS_KEY : 0U;
  flags |= l->uploaded ? STEPMAP_FLAG_UPLOADED : 0U;
  flags |= port_region_lasting() ? STEPMAP_FLAG_LASTING : 0U;
  flags |= l->virtual_io ? STEPMAP_FLAG_VIRTUAL_IO : 0U;
  flags |= l->virtual_time ? STEPMAP_FLAG_VIRTUAL_TIME : 0U;
  flags |= l->supervisor.calibrated ? STEPMAP_FLAG_CALIBRATED : 0U;
  m.flags = (uint16_t)flags;
  memcpy(m.model, MODEL, sizeof m.model);
  memcpy(m.schedule, l->schedule_name, sizeof m.schedule);
  l->told = l->supervisor.state;
  say(l, MAVLINK_MSG_ID_HEARTBEAT, &m);
}

static uint16_t short_time(uint32_t us) { return (uint16_t)(us < UINT16_MAX ? us : UINT16_MAX); }

static mavlink_telemetry_t telemetry(const sm_loop *l, uint32_t wait_us) {
  mavlink_telemetry_t m = {
      .stamp_us = l->virtual_time ? l->stamp_us : port_micros(),
      .tick = l->tick,
      .sequence = l->sequence,
      .saturations = l->controller.lost - l->lost_before,
      .gated = l->gated,
      .wait_us = short_time(wait_us),
      .faults = l->faults,
      .taken = (uint16_t)l->taken,
      .state = (uint8_t)l->supervisor.state,
      .reason = (uint8_t)l->supervisor.reason,
  };
  for (unsigned i = 0; i < SM_NZ && i < 8U; i++) {
    m.innovation[i] = (l->taken >> i & 1U) ? as_word(l->controller.e[i]) : 0;
  }
  for (unsigned i = 0; i < SM_AXES && i < 4U; i++) {
    m.command[i] = as_word(l->applied[i]);
  }
  for (unsigned i = 0; i < SM_NX && i < 16U; i++) {
    m.estimate[i] = as_word(l->controller.x[i]);
  }
  return m;
}

/* Schedule --------------------------------------------------------------------------------------------------------- */

static int check_schedule(const uint8_t *blob, size_t size) {
  sm_schedule_kind kind = {.entries = SM_NROW, .scalar = SM_SCALAR, .period_us = SM_PERIOD_US};
  sm_schedule s;
  memcpy(kind.model, MODEL, sizeof kind.model);
  return sm_schedule_open(&s, blob, size, &kind);
}

/* The uploaded schedule if there is one for this model, else the one in the image. */
static void choose_schedule(sm_loop *l) {
  const uint8_t *blob = (const uint8_t *)sm_schedule_image;
  size_t size = SM_SCHEDULE_BYTES;
  const uint8_t *stored = NULL;
  size_t stored_size = 0;
  l->uploaded = sm_store_schedule(&l->store, &stored, &stored_size) == 0 && check_schedule(stored, stored_size) == 0;
  if (l->uploaded) {
    blob = stored;
    size = stored_size;
  }
  sm_schedule_kind kind = {.entries = SM_NROW, .scalar = SM_SCALAR, .period_us = SM_PERIOD_US};
  memcpy(kind.model, MODEL, sizeof kind.model);
  l->has_schedule = sm_schedule_open(&l->schedule, blob, size, &kind) == 0;
  memset(l->schedule_name, 0, sizeof l->schedule_name);
  if (l->has_schedule) {
    uint8_t digest[SM_DIGEST];
    sm_sha256 hash;
    sm_sha256_start(&hash);
    sm_sha256_add(&hash, blob, size);
    sm_sha256_end(&hash, digest);
    memcpy(l->schedule_name, digest, sizeof l->schedule_name);
  }
}

/* Motors ----------------------------------------------------------------------------------------------------------- */

static int32_t encoder(const sm_loop *l, unsigned axis) {
  return l->virtual_io ? l->encoders[axis] : port_encoder(axis);
}

static void report_motor_fault(sm_loop *l, sm_reason reason) {
  l->faults++;
  (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_MOTOR_FAULT, .reason = reason});
}

/* What the supervisor allows, done. */
static void obey(sm_loop *l) {
  const sm_supervisor_output may = sm_supervised(&l->supervisor);
  const bool on = may.motion != SM_MOTION_OFF;
  if (!l->virtual_io) {
    port_enable(on);
  }
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (COMMAND_STATE[i] < 0) {
      continue; /* a force: nothing to hold */
    }
    if (!on) {
      sm_motor_off(&l->motors[i]);
    } else if (may.motion == SM_MOTION_RAMP) {
      sm_motor_brake(&l->motors[i], &MOTORS[i], may.ramp_left_us);
    } else if (may.motion == SM_MOTION_HOLD) {
      if (l->motors[i].mode == SM_MOTOR_OFF) {
        sm_motor_hold(&l->motors[i]);
      } else {
        sm_motor_brake(&l->motors[i], &MOTORS[i], 1000U);
      }
    }
  }
  l->motion = may.motion;
  if (l->supervisor.state == SM_STATE_IDLE || l->supervisor.state == SM_STATE_FAULT) {
    l->ticking = false;
    l->running = false;
  }
  if (l->told != l->supervisor.state) {
    heartbeat(l); /* at once: in some states there is no telemetry */
  }
}

static int32_t effort_of(sm_loop *l, unsigned i, uint32_t dt_us) {
  if (COMMAND_STATE[i] < 0) {
    return l->motion == SM_MOTION_FOLLOW ? sm_clamp(as_motor(i, l->applied[i]), -1000, 1000) : 0;
  }
  const sm_motor_fault before = l->motors[i].fault;
  const int32_t effort = sm_motor_step(&l->motors[i], &MOTORS[i], encoder(l, i), dt_us);
  if (!l->supervisor.calibrated && l->motion == SM_MOTION_OFF) {
    sm_motor_reset(&l->motors[i]); /* where it stands is not known yet: nothing is wrong with that */
    return 0;
  }
  if (before == SM_MOTOR_OK && l->motors[i].fault != SM_MOTOR_OK) {
    report_motor_fault(l,
                       l->motors[i].fault == SM_MOTOR_FOLLOWING ? SM_REASON_MOTOR_FOLLOWING : SM_REASON_MOTOR_ENCODER);
    obey(l);
    return 0;
  }
  return effort;
}

static void turn_motors(sm_loop *l, uint32_t dt_us) {
  for (unsigned i = 0; i < SM_AXES; i++) {
    port_drive(i, effort_of(l, i, dt_us));
  }
}

/* Ticks ------------------------------------------------------------------------------------------------------------ */

static void statistics(sm_loop *l, uint32_t taken) {
  static const uint8_t diagonal[SM_VARIANCES] = SM_P_DIAGONAL;
  static const sm_real limit[SM_VARIANCES] = SM_P_LIMIT;
  uint32_t spread = 0;
  for (unsigned i = 0; i < SM_VARIANCES; i++) {
    const uint32_t s = spread_of(l->controller.P[diagonal[i]], limit[i]);
    spread = s > spread ? s : spread;
  }
  uint32_t sum = 0;
  uint32_t count = 0;
  for (unsigned i = 0; i < SM_NZ; i++) {
    if (taken >> i & 1U) {
      const uint32_t nis = normalized(&l->controller, i);
      sum += nis < UINT32_C(0x01000000) ? nis : UINT32_C(0x01000000);
      count++;
    }
  }
  const sm_event event = {
      .kind = SM_EVENT_STATISTICS, .used = taken, .nis = count ? sum / count : 0U, .spread = spread};
  (void)sm_supervise(&l->supervisor, now_us(l), event);
}

/* Commands as the law wants them, as the supervisor allows them, and within limits. */
static void command(sm_loop *l, uint32_t late_us) {
  const bool follow = sm_supervised(&l->supervisor).motion == SM_MOTION_FOLLOW;
  if (l->running) {
    sm_schedule_row(&l->schedule, l->tick, l->controller.row);
    sm_law(&l->controller);
    if (l->tick + 1U == l->schedule.count) {
      (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_SCHEDULE_END});
    }
  }
  const uint32_t before = l->limited;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (follow) {
      l->applied[i] = limited(i, l->controller.u[i], l->applied[i], &l->limited);
      if (COMMAND_STATE[i] >= 0) {
        sm_motor_command(&l->motors[i], &MOTORS[i], as_motor(i, l->applied[i]), late_us);
      }
    } else if (COMMAND_STATE[i] < 0) {
      l->applied[i] = 0;
    }
    l->controller.u[i] = l->applied[i];
  }
  if (l->limited != before) {
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_SATURATED});
  }
}

static void tick(sm_loop *l, uint32_t valid, uint32_t arrived_us) {
  const uint32_t begin = port_micros();
  l->taken = sm_measure(&l->controller, valid);
  for (uint32_t left = valid & ~l->taken; left != 0U; left &= left - 1U) {
    l->gated++;
  }
  if (valid != 0U) {
    const sm_event event = {.kind = SM_EVENT_MEASUREMENT,
                            .sequence = l->sequence,
                            .stamp_us = now_us(l),
                            .used = l->taken,
                            .gated = valid & ~l->taken};
    (void)sm_supervise(&l->supervisor, now_us(l), event);
  }
  statistics(l, l->taken);
  obey(l);
  const uint32_t wait_us = begin - arrived_us;
  command(l, l->config->late_us + (l->virtual_time ? 0U : wait_us));
  obey(l);
  mavlink_telemetry_t message = telemetry(l, wait_us); /* before the estimate moves on */
  sm_predict(&l->controller);
  const uint32_t took_us = port_micros() - begin;
  message.tick_us = short_time(took_us);
  say(l, MAVLINK_MSG_ID_TELEMETRY, &message);
  if (l->running) {
    l->tick++;
  }
  if (!l->virtual_time && took_us > SM_PERIOD_US) {
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_OVERRUN});
  }
}

/* Ticks that are half a period late are done without a measurement: one at a time, so that motors and messages are not
 * kept waiting, or all at once where time passes with messages. After a long silence only the last of them are. */
static void catch_up(sm_loop *l) {
  const unsigned most = l->virtual_time ? CATCH_UP : 1U;
  for (unsigned k = 0; k < most && l->ticking && (int32_t)(now_us(l) - l->due_us) > HALF_PERIOD; k++) {
    port_watchdog_feed();
    l->due_us += SM_PERIOD_US;
    tick(l, 0, port_micros());
  }
  const int32_t behind = (int32_t)(now_us(l) - l->due_us);
  if (behind > (l->virtual_time ? HALF_PERIOD : (int32_t)(CATCH_UP * SM_PERIOD_US))) {
    l->due_us = now_us(l);
  }
}

static void take_encoders(sm_loop *l, const sm_message *message) {
  mavlink_virtual_encoder_t m;
  sm_link_read(message, &m);
  if (!l->virtual_io) {
    return;
  }
  const int32_t since = (int32_t)(m.stamp_us - l->encoders_us);
  const uint32_t dt = !l->paced ? MOTOR_US : since > 0 ? (uint32_t)since : 0U;
  l->encoders_us = m.stamp_us;
  l->paced = true;
  pass_time(l, m.stamp_us);
  memcpy(l->encoders, m.counts, sizeof l->encoders);
  (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_POLL});
  obey(l);
  catch_up(l);
  mavlink_virtual_actuator_t answer = {.stamp_us = m.stamp_us};
  for (unsigned i = 0; i < SM_AXES && i < PORT_AXES; i++) {
    answer.effort[i] = (int16_t)effort_of(l, i, dt);
  }
  answer.enabled = l->motion != SM_MOTION_OFF;
  say(l, MAVLINK_MSG_ID_VIRTUAL_ACTUATOR, &answer);
}

/* Positions where the robot stands, from measurements at rest. */
static void calibrate(sm_loop *l, uint32_t valid) {
  uint32_t needed = 0;
  for (unsigned i = 0; i < SM_AXES; i++) {
    needed |= COMMAND_CHANNEL[i] >= 0 ? 1U << (unsigned)COMMAND_CHANNEL[i] : 0U;
  }
  if ((valid & needed) != needed) {
    return;
  }
  bool still = true;
  l->calibrations++;
  for (unsigned i = 0; i < SM_AXES; i++) {
    if (COMMAND_CHANNEL[i] < 0) {
      continue;
    }
    const sm_real v = channel_as_command(&l->controller, i);
    const int32_t position = as_motor(i, v);
    l->calibration[i] += position;
    const bool first = l->calibrations == 1U;
    l->calibration_low[i] = first || v < l->calibration_low[i] ? v : l->calibration_low[i];
    l->calibration_high[i] = first || v > l->calibration_high[i] ? v : l->calibration_high[i];
    const int64_t spread = (int64_t)as_motor(i, l->calibration_high[i]) - as_motor(i, l->calibration_low[i]);
    const bool there = position >= MOTORS[i].low && position <= MOTORS[i].high;
    still = still && there && spread < INT64_C(4) * MOTORS[i].following;
  }
  if (!still) {
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATION_FAILED});
  } else if (l->calibrations == SM_CALIBRATION) {
    for (unsigned i = 0; i < SM_AXES; i++) {
      const bool known = COMMAND_CHANNEL[i] >= 0;
      sm_motor_start(&l->motors[i], encoder(l, i), known ? (int32_t)(l->calibration[i] / (int64_t)SM_CALIBRATION) : 0);
    }
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATED});
  }
  obey(l);
}

static void take_measurement(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  mavlink_measurement_t m;
  sm_link_read(message, &m);
  pass_time(l, m.stamp_us);
  const uint32_t stamp = now_us(l);
  catch_up(l);
  /* One that comes after its tick was done without it would make one tick too many. */
  const bool early = l->ticking && (int32_t)(l->due_us - stamp) > HALF_PERIOD;
  if (early || !sm_is_new(&l->supervisor, stamp, m.sequence, stamp)) {
    (void)sm_supervise(&l->supervisor, stamp, (sm_event){.kind = SM_EVENT_STALE});
    return;
  }
  for (unsigned i = 0; i < SM_NZ && i < 8U; i++) {
    l->controller.z[i] = from_word(m.z[i]);
  }
  l->sequence = m.sequence;
  const uint32_t valid = m.valid & ((1U << SM_NZ) - 1U);
  if (l->supervisor.state == SM_STATE_CALIBRATING) {
    const sm_event event = {.kind = SM_EVENT_MEASUREMENT, .sequence = m.sequence, .stamp_us = stamp, .used = valid};
    (void)sm_supervise(&l->supervisor, stamp, event);
    calibrate(l, valid);
  } else if (l->ticking) {
    tick(l, valid, arrived_us);
    l->due_us = now_us(l) + SM_PERIOD_US;
  } else {
    const sm_event event = {.kind = SM_EVENT_MEASUREMENT, .sequence = m.sequence, .stamp_us = stamp, .used = valid};
    (void)sm_supervise(&l->supervisor, stamp, event);
  }
}

/* Commands of the host --------------------------------------------------------------------------------------------- */

/* The filter begins where the schedule begins, and so do the commands: run is refused where the motors are not. */
static void begin_filter(sm_loop *l) {
  memset(&l->controller, 0, sizeof l->controller);
  sm_start(&l->controller);
  for (unsigned i = 0; i < SM_AXES; i++) {
    l->applied[i] = COMMAND_STATE[i] >= 0 ? state_as_command(&l->controller, i) : 0;
  }
  l->ticking = true;
  l->running = false;
  l->due_us = now_us(l);
  l->tick = 0;
  l->gated = 0;
  l->lost_before = 0;
}

static void begin_run(sm_loop *l) {
  l->running = true;
  l->tick = 0;
  l->gated = 0;
  l->lost_before = l->controller.lost;
}

static bool far_from_start(const sm_loop *l) {
  bool far = false;
  for (unsigned i = 0; i < SM_AXES; i++) {
    const int64_t away = (int64_t)as_motor(i, l->applied[i]) - l->motors[i].position;
    far = far || (COMMAND_STATE[i] >= 0 && (away > MOTORS[i].following || away < -MOTORS[i].following));
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

/* Real motors or those of messages. The zero of the ones is not that of the others. */
static void choose_virtual(sm_loop *l, unsigned options) {
  const bool other = l->virtual_io != ((options & STEPMAP_OPTION_VIRTUAL_IO) != 0U);
  l->virtual_us = now_us(l);
  l->virtual_io = (options & STEPMAP_OPTION_VIRTUAL_IO) != 0U;
  l->virtual_time = (options & STEPMAP_OPTION_VIRTUAL_TIME) != 0U;
  l->stamped = false;
  l->paced = false;
  l->motor_us = port_micros();
  port_enable(false);
  if (other && l->supervisor.calibrated) {
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATE});
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_CALIBRATION_FAILED});
  }
}

/* What the supervisor makes of a command, and what follows from that. */
static void command_supervisor(sm_loop *l, sm_event_kind kind, unsigned options, mavlink_command_ack_t *answer) {
  sm_supervisor *s = &l->supervisor;
  if (s->state == SM_STATE_IDLE && (kind == SM_EVENT_ARM || kind == SM_EVENT_CALIBRATE)) {
    choose_virtual(l, options);
  }
  const sm_state before = s->state;
  const uint32_t refused = s->refused;
  (void)sm_supervise(s, now_us(l), (sm_event){.kind = kind, .ready = l->has_schedule});
  if (s->refused != refused) {
    answer->result = STEPMAP_RESULT_STATE;
    answer->reason = (uint8_t)s->refusal;
    return;
  }
  if (kind == SM_EVENT_RESET) {
    for (unsigned i = 0; i < SM_AXES; i++) {
      sm_motor_reset(&l->motors[i]);
    }
  } else if (before != s->state && s->state == SM_STATE_ARMED) {
    begin_filter(l);
  } else if (before != s->state && s->state == SM_STATE_RUNNING) {
    begin_run(l);
  } else if (before != s->state && s->state == SM_STATE_CALIBRATING) {
    l->calibrations = 0;
    memset(l->calibration, 0, sizeof l->calibration);
  }
  answer->reason = (uint8_t)s->reason;
  obey(l);
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
  } else if (m->command == STEPMAP_COMMAND_RUN && l->supervisor.state == SM_STATE_ARMED && far_from_start(l)) {
    answer->result = STEPMAP_RESULT_STATE;
    answer->reason = (uint8_t)SM_REASON_GATED;
  } else {
    command_supervisor(l, events[m->command], m->options, answer);
  }
  answer->state = (uint8_t)l->supervisor.state;
}

/* A command that is repeated because its answer got lost is answered again, and not carried out again. */
static void take_command(sm_loop *l, const sm_message *message) {
  mavlink_command_t m;
  sm_link_read(message, &m);
  mavlink_command_ack_t *answer = &l->answer;
  const bool again = answer->command == m.command && answer->token == m.token &&
                     answer->target_system == message->system && answer->target_component == message->component;
  if (!again || m.command == 0U) {
    *answer = (mavlink_command_ack_t){.token = m.token,
                                      .target_system = message->system,
                                      .target_component = message->component,
                                      .command = m.command};
    carry_out(l, &m, answer);
  }
  say(l, MAVLINK_MSG_ID_COMMAND_ACK, answer);
}

static void take_ping(sm_loop *l, const sm_message *message) {
  mavlink_ping_t m;
  sm_link_read(message, &m);
  if (m.reply == 0U) {
    m.reply = 1;
    m.target_system = message->system;
    m.target_component = message->component;
    say(l, MAVLINK_MSG_ID_PING, &m);
  }
}

static void link_status(sm_loop *l) {
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
  say(l, MAVLINK_MSG_ID_LINK_STATUS, &m);
}

static void take_upload(sm_loop *l, const sm_message *message) {
  mavlink_upload_status_t answer;
  bool activated = false;
  const bool idle = sm_supervised(&l->supervisor).accept_upload;
  if (sm_upload_take(&l->upload, message, idle, &answer, &activated) != SM_ENONE) {
    if (activated) {
      choose_schedule(l);
      log_text(l, STEPMAP_SEVERITY_INFO, "another schedule is in use");
    }
    say(l, MAVLINK_MSG_ID_UPLOAD_STATUS, &answer);
  }
}

static void take(sm_loop *l, const sm_message *message, uint32_t arrived_us) {
  if (!message->trusted || l->restarting) {
    return;
  }
  l->heard_us = port_micros();
  switch (message->id) {
  case MAVLINK_MSG_ID_MEASUREMENT:
    take_measurement(l, message, arrived_us);
    break;
  case MAVLINK_MSG_ID_VIRTUAL_ENCODER:
    take_encoders(l, message);
    break;
  case MAVLINK_MSG_ID_COMMAND:
    take_command(l, message);
    break;
  case MAVLINK_MSG_ID_PING:
    take_ping(l, message);
    break;
  default:
    take_upload(l, message);
    break;
  }
}

/* The loop --------------------------------------------------------------------------------------------------------- */

void sm_loop_start(sm_loop *l, const sm_loop_config *config) {
  memset(l, 0, sizeof *l);
  l->config = config;
  sm_supervisor_start(&l->supervisor, &sm_supervisor_defaults, port_micros());
  sm_store_open(&l->store);
  const int tended = sm_store_tend(&l->store);
  l->linked = sm_link_start(&l->link, &l->store, config->system, config->key, output, NULL) == 0;
  sm_upload_start(&l->upload, &l->store, MODEL, config->key, check_schedule);
  for (unsigned i = 0; i < SM_AXES; i++) {
    sm_motor_start(&l->motors[i], port_encoder(i), 0);
  }
  choose_schedule(l);
  if (sm_self_test(&l->controller) != 0) {
    l->complaint = "self-test: the controller computes other numbers than when it was generated";
  } else if (tended != 0) {
    l->complaint = "self-test: the memory for counters and schedules cannot be written";
  } else if (!l->linked) {
    l->complaint = "self-test: the link could not be started";
  }
  const sm_event_kind result = l->complaint == NULL ? SM_EVENT_BOOTED : SM_EVENT_SELF_TEST_FAILED;
  (void)sm_supervise(&l->supervisor, port_micros(), (sm_event){.kind = result});
  obey(l);
  l->motor_us = port_micros();
  l->heard_us = l->motor_us;
  port_watchdog_start(config->watchdog_ms);
  heartbeat(l);
}

static bool receive(sm_loop *l) {
  uint8_t bytes[CHUNK];
  const size_t count = port_receive(bytes, sizeof bytes);
  const uint32_t arrived = port_micros();
  size_t done = 0;
  while (l->linked) {
    sm_message message;
    done += sm_link_take(&l->link, bytes + done, count - done, &message);
    if (message.id == 0U) {
      break;
    }
    take(l, &message, arrived);
  }
  return count > 0U;
}

static void beat(sm_loop *l) {
  heartbeat(l);
  if (l->supervisor.state == SM_STATE_IDLE) {
    const int tended = sm_store_tend(&l->store);
    l->faults = (uint16_t)(l->faults + (tended != 0 ? 1U : 0U));
  }
  if (l->beats++ % STATUS_BEATS == 0U) {
    link_status(l);
    if (l->complaint != NULL) {
      log_text(l, STEPMAP_SEVERITY_ERROR, l->complaint);
    }
  }
}

/* What time brings while it is that of the clock; else it passes with messages. */
static bool follow_clock(sm_loop *l, uint32_t clock) {
  const uint32_t dt = clock - l->motor_us;
  const bool due = dt >= MOTOR_US;
  if (due) {
    l->motor_us = clock;
    (void)sm_supervise(&l->supervisor, clock, (sm_event){.kind = SM_EVENT_POLL});
    obey(l);
    if (!l->virtual_io) {
      turn_motors(l, dt);
    }
  }
  catch_up(l);
  if (clock - l->heard_us > LINK_US) {
    l->heard_us = clock;
    (void)sm_supervise(&l->supervisor, now_us(l), (sm_event){.kind = SM_EVENT_LINK_LOST});
    obey(l);
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
  if (!l->virtual_time) {
    busy = follow_clock(l, clock) || busy;
  }
  if (l->restarting && clock - l->restart_us >= RESTART_US) {
    port_restart();
  }
  if (!busy) {
    port_idle();
  }
}
