#include "sm_stream.h"

#include <string.h>

#include "sm_loop.h"

#if SM_STREAMS > 0

void sm_stream_start(sm_loop *l) {
  sm_stream *s = &l->stream;
  memset(s, 0, sizeof *s);
  sm_follow_start(&s->follow, &l->selection.schedule);
}

void sm_stream_on_set_point(sm_loop *l, const sm_message *message) {
  sm_stream *s = &l->stream;
  mavlink_set_point_t m;
  sm_link_read(message, &m);
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    sm_follow_set(&s->follow, j, sm_numbers_from_wire(m.values[j]));
  }
  s->sequence = m.sequence;
  s->heard_us = sm_clock_now_us(&l->clock);
  s->is_heard = true;
}

void sm_stream_step(sm_loop *l, uint32_t k, sm_controller *c) {
  sm_stream *s = &l->stream;
  if (!l->control.is_running) {
    return;
  }
  const bool is_over = k + 1U >= l->selection.schedule.count;
  const bool moves = sm_supervisor_allowed(&l->supervisor).motion == SM_MOTION_FOLLOW;
  s->is_heard = s->is_heard && sm_clock_now_us(&l->clock) - s->heard_us <= SM_STREAM_HOLD_US;
  sm_follow_step(&s->follow, &l->selection.schedule, c, is_over, moves, s->is_heard);
  s->state = !is_over ? STEPMAP_STREAM_WAITING : s->is_heard ? STEPMAP_STREAM_FOLLOWING : STEPMAP_STREAM_HOLDING;
}

void sm_stream_report(sm_loop *l) {
  const sm_stream *s = &l->stream;
  if (!l->control.is_running) {
    return;
  }
  mavlink_set_point_status_t m = {.tick = l->control.tick, .sequence = s->sequence, .state = s->state};
  for (unsigned j = 0; j < SM_STREAMS; j++) {
    m.value[j] = sm_numbers_to_wire(s->follow.value[j]);
    m.next[j] = sm_numbers_to_wire(s->follow.next[j]);
  }
  sm_report_send(l, MAVLINK_MSG_ID_SET_POINT_STATUS, &m);
}

#endif
