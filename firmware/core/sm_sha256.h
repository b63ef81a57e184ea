/* SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104) with keys of 32 bytes, and a comparison that takes the same time
 * whatever it finds. */
#ifndef SM_SHA256_H
#define SM_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SM_DIGEST 32U /* bytes of a digest, of a key and of a code */

typedef struct {
  uint32_t state[8];
  uint64_t size;     /* bytes so far */
  uint8_t block[64]; /* those that do not fill a block yet */
} sm_sha256;

void sm_sha256_start(sm_sha256 *s);
void sm_sha256_add(sm_sha256 *s, const void *from, size_t size);

/* The digest of all that was added; `s` has to be started again afterwards. */
void sm_sha256_end(sm_sha256 *s, uint8_t digest[SM_DIGEST]);

/* The message authentication code of one message. */
void sm_hmac(const uint8_t key[SM_DIGEST], const void *message, size_t size, uint8_t code[SM_DIGEST]);

/* A key for one purpose and one board only: HMAC(key, purpose, PORT_BOARD_ID bytes of the board's id). Who knows it does
 * not know the key, nor that of another purpose or another board. */
void sm_derive(const uint8_t key[SM_DIGEST], const char *purpose, const uint8_t *board_id, uint8_t derived[SM_DIGEST]);

/* Whether two secrets are equal; the time does not depend on where they differ. */
bool sm_equal(const uint8_t *a, const uint8_t *b, size_t size);

#endif
