/* SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104) with keys of 32 bytes, and a comparison in constant time.
 *
 * No function can fail, none keeps memory but *s. Main loop only. */
#ifndef SM_SHA256_H
#define SM_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SM_DIGEST 32U /* bytes of a digest, of a key and of a message authentication code */

typedef struct {
  uint32_t state[8];
  uint64_t size;     /* bytes added so far */
  uint8_t block[64]; /* those that do not fill a block of 64 yet */
} sm_sha256;

/* Starts a digest. */
void sm_sha256_start(sm_sha256 *s);

/* Adds bytes to it; any number of times. */
void sm_sha256_add(sm_sha256 *s, const void *from, size_t size);

/* Sets `digest` to the SHA-256 of all that was added; *s has to be started again before its next use. */
void sm_sha256_end(sm_sha256 *s, uint8_t digest[SM_DIGEST]);

/* Sets `code` to the message authentication code HMAC(key, message). */
void sm_sha256_hmac(const uint8_t key[SM_DIGEST], const void *message, size_t size, uint8_t code[SM_DIGEST]);

/* Sets `derived` to a key for one purpose and one board: HMAC(key, purpose, PORT_BOARD_ID bytes of board_id). It
 * reveals neither the key nor the keys of other purposes or boards. */
void sm_sha256_derive_key(const uint8_t key[SM_DIGEST], const char *purpose, const uint8_t *board_id,
                          uint8_t derived[SM_DIGEST]);

/* Returns whether two secrets are equal; the time it takes does not depend on where they differ. */
bool sm_sha256_equal(const uint8_t *a, const uint8_t *b, size_t size);

#endif
