#include "lib.h"

#include <string.h>

#include "robot.h"
#include "schedule.h"

#if !defined(__GNUC__)
#error "the primitives need gcc, or clang, which is like it"
#elif __SIZEOF_INT__ < 4 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the primitives need integers of 32 bits, and schedules are little endian"
#endif

#if SM_NU > 0
static const int16_t U_STATE[SM_NU] = SM_U_STATE;
static const lib_real U_LOW[SM_NU] = SM_U_LOW;
static const lib_real U_HIGH[SM_NU] = SM_U_HIGH;
static const lib_real U_STEP[SM_NU] = LIB_U_STEP;
#endif

#if SM_FIXED
static const int8_t X_BITS[SM_NX] = SM_X_BITS;
static const int8_t Z_BITS[SM_NZ] = SM_Z_BITS;
#if SM_NU > 0
static const int8_t U_BITS[SM_NU] = SM_U_BITS;
#endif

#ifdef SM_STREAMS
static const int8_t S_BITS[SM_STREAMS] = LIB_S_BITS;
#endif

/* Returns 2^exponent, put together from its bits: without a library for floating point. */
static double power_of_two(int exponent) {
  const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

static lib_real to_raw(double value, int bits) {
  const double units = value * power_of_two(bits);
  if (units >= (double)LIB_RAW_MAX) {
    return LIB_RAW_MAX;
  }
  if (units <= -(double)LIB_RAW_MAX) {
    return -LIB_RAW_MAX;
  }
  return units == units ? (lib_real)(units < 0.0 ? units - 0.5 : units + 0.5) : 0;
}

static double to_si(lib_real raw, int bits) { return raw * power_of_two(-bits); }

#define RAW(value, bits) to_raw(value, bits)
#define SI(raw, bits) to_si(raw, bits)

#else
static lib_real to_raw(double value) { return value == value ? (lib_real)value : 0; }

#define RAW(value, bits) to_raw(value)
#define SI(raw, bits) ((double)(raw))
#endif

/* Returns a raw value that a word can hold. */
static lib_real within_word(lib_real raw) {
#if SM_FIXED && LIB_RAW_MAX < INT32_MAX
  return raw > LIB_RAW_MAX ? LIB_RAW_MAX : raw < -LIB_RAW_MAX - 1 ? -LIB_RAW_MAX - 1 : raw;
#else
  return raw;
#endif
}

#if SM_NU > 0
/* Returns the estimate of the state that a command of a position sets, in the format of the command. */
static lib_real position(const sm_controller *c, unsigned i) {
  const lib_real x = c->x[U_STATE[i]];
#if SM_FIXED
  const int right = X_BITS[U_STATE[i]] - U_BITS[i];
  return right > 0 ? (lib_real)(((int64_t)x + (INT64_C(1) << (right - 1))) >> right)
                   : (lib_real)((uint32_t)x << -right);
#else
  return x;
#endif
}

/* Returns a command within its range, and no farther from the one before than a motor moves in a tick. */
static lib_real limited(unsigned i, lib_real wanted, lib_real before) {
#if SM_FIXED
  const int64_t inside = wanted < U_LOW[i] ? U_LOW[i] : wanted > U_HIGH[i] ? U_HIGH[i] : wanted;
  const int64_t most = (int64_t)before + U_STEP[i];
  const int64_t least = (int64_t)before - U_STEP[i];
#else
  const lib_real inside = wanted < U_LOW[i] ? U_LOW[i] : wanted > U_HIGH[i] ? U_HIGH[i] : wanted;
  const lib_real most = before + U_STEP[i];
  const lib_real least = before - U_STEP[i];
#endif
  return (lib_real)(inside > most ? most : inside < least ? least : inside);
}

/* Computes the commands from the row of this tick, or from that which holds the start. */
static void feedback(lib_controller *c, sm_controller *to, uint32_t row, int holds) {
  if (holds) {
    sm_schedule_hold(&c->schedule, to->row);
  } else {
#ifdef SM_GAIT_POSE
    (void)row;
    c->is_overdue = sm_walk_copy_row(&c->walk, to, &c->schedule);
#else
    sm_schedule_row(&c->schedule, row, to->row);
#endif
#ifdef SM_STREAMS
    const uint32_t too_many = SM_STREAM_HOLD_US / SM_PERIOD_US + 1U;
    const bool is_over = row + 1U >= c->schedule.count;
    sm_follow_step(&c->follow, &c->schedule, to, is_over, true, c->silent < too_many);
    c->silent += c->silent < too_many ? 1U : 0U;
#endif
  }
  sm_state_feedback(to);
}

/* Computes the commands; while the start is held those of forces alone are taken over. */
static void command(lib_controller *c, int holds) {
#if LIB_DELAY > 0
  c->ahead = c->controller;
  for (unsigned i = 0; i < LIB_DELAY; i++) {
    memcpy(c->ahead.u, c->history[i], sizeof c->ahead.u);
    sm_predict(&c->ahead);
  }
  feedback(c, &c->ahead, c->row + LIB_DELAY, holds);
  c->controller.overflows = c->ahead.overflows;
  memcpy(c->controller.u, c->ahead.u, sizeof c->ahead.u);
#else
  feedback(c, &c->controller, c->row, holds);
#endif
  for (unsigned i = 0; i < SM_NU; i++) {
    if (!holds || U_STATE[i] < 0) {
      c->applied[i] = limited(i, c->controller.u[i], c->applied[i]);
    }
  }
}

/* Sets the commands of the start: motors are where the estimate says, forces hold it. */
static void first_commands(lib_controller *c) {
  sm_controller trial = c->controller;
  feedback(c, &trial, 0, 1);
  for (unsigned i = 0; i < SM_NU; i++) {
    c->applied[i] = U_STATE[i] < 0 ? limited(i, trial.u[i], 0) : position(&c->controller, i);
  }
#if LIB_DELAY > 0
  for (unsigned i = 0; i < LIB_DELAY; i++) {
    memcpy(c->history[i], c->applied, sizeof c->history[i]);
  }
#endif
}
#endif

static int opened(sm_schedule *schedule, const void *blob, size_t size) {
  static const sm_schedule_kind kind = {SM_MODEL_DIGEST, SM_NROW, SM_SCALAR, SM_PERIOD_US};
  if (blob == NULL) {
    return LIB_SCHEDULE_NONE;
  }
  return (uintptr_t)blob % 4U != 0U ? LIB_SCHEDULE_SIZE
                                    : sm_schedule_open(schedule, (const uint8_t *)blob, size, &kind);
}

#ifdef SM_STREAMS
/* Starts at the last row of the schedule, as if no set-point had come for too long. */
static void no_set_point(lib_controller *c) {
  sm_follow_start(&c->follow, &c->schedule);
  c->silent = UINT32_MAX;
}
#endif

int lib_self_test(lib_controller *c) { return sm_self_test(&c->controller) == 0 ? 0 : LIB_SELF_TEST; }

int lib_start(lib_controller *c) {
  sm_schedule schedule;
  const int result = opened(&schedule, sm_schedule_image, SM_SCHEDULE_BYTES);
  if (result != 0) {
    return result;
  }
  memset(c, 0, sizeof *c);
  c->schedule = schedule;
  sm_start(&c->controller);
#if SM_NU > 0
  first_commands(c);
#endif
#ifdef SM_STREAMS
  no_set_point(c);
#endif
  return 0;
}

int lib_use_schedule(lib_controller *c, const void *blob, size_t size) {
  const int result = opened(&c->schedule, blob, size);
  if (result != 0) {
    return result;
  }
  c->row = 0;
#ifdef SM_STREAMS
  no_set_point(c);
#endif
  return 0;
}

int lib_measure(lib_controller *c, unsigned channel, lib_real raw) {
  if (channel >= SM_NZ) {
    return LIB_NO_SUCH_SIGNAL;
  }
  c->controller.z[channel] = within_word(raw);
  c->measured |= 1U << channel;
  return 0;
}

int lib_measure_si(lib_controller *c, unsigned channel, double value) {
  if (value != value) {
    return LIB_NOT_A_NUMBER;
  }
  return lib_measure(c, channel, lib_z_raw(channel, value));
}

uint32_t lib_update(lib_controller *c) {
  const uint32_t measured = c->measured;
  c->measured = 0;
#ifdef SM_GAIT_POSE
  if (c->is_walking) {
    sm_walk_begin(&c->walk, &c->controller, &c->schedule, c->contact, c->age);
  } else {
    sm_walk_start(&c->walk, &c->controller);
  }
  c->contact = false;
#endif
  return sm_update(&c->controller, measured);
}

void lib_law(lib_controller *c) {
#if SM_NU > 0
  command(c, 0);
#endif
  c->advances = 1;
#ifdef SM_GAIT_POSE
  c->is_walking = true;
#endif
}

void lib_hold(lib_controller *c) {
#ifdef SM_GAIT_POSE /* somebody holds it, not its motors */
  memset(c->applied, 0, sizeof c->applied);
  c->is_walking = false;
#elif SM_NU > 0
  command(c, 1);
#endif
  c->advances = 0;
}

double lib_command_si(const lib_controller *c, unsigned index) { return lib_u_si(index, lib_command(c, index)); }

void lib_predict(lib_controller *c) {
#if LIB_DELAY > 0 && SM_NU > 0
  memcpy(c->controller.u, c->history[0], sizeof c->controller.u);
  memmove(c->history[0], c->history[1], (LIB_DELAY - 1U) * sizeof c->history[0]);
  memcpy(c->history[LIB_DELAY - 1U], c->applied, sizeof c->history[0]);
#elif SM_NU > 0
  memcpy(c->controller.u, c->applied, sizeof c->controller.u);
#endif
  sm_predict(&c->controller);
  c->row += c->row < c->schedule.count ? c->advances : 0U; /* never wraps to the first row */
  c->advances = 0;
}

lib_real lib_estimate(const lib_controller *c, unsigned index) { return index < SM_NX ? c->controller.x[index] : 0; }

double lib_estimate_si(const lib_controller *c, unsigned index) { return lib_x_si(index, lib_estimate(c, index)); }

uint32_t lib_rows(const lib_controller *c) { return c->schedule.count; }

#ifdef SM_GAIT_POSE
uint32_t lib_row(const lib_controller *c) { return c->walk.row; }

void lib_set_row(lib_controller *c, uint32_t row) {
  (void)c;
  (void)row;
}

int lib_is_overdue(const lib_controller *c) { return c->is_overdue; }

void lib_contact(lib_controller *c, lib_real age) {
  c->contact = true;
  c->age = within_word(age);
}

void lib_contact_si(lib_controller *c, double age) { lib_contact(c, RAW(age, LIB_AGE_BITS)); }
#else
uint32_t lib_row(const lib_controller *c) { return c->row < c->schedule.count ? c->row : c->schedule.count - 1U; }

/* Far behind the last row, one more tick or the delay would wrap to the first. */
void lib_set_row(lib_controller *c, uint32_t row) { c->row = row < c->schedule.count ? row : c->schedule.count; }
#endif

uint32_t lib_overflows(const lib_controller *c) { return c->controller.overflows; }

lib_real lib_x_raw(unsigned index, double value) { return index < SM_NX ? RAW(value, X_BITS[index]) : 0; }

double lib_x_si(unsigned index, lib_real raw) { return index < SM_NX ? SI(raw, X_BITS[index]) : 0.0; }

lib_real lib_z_raw(unsigned channel, double value) { return channel < SM_NZ ? RAW(value, Z_BITS[channel]) : 0; }

double lib_z_si(unsigned channel, lib_real raw) { return channel < SM_NZ ? SI(raw, Z_BITS[channel]) : 0.0; }

#ifdef SM_STREAMS
int lib_set_point(lib_controller *c, unsigned index, lib_real raw) {
  if (index >= SM_STREAMS) {
    return LIB_NO_SUCH_SIGNAL;
  }
  sm_follow_set(&c->follow, index, raw);
  c->silent = 0;
  return 0;
}

int lib_set_point_si(lib_controller *c, unsigned index, double value) {
  return value != value ? LIB_NOT_A_NUMBER : lib_set_point(c, index, lib_s_raw(index, value));
}

lib_real lib_s_raw(unsigned index, double value) { return index < SM_STREAMS ? RAW(value, S_BITS[index]) : 0; }

double lib_s_si(unsigned index, lib_real raw) { return index < SM_STREAMS ? SI(raw, S_BITS[index]) : 0.0; }
#endif

#if SM_NU > 0
lib_real lib_command(const lib_controller *c, unsigned index) { return index < SM_NU ? c->applied[index] : 0; }

int lib_applied(lib_controller *c, unsigned index, lib_real raw) {
  if (index >= SM_NU) {
    return LIB_NO_SUCH_SIGNAL;
  }
  c->applied[index] = within_word(raw);
  return 0;
}

lib_real lib_u_raw(unsigned index, double value) { return index < SM_NU ? RAW(value, U_BITS[index]) : 0; }

double lib_u_si(unsigned index, lib_real raw) { return index < SM_NU ? SI(raw, U_BITS[index]) : 0.0; }
#else /* a filter alone: no index is one of a command */
lib_real lib_command(const lib_controller *c, unsigned index) {
  (void)c;
  (void)index;
  return 0;
}

int lib_applied(lib_controller *c, unsigned index, lib_real raw) {
  (void)c;
  (void)index;
  (void)raw;
  return LIB_NO_SUCH_SIGNAL;
}

lib_real lib_u_raw(unsigned index, double value) {
  (void)index;
  (void)value;
  return 0;
}

double lib_u_si(unsigned index, lib_real raw) {
  (void)index;
  (void)raw;
  return 0.0;
}
#endif
