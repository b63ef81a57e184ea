/* Link: MAVLink 2 frames of the stepmap dialect, signed.
 *
 * Bytes go in, messages come out. The message tables and structures are mavgen's, the framing is not: every byte may
 * start a frame, so noise neither costs nor delays a frame that arrived whole. A header inside of a frame ends that
 * frame: no frame of the dialect holds one, so the outer frame was cut off or made to block others. So no byte is
 * parsed twice, and the work per byte is bounded, with or without the key.
 *
 * A frame is accepted when its checksum and its signature are right, its timestamp is inside of the replay window
 * (newer than all before, also before the last reset), and it is addressed to this system or to all. Messages
 * without a target, such as heartbeats, are counted and ignored. Without a key nothing is accepted.
 *
 * Every function is called from the main loop only. */
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

#define SM_LINK_STREAMS 4U /* senders whose timestamps are remembered: host, operator's monitor, and two to spare */
/* bytes; the longest frame of the dialect, with its signature */
#define SM_LINK_FRAME (MAVLINK_NUM_NON_PAYLOAD_BYTES + MAVLINK_MAX_DIALECT_PAYLOAD_SIZE + MAVLINK_SIGNATURE_BLOCK_LEN)
/* bytes; a frame and a chunk (SM_LOOP_CHUNK) of the next one: the more, the less often bytes are moved to the front */
#define SM_LINK_BYTES (SM_LINK_FRAME + 64U)
#define SM_LINK_COMPONENT 1U /* MAVLink component id of this board */

/* Sends bytes; returns how many the line took. Called by sm_link_send with the context given to sm_link_start. */
typedef size_t (*sm_link_output)(void *context, const uint8_t *from, size_t size);

/* Counters of frames since the start, of noise in bytes; the fields of the message LINK_STATUS. They wrap. */
typedef struct {
  uint32_t received;  /* accepted and handed out */
  uint32_t noise;     /* bytes that belonged to no frame */
  uint32_t damaged;   /* cut off, or with a wrong checksum */
  uint32_t bare;      /* for this board, but without a signature */
  uint32_t forged;    /* with a wrong signature */
  uint32_t replayed;  /* with a timestamp outside of the replay window */
  uint32_t unsaved;   /* refused because the replay window could not be stored */
  uint32_t elsewhere; /* not for this board */
  uint32_t sent;      /* taken by the line */
  uint32_t unsent;    /* not taken by the line, or sent without a signature */
} sm_link_counts;

/* Last timestamp of one sender: (system, component, link) as MAVLink signs them. */
typedef struct {
  uint64_t last; /* 10 µs; 0: free */
  uint8_t system;
  uint8_t component;
  uint8_t link;
} sm_link_stream;

/* Other files read `counts` and `pending`; only the functions below write. */
typedef struct {
  sm_store *store;
  sm_link_output output;
  void *context;
  uint64_t window_start;                   /* 10 µs; start of the replay window, fixed since the start */
  uint64_t timestamp;                      /* 10 µs; highest one seen or sent */
  sm_link_stream streams[SM_LINK_STREAMS]; /* senders that were heard last */
  sm_link_counts counts;
  uint32_t dropped;  /* bytes that have left `bytes`; counts up, wraps */
  uint16_t begin;    /* index of the first byte held in `bytes` */
  uint16_t filled;   /* bytes held from there on */
  uint16_t consumed; /* of them, the bytes of the message handed out last */
  uint16_t scanned;  /* of them, the bytes from the second on that were found to start no frame */
  uint8_t system;    /* MAVLink system id of this board, 1 … 254 */
  uint8_t sequence;  /* of the next frame sent; wraps */
  bool has_key;
  bool pending;                 /* `bytes` may hold another message: call sm_link_take again */
  uint8_t key[SM_DIGEST];       /* derived for this link and this board */
  uint8_t bytes[SM_LINK_BYTES]; /* received, not yet dropped */
} sm_link;

typedef struct {
  uint32_t id;            /* MAVLINK_MSG_ID_…; 0: no message */
  uint8_t system;         /* of the sender */
  uint8_t component;      /* of the sender */
  uint8_t size;           /* bytes of the payload as sent; MAVLink leaves out zeros at its end */
  const uint8_t *payload; /* valid until the next sm_link_take */
} sm_message;

/* Resets all of *l. `system` is 1 … 254, else SM_EARGUMENT and *l is not touched. `key` is the 32 bytes of the key
 * file or NULL for none; `board_id` is that of port_board_id(): frames signed for another board are refused. The
 * store must be open; it, `output` and `context` are kept by reference. */
SM_CHECKED int sm_link_start(sm_link *l, sm_store *store, uint8_t system, const uint8_t *key, const uint8_t *board_id,
                             sm_link_output output, void *context);

/* Parses bytes up to the end of the next message, or of a frame whose signature was wrong, and returns how many: so
 * a call checks one signature at most. message->id is 0 where there was no message. While l->pending call it again,
 * with the bytes that came meanwhile or with none (size 0), which tells that no more will come now. */
size_t sm_link_take(sm_link *l, const uint8_t *from, size_t size, sm_message *message);

/* Returns the bytes that the frame will have whose start has come and whose end has not; those of a header while
 * that is not known. 0 where no frame was begun. */
size_t sm_link_partial_bytes(const sm_link *l);

/* Drops the start of the frame that was begun, because its rest is overdue. The bytes behind it are parsed again by
 * the next sm_link_take. Does nothing where no frame was begun. */
void sm_link_drop_partial(sm_link *l);

/* Copies a message into the mavlink_…_t of its id, zeros at the end included. Does nothing for an unknown id. */
void sm_link_read(const sm_message *message, void *to);

/* Sends the mavlink_…_t of an id, signed where there is a key. 0; SM_EARGUMENT for an id that is not in the dialect;
 * SM_EIO where the line did not take all of it. Where the timestamp cannot be stored the frame goes out without a
 * signature, so that at least heartbeats are heard, and the result is that of sm_store_reserve. */
SM_CHECKED int sm_link_send(sm_link *l, uint32_t id, const void *payload);

#endif
