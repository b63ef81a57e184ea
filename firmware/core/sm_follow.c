#include "sm_follow.h"

#if SM_STREAMS > 0

#include <string.h>

#include "sm_fixed.h"

#define REFERENCES (SM_NX + SM_NU) /* entries of a row before its gains */

static const uint8_t STATE[SM_STREAMS] = SM_STREAM_STATE; /* entry of a row that is the quantity itself */
static const sm_real LOW[SM_STREAMS] = SM_STREAM_LOW;
static const sm_real HIGH[SM_STREAMS] = SM_STREAM_HIGH;
static const sm_real STEP[SM_STREAMS] = SM_STREAM_STEP;
static const sm_real CHANGE[SM_STREAMS] = SM_STREAM_CHANGE;

/* A NaN becomes the lower limit. */
static sm_real within(sm_real v, sm_real low, sm_real high) {
  const sm_real above = v > low ? v : low;
  return above < high ? above : high;
}

/* Returns entry i of a row of the tangent. */
static sm_real slope(const sm_schedule *s, unsigned row, unsigned i) {
  sm_real v;
  memcpy(&v, sm_schedule_tangent(s, row) + i * sizeof v, sizeof v);
  return v;
}

#if SM_FIXED
typedef int64_t sm_wide; /* of products of two numbers, each below 2^31 */

static sm_real minus(sm_real a, sm_real b, uint32_t *overflowed) { return sm_limit((int64_t)a - b, overflowed); }

static int64_t scaled(sm_real a, sm_real b, unsigned right) {
  return ((int64_t)a * b + (INT64_C(1) << (right - 1U))) >> right;
}
#else
typedef sm_real sm_wide;

static sm_real minus(sm_real a, sm_real b, uint32_t *overflowed) {
  (void)overflowed;
  return a - b;
}
#endif

/* Returns entry i of a row, moved by the set-points that are `off` from those of the row and change by `change`. */
static sm_real moved(const sm_schedule *s, unsigned i, sm_real entry, const sm_real *off, const sm_real *change,
                     uint32_t *overflowed) {
#if SM_FIXED
  int64_t sum = entry;
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    sum += scaled(slope(s, j, i), off[j], SM_STREAM_POSITION_BITS);
    sum += scaled(slope(s, SM_STREAMS + j, i), change[j], SM_STREAM_SPEED_BITS);
  }
  return sm_limit(sum, overflowed);
#else
  (void)overflowed;
  sm_real sum = entry;
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    sum += slope(s, j, i) * off[j] + slope(s, SM_STREAMS + j, i) * change[j];
  }
  return sum;
#endif
}

void sm_follow_start(sm_follow *f, const sm_schedule *s) {
  sm_real row[SM_NROW];
  memset(f, 0, sizeof *f);
  sm_schedule_row(s, s->count - 1U, row);
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    f->target[j] = f->value[j] = f->next[j] = row[STATE[j]];
  }
}

void sm_follow_set(sm_follow *f, unsigned i, sm_real set_point) { f->target[i] = within(set_point, LOW[i], HIGH[i]); }

/* Returns how far to move in a tick towards what is `off` away: the most with which it can still stop there, where the
 * speed was `speed` per tick and may become `most`, and changes by `change` at a time. Slowing down by `change` a tick
 * takes speed (speed + change) / (2 change). */
static sm_real toward(sm_real off, sm_real speed, sm_real most, sm_real change) {
  if (off <= change && off >= -change && off <= most && off >= -most && off - speed <= change &&
      off - speed >= -change) {
    return off;
  }
  const bool is_ahead = off > 0;
  const sm_wide far = is_ahead ? (sm_wide)off : -(sm_wide)off;
  const sm_real forward = is_ahead ? speed : -speed;
  sm_real next = forward + change < most ? forward + change : most;
  if (next > 0 && (sm_wide)next * (next + change) > 2 * (sm_wide)change * far) {
    next = forward;
    if (next > 0 && (sm_wide)next * (next + change) > 2 * (sm_wide)change * far) {
      next = forward - change;
    }
  }
  return is_ahead ? next : -next;
}

/* Returns a speed that is slowed down by `change`. */
static sm_real slowed(sm_real speed, sm_real change) { return speed - within(speed, -change, change); }

/* Moves value and next on by a tick; `moves` is whether they may change. */
static void advance(sm_follow *f, bool moves, bool is_heard, uint32_t *overflowed) {
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    const sm_real speed = f->next[j] - f->value[j];
    f->value[j] = f->next[j];
    if (moves) {
      const sm_real off = minus(f->target[j], f->value[j], overflowed);
      f->next[j] += is_heard ? toward(off, speed, STEP[j], CHANGE[j]) : slowed(speed, CHANGE[j]);
    }
  }
}

void sm_follow_step(sm_follow *f, const sm_schedule *s, sm_controller *c, bool is_over, bool moves, bool is_heard) {
  uint32_t overflowed = 0;
  advance(f, is_over && moves, is_heard, &overflowed);
  if (is_over) {
    sm_real off[SM_STREAMS];
    sm_real change[SM_STREAMS];
    for (unsigned j = 0; j < SM_STREAMS; j++) {
      off[j] = minus(f->value[j], c->row[STATE[j]], &overflowed);
      change[j] = minus(f->next[j], f->value[j], &overflowed);
    }
    for (unsigned i = 0; i < REFERENCES; i++) {
      c->row[i] = moved(s, i, c->row[i], off, change, &overflowed);
    }
  }
  c->overflows += overflowed;
}

#endif
