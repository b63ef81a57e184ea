#include "sm_walk.h"

#include <string.h>

#if SM_GAIT

#if SM_FIXED
#define BITS 12      /* fraction bits of what is compared: a quarter of a milliradian */
#define LARGEST 8191 /* of a difference, two radians: its square, and the sum of 32 of them, fit 32 bits */

typedef uint32_t sm_sum;

static const int8_t X_BITS[SM_NX] = SM_X_BITS;
static const int8_t ROW_BITS[SM_NROW] = SM_ROW_BITS;

static sm_sum square(sm_real x, sm_real reference, unsigned i) {
  const int32_t off = (x >> (X_BITS[i] - BITS)) - (reference >> (ROW_BITS[i] - BITS));
  const int32_t limited = off > LARGEST ? LARGEST : off < -LARGEST ? -LARGEST : off;
  return (uint32_t)(limited * limited);
}
#else
typedef sm_real sm_sum;

static sm_sum square(sm_real x, sm_real reference, unsigned i) {
  (void)i;
  return (x - reference) * (x - reference);
}
#endif

/* Returns the sum of squares of what a pose is off schedule entry k. */
static sm_sum distance(const sm_schedule *s, const sm_real *x, uint32_t k) {
  sm_real pose[SM_GAIT_POSE];
  memcpy(pose, s->rows + (size_t)k * s->row_bytes, sizeof pose);
  sm_sum sum = 0;
  for (unsigned i = 0; i < SM_GAIT_POSE; i++) {
    sum += square(x[i], pose[i], i);
  }
  return sum;
}

uint32_t sm_walk_nearest(const sm_schedule *s, const sm_real *x, uint32_t expected) {
  const uint32_t last = s->count - 1U;
  const uint32_t from = expected < SM_WALK_BACK ? 0U : expected - SM_WALK_BACK;
  const uint32_t to = expected + SM_WALK_AHEAD < last ? expected + SM_WALK_AHEAD : last;
  uint32_t best = from < last ? from : last;
  sm_sum least = distance(s, x, best);
  for (uint32_t k = best + 1U; k <= to; k++) {
    const sm_sum sum = distance(s, x, k);
    if (sum < least) {
      least = sum;
      best = k;
    }
  }
  return best;
}

void sm_walk_start(sm_walk *w, sm_controller *c) {
  memset(w, 0, sizeof *w);
  sm_start(c);
}

void sm_walk_begin(sm_walk *w, sm_controller *c, const sm_schedule *s, bool contact, sm_real age) {
  w->landed = contact && w->has_row && w->row >= s->gait / 2U;
  if (w->landed) {
    c->mode[SM_GAIT_CONTACT] = SM_GAIT_CONTACT_ONE;
    c->mode[SM_GAIT_AGE] = age;
    w->ticks = 0;
  }
}

bool sm_walk_copy_row(sm_walk *w, sm_controller *c, const sm_schedule *s) {
  const uint32_t expected = w->landed || !w->has_row ? 0U : w->row + 1U;
  w->row = sm_walk_nearest(s, c->x, expected);
  w->has_row = true;
  w->landed = false;
  w->ticks++;
  c->mode[SM_GAIT_ROW] = (sm_real)w->row * SM_GAIT_ROW_ONE;
  sm_schedule_row(s, w->row, c->row);
  return w->row + 1U == s->count || w->ticks > s->count + SM_WALK_AHEAD;
}

#endif
