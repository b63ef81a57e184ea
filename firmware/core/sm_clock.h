/* Clock of the loop: the board's own, or the stamps of messages (virtual time).
 *
 * With virtual time a board does the same for the same messages however long they take, bit for bit. Main loop only. */
#ifndef SM_CLOCK_H
#define SM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Other files read it; sm_loop.c also lets virtual time pass when the host has gone silent. */
typedef struct {
  uint32_t virtual_us; /* µs, virtual time; wraps. It starts where the board's clock was */
  uint32_t stamp_us;   /* µs, latest stamp of a message; only where is_stamped */
  bool is_virtual;     /* time is that of stamps, else that of port_micros() */
  bool is_stamped;     /* a stamp came since the clock was selected */
} sm_clock;

/* Returns the time in µs; wraps after 71 minutes. */
uint32_t sm_clock_now_us(const sm_clock *c);

/* Chooses virtual or real time. Virtual time goes on from the time there is; the first stamp fixes its origin. */
void sm_clock_select(sm_clock *c, bool is_virtual);

/* Lets virtual time pass by as much as the stamp (µs, wraps) is later than the latest one. An earlier stamp changes
 * nothing: time never goes back. Harmless while the clock is real. */
void sm_clock_advance(sm_clock *c, uint32_t stamp_us);

#endif
