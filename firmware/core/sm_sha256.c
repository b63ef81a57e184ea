#include "sm_sha256.h"

#include "port.h"

#include <string.h>

#ifdef __OPTIMIZE_SIZE__
#pragma GCC optimize("O2") /* a twentieth faster, and no longer */
#endif

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t cube_roots[64] = {
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U, 0xab1c5ed5U,
    0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU, 0x9bdc06a7U, 0xc19bf174U,
    0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU, 0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU,
    0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U, 0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U,
    0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU, 0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U,
    0xa2bfe8a1U, 0xa81a664bU, 0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U,
    0x19a4c116U, 0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U, 0xc67178f2U};

/* Fractional parts of the square roots of the first 8 primes. */
static const uint32_t square_roots[8] = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                         0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};

static uint32_t rotate(uint32_t v, unsigned right) { return v >> right | v << (32U - right); }

/* One round; the names go round instead of the values. Word i + 16 of the message schedule replaces word i, so that
 * 16 of them are kept instead of 64. Written out, since most of what a stranger can make a board do is this. */
#define MIX(e) rotate(rotate(rotate(e, 14) ^ (e), 5) ^ (e), 6) /* by 6, 11 and 25 bits */
#define SUM(a) rotate(rotate(rotate(a, 9) ^ (a), 11) ^ (a), 2) /* by 2, 13 and 22 bits */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                                               \
  do {                                                                                                                 \
    h += MIX(e) + (((f ^ g) & e) ^ g) + roots[i] + w[i];                                                               \
    d += h;                                                                                                            \
    h += SUM(a) + (((a | b) & c) | (a & b));                                                                           \
  } while (0)
#define NEXT(i)                                                                                                        \
  (w[i] += (rotate(w[((i) + 1) % 16], 7) ^ rotate(w[((i) + 1) % 16], 18) ^ w[((i) + 1) % 16] >> 3) +                   \
           w[((i) + 9) % 16] +                                                                                         \
           (rotate(w[((i) + 14) % 16], 17) ^ rotate(w[((i) + 14) % 16], 19) ^ w[((i) + 14) % 16] >> 10))
#define NEXT_8(i) NEXT(i), NEXT(i + 1), NEXT(i + 2), NEXT(i + 3), NEXT(i + 4), NEXT(i + 5), NEXT(i + 6), NEXT(i + 7)
#define ROUNDS_8(i)                                                                                                    \
  do {                                                                                                                 \
    ROUND(a, b, c, d, e, f, g, h, (i));                                                                                \
    ROUND(h, a, b, c, d, e, f, g, (i) + 1);                                                                            \
    ROUND(g, h, a, b, c, d, e, f, (i) + 2);                                                                            \
    ROUND(f, g, h, a, b, c, d, e, (i) + 3);                                                                            \
    ROUND(e, f, g, h, a, b, c, d, (i) + 4);                                                                            \
    ROUND(d, e, f, g, h, a, b, c, (i) + 5);                                                                            \
    ROUND(c, d, e, f, g, h, a, b, (i) + 6);                                                                            \
    ROUND(b, c, d, e, f, g, h, a, (i) + 7);                                                                            \
  } while (0)

static void compress(uint32_t state[8], const uint8_t block[64]) {
  uint32_t w[16];
  for (unsigned i = 0; i < 16U; i++) {
    const uint8_t *at = block + 4U * i;
    w[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (const uint32_t *roots = cube_roots;; roots += 16) {
    ROUNDS_8(0);
    ROUNDS_8(8);
    if (roots == cube_roots + 48) {
      break;
    }
    NEXT_8(0);
    NEXT_8(8);
  }
  const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (unsigned i = 0; i < 8U; i++) {
    state[i] += sums[i];
  }
}

void sm_sha256_start(sm_sha256 *s) {
  memcpy(s->state, square_roots, sizeof s->state);
  s->size = 0;
}

void sm_sha256_add(sm_sha256 *s, const void *from, size_t size) {
  const uint8_t *at = from;
  while (size > 0U) {
    const size_t used = (size_t)(s->size % sizeof s->block);
    const size_t room = sizeof s->block - used;
    const size_t part = size < room ? size : room;
    memcpy(s->block + used, at, part);
    s->size += part;
    at += part;
    size -= part;
    if (part == room) {
      compress(s->state, s->block);
    }
  }
}

static void put_word(uint8_t *to, uint32_t word) {
  to[0] = (uint8_t)(word >> 24);
  to[1] = (uint8_t)(word >> 16);
  to[2] = (uint8_t)(word >> 8);
  to[3] = (uint8_t)word;
}

void sm_sha256_end(sm_sha256 *s, uint8_t digest[SM_DIGEST]) {
  static const uint8_t padding[64] = {0x80};
  const uint64_t bits = 8U * s->size;
  const size_t used = (size_t)(s->size % sizeof s->block);
  uint8_t tail[8];
  put_word(tail, (uint32_t)(bits >> 32));
  put_word(tail + 4, (uint32_t)bits);
  sm_sha256_add(s, padding, used < 56U ? 56U - used : 120U - used);
  sm_sha256_add(s, tail, sizeof tail);
  for (unsigned i = 0; i < 8U; i++) {
    put_word(digest + 4U * i, s->state[i]);
  }
}

static void start_padded(sm_sha256 *s, const uint8_t key[SM_DIGEST], uint8_t with) {
  uint8_t padded[64];
  memset(padded, with, sizeof padded);
  for (unsigned i = 0; i < SM_DIGEST; i++) {
    padded[i] ^= key[i];
  }
  sm_sha256_start(s);
  sm_sha256_add(s, padded, sizeof padded);
}

/* The code of what was added to `s` since it was started with 0x36. */
static void end_padded(sm_sha256 *s, const uint8_t key[SM_DIGEST], uint8_t code[SM_DIGEST]) {
  uint8_t inner[SM_DIGEST];
  sm_sha256_end(s, inner);
  start_padded(s, key, 0x5c);
  sm_sha256_add(s, inner, sizeof inner);
  sm_sha256_end(s, code);
}

void sm_sha256_hmac(const uint8_t key[SM_DIGEST], const void *message, size_t size, uint8_t code[SM_DIGEST]) {
  sm_sha256 s;
  start_padded(&s, key, 0x36);
  sm_sha256_add(&s, message, size);
  end_padded(&s, key, code);
}

void sm_sha256_derive_key(const uint8_t key[SM_DIGEST], const char *purpose, const uint8_t *board_id,
                          uint8_t derived[SM_DIGEST]) {
  sm_sha256 s;
  start_padded(&s, key, 0x36);
  sm_sha256_add(&s, purpose, strlen(purpose));
  sm_sha256_add(&s, board_id, PORT_BOARD_ID);
  end_padded(&s, key, derived);
}

bool sm_sha256_equal(const uint8_t *a, const uint8_t *b, size_t size) {
  uint8_t different = 0;
  for (size_t i = 0; i < size; i++) {
    different |= a[i] ^ b[i];
  }
  return different == 0U;
}
