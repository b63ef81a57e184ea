/* Numbers of the model: conversions between states, channels, commands, motor units and messages, and the statistics
 * of the filter. With a fixed-point model all of it is integers.
 *
 * i is the index of a command, 0 … SM_AXES - 1. Every function is pure and may be called from anywhere. */
#ifndef SM_NUMBERS_H
#define SM_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "robot.h"

/* Whether the board measures with its own encoders; else measurements are messages of the host. */
#ifndef SM_MEASURE_ENCODERS
#define SM_MEASURE_ENCODERS 0
#endif

#define SM_MOTORS (SM_AXES > 0 ? SM_AXES : 1) /* length of arrays with one entry per axis: C has none of length 0 */

/* Returns the state that command i sets; -1 for a force. Inline, so that a robot with forces alone has no code for
 * positions. */
static inline int sm_numbers_state(unsigned i) {
  static const int8_t states[SM_MOTORS] = SM_U_STATE;
  return states[i];
}

/* Returns the channel that measures that state; -1 where none does. */
static inline int sm_numbers_channel(unsigned i) {
  static const int8_t channels[SM_MOTORS] = SM_U_CHANNEL;
  return channels[i];
}

/* Returns whether command i is a position that a motor moves to; else it is a force. */
static inline bool sm_numbers_is_position(unsigned i) { return sm_numbers_state(i) >= 0; }

/* Returns the encoder of the motor that moves to the position of command i; not for forces. Encoders belong to motors in
 * their order, or to channels where the board measures with them. */
static inline unsigned sm_numbers_encoder(unsigned i) {
  if (SM_MEASURE_ENCODERS) {
    return (unsigned)sm_numbers_channel(i);
  }
  unsigned before = 0;
  for (unsigned k = 0; k < i; k++) {
    before += sm_numbers_is_position(k) ? 1U : 0U;
  }
  return before;
}

/* Returns whether any command is a force. */
static inline bool sm_numbers_has_forces(void) {
  bool has = false;
  for (unsigned i = 0; i < SM_AXES; i++) {
    has = has || !sm_numbers_is_position(i);
  }
  return has;
}

/* Returns the estimate of the state that command i sets, in the command's format; 0 for a force. */
sm_real sm_numbers_state_as_command(const sm_controller *c, unsigned i);

/* Returns the measurement of that state, in the command's format; 0 where no channel measures it. */
sm_real sm_numbers_measured_as_command(const sm_controller *c, unsigned i);

/* Returns command i in the unit of its motor: Q8 counts for a position, per mille of effort for a force. */
int32_t sm_numbers_as_motor(unsigned i, sm_real command);

/* Returns command i within its limits of range and of change since `last`, and counts in *count where that differs from
 * `wanted`. A NaN becomes a limit. */
sm_real sm_numbers_limit_command(unsigned i, sm_real wanted, sm_real last, uint32_t *count);

#if SM_MEASURE_ENCODERS
/* Returns a channel, in its format, whose encoder has moved by so many counts since the start. */
sm_real sm_numbers_from_encoder(unsigned channel, int32_t counts);
#endif

/* Returns the normalized innovation squared e²/s of a channel, Q8: 256 is expected. */
uint32_t sm_numbers_nis(const sm_controller *c, unsigned channel);

/* Returns the ratio of a variance to its limit, Q8: 256 is at the limit. UINT32_MAX where it is no variance (≤ 0,
 * NaN). */
uint32_t sm_numbers_variance_ratio(sm_real variance, sm_real limit);

/* Returns a number as messages carry it: the raw value of fixed point, or the bits of a float. */
int32_t sm_numbers_to_wire(sm_real v);

/* Returns the number that messages carry so. */
sm_real sm_numbers_from_wire(int32_t v);

#endif
