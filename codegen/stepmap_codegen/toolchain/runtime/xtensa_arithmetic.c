/* Integer arithmetic that Debian's libgcc for the LX106 leaves out: the ESP8266 has it in its ROM.
 *
 * The core multiplies 32 bits by 32 to 32, and does not divide. */
#include <stdint.h>

uint64_t __umulsidi3(uint32_t a, uint32_t b);
int64_t __muldi3(int64_t a, int64_t b);
uint32_t __udivsi3(uint32_t a, uint32_t b);
uint32_t __umodsi3(uint32_t a, uint32_t b);
int32_t __divsi3(int32_t a, int32_t b);
int64_t __divdi3(int64_t a, int64_t b);
uint64_t __udivdi3(uint64_t a, uint64_t b);
uint64_t __umoddi3(uint64_t a, uint64_t b);
uint64_t __udivmoddi4(uint64_t a, uint64_t b, uint64_t *rest); /* libgcc has this one */

/* Of halves of 16 bits, as multiplied by hand. */
static inline uint64_t product(uint32_t p, uint32_t q) {
  const uint32_t p0 = p & 0xFFFFU;
  const uint32_t p1 = p >> 16;
  const uint32_t q0 = q & 0xFFFFU;
  const uint32_t q1 = q >> 16;
  const uint32_t low = p0 * q0;
  const uint32_t first = p1 * q0 + (low >> 16); /* at most (2^16 - 1)^2 + 2^16 - 1 */
  const uint32_t second = p0 * q1 + (first & 0xFFFFU);
  const uint32_t high = p1 * q1 + (first >> 16) + (second >> 16);
  return (uint64_t)high << 32 | (second << 16 | (low & 0xFFFFU));
}

uint64_t __umulsidi3(uint32_t a, uint32_t b) { return product(a, b); }

/* What is above 64 bits is lost. */
int64_t __muldi3(int64_t a, int64_t b) {
  const uint32_t p = (uint32_t)a;
  const uint32_t q = (uint32_t)b;
  const uint32_t mixed = (uint32_t)((uint64_t)a >> 32) * q + p * (uint32_t)((uint64_t)b >> 32);
  return (int64_t)(product(p, q) + ((uint64_t)mixed << 32));
}

/* Bit by bit from the first that can be set; 0 of a division by 0. */
static inline uint32_t divided(uint32_t a, uint32_t b, uint32_t *rest) {
  uint32_t quotient = 0;
  if (b != 0 && a >= b) {
    for (int bit = __builtin_clz(b) - __builtin_clz(a); bit >= 0; --bit) {
      quotient <<= 1;
      if (a >= b << bit) {
        a -= b << bit;
        quotient |= 1U;
      }
    }
  }
  *rest = a;
  return quotient;
}

uint32_t __udivsi3(uint32_t a, uint32_t b) {
  uint32_t rest;
  return divided(a, b, &rest);
}

uint32_t __umodsi3(uint32_t a, uint32_t b) {
  uint32_t rest;
  (void)divided(a, b, &rest);
  return rest;
}

static inline uint32_t size32(int32_t v) { return v < 0 ? 0U - (uint32_t)v : (uint32_t)v; }

int32_t __divsi3(int32_t a, int32_t b) {
  uint32_t rest;
  const uint32_t size = divided(size32(a), size32(b), &rest);
  return (int32_t)((a ^ b) < 0 ? 0U - size : size);
}

uint64_t __udivdi3(uint64_t a, uint64_t b) { return __udivmoddi4(a, b, 0); }

uint64_t __umoddi3(uint64_t a, uint64_t b) {
  uint64_t rest;
  (void)__udivmoddi4(a, b, &rest);
  return rest;
}

static inline uint64_t size64(int64_t v) { return v < 0 ? 0U - (uint64_t)v : (uint64_t)v; }

int64_t __divdi3(int64_t a, int64_t b) {
  const uint64_t size = __udivmoddi4(size64(a), size64(b), 0);
  return (int64_t)((a ^ b) < 0 ? 0U - size : size);
}
