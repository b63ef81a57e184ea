/* MAVLink 2 frames of the stepmap dialect, signed.
 *
 * Bytes go in, messages come out. The message tables and structures are mavgen's; the framing is not: every byte may
 * start a frame, so noise never costs a frame that arrived whole, and never holds one up. A header inside a frame ends
 * it: that frame was begun and left, or made to hold up others, since none of ours has such bytes in it. So nothing has
 * to be looked at twice, and the work for a byte is bounded whoever sent it.
 *
 * A frame is taken when its checksum and its signature are right, its timestamp was not used before, also before the
 * last reset, and it is for this system or for all. What has no target, such as heartbeats, is nobody's: it is counted
 * and left. Without a key nothing is taken. */
#ifndef SM_LINK_H
#define SM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* None of mavgen's own buffers is used; they must not take memory either. */
#define MAVLINK_COMM_NUM_BUFFERS 1
#define MAVLINK_MAX_SIGNING_STREAMS 1
#define MAVLINK_NO_SIGN_PACKET
#define MAVLINK_NO_SIGNATURE_CHECK
#define HAVE_MAVLINK_SHA256
#include <stepmap/mavlink.h>

#include "sm_error.h"
#include "sm_sha256.h"
#include "sm_store.h"

#define SM_LINK_STREAMS 4U /* senders whose timestamps are remembered */
#define SM_LINK_FRAME (MAVLINK_NUM_NON_PAYLOAD_BYTES + MAVLINK_MAX_DIALECT_PAYLOAD_SIZE + MAVLINK_SIGNATURE_BLOCK_LEN)
#define SM_LINK_BYTES (SM_LINK_FRAME + 64U) /* with the first of the next; the more, the less often they are moved */
#define SM_LINK_COMPONENT 1U

/* Takes bytes to the line; returns how many it took. */
typedef size_t (*sm_link_output)(void *context, const uint8_t *from, size_t size);

/* Since the start; the fields of LINK_STATUS. */
typedef struct {
  uint32_t received;
  uint32_t noise; /* bytes */
  uint32_t damaged;
  uint32_t bare; /* without a signature */
  uint32_t forged;
  uint32_t replayed;
  uint32_t unsaved; /* timestamp could not be kept */
  uint32_t elsewhere;
  uint32_t sent;
  uint32_t unsent;
} sm_link_counts;

/* Timestamps of one sender. */
typedef struct {
  uint64_t last;
  uint8_t system;
  uint8_t component;
  uint8_t link;
} sm_link_stream;

typedef struct {
  sm_store *store;
  sm_link_output output;
  void *context;
  uint64_t floor; /* least timestamp that was not used before the last reset */
  uint64_t timestamp;
  uint64_t forgotten; /* the highest timestamp of senders that were forgotten for others */
  sm_link_stream streams[SM_LINK_STREAMS];
  sm_link_counts counts;
  uint32_t gone;   /* bytes that were held and are dropped */
  uint16_t begin;  /* where the first byte is … */
  uint16_t filled; /* … of so many that are held */
  uint16_t done;   /* of them those of the message handed out */
  uint16_t looked; /* of them those, from the second on, with which no frame can start */
  uint8_t system;
  uint8_t sequence;
  bool has_key;
  bool pending; /* there may be more in what it has: sm_link_take is to be called again */
  uint8_t key[SM_DIGEST];
  uint8_t bytes[SM_LINK_BYTES];
} sm_link;

typedef struct {
  uint32_t id; /* MAVLINK_MSG_ID_… */
  uint8_t system;
  uint8_t component;
  uint8_t size;           /* bytes of the payload as sent; zeros at its end are left out */
  const uint8_t *payload; /* until the next sm_link_take */
} sm_message;

/* Starts a link. `system` is that of this board, 1 … 254, else SM_EARGUMENT; `key` the 32 bytes of the key file, NULL for
 * none; `board_id` that of port_board_id: frames for a board with another id are not taken. The store must be open, and
 * stay where it is. */
SM_CHECKED int sm_link_start(sm_link *l, sm_store *store, uint8_t system, const uint8_t *key, const uint8_t *board_id,
                             sm_link_output output, void *context);

/* Takes bytes up to the end of the next message, or of a frame whose signature was checked in vain, and returns how many:
 * so a call checks one signature at most. `message->id` is 0 where there was no message. While `l->pending` call it again,
 * with what has come meanwhile, or with nothing: that says that no more is to be had now. */
size_t sm_link_take(sm_link *l, const uint8_t *from, size_t size, sm_message *message);

/* Bytes of the frame that was begun and whose end has not come; as far as that is known. 0 where none was begun. */
size_t sm_link_begun(const sm_link *l);

/* Gives up the frame that was begun: its rest is so late that it will not come. Bytes behind its start are looked at again
 * by the next sm_link_take. Nothing where none was begun. */
void sm_link_give_up(sm_link *l);

/* Copies a message into the mavlink_…_t of its id. */
void sm_link_read(const sm_message *message, void *to);

/* Sends the mavlink_…_t of an id, signed where there is a key. SM_EARGUMENT for an id that is not in the dialect, SM_EIO
 * where the line did not take all of it. Where the timestamp cannot be kept it is sent without a signature, so that at
 * least heartbeats are heard, and the result is that of sm_store_reserve. */
SM_CHECKED int sm_link_send(sm_link *l, uint32_t id, const void *payload);

#endif
