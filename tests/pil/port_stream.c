/* A port without a chip: bytes come from the input and go to the output, motors do not exist, and memory lasts as long as
 * the program. Ends when all of the input was taken. */
#include <string.h>

#include "port.h"
#include "sm_bench.h"
#include "sm_loop.h"

#define JOURNAL 1024U

int app(void);

static uint8_t journals[2][JOURNAL];
static uint8_t board_id[PORT_BOARD_ID];
static uint32_t clock_us;
static bool ended;

uint32_t port_micros(void) { return clock_us += 10U; }
void port_idle(void) { clock_us += 1000U; }
port_reset port_reset_reason(void) { return PORT_RESET_POWER; }
const uint8_t *port_board_id(void) { return board_id; }
void port_init(void) { memset(journals, 0xFF, sizeof journals); }
uint32_t port_overruns(void) { return 0; }
void port_enable(bool on) { (void)on; }

void port_drive(unsigned axis, int32_t effort) {
  (void)axis;
  (void)effort;
}

int32_t port_encoder(unsigned axis) { return (int32_t)(axis * 0U); }
uint32_t port_alarms(void) { return 0; }
void port_watchdog_start(uint32_t timeout_ms) { (void)timeout_ms; }
void port_watchdog_feed(void) {}
bool port_region_lasting(void) { return false; }

size_t port_receive(uint8_t *to, size_t room) {
  const int count = io_read(to, (unsigned)room);
  ended = count <= 0;
  return count > 0 ? (size_t)count : 0U;
}

uint32_t port_baud(void) { return 0; }

size_t port_send_room(void) { return SIZE_MAX; }

size_t port_send(const uint8_t *from, size_t size) {
  io_write(from, (unsigned)size);
  return size;
}

size_t port_region_size(port_region region) { return region >= PORT_LOG_A ? JOURNAL : 0U; }

const uint8_t *port_region_read(port_region region) {
  return region >= PORT_LOG_A ? journals[region - PORT_LOG_A] : NULL;
}

int port_region_erase(port_region region) {
  memset(journals[region - PORT_LOG_A], 0xFF, JOURNAL);
  return 0;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  memcpy(journals[region - PORT_LOG_A] + offset, from, size);
  return 0;
}

_Noreturn void port_restart(void) {
  for (;;) {
  }
}

int app(void) {
  static sm_loop loop;
  static uint8_t key[32];
  static sm_loop_config config;
  if (io_read(key, (unsigned)sizeof key) != (int)sizeof key ||
      io_read(board_id, (unsigned)sizeof board_id) != (int)sizeof board_id) {
    return 1;
  }
  config = sm_loop_defaults;
  config.key = key;
  port_init();
  sm_loop_start(&loop, &config);
  while (!ended) {
    sm_loop_turn(&loop);
  }
  return 0;
}
