#include "sm_gait.h"

#include "sm_loop.h"

#if SM_GAIT

void sm_gait_start(sm_loop *l) { sm_walk_start(&l->gait, &l->control.controller); }

void sm_gait_begin(sm_loop *l, uint32_t contacts, sm_real age) {
  if (!l->control.is_running) {
    sm_gait_start(l);
    return;
  }
  sm_walk_begin(&l->gait, &l->control.controller, &l->selection.schedule, (contacts & 1U) != 0U, age);
}

void sm_gait_copy_row(sm_loop *l) {
  if (sm_walk_copy_row(&l->gait, &l->control.controller, &l->selection.schedule)) {
    sm_loop_event(l, SM_EVENT_NO_LANDING);
  }
}

#endif
