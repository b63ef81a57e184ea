/* The parser under coverage-guided input: whatever arrives, only what was signed with the key is taken, once and in order.
 *
 * Input is a list of steps: raw bytes; frames with a right checksum, unsigned, signed with another key, or with the key;
 * a frame sent before, again; a reset; a message to send. */
#include <stdlib.h>
#include <string.h>

#include "flash.h"
#include "sm_link.h"

#define SYSTEM 1U
#define KEPT 32U

typedef struct {
  const uint8_t *at;
  size_t left;
} input;

static uint8_t next(input *in) {
  if (in->left == 0U) {
    return 0;
  }
  in->left--;
  return *in->at++;
}

static size_t sink(void *context, const uint8_t *from, size_t size) {
  size_t *ends = context;
  *ends += from[0] + from[size - 1U]; /* both are there */
  return size % 7U == 3U ? size - 1U : size;
}

typedef struct {
  uint8_t bytes[SM_LINK_FRAME + 64U];
  size_t size;
  bool taken;
} kept;

static sm_store store;
static sm_link link;
static size_t sum;
static uint64_t now;
static kept sent[KEPT]; /* frames signed with the key since the last reset */
static size_t count;
static const uint8_t key[SM_DIGEST] = {1, 2, 3};
static const uint8_t board_id[PORT_BOARD_ID] = {4, 5, 6};
static uint8_t link_key[SM_DIGEST];

static void reset(void) {
  sm_store_open(&store);
  if (sm_store_erase_ahead(&store) != 0 || sm_link_start(&link, &store, SYSTEM, key, board_id, sink, &sum) != 0) {
    abort();
  }
  count = 0;
  now = sm_store_window_start(&store) > now ? sm_store_window_start(&store) : now;
}

/* A message that was taken must be a frame we signed that was not taken before. */
static void judge(const sm_message *message) {
  uint8_t copy[MAVLINK_MAX_DIALECT_PAYLOAD_SIZE]; /* no more than the largest needs: a write behind its end is found */
  sm_link_read(message, copy);
  for (size_t i = 0; i < count; i++) {
    if (!sent[i].taken && sent[i].bytes[1] == message->size &&
        memcmp(sent[i].bytes + 10, message->payload, message->size) == 0) {
      sent[i].taken = true;
      return;
    }
  }
  abort();
}

static void feed(const uint8_t *bytes, size_t size) {
  uint8_t *exact = malloc(size > 0U ? size : 1U);
  if (exact == NULL) {
    abort();
  }
  memcpy(exact, bytes, size);
  sm_message message;
  size_t at = 0;
  do {
    at += sm_link_take(&link, exact + at, size - at, &message);
    if (message.id != 0U) {
      judge(&message);
    }
  } while (link.pending);
  if (at != size) {
    abort();
  }
  free(exact);
}

/* A frame of the dialect with a right checksum; the signature block is left to do. */
static size_t make(input *in, uint8_t *frame, bool signature) {
  static const mavlink_msg_entry_t entries[] = MAVLINK_MESSAGE_CRCS;
  const mavlink_msg_entry_t *entry = &entries[next(in) % (sizeof entries / sizeof *entries)];
  const uint8_t asked = next(in);
  const uint8_t length = asked <= entry->max_msg_len ? asked : entry->max_msg_len;
  const uint8_t head[10] = {0xFD,
                            length,
                            signature ? 1U : 0U,
                            next(in),
                            next(in),
                            next(in),
                            next(in) % 2U,
                            (uint8_t)entry->msgid,
                            (uint8_t)(entry->msgid >> 8),
                            (uint8_t)(entry->msgid >> 16)};
  memcpy(frame, head, sizeof head);
  for (size_t i = 0; i < length; i++) {
    frame[10U + i] = next(in);
  }
  uint16_t crc = crc_calculate(frame + 1, (uint16_t)(9U + length));
  crc_accumulate(entry->crc_extra, &crc);
  frame[10U + length] = (uint8_t)crc;
  frame[11U + length] = (uint8_t)(crc >> 8);
  return 12U + length;
}

static size_t sign(uint8_t *frame, size_t size, uint8_t with, const uint8_t *used) {
  uint8_t digest[SM_DIGEST];
  sm_sha256 sha;
  now += with;
  frame[size] = with % 3U;
  memcpy(frame + size + 1U, &now, 6);
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, used, SM_DIGEST);
  sm_sha256_add(&sha, frame, size + 7U);
  sm_sha256_end(&sha, digest);
  memcpy(frame + size + 7U, digest, 6);
  return size + 13U;
}

static void step(input *in) {
  uint8_t frame[SM_LINK_FRAME + 64U];
  size_t size;
  switch (next(in) % 8U) {
  case 0:
    size = next(in);
    size = size < in->left ? size : in->left;
    feed(in->at, size);
    in->at += size;
    in->left -= size;
    break;
  case 1:
    size = make(in, frame, false);
    feed(frame, size);
    break;
  case 2: {
    static const uint8_t other[SM_DIGEST] = {4, 5, 6};
    size = make(in, frame, true);
    size = sign(frame, size, next(in), other);
    feed(frame, size);
    break;
  }
  case 3:
    size = make(in, frame, true);
    size = sign(frame, size, next(in), link_key);
    if (count < KEPT) {
      memcpy(sent[count].bytes, frame, size);
      sent[count].size = size;
      sent[count].taken = false;
      count++;
      const size_t cut = next(in);
      feed(frame, cut < size ? size - cut % 4U : size); /* some arrive without their end */
    }
    break;
  case 4:
    if (count > 0U) {
      const kept *old = &sent[next(in) % count];
      feed(old->bytes, old->size);
    }
    break;
  case 5:
    reset();
    break;
  case 6:
    sm_link_drop_partial(&link);
    feed(frame, 0);
    break;
  default: {
    const uint8_t payload[256] = {next(in), next(in)};
    const int result = sm_link_send(&link, MAVLINK_MSG_ID_HEARTBEAT + next(in) % 26U, payload);
    sum += (size_t)-result;
    break;
  }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  memset(flash[PORT_LOG_A], 0xFF, 1024);
  memset(flash[PORT_LOG_B], 0xFF, 1024);
  now = 1;
  sm_sha256_derive_key(key, "stepmap link", board_id, link_key);
  reset();
  while (in.left > 0U) {
    step(&in);
  }
  return 0;
}
