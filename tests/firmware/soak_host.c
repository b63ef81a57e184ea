#include "soak_host.h"

#include <string.h>

#define SYSTEM 1U
#define HOST 255U
#define ROOM 131072U
#define FRAME (SM_LINK_FRAME + 64U)
#define RECORDS 16U
#define TIMESTAMP_0 UINT64_C(34700000000000) /* 10 µs since 2015: of 2026 */
#define AHEAD 5000U                          /* that the sequences of false measurements are ahead of the true ones */

typedef struct {
  uint8_t bytes[FRAME];
  size_t size;
} frame;

/* Faults per million frames; measurements get lost, late and wrong besides (soak.c). */
static const uint32_t rates[LINE_FAULTS] = {
    [LOST] = 2000,      [DOUBLED] = 5000, [FLIPPED] = 5000, [CUT_OFF] = 2000,   [NOISE] = 3000,
    [OVERTAKEN] = 1000, [FORGED] = 3000,  [BARE] = 3000,    [ELSEWHERE] = 2000, [RECORDED] = 3000};

soak_counts soak_counted;
const char *soak_failed;
soak_host host;

static uint64_t random_state;
static uint8_t link_key[SM_DIGEST];
static const uint8_t other_key[SM_DIGEST] = {9, 9, 9};
static sm_sha256 told;
static uint8_t heard[ROOM];
static size_t heard_size;
static frame held; /* is overtaken by the next one */
static frame records[RECORDS];
static uint8_t frame_sequence;
static uint32_t uptime_ms;
static uint64_t jammed_bytes; /* that the board had sent when its line was jammed last */

/* splitmix64 */
static uint64_t chance(void) {
  uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

void chance_seed(uint64_t seed) { random_state = seed; }
uint32_t chance_below(uint32_t limit) { return (uint32_t)((chance() >> 32) * limit >> 32); }
bool chance_of(uint32_t per_million) { return chance_below(1000000U) < per_million; }

int32_t chance_around(int32_t sigma) {
  int64_t sum = -6 * 65536;
  for (unsigned i = 0; i < 3U; i++) {
    for (uint64_t bits = chance(), k = 0; k < 4U; k++, bits >>= 16) {
      sum += (int64_t)(bits & 0xFFFFU);
    }
  }
  return (int32_t)(sum * sigma / 65536);
}

void host_open(const uint8_t *key) {
  memset(&soak_counted, 0, sizeof soak_counted);
  memset(&host, 0, sizeof host);
  soak_failed = NULL;
  sm_sha256_derive_key(key, "stepmap link", port_board_id(), link_key);
  sm_sha256_start(&told);
  heard_size = held.size = 0;
  jammed_bytes = 0;
  memset(records, 0, sizeof records);
  frame_sequence = 0;
  host.stamp = TIMESTAMP_0;
  host_started();
}

void host_started(void) { uptime_ms = 0; }

void host_digest(uint8_t digest[32]) {
  sm_sha256 copy = told;
  sm_sha256_end(&copy, digest);
}

void host_pass(uint32_t us) { host.stamp += (us + 9U) / 10U; }

static void sign(const uint8_t *bytes, size_t size, const uint8_t *key, uint8_t signature[6]) {
  uint8_t digest[SM_DIGEST];
  sm_sha256 sha;
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, key, SM_DIGEST);
  sm_sha256_add(&sha, bytes, size);
  sm_sha256_end(&sha, digest);
  memcpy(signature, digest, 6);
}

/* Makes the frame of a message; unsigned where there is no key. */
static void make(frame *f, const mavlink_msg_entry_t *entry, const uint8_t *payload, const uint8_t *key) {
  size_t length = entry->max_msg_len;
  while (length > 1U && payload[length - 1U] == 0U) {
    length--;
  }
  const uint8_t head[10] = {0xFD,
                            (uint8_t)length,
                            key != NULL ? MAVLINK_IFLAG_SIGNED : 0U,
                            0,
                            frame_sequence++,
                            HOST,
                            1,
                            (uint8_t)entry->msgid,
                            (uint8_t)(entry->msgid >> 8),
                            (uint8_t)(entry->msgid >> 16)};
  memcpy(f->bytes, head, sizeof head);
  memcpy(f->bytes + 10, payload, length);
  uint16_t crc = crc_calculate(f->bytes + 1, (uint16_t)(9U + length));
  crc_accumulate(entry->crc_extra, &crc);
  memcpy(f->bytes + 10U + length, &crc, 2);
  f->size = 12U + length;
  if (key != NULL) {
    host.stamp++;
    f->bytes[f->size] = 0;
    memcpy(f->bytes + f->size + 1U, &host.stamp, 6);
    sign(f->bytes, f->size + 7U, key, f->bytes + f->size + 7U);
    f->size += 13U;
  }
}

void host_noise(void) {
  uint8_t noise[64];
  const uint32_t size = 1U + chance_below(sizeof noise);
  for (uint32_t i = 0; i < size; i++) {
    noise[i] = chance_of(50000) ? 0xFDU : (uint8_t)chance_below(256);
  }
  board_feed(noise, size);
  soak_counted.line[NOISE]++;
}

/* A false message that would change something if it were believed. */
static void send_false(const mavlink_msg_entry_t *entry, const uint8_t *payload, unsigned kind) {
  uint8_t copy[MAVLINK_MAX_DIALECT_PAYLOAD_SIZE];
  memcpy(copy, payload, sizeof copy);
  if (entry->msgid == MAVLINK_MSG_ID_MEASUREMENT) {
    const uint32_t sequence = host.sequence + AHEAD;
    memcpy(copy + offsetof(mavlink_measurement_t, sequence), &sequence, sizeof sequence);
  }
  if (kind == ELSEWHERE) {
    copy[entry->target_system_ofs] = SYSTEM + 1U;
  }
  frame made;
  make(&made, entry, copy, kind == BARE ? NULL : kind == FORGED ? other_key : link_key);
  board_feed(made.bytes, made.size);
}

/* A frame on its way, and what happens to it there. */
static void carry(frame *f, bool fault[LINE_FAULTS]) {
  records[chance_below(RECORDS)] = *f;
  if (fault[FLIPPED]) {
    for (uint32_t left = 1U + chance_below(3); left > 0U; left--) {
      f->bytes[chance_below((uint32_t)f->size)] ^= (uint8_t)(1U << chance_below(8));
    }
  }
  f->size -= fault[CUT_OFF] ? 1U + chance_below((uint32_t)f->size - 1U) : 0U;
  if (fault[OVERTAKEN] && held.size == 0U) {
    held = *f;
    return;
  }
  if (!fault[LOST]) {
    board_feed(f->bytes, f->size);
  }
  if (fault[DOUBLED]) {
    board_feed(f->bytes, f->size);
  }
  board_feed(held.bytes, held.size);
  held.size = 0;
}

void host_send(uint32_t id, const void *payload) {
  const mavlink_msg_entry_t *entry = mavlink_get_msg_entry(id);
  uint8_t copy[MAVLINK_MAX_DIALECT_PAYLOAD_SIZE] = {0};
  memcpy(copy, payload, entry->max_msg_len);
  copy[entry->target_system_ofs] = SYSTEM;
  bool fault[LINE_FAULTS] = {false};
  for (unsigned kind = 0; kind < LINE_FAULTS && !host.is_quiet; kind++) {
    fault[kind] = chance_of(rates[kind]);
    soak_counted.line[kind] += fault[kind] && kind != NOISE ? 1U : 0U;
  }
  if (fault[NOISE]) {
    host_noise();
  }
  for (unsigned kind = FORGED; kind <= ELSEWHERE; kind++) {
    if (fault[kind]) {
      send_false(entry, copy, kind);
    }
  }
  if (fault[RECORDED]) {
    const frame *old = &records[chance_below(RECORDS)];
    board_feed(old->bytes, old->size);
  }
  frame made;
  make(&made, entry, copy, link_key);
  soak_counted.sent++;
  carry(&made, fault);
}

static void on_telemetry(const mavlink_telemetry_t *m) {
  soak_counted.ticks++;
  SOAK_CHECK(m->state < SOAK_STATES && m->reason < SOAK_REASONS);
  SOAK_CHECK((int32_t)(m->sequence - host.sequence) <= 0); /* that of no false measurement, and of no message since */
  SOAK_CHECK(m->states == SM_NX && m->channels == SM_NZ);
  soak_counted.states[m->state % SOAK_STATES]++;
}

static void on_heartbeat(const mavlink_heartbeat_t *m) {
  soak_counted.uptime_wraps += m->uptime_ms < uptime_ms ? 1U : 0U;
  uptime_ms = m->uptime_ms;
}

static void on_actuator(const mavlink_virtual_actuator_t *m) {
  for (unsigned i = 0; i < PORT_MOTORS; i++) {
    SOAK_CHECK(m->effort[i] >= -1000 && m->effort[i] <= 1000);
    SOAK_CHECK(m->enabled != 0U || m->effort[i] == 0);
  }
}

/* A frame with a right checksum: signed by the board, where it is signed. */
static void on_frame(uint8_t *bytes, size_t size, uint32_t id) {
  union {
    mavlink_telemetry_t telemetry;
    mavlink_heartbeat_t heartbeat;
    mavlink_virtual_actuator_t actuator;
    mavlink_command_ack_t answer;
    uint8_t bytes[MAVLINK_MAX_DIALECT_PAYLOAD_SIZE];
  } m;
  memset(&m, 0, sizeof m);
  memcpy(m.bytes, bytes + 10, bytes[1]);
  soak_counted.frames++;
  if ((bytes[2] & MAVLINK_IFLAG_SIGNED) != 0U) {
    uint64_t stamp = 0;
    memcpy(&stamp, bytes + size - 12U, 6);
    host.stamp = stamp > host.stamp ? stamp : host.stamp; /* behind a reset the board is ahead, and hosts follow */
  }
  if (id == MAVLINK_MSG_ID_TELEMETRY) {
    on_telemetry(&m.telemetry);
  } else if (id == MAVLINK_MSG_ID_HEARTBEAT) {
    on_heartbeat(&m.heartbeat);
  } else if (id == MAVLINK_MSG_ID_VIRTUAL_ACTUATOR) {
    on_actuator(&m.actuator);
  } else if (id == MAVLINK_MSG_ID_COMMAND_ACK) {
    host.answer = m.answer;
  }
}

/* Returns the bytes of the frame at the start, 0 where none begins there, and SIZE_MAX where its end has not come. */
static size_t examine(const uint8_t *bytes, size_t size, uint32_t *id) {
  if (size < 12U) {
    return SIZE_MAX;
  }
  *id = bytes[7] | (uint32_t)bytes[8] << 8 | (uint32_t)bytes[9] << 16;
  const mavlink_msg_entry_t *entry = mavlink_get_msg_entry(*id);
  if (bytes[0] != 0xFDU || entry == NULL || bytes[1] > entry->max_msg_len) {
    return 0;
  }
  const bool is_signed = (bytes[2] & MAVLINK_IFLAG_SIGNED) != 0U;
  const size_t whole = 12U + bytes[1] + (is_signed ? 13U : 0U);
  if (size < whole) {
    return SIZE_MAX;
  }
  uint16_t crc = crc_calculate(bytes + 1, (uint16_t)(9U + bytes[1]));
  crc_accumulate(entry->crc_extra, &crc);
  if (memcmp(&crc, bytes + 10U + bytes[1], 2) != 0) {
    return 0;
  }
  uint8_t signature[6];
  sign(bytes, whole - 6U, link_key, signature);
  const bool is_cut = is_signed && memcmp(signature, bytes + whole - 6U, 6) != 0;
  SOAK_CHECK(!is_cut || soak_counted.bytes < jammed_bytes + 2U * FRAME);
  return is_cut ? 0U : whole;
}

void host_hear(void) {
  const size_t count = board_sent(heard + heard_size, sizeof heard - heard_size);
  if (count == 0U) {
    return;
  }
  sm_sha256_add(&told, heard + heard_size, count);
  soak_counted.bytes += count;
  jammed_bytes = host.is_jammed ? soak_counted.bytes : jammed_bytes;
  heard_size += count;
  size_t at = 0;
  while (at < heard_size) {
    uint32_t id = 0;
    const size_t size = examine(heard + at, heard_size - at, &id);
    if (size == SIZE_MAX) {
      break;
    }
    if (size > 0U) {
      on_frame(heard + at, size, id);
    } else {
      soak_counted.damaged += heard[at] == 0xFDU ? 1U : 0U;
    }
    at += size > 0U ? size : 1U;
  }
  memmove(heard, heard + at, heard_size - at);
  heard_size -= at;
}
