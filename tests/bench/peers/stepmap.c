/* Runs a controller on records of all its fields, a whole tick or the prediction alone; answers the fields and the
 * instructions it took. */
#include "controller.h"
#include "sm_bench.h"

static sm_controller c;

int app(void) {
  const uint32_t all = (UINT32_C(1) << SM_NZ) - 1U;
  while (io_read(c.all, sizeof c.all) == (int)sizeof c.all) {
    uint32_t taken = all;
    count_begin();
    if (!ONLY_MAP) {
      taken = sm_update(&c, all);
      sm_state_feedback(&c);
    }
    sm_predict(&c);
    const uint32_t count = count_end();
    io_write(c.all, sizeof c.all);
    io_write(&count, sizeof count);
    if (taken != all) {
      return 1; /* a gate ended an update early: the count would be too small */
    }
  }
  return 0;
}
