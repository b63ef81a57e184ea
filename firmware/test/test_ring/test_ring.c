/* The queue between interrupt and main loop. */
#include "check.h"
#include "port.h"
#include "ring.h"

static void test_takes_what_was_put_in_order(void) {
  uint8_t bytes[8];
  ring r = {.bytes = bytes, .room = sizeof bytes};
  uint8_t next = 0;
  uint8_t expected = 0;
  for (unsigned round = 0; round < 100U; ++round) {
    for (unsigned i = 0; i < 1U + round % 8U; ++i) {
      CHECK(ring_put(&r, next++));
    }
    uint8_t taken[3];
    for (size_t count = 1; count > 0U;) {
      count = ring_take(&r, taken, sizeof taken);
      for (size_t i = 0; i < count; ++i) {
        CHECK(taken[i] == expected++);
      }
    }
    CHECK(ring_waiting(&r) == 0U);
  }
}

static void test_refuses_when_full_and_loses_nothing_before(void) {
  uint8_t bytes[4];
  ring r = {.bytes = bytes, .room = sizeof bytes};
  for (uint8_t i = 0; i < 4U; ++i) {
    CHECK(ring_put(&r, i));
  }
  CHECK(!ring_put(&r, 4));
  uint8_t taken[8];
  CHECK(ring_take(&r, taken, sizeof taken) == 4U);
  CHECK(taken[0] == 0U && taken[3] == 3U);
  CHECK(ring_put(&r, 5));
}

static void test_counters_may_wrap(void) {
  uint8_t bytes[4];
  ring r = {.bytes = bytes, .room = sizeof bytes, .put = UINT32_MAX - 1U, .taken = UINT32_MAX - 1U};
  for (uint8_t i = 0; i < 4U; ++i) {
    CHECK(ring_put(&r, i));
  }
  CHECK(ring_waiting(&r) == 4U);
  uint8_t taken[4];
  CHECK(ring_take(&r, taken, sizeof taken) == 4U);
  CHECK(taken[0] == 0U && taken[1] == 1U && taken[2] == 2U && taken[3] == 3U);
}

int main(void) {
  port_init();
  CHECK_RUN(test_takes_what_was_put_in_order);
  CHECK_RUN(test_refuses_when_full_and_loses_nothing_before);
  CHECK_RUN(test_counters_may_wrap);
  return check_done();
}
