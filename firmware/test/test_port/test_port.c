/* What core/port.h promises, on every board. */
#include <string.h>

#include "check.h"
#include "port.h"

static void test_time_goes_on(void) {
  uint32_t before = port_micros();
  const uint32_t start = before;
  while (port_micros() - start < 20000U) {
    const uint32_t now = port_micros();
    CHECK(now - before < UINT32_MAX / 2U); /* forward, never back */
    before = now;
  }
}

static void test_idle_ends_within_milliseconds(void) {
  const uint32_t start = port_micros();
  for (unsigned i = 0; i < 10U; ++i) {
    port_idle();
  }
  CHECK(port_micros() - start < 500000U); /* an emulator or a busy computer may be late, but not for ever */
}

static void test_regions_have_what_they_need(void) {
  CHECK(port_region_size(PORT_SLOT_A) == port_region_size(PORT_SLOT_B));
  CHECK(port_region_size(PORT_LOG_A) == port_region_size(PORT_LOG_B));
  CHECK(port_region_size(PORT_LOG_A) >= 128U);
  CHECK(port_region_size(PORT_REGIONS) == 0U);
  for (unsigned region = 0; region < PORT_REGIONS; ++region) {
    const size_t size = port_region_size((port_region)region);
    CHECK((port_region_read((port_region)region) == NULL) == (size == 0U));
    CHECK(size % 8U == 0U);
  }
}

static void test_erased_regions_are_all_ones(void) {
  for (unsigned region = 0; region < PORT_REGIONS; ++region) {
    const size_t size = port_region_size((port_region)region);
    CHECK((port_region_erase((port_region)region) == 0) == (size > 0U));
    for (size_t i = 0; i < size; ++i) {
      CHECK(port_region_read((port_region)region)[i] == 0xFFU);
    }
  }
}

static void test_writes_are_read_back(void) {
  static const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (unsigned region = 0; region < PORT_REGIONS; ++region) {
    const size_t size = port_region_size((port_region)region);
    if (size == 0U) {
      CHECK(port_region_write((port_region)region, 0, bytes, sizeof bytes) < 0);
      continue;
    }
    const uint8_t *content = port_region_read((port_region)region);
    CHECK(port_region_erase((port_region)region) == 0);
    CHECK(port_region_write((port_region)region, 8, bytes, sizeof bytes) == 0);
    CHECK(port_region_write((port_region)region, size - 8U, bytes, 8) == 0);
    CHECK(content[7] == 0xFFU && content[24] == 0xFFU);
    CHECK(memcmp(content + 8, bytes, sizeof bytes) == 0);
    CHECK(memcmp(content + size - 8U, bytes, 8) == 0);
  }
}

static void test_bits_are_set_by_erasing_only(void) {
  static const uint8_t zeros[8] = {0};
  static const uint8_t ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  CHECK(port_region_erase(PORT_LOG_A) == 0);
  CHECK(port_region_write(PORT_LOG_A, 0, zeros, sizeof zeros) == 0);
  CHECK(port_region_write(PORT_LOG_A, 0, ones, sizeof ones) < 0);
  CHECK(port_region_read(PORT_LOG_A)[0] == 0U);
}

static void test_writes_outside_are_refused(void) {
  static const uint8_t bytes[16] = {0};
  const size_t size = port_region_size(PORT_LOG_A);
  CHECK(port_region_write(PORT_LOG_A, size, bytes, 8) < 0);
  CHECK(port_region_write(PORT_LOG_A, size - 8U, bytes, 16) < 0);
  CHECK(port_region_write(PORT_LOG_A, SIZE_MAX - 7U, bytes, 16) < 0);
  CHECK(port_region_write(PORT_LOG_A, 4, bytes, 8) < 0);
  CHECK(port_region_write(PORT_LOG_A, 8, bytes, 4) < 0);
  CHECK(port_region_write(PORT_REGIONS, 0, bytes, 8) < 0);
  CHECK(port_region_erase(PORT_REGIONS) < 0);
}

static void test_motors_take_any_effort(void) {
  port_enable(true);
  port_drive(0, 1000000);
  port_drive(1, INT32_MIN);
  port_drive(PORT_MOTORS, 1);
  (void)port_encoder(0);
  CHECK(port_encoder(PORT_ENCODERS) == 0);
  port_enable(false);
}

static void test_the_id_stays_the_same(void) {
  uint8_t before[PORT_BOARD_ID];
  CHECK(port_board_id() != NULL);
  memcpy(before, port_board_id(), sizeof before);
  CHECK(memcmp(before, port_board_id(), sizeof before) == 0);
}

static void test_a_watchdog_that_is_fed_stays_quiet(void) {
  port_watchdog_start(500);
  const uint32_t start = port_micros();
  while (port_micros() - start < 600000U) {
    port_watchdog_feed();
    port_idle();
  }
}

int main(void) {
  port_init();
  CHECK_RUN(test_time_goes_on);
  CHECK_RUN(test_idle_ends_within_milliseconds);
  CHECK_RUN(test_regions_have_what_they_need);
  CHECK_RUN(test_erased_regions_are_all_ones);
  CHECK_RUN(test_writes_are_read_back);
  CHECK_RUN(test_bits_are_set_by_erasing_only);
  CHECK_RUN(test_writes_outside_are_refused);
  CHECK_RUN(test_motors_take_any_effort);
  CHECK_RUN(test_the_id_stays_the_same);
  CHECK_RUN(test_a_watchdog_that_is_fed_stays_quiet);
  return check_done();
}
