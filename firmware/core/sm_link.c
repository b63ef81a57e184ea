#include "sm_link.h"

#include <string.h>

#define HEADER MAVLINK_NUM_HEADER_BYTES
#define CHECKSUM MAVLINK_NUM_CHECKSUM_BYTES
#define SIGNATURE MAVLINK_SIGNATURE_BLOCK_LEN
#define TIMESTAMP_BYTES 6U                 /* 48 bits of 10 µs, little endian */
#define STAMP_BYTES (1U + TIMESTAMP_BYTES) /* of the signature block, in front of the signature: link id, timestamp */
#define DIGEST_BYTES 6U                    /* of the signature: a SHA-256 cut to 48 bits */
#define HEADER_PREFIX 4U             /* bytes that start a header; chance puts them into 1 signature of a million */
#define SENDER_LAG UINT64_C(6000000) /* 10 µs: the clock of a new sender may be a minute behind */
#define OWN_LINK 0U                  /* MAVLink link id of this board: it has one line */

/* Places in a frame's header (mavlink.io, "packet serialization"). */
enum { AT_LENGTH = 1, AT_INCOMPATIBLE = 2, AT_COMPATIBLE = 3, AT_SYSTEM = 5, AT_COMPONENT = 6, AT_ID = 7 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mavgen's structures are copied to the line as they are");
_Static_assert(SM_LINK_BYTES <= UINT16_MAX, "frames are counted in 16 bits");

typedef enum {
  NEED_MORE, /* bytes are missing */
  NO_FRAME,  /* no authentic frame begins here */
  FORGED,    /* the same, but it took a signature to find out: enough work for one call */
  REFUSED,   /* an authentic frame that is not for this board, or not new */
  MESSAGE,   /* a message */
} frame_result;

static uint16_t checksum(const uint8_t *frame, size_t size, uint8_t extra) {
  uint16_t crc = crc_calculate(frame + 1, (uint16_t)(size - 1U));
  crc_accumulate(extra, &crc);
  return crc;
}

/* SHA-256 of key, frame with checksum, link id and timestamp, cut to 48 bits. */
static void sign(const sm_link *l, const uint8_t *frame, size_t size, uint8_t signature[DIGEST_BYTES]) {
  sm_sha256 sha;
  uint8_t digest[SM_DIGEST];
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, l->key, sizeof l->key);
  sm_sha256_add(&sha, frame, size + STAMP_BYTES);
  sm_sha256_end(&sha, digest);
  memcpy(signature, digest, DIGEST_BYTES);
}

static uint64_t read_timestamp(const uint8_t *at) {
  uint64_t timestamp = 0;
  memcpy(&timestamp, at, TIMESTAMP_BYTES);
  return timestamp;
}

/* Returns the stream of a sender, else a free one, else the one whose sender was heard longest ago. */
static sm_link_stream *find_stream(sm_link *l, const sm_link_stream *sender, bool *known) {
  sm_link_stream *oldest = &l->streams[0];
  for (unsigned i = 0; i < SM_LINK_STREAMS; i++) {
    sm_link_stream *stream = &l->streams[i];
    *known = stream->last != 0U && stream->system == sender->system && stream->component == sender->component &&
             stream->link == sender->link;
    if (*known) {
      return stream;
    }
    oldest = stream->last < oldest->last ? stream : oldest;
  }
  return oldest;
}

/* Returns whether the timestamp is inside of the replay window; a second frame with it is not. */
static bool check_timestamp(sm_link *l, const uint8_t *frame, const uint8_t *block) {
  const sm_link_stream sender = {.last = read_timestamp(block + 1),
                                 .system = frame[AT_SYSTEM],
                                 .component = frame[AT_COMPONENT],
                                 .link = block[0]};
  const uint64_t timestamp = sender.last;
  bool known = false;
  sm_link_stream *stream = find_stream(l, &sender, &known);
  /* A new sender needs a timestamp above that of the sender whose stream it takes. That one was the oldest, so no stream
   * is ever older than a sender that was evicted: a frame of one of those that comes again is refused, too. */
  const bool repeated = timestamp <= stream->last;
  if (timestamp < l->window_start || repeated || (!known && timestamp + SENDER_LAG < l->timestamp)) {
    l->counts.replayed++;
    return false;
  }
  if (sm_store_reserve(l->store, timestamp) != 0) {
    l->counts.unsaved++;
    return false;
  }
  *stream = sender;
  if (timestamp > l->timestamp) {
    l->timestamp = timestamp;
  }
  return true;
}

static const mavlink_msg_entry_t *entry_of(const uint8_t *header) {
  return mavlink_get_msg_entry(header[AT_ID] | (uint32_t)header[AT_ID + 1] << 8 | (uint32_t)header[AT_ID + 2] << 16);
}

/* A frame whose checksum is right: is it authentic, for this board, and new? */
static frame_result authenticate(sm_link *l, size_t size, const mavlink_msg_entry_t *entry, sm_message *message) {
  const uint8_t *frame = l->bytes + l->begin;
  const bool has_signature = (frame[AT_INCOMPATIBLE] & MAVLINK_IFLAG_SIGNED) != 0U && l->has_key;
  const uint8_t *payload = frame + HEADER;
  if (has_signature) {
    uint8_t signature[DIGEST_BYTES];
    sign(l, frame, size, signature);
    if (!sm_sha256_equal(signature, frame + size + STAMP_BYTES, DIGEST_BYTES)) {
      l->counts.forged++;
      return FORGED;
    }
  }
  const bool addressed = (entry->flags & MAV_MSG_ENTRY_FLAG_HAVE_TARGET_SYSTEM) != 0U;
  const uint8_t target =
      addressed && entry->target_system_ofs < frame[AT_LENGTH] ? payload[entry->target_system_ofs] : 0U;
  if (!addressed || frame[AT_SYSTEM] == l->system || (target != 0U && target != l->system)) {
    l->counts.elsewhere++; /* broadcasts of boards; on a shared line also echoes of our own */
    return has_signature ? REFUSED : NO_FRAME;
  }
  if (!has_signature) {
    l->counts.bare++;
    return NO_FRAME; /* only its first byte: without a key one could make it end in the first bytes of a signed frame */
  }
  if (!check_timestamp(l, frame, frame + size)) {
    return REFUSED;
  }
  l->counts.received++;
  *message = (sm_message){.id = entry->msgid,
                          .system = frame[AT_SYSTEM],
                          .component = frame[AT_COMPONENT],
                          .size = frame[AT_LENGTH],
                          .payload = payload};
  return MESSAGE;
}

/* Returns whether `there` bytes, some or all of a header, can be the start of a frame. */
static bool may_start(const uint8_t *at, size_t there) {
  if (at[0] != MAVLINK_STX || (there > AT_LENGTH && at[AT_LENGTH] == 0U) ||
      (there > AT_INCOMPATIBLE && (at[AT_INCOMPATIBLE] & ~MAVLINK_IFLAG_MASK) != 0U) ||
      (there > AT_COMPATIBLE && at[AT_COMPATIBLE] != 0U)) {
    return false;
  }
  if (there < HEADER) {
    return true;
  }
  const mavlink_msg_entry_t *entry = entry_of(at);
  return entry != NULL && at[AT_LENGTH] <= entry->max_msg_len;
}

/* Returns the index, from `at` on, of the next byte that can start a frame; the end where there is none. */
static size_t next_start(const sm_link *l, size_t at) {
  const uint8_t *frame = l->bytes + l->begin;
  const size_t end = l->filled;
  while (at < end && (frame[at] != MAVLINK_STX || !may_start(frame + at, end - at))) {
    at++;
  }
  return at;
}

static void drop(sm_link *l, size_t size) {
  l->dropped += (uint32_t)size;
  l->filled = (uint16_t)(l->filled - size);
  l->begin = (uint16_t)(l->filled > 0U ? l->begin + size : 0U);
  l->scanned = size > 0U ? 0U : l->scanned;
}

/* Drops the first byte and all up to the next that can start a frame. */
static void skip_to_next_start(sm_link *l) {
  const size_t size = next_start(l, l->scanned > 1U ? l->scanned : 1U);
  l->counts.noise += (uint32_t)size;
  drop(l, size);
}

static size_t buffer_bytes(sm_link *l, const uint8_t *from, size_t size, size_t wanted) {
  const size_t part = size < wanted ? size : wanted;
  if (l->begin + (size_t)l->filled + part > sizeof l->bytes) {
    memmove(l->bytes, l->bytes + l->begin, l->filled);
    l->begin = 0;
  }
  memcpy(l->bytes + l->begin + l->filled, from, part);
  l->filled = (uint16_t)(l->filled + part);
  return part;
}

static size_t frame_size(const uint8_t *frame) {
  return (size_t)HEADER + frame[AT_LENGTH] + CHECKSUM +
         ((frame[AT_INCOMPATIBLE] & MAVLINK_IFLAG_SIGNED) != 0U ? SIGNATURE : 0U);
}

/* Returns what the bytes held are; *size is how many are needed, or those of the frame that is there. `quiet`: no
 * more will come now.
 *
 * A header inside of a frame ends it (sm_link.h). Where the last bytes of a frame could be the first HEADER_PREFIX
 * or more of a header, the bytes behind them decide. */
static frame_result parse_frame(sm_link *l, bool quiet, size_t *size, sm_message *message) {
  const uint8_t *frame = l->bytes + l->begin;
  *size = HEADER;
  if (l->filled > 0U && l->scanned == 0U && !may_start(frame, l->filled)) {
    return NO_FRAME;
  }
  if (l->filled < HEADER) {
    return NEED_MORE;
  }
  *size = frame_size(frame);
  l->scanned = (uint16_t)next_start(l, l->scanned > 1U ? l->scanned : 1U);
  const bool inside = l->scanned + (size_t)HEADER_PREFIX <= *size;
  if (inside && l->scanned + (size_t)HEADER <= l->filled) {
    l->counts.damaged++;
    return NO_FRAME;
  }
  if (l->filled < *size) {
    return NEED_MORE;
  }
  if (inside && !quiet) {
    *size = l->scanned + (size_t)HEADER;
    return NEED_MORE;
  }
  const mavlink_msg_entry_t *entry = entry_of(frame);
  const size_t covered = (size_t)HEADER + frame[AT_LENGTH];
  const uint16_t crc = (uint16_t)(frame[covered] | frame[covered + 1U] << 8);
  if (crc != checksum(frame, covered, entry->crc_extra)) {
    l->counts.damaged++;
    return NO_FRAME;
  }
  return authenticate(l, covered + CHECKSUM, entry, message);
}

int sm_link_start(sm_link *l, sm_store *store, uint8_t system, const uint8_t *key, const uint8_t *board_id,
                  sm_link_output output, void *context) {
  if (system == 0U || system == UINT8_MAX) {
    return SM_EARGUMENT;
  }
  memset(l, 0, sizeof *l);
  l->store = store;
  l->output = output;
  l->context = context;
  l->system = system;
  l->window_start = sm_store_window_start(store);
  l->timestamp = l->window_start;
  if (key != NULL) {
    sm_sha256_derive_key(key, "stepmap link", board_id, l->key);
    l->has_key = true;
  }
  return 0;
}

size_t sm_link_take(sm_link *l, const uint8_t *from, size_t size, sm_message *message) {
  const bool quiet = size == 0U;
  size_t taken = 0;
  message->id = 0;
  l->pending = false;
  drop(l, l->consumed);
  l->consumed = 0;
  for (;;) { /* bounded: every round drops a byte, takes one, or is the last */
    size_t whole;
    const frame_result v = parse_frame(l, quiet, &whole, message);
    if (v == MESSAGE) {
      l->consumed = (uint16_t)whole;
    } else if (v == REFUSED) {
      drop(l, whole);
    } else if (v == NO_FRAME || v == FORGED) {
      skip_to_next_start(l);
    } else if (taken < size) {
      taken += buffer_bytes(l, from + taken, size - taken, whole - l->filled);
    } else {
      l->pending = l->filled >= HEADER && l->filled >= frame_size(l->bytes + l->begin);
      return taken;
    }
    if (v == MESSAGE || v == REFUSED || v == FORGED) {
      l->pending = true;
      return taken;
    }
  }
}

size_t sm_link_partial_bytes(const sm_link *l) {
  const uint8_t *frame = l->bytes + l->begin + l->consumed;
  const size_t rest = (size_t)l->filled - l->consumed;
  return rest >= HEADER && may_start(frame, rest) ? frame_size(frame) : rest > 0U ? HEADER : 0U;
}

void sm_link_drop_partial(sm_link *l) {
  drop(l, l->consumed);
  l->consumed = 0;
  if (l->filled > 0U) {
    l->counts.damaged++;
    skip_to_next_start(l);
    l->pending = l->filled > 0U;
  }
}

void sm_link_read(const sm_message *message, void *to) {
  const mavlink_msg_entry_t *entry = mavlink_get_msg_entry(message->id);
  if (entry != NULL) {
    memset(to, 0, entry->max_msg_len);
    memcpy(to, message->payload, message->size);
  }
}

int sm_link_send(sm_link *l, uint32_t id, const void *payload) {
  const mavlink_msg_entry_t *entry = mavlink_get_msg_entry(id);
  if (entry == NULL) {
    return SM_EARGUMENT;
  }
  const int reserved = l->has_key ? sm_store_reserve(l->store, l->timestamp + 1U) : 0;
  const bool with_signature = l->has_key && reserved == 0;
  const uint8_t *bytes = payload;
  size_t length = entry->max_msg_len;
  while (length > 1U && bytes[length - 1U] == 0U) {
    length--;
  }
  uint8_t frame[SM_LINK_FRAME];
  const uint8_t header[HEADER] = {MAVLINK_STX,
                                  (uint8_t)length,
                                  with_signature ? MAVLINK_IFLAG_SIGNED : 0U,
                                  0U,
                                  l->sequence,
                                  l->system,
                                  SM_LINK_COMPONENT,
                                  (uint8_t)id,
                                  (uint8_t)(id >> 8),
                                  (uint8_t)(id >> 16)};
  memcpy(frame, header, HEADER);
  memcpy(frame + HEADER, bytes, length);
  const uint16_t crc = checksum(frame, HEADER + length, entry->crc_extra);
  size_t size = HEADER + length;
  frame[size++] = (uint8_t)crc;
  frame[size++] = (uint8_t)(crc >> 8);
  if (with_signature) {
    l->timestamp++;
    frame[size] = OWN_LINK;
    memcpy(frame + size + 1U, &l->timestamp, TIMESTAMP_BYTES);
    sign(l, frame, size, frame + size + STAMP_BYTES);
    size += SIGNATURE;
  }
  l->sequence++;
  const bool taken = l->output(l->context, frame, size) == size;
  l->counts.sent += taken && reserved == 0 ? 1U : 0U;
  l->counts.unsent += taken && reserved == 0 ? 0U : 1U;
  return taken ? reserved : SM_EIO;
}
