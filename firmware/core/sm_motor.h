/* Position loop of one axis, about 1 kHz, in integers.
 *
 * Positions are counts with 8 fraction bits (Q8) from the calibrated zero, within ±SM_MOTOR_TRAVEL. The encoder is read
 * by differences, so it may wrap anywhere. Speeds are Q8 counts per 1024 µs, effort is per mille.
 *
 *     sm_motor_start(&m, port_encoder(axis), position);          zero is known: calibrated
 *     sm_motor_hold(&m);                                         close the loop here: armed
 *     sm_motor_command(&m, &c, position, late_us);               once a tick: running
 *     sm_motor_brake(&m, &c, ramp_left_us);                      holding, stopped
 *     port_drive(axis, sm_motor_step(&m, &c, port_encoder(axis), dt_us));   always, also while off
 *
 * Functions of one motor must not interrupt each other. */
#ifndef SM_MOTOR_H
#define SM_MOTOR_H

#include <stdbool.h>
#include <stdint.h>

#define SM_MOTOR_TRAVEL (INT32_C(1) << 29) /* Q8 counts: 2 million counts to either side */

/* effort 2^shift = kp e + ki Σ e dt − kd v + kv v_target + ka a_target,   e = target − position
 *
 * with e in Q8 counts, v in Q8 counts per 1024 µs, a in Q12 counts per (1024 µs)², dt in 1024 µs. The derivative acts on
 * the position alone, so a bent target gives no kick; kv = kd + what the motor needs to keep a speed, ka what it needs
 * to slow down, less what a speed that is known late brakes by itself. Sums are 64 bits wide and cannot overflow with
 * these types. */
typedef struct {
  uint32_t period_us;      /* between commands, 1000 … 1000000 */
  uint32_t extrapolate_us; /* how far a target goes on beyond its command while the next one is late, at most 1000000 */
  int32_t low;             /* of the target, Q8 counts, within ±SM_MOTOR_TRAVEL */
  int32_t high;
  uint16_t kp;
  uint16_t ki;
  uint16_t kd;
  uint16_t kv;
  uint16_t ka;
  uint8_t shift;         /* 1 … 24 */
  uint8_t smooth;        /* speed is averaged over about 2^smooth steps, at most 8 */
  uint16_t unwind;       /* part of the effort beyond its limits that the integral gives back per 1024 µs, 256ths */
  int32_t integral;      /* largest effort of the integral */
  int32_t effort;        /* largest effort, 0 … 1000 */
  int32_t slew;          /* largest change of effort per 1024 µs */
  int32_t following;     /* error that is a fault … */
  uint32_t following_us; /* … when it lasts that long, at most 1000000 */
  int32_t speed;         /* whole counts per 1024 µs; an encoder that moves faster is broken */
} sm_motor_config;

typedef enum {
  SM_MOTOR_OK = 0,
  SM_MOTOR_FOLLOWING = 1, /* the motor is stuck, overloaded or without power */
  SM_MOTOR_ENCODER = 2    /* counts came faster than the motor can turn; the position is not known any more */
} sm_motor_fault;

typedef enum { SM_MOTOR_OFF = 0, SM_MOTOR_HOLD = 1, SM_MOTOR_LINE = 2, SM_MOTOR_BRAKE = 3 } sm_motor_mode;

/* Read freely; written here only. */
typedef struct {
  sm_motor_mode mode;
  sm_motor_fault fault; /* sticky until start or reset; the effort is 0 meanwhile */
  int32_t position;     /* Q8 counts */
  int32_t target;       /* Q8 counts; while off it follows the position */
  int32_t error;        /* target − position at the last step, Q8 counts */
  int32_t effort;       /* of the last step, per mille */
  uint32_t limited;     /* steps with the effort at a limit of size or slew; counts up */
  int32_t encoder;
  int32_t speed_sum;    /* mean speed times 2^smooth */
  int32_t command;      /* where the line ends, Q8 counts */
  int32_t from;         /* target when line or brake began */
  int32_t slope;        /* of the line or at the begin of the brake, Q8 counts/µs with 20 fraction bits */
  int32_t rate;         /* beyond the line: from the command before to this one, as slope */
  int32_t target_slope; /* of the target now, as slope */
  int32_t acceleration; /* of the target, while braking, Q12 counts per (1024 µs)² */
  uint32_t length_us;   /* of line or brake */
  uint32_t elapsed_us;  /* since it began */
  uint32_t inverse;     /* of the brake's length, 1/µs with 31 fraction bits */
  uint32_t behind_us;   /* how long the error has been too large */
  int64_t integral;     /* effort times 2^shift */
} sm_motor;

/* Off, without fault, at a known position. */
void sm_motor_start(sm_motor *m, int32_t encoder, int32_t position);

/* No effort; the position is still followed. */
void sm_motor_off(sm_motor *m);

/* Off and without fault. After SM_MOTOR_ENCODER the position has to be calibrated again. */
void sm_motor_reset(sm_motor *m);

/* Closes the loop at the present position; nothing where it is closed. */
void sm_motor_hold(sm_motor *m);

/* The target goes straight to `position` and is there one period after the instant the command belongs to, which is
 * late_us ago, or still to come where that is negative: the known latency of measurement, link, filter and drive. Up to
 * half a period of it is made up for. The target goes on at the speed between the last two commands, for at most extrapolate_us, so that a late next command
 * finds it where it should be by then. Nothing while off. */
void sm_motor_command(sm_motor *m, const sm_motor_config *c, int32_t position, int32_t late_us);

/* The target comes to rest within time_us, at most 1000000, slowing down evenly. Nothing unless it is moving: may be
 * called again and again. */
void sm_motor_brake(sm_motor *m, const sm_motor_config *c, uint32_t time_us);

/* Effort after dt_us more; fewer than 100 or more than 65535 µs are taken as those. One 32-bit division. */
int32_t sm_motor_step(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us);

/* Limits of a command, in any unit: the model's fixed point or counts. */
typedef struct {
  int32_t low;
  int32_t high;
  int32_t step; /* largest change a tick, not negative */
} sm_command_limits;

int32_t sm_clamp(int32_t wanted, int32_t low, int32_t high);

/* The number nearest to `wanted` that is at most `step` from `last`. */
int32_t sm_rate_limit(int32_t wanted, int32_t last, int32_t step);

/* `wanted` within range and rate; counts in *limited where that is another number. The rate wins: from a `last` outside
 * the range the way back takes steps, never a jump. */
int32_t sm_limit_command(const sm_command_limits *limits, int32_t wanted, int32_t last, uint32_t *limited);

#endif
