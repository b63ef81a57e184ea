#include "sm_gait.h"

#include <string.h>

#include "sm_loop.h"

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

uint32_t sm_gait_nearest(const sm_schedule *s, const sm_real *x, uint32_t expected) {
  const uint32_t last = s->count - 1U;
  const uint32_t from = expected < SM_GAIT_BACK ? 0U : expected - SM_GAIT_BACK;
  const uint32_t to = expected + SM_GAIT_AHEAD < last ? expected + SM_GAIT_AHEAD : last;
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

void sm_gait_start(sm_loop *l) {
  memset(&l->gait, 0, sizeof l->gait);
  sm_start(&l->control.controller);
}

void sm_gait_begin(sm_loop *l, uint32_t contacts, sm_real age) {
  sm_gait *g = &l->gait;
  if (!l->control.is_running) {
    sm_gait_start(l);
    return;
  }
  sm_controller *c = &l->control.controller;
  g->landed = (contacts & 1U) != 0U && g->has_row && g->row >= l->selection.schedule.gait / 2U;
  if (g->landed) {
    c->mode[SM_GAIT_CONTACT] = SM_GAIT_CONTACT_ONE;
    c->mode[SM_GAIT_AGE] = age;
    g->ticks = 0;
  }
}

void sm_gait_copy_row(sm_loop *l) {
  sm_gait *g = &l->gait;
  sm_controller *c = &l->control.controller;
  const sm_schedule *s = &l->selection.schedule;
  const uint32_t expected = g->landed || !g->has_row ? 0U : g->row + 1U;
  g->row = sm_gait_nearest(s, c->x, expected);
  g->has_row = true;
  g->landed = false;
  g->ticks++;
  c->mode[SM_GAIT_ROW] = (sm_real)g->row * SM_GAIT_ROW_ONE;
  sm_schedule_row(s, g->row, c->row);
  if (g->row + 1U == s->count || g->ticks > s->count + SM_GAIT_AHEAD) {
    sm_loop_event(l, SM_EVENT_NO_LANDING);
  }
}

#endif
