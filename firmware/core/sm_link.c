#include "sm_link.h"

#include <string.h>

#define HEADER MAVLINK_NUM_HEADER_BYTES
#define CHECKSUM MAVLINK_NUM_CHECKSUM_BYTES
#define SIGNATURE MAVLINK_SIGNATURE_BLOCK_LEN
#define STAMPED 7U /* bytes of the signature block in front of the signature: link id and timestamp */
#define SIGNED_BYTES 6U
#define TELLING 4U             /* bytes of a header that hardly a signature has in it */
#define LATE UINT64_C(6000000) /* a new sender may be a minute behind */
#define OWN_LINK 0U

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mavgen's structures are copied to the line as they are");
_Static_assert(SM_LINK_BYTES <= UINT16_MAX, "frames are counted in 16 bits");

typedef enum {
  MORE,     /* bytes are needed */
  SKIP,     /* no frame that may be believed begins here */
  FORGED,   /* the same, found out by a signature: enough work for one call */
  REFUSE,   /* a whole frame that was signed with our key, but not for us, or not new */
  HAND_OUT, /* a message */
} verdict;

static uint16_t checksum(const uint8_t *frame, size_t size, uint8_t extra) {
  uint16_t crc = crc_calculate(frame + 1, (uint16_t)(size - 1U));
  crc_accumulate(extra, &crc);
  return crc;
}

/* SHA-256 of key, frame with checksum, link id and timestamp, cut to 48 bits. */
static void sign(const sm_link *l, const uint8_t *frame, size_t size, uint8_t signature[SIGNED_BYTES]) {
  sm_sha256 sha;
  uint8_t digest[SM_DIGEST];
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, l->key, sizeof l->key);
  sm_sha256_add(&sha, frame, size + STAMPED);
  sm_sha256_end(&sha, digest);
  memcpy(signature, digest, SIGNED_BYTES);
}

static uint64_t read_timestamp(const uint8_t *at) {
  uint64_t timestamp = 0;
  memcpy(&timestamp, at, 6);
  return timestamp;
}

/* The stream of a sender, a free one, or the one that spoke longest ago. */
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

/* Whether the timestamp is a new one; it is old afterwards. */
static bool is_new(sm_link *l, const uint8_t *frame, const uint8_t *block) {
  const sm_link_stream sender = {
      .last = read_timestamp(block + 1), .system = frame[5], .component = frame[6], .link = block[0]};
  const uint64_t timestamp = sender.last;
  bool known = false;
  sm_link_stream *stream = find_stream(l, &sender, &known);
  /* A sender takes the place of one that is forgotten with a timestamp above all that one ever had: whoever comes back
   * that way repeats nothing. */
  const bool again = timestamp <= stream->last || (!known && timestamp <= l->forgotten);
  if (timestamp < l->floor || again || (!known && timestamp + LATE < l->timestamp)) {
    l->counts.replayed++;
    return false;
  }
  if (sm_store_reserve(l->store, timestamp) != 0) {
    l->counts.unsaved++;
    return false;
  }
  if (!known && stream->last > l->forgotten) {
    l->forgotten = stream->last;
  }
  *stream = sender;
  if (timestamp > l->timestamp) {
    l->timestamp = timestamp;
  }
  return true;
}

static const mavlink_msg_entry_t *entry_of(const uint8_t *header) {
  return mavlink_get_msg_entry(header[7] | (uint32_t)header[8] << 8 | (uint32_t)header[9] << 16);
}

/* A frame whose checksum is right: is it for us, and may it be believed? */
static verdict judge(sm_link *l, size_t size, const mavlink_msg_entry_t *entry, sm_message *message) {
  const uint8_t *frame = l->bytes + l->begin;
  const bool has_signature = (frame[2] & MAVLINK_IFLAG_SIGNED) != 0U && l->has_key;
  const uint8_t *payload = frame + HEADER;
  if (has_signature) {
    uint8_t signature[SIGNED_BYTES];
    sign(l, frame, size, signature);
    if (!sm_equal(signature, frame + size + STAMPED, SIGNED_BYTES)) {
      l->counts.forged++;
      return FORGED;
    }
  }
  const bool addressed = (entry->flags & MAV_MSG_ENTRY_FLAG_HAVE_TARGET_SYSTEM) != 0U;
  const uint8_t target = addressed && entry->target_system_ofs < frame[1] ? payload[entry->target_system_ofs] : 0U;
  if (!addressed || frame[5] == l->system || (target != 0U && target != l->system)) {
    l->counts.elsewhere++; /* what boards tell everybody; our own frames come back where several share a line */
    return has_signature ? REFUSE : SKIP;
  }
  if (!has_signature) {
    l->counts.bare++;
    return SKIP; /* not all of it: whoever has no key could make it end in the first bytes of a frame that counts */
  }
  if (!is_new(l, frame, frame + size)) {
    return REFUSE;
  }
  l->counts.received++;
  *message =
      (sm_message){.id = entry->msgid, .system = frame[5], .component = frame[6], .size = frame[1], .payload = payload};
  return HAND_OUT;
}

/* Whether these bytes, some or all of a header's, may be the start of a frame. */
static bool may_start(const uint8_t *at, size_t there) {
  if (at[0] != MAVLINK_STX || (there > 1U && at[1] == 0U) || (there > 2U && (at[2] & ~MAVLINK_IFLAG_MASK) != 0U) ||
      (there > 3U && at[3] != 0U)) {
    return false;
  }
  if (there < HEADER) {
    return true;
  }
  const mavlink_msg_entry_t *entry = entry_of(at);
  return entry != NULL && at[1] <= entry->max_msg_len;
}

/* Where the next byte is that may start a frame, from `at` on; at the end where there is none. */
static size_t next_start(const sm_link *l, size_t at) {
  const uint8_t *frame = l->bytes + l->begin;
  const size_t end = l->filled;
  while (at < end && (frame[at] != MAVLINK_STX || !may_start(frame + at, end - at))) {
    at++;
  }
  return at;
}

static void drop(sm_link *l, size_t size) {
  l->gone += (uint32_t)size;
  l->filled = (uint16_t)(l->filled - size);
  l->begin = (uint16_t)(l->filled > 0U ? l->begin + size : 0U);
  l->looked = size > 0U ? 0U : l->looked;
}

/* Drops the first byte, and all up to the next that may start a frame. */
static void skip(sm_link *l) {
  const size_t size = next_start(l, l->looked > 1U ? l->looked : 1U);
  l->counts.noise += (uint32_t)size;
  drop(l, size);
}

static size_t add(sm_link *l, const uint8_t *from, size_t size, size_t wanted) {
  const size_t part = size < wanted ? size : wanted;
  if (l->begin + (size_t)l->filled + part > sizeof l->bytes) {
    memmove(l->bytes, l->bytes + l->begin, l->filled);
    l->begin = 0;
  }
  memcpy(l->bytes + l->begin + l->filled, from, part);
  l->filled = (uint16_t)(l->filled + part);
  return part;
}

static size_t whole_size(const uint8_t *frame) {
  return (size_t)HEADER + frame[1] + CHECKSUM + ((frame[2] & MAVLINK_IFLAG_SIGNED) != 0U ? SIGNATURE : 0U);
}

/* What the bytes so far are; *size is how many are needed, or those of the frame that is there. `quiet`: no more are to be
 * had now.
 *
 * A header inside a frame ends it: no frame of ours holds one, so this one was begun and left, or is made to keep us busy.
 * Where the last bytes could be the first of a header, four at least, what follows tells: chance alone makes a signature
 * look like that once in a million frames. */
static verdict examine(sm_link *l, bool quiet, size_t *size, sm_message *message) {
  const uint8_t *frame = l->bytes + l->begin;
  *size = HEADER;
  if (l->filled > 0U && l->looked == 0U && !may_start(frame, l->filled)) {
    return SKIP;
  }
  if (l->filled < HEADER) {
    return MORE;
  }
  *size = whole_size(frame);
  l->looked = (uint16_t)next_start(l, l->looked > 1U ? l->looked : 1U);
  const bool inside = l->looked + (size_t)TELLING <= *size;
  if (inside && l->looked + (size_t)HEADER <= l->filled) {
    l->counts.damaged++;
    return SKIP;
  }
  if (l->filled < *size) {
    return MORE;
  }
  if (inside && l->looked + (size_t)TELLING <= l->filled && !quiet) {
    *size = l->looked + (size_t)HEADER;
    return MORE;
  }
  const mavlink_msg_entry_t *entry = entry_of(frame);
  const size_t checked = (size_t)HEADER + frame[1];
  const uint16_t crc = (uint16_t)(frame[checked] | frame[checked + 1U] << 8);
  if (crc != checksum(frame, checked, entry->crc_extra)) {
    l->counts.damaged++;
    return SKIP;
  }
  return judge(l, checked + CHECKSUM, entry, message);
}

int sm_link_start(sm_link *l, sm_store *store, uint8_t system, const uint8_t *key, const uint8_t *board_id,
                  sm_link_output output, void *context) {
  if (system == 0U || system == 255U) {
    return SM_EARGUMENT;
  }
  memset(l, 0, sizeof *l);
  l->store = store;
  l->output = output;
  l->context = context;
  l->system = system;
  l->floor = sm_store_floor(store);
  l->timestamp = l->floor;
  if (key != NULL) {
    sm_derive(key, "stepmap link", board_id, l->key);
    l->has_key = true;
  }
  return 0;
}

size_t sm_link_take(sm_link *l, const uint8_t *from, size_t size, sm_message *message) {
  const bool quiet = size == 0U;
  size_t taken = 0;
  message->id = 0;
  l->pending = false;
  drop(l, l->done);
  l->done = 0;
  for (;;) { /* every round drops a byte, takes one, or is the last */
    size_t whole;
    const verdict v = examine(l, quiet, &whole, message);
    if (v == HAND_OUT) {
      l->done = (uint16_t)whole;
    } else if (v == REFUSE) {
      drop(l, whole);
    } else if (v == SKIP || v == FORGED) {
      skip(l);
    } else if (taken < size) {
      taken += add(l, from + taken, size - taken, whole - l->filled);
    } else {
      l->pending = l->filled >= HEADER && l->filled >= whole_size(l->bytes + l->begin);
      return taken;
    }
    if (v == HAND_OUT || v == REFUSE || v == FORGED) {
      l->pending = true;
      return taken;
    }
  }
}

size_t sm_link_begun(const sm_link *l) {
  const uint8_t *frame = l->bytes + l->begin + l->done;
  const size_t rest = (size_t)l->filled - l->done;
  return rest >= HEADER && may_start(frame, rest) ? whole_size(frame) : rest > 0U ? HEADER : 0U;
}

void sm_link_give_up(sm_link *l) {
  drop(l, l->done);
  l->done = 0;
  if (l->filled > 0U) {
    l->counts.damaged++;
    skip(l);
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
  const int kept = l->has_key ? sm_store_reserve(l->store, l->timestamp + 1U) : 0;
  const bool with_signature = l->has_key && kept == 0;
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
    memcpy(frame + size + 1U, &l->timestamp, 6);
    sign(l, frame, size, frame + size + STAMPED);
    size += SIGNATURE;
  }
  l->sequence++;
  const bool taken = l->output(l->context, frame, size) == size;
  l->counts.sent += taken && kept == 0 ? 1U : 0U;
  l->counts.unsent += taken && kept == 0 ? 0U : 1U;
  return taken ? kept : SM_EIO;
}
