/* Numbers of the model: states and channels in the formats of commands, commands in the units of motors, statistics of
 * the filter, and words of messages. Where the model is in fixed point all of it is integers. */
#ifndef SM_NUMBERS_H
#define SM_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "robot.h"

#define SM_MOTORS (SM_AXES > 0 ? SM_AXES : 1) /* room for them */

/* The state that command i moves, -1 for a force; and the channel that measures it, -1 where none does. Inline, so that
 * a robot with forces alone has no code for positions. */
static inline int sm_state_of(unsigned i) {
  static const int8_t states[SM_MOTORS] = SM_U_STATE;
  return states[i];
}

static inline int sm_channel_of(unsigned i) {
  static const int8_t channels[SM_MOTORS] = SM_U_CHANNEL;
  return channels[i];
}

/* Whether command i is a position, and a motor moves there. */
static inline bool sm_moves(unsigned i) { return sm_state_of(i) >= 0; }

/* That state, and its measurement, in the command's format; 0 where there is none. */
sm_real sm_state_as_command(const sm_controller *c, unsigned i);
sm_real sm_channel_as_command(const sm_controller *c, unsigned i);

/* Command i in the unit of its motor: Q8 counts, or effort. */
int32_t sm_as_motor(unsigned i, sm_real command);

/* Command i within its limits of range and rate; *count counts where that is another number. */
sm_real sm_limited(unsigned i, sm_real wanted, sm_real last, uint32_t *count);

/* e²/s of a channel with 8 fraction bits: 256 is expected. */
uint32_t sm_normalized(const sm_controller *c, unsigned channel);

/* A variance as a part of its limit, 256ths; the largest number where it is no variance. */
uint32_t sm_spread_of(sm_real variance, sm_real limit);

/* As messages carry it: the word itself, or the bits of a float. */
int32_t sm_as_word(sm_real v);
sm_real sm_from_word(int32_t v);

#endif
