/* A queue of bytes between one writer and one reader, one of which may be an interrupt.
 *
 * `put` belongs to the writer and `taken` to the reader; both count for ever and wrap, so a full queue and an empty one
 * differ. `room` is a power of two. Bytes stay on their side of the counters for the compiler too; one processor sees its
 * own memory in order. */
#ifndef RING_H
#define RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint8_t *bytes;
  uint32_t room;
  volatile uint32_t put;
  volatile uint32_t taken;
} ring;

/* Inlined everywhere, so that code which runs from RAM while flash is busy, which puts bytes, calls nothing in flash. */
#define RING_INLINE static inline __attribute__((always_inline))

/* Bytes that wait to be taken. */
RING_INLINE uint32_t ring_waiting(const ring *r) { return r->put - r->taken; }

/* False where the queue is full; the byte is then lost. */
RING_INLINE bool ring_put(ring *r, uint8_t byte) {
  const uint32_t put = r->put;
  if (put - r->taken >= r->room) {
    return false;
  }
  r->bytes[put & (r->room - 1U)] = byte;
  atomic_signal_fence(memory_order_release);
  r->put = put + 1U; /* after the byte: the reader may look at any moment */
  return true;
}

/* Takes up to `room` bytes; returns how many. */
RING_INLINE size_t ring_take(ring *r, uint8_t *to, size_t room) {
  const uint32_t first = r->taken;
  const uint32_t waiting = r->put - first;
  const size_t count = waiting < room ? waiting : room;
  const uint32_t at = first & (r->room - 1U);
  const size_t behind = r->room - at; /* bytes up to where the memory begins again */
  atomic_signal_fence(memory_order_acquire);
  if (count == 1U) { /* as interrupts do */
    *to = r->bytes[at];
  } else {
    const size_t first_part = count < behind ? count : behind;
    memcpy(to, r->bytes + at, first_part);
    memcpy(to + first_part, r->bytes, count - first_part);
  }
  atomic_signal_fence(memory_order_release);
  r->taken = first + (uint32_t)count;
  return count;
}

#endif
