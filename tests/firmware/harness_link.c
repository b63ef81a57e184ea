/* A board in a process, for tests of link, upload and store: asked over stdin, answers over stdout.
 *
 * A request is a letter, a size (uint32_t) and bytes; an answer is a size and bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flash.h"
#include "sm_link.h"
#include "sm_sha256.h"
#include "sm_store.h"
#include "sm_upload.h"

/* The board. */
static sm_store store;
static sm_link link;
static sm_upload upload;
static bool alive;
static bool idle = true;
static bool has_key;
static bool has_check = true;
static uint8_t key[SM_DIGEST];
static const uint8_t board_id[PORT_BOARD_ID] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static uint8_t model[8] = {'m', 'o', 'd', 'e', 'l', '0', '0', '1'};
static uint32_t activations;
static uint32_t commands;

/* What it sent, and the messages it took. */
typedef struct {
  uint8_t *bytes;
  size_t size;
  size_t room;
} buffer;

static buffer sent;
static buffer accepted;

static void put(buffer *b, const void *from, size_t size) {
  if (b->size + size > b->room) {
    b->room = 2U * (b->size + size);
    b->bytes = realloc(b->bytes, b->room);
    if (b->bytes == NULL) {
      abort();
    }
  }
  if (size > 0U) {
    memcpy(b->bytes + b->size, from, size);
  }
  b->size += size;
}

static bool jammed; /* the line takes one byte less than it should */

static size_t output(void *context, const uint8_t *from, size_t size) {
  const size_t taken = jammed ? size - 1U : size;
  put(context, from, taken);
  return taken;
}

/* A schedule whose last byte is 0xEE is one this firmware cannot run. */
static int check(const uint8_t *blob, size_t size) { return blob[size - 1U] == 0xEEU ? -1 : 0; }

static void send(uint32_t id, const void *payload) {
  const int result = sm_link_send(&link, id, payload);
  (void)result; /* counted by the link */
}

static void send_heartbeat(void) {
  mavlink_heartbeat_t m;
  memset(&m, 0, sizeof m);
  m.state = STEPMAP_STATE_IDLE;
  m.protocol = 3;
  m.flags = has_key ? STEPMAP_FLAG_HAS_KEY : 0U;
  memcpy(m.model, model, sizeof model);
  memcpy(m.board_id, board_id, sizeof m.board_id);
  if (store.current.active <= PORT_SLOT_B) {
    memcpy(m.schedule, store.current.slots[store.current.active].name, sizeof m.schedule);
  }
  send(MAVLINK_MSG_ID_HEARTBEAT, &m);
}

static void answer_command(const sm_message *message) {
  mavlink_command_t asked;
  mavlink_command_ack_t answer;
  sm_link_read(message, &asked);
  memset(&answer, 0, sizeof answer);
  commands++;
  answer.token = asked.token;
  answer.target_system = message->system;
  answer.target_component = message->component;
  answer.command = asked.command;
  answer.result = asked.command == STEPMAP_COMMAND_ARM ? STEPMAP_RESULT_OK : STEPMAP_RESULT_STATE;
  answer.state = STEPMAP_STATE_ARMED;
  answer.reason = STEPMAP_REASON_NOT_CALIBRATED;
  send(MAVLINK_MSG_ID_COMMAND_ACK, &answer);
}

static void handle(const sm_message *message) {
  mavlink_upload_status_t status;
  bool activated;
  put(&accepted, &message->id, 4);
  put(&accepted, &message->system, 1);
  put(&accepted, &message->size, 1);
  put(&accepted, message->payload, message->size);
  if (sm_upload_take(&upload, message, idle, &status, &activated) == 0) {
    activations += activated ? 1U : 0U;
    send(MAVLINK_MSG_ID_UPLOAD_STATUS, &status);
  } else if (message->id == MAVLINK_MSG_ID_PING) {
    mavlink_ping_t ping;
    sm_link_read(message, &ping);
    ping.reply = 1;
    ping.target_system = message->system;
    send(MAVLINK_MSG_ID_PING, &ping);
  } else if (message->id == MAVLINK_MSG_ID_COMMAND) {
    answer_command(message);
  }
}

static void feed(const uint8_t *from, size_t size) {
  sm_message message;
  do {
    const size_t taken = sm_link_take(&link, from, size, &message);
    from += taken;
    size -= taken;
    if (message.id != 0U) {
      handle(&message);
    }
    const int erased = idle ? sm_store_erase_ahead(&store) : 0;
    (void)erased; /* tried again with the next message */
  } while (link.pending || size > 0U);
}

static int reboot(uint8_t system) {
  sm_store_open(&store);
  const int erased = sm_store_erase_ahead(&store);
  const int started = sm_link_start(&link, &store, system, has_key ? key : NULL, board_id, output, &sent);
  sm_upload_start(&upload, &store, model, has_key ? key : NULL, board_id, has_check ? check : NULL);
  return erased != 0 ? erased : started;
}

static uint32_t read32(const uint8_t *at) {
  uint32_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

/* A message as the link hands it out: id and payload. */
static void hand_over(const uint8_t *bytes, size_t size) {
  const sm_message message = {
      .id = read32(bytes), .system = 255, .component = 1, .size = (uint8_t)(size - 4U), .payload = bytes + 4};
  handle(&message);
}

static void put_partial(void) {
  const uint32_t words[2] = {link.pending, (uint32_t)sm_link_partial_bytes(&link)};
  put(&sent, words, sizeof words);
}

/* Carries out a request and puts the answer into `sent`. */
static void act(char request, const uint8_t *bytes, size_t size) {
  int32_t result = 0;
  uint8_t digest[SM_DIGEST];
  char purpose[64] = "";
  sm_sha256 sha;
  switch (request) {
  case 'R': /* reset, as this system */
    result = reboot(bytes[0]);
    alive = result == 0;
    sent.size = 0;
    put(&sent, &result, sizeof result);
    break;
  case 'F': /* bytes on the line */
    if (alive) {
      feed(bytes, size);
    }
    break;
  case 'B': /* heartbeat */
    if (alive) {
      send_heartbeat();
    }
    break;
  case 'A': /* messages taken */
    put(&sent, accepted.bytes, accepted.size);
    accepted.size = 0;
    break;
  case 'C': /* loses power at the n-th operation from now, after some bytes */
    flash_cut(read32(bytes), read32(bytes + 4), read32(bytes + 8));
    break;
  case 'X': /* the n-th operation from now fails */
    flash_fail(read32(bytes));
    break;
  case 'L': /* the n-th operation from now is done and denied */
    flash_deny(read32(bytes));
    break;
  case 'P': /* cells of a cut operation read differently each time */
    flash_weaken(read32(bytes), read32(bytes + 4));
    break;
  case 'Y': /* worn cells: region, place, bits */
    flash_wear((port_region)read32(bytes), read32(bytes + 4), (uint8_t)read32(bytes + 8));
    break;
  case 'I':
    idle = bytes[0] != 0U;
    break;
  case 'T':
    result = sm_store_erase_ahead(&store);
    put(&sent, &result, sizeof result);
    break;
  case 'K':
    has_key = size == SM_DIGEST;
    memcpy(key, bytes, has_key ? size : 0U);
    break;
  case 'M':
    memcpy(model, bytes, sizeof model);
    break;
  case 'Z': /* sizes of the regions; their content is that of memory never erased */
    memcpy(flash_sizes, bytes, sizeof flash_sizes);
    memset(flash, 0xA5, sizeof flash);
    flash_renew();
    break;
  case 'G':
    for (unsigned i = 0; i < PORT_REGIONS; i++) {
      put(&sent, flash[i], flash_sizes[i]);
    }
    break;
  case 'W':
    for (unsigned i = 0; i < PORT_REGIONS; i++) {
      memcpy(flash[i], bytes, flash_sizes[i]);
      bytes += flash_sizes[i];
    }
    break;
  case 'Q': { /* what a test wants to know */
    const uint64_t timestamps[3] = {sm_store_window_start(&store), link.timestamp, store.current.counter};
    const uint32_t words[6] = {
        store.current.active, store.current.sequence, flash_operations, alive, activations, commands};
    put(&sent, &link.counts, sizeof link.counts);
    put(&sent, words, sizeof words);
    put(&sent, timestamps, sizeof timestamps);
    break;
  }
  case 'S': { /* schedule in use */
    const uint8_t *blob;
    size_t length;
    if (sm_store_schedule(&store, &blob, &length) == 0) {
      put(&sent, blob, length);
    }
    break;
  }
  case 'V': { /* reserves a timestamp */
    uint64_t timestamp;
    memcpy(&timestamp, bytes, sizeof timestamp);
    result = sm_store_reserve(&store, timestamp);
    put(&sent, &result, sizeof result);
    break;
  }
  case 'H': /* SHA-256, added in pieces of a size that goes from 1 to 97 and again */
    sm_sha256_start(&sha);
    for (size_t at = 0, piece = 1; at < size; piece = piece % 97U + 1U) {
      const size_t part = size - at < piece ? size - at : piece;
      sm_sha256_add(&sha, bytes + at, part);
      at += part;
    }
    sm_sha256_end(&sha, digest);
    put(&sent, digest, sizeof digest);
    break;
  case 'J': /* HMAC of what follows the key */
    sm_sha256_hmac(bytes, bytes + SM_DIGEST, size - SM_DIGEST, digest);
    put(&sent, digest, sizeof digest);
    break;
  case 'D': /* key of a board: key, id, purpose */
    memcpy(purpose, bytes + SM_DIGEST + PORT_BOARD_ID, size - SM_DIGEST - PORT_BOARD_ID);
    sm_sha256_derive_key(bytes, purpose, bytes + SM_DIGEST, digest);
    put(&sent, digest, sizeof digest);
    break;
  case 'U': { /* sends a message: id and payload */
    uint8_t payload[256] = {0};
    memcpy(payload, bytes + 4, size - 4U);
    result = sm_link_send(&link, read32(bytes), payload);
    if (result != 0) {
      sent.size = 0;
      put(&sent, &result, sizeof result);
    }
    break;
  }
  case 'O':
    jammed = bytes[0] != 0U;
    break;
  case 'E': { /* begins an upload in the store */
    uint64_t counter;
    port_region slot;
    memcpy(&counter, bytes, sizeof counter);
    result = sm_store_begin(&store, counter, &slot);
    put(&sent, &result, sizeof result);
    break;
  }
  case 'N': /* puts a slot into use: slot and size */
    result = sm_store_activate(&store, (port_region)read32(bytes), read32(bytes + 4), model);
    put(&sent, &result, sizeof result);
    break;
  case 't': { /* one call of sm_link_take */
    sm_message message;
    const size_t taken = sm_link_take(&link, bytes, size, &message);
    const uint32_t words[2] = {(uint32_t)taken, message.id};
    put(&sent, words, sizeof words);
    put_partial();
    break;
  }
  case 'd': /* drops the frame that was begun */
    sm_link_drop_partial(&link);
    put_partial();
    break;
  case 'u':
    hand_over(bytes, size);
    break;
  case 'c': /* whether the firmware looks into schedules, from the next reset on */
    has_check = bytes[0] != 0U;
    break;
  case 'p': /* uncertain cells of one read agree */
    flash_agree(bytes[0] != 0U);
    break;
  default:
    abort();
  }
}

int main(void) {
  uint8_t head[5];
  while (fread(head, 1, sizeof head, stdin) == sizeof head) {
    const size_t size = read32(head + 1);
    uint8_t *bytes = malloc(size > 0U ? size : 1U); /* exactly as much as there is, so that a read behind it is found */
    if (bytes == NULL || fread(bytes, 1, size, stdin) != size) {
      abort();
    }
    sent.size = 0;
    if (setjmp(flash_power_loss) == 0) {
      act((char)head[0], bytes, size);
    } else {
      alive = false;
    }
    free(bytes);
    const uint32_t answer = (uint32_t)sent.size;
    fwrite(&answer, sizeof answer, 1, stdout);
    if (sent.size > 0U) {
      fwrite(sent.bytes, 1, sent.size, stdout);
    }
    fflush(stdout);
  }
  free(sent.bytes);
  free(accepted.bytes);
  return 0;
}
