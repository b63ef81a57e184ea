/* Position loop of one motor axis: PID with feed-forward, about 1 kHz, in integers.
 *
 * Positions are encoder counts with 8 fraction bits (Q8) from the calibrated zero, within ±SM_MOTOR_TRAVEL. Only
 * differences of the encoder are used, so it may wrap anywhere. Speeds are Q8 counts per 1024 µs; effort is per
 * mille of full drive, -1000 … 1000.
 *
 *     sm_motor_start(&m, port_encoder(axis), position);          the zero is known: calibrated
 *     sm_motor_hold(&m);                                         close the loop at this position: armed
 *     sm_motor_command(&m, &c, position, late_us);               once per tick: running
 *     sm_motor_brake(&m, &c, ramp_left_us);                      holding, stopped
 *     port_drive(axis, sm_motor_step(&m, &c, port_encoder(axis), dt_us));   always, also while off
 *
 * Every function is called from the main loop only; two calls for one motor must not interrupt each other. None of
 * them can fail: positions and times outside of these ranges are clamped. The configuration is trusted. */
#ifndef SM_MOTOR_H
#define SM_MOTOR_H

#include <stdbool.h>
#include <stdint.h>

#define SM_MOTOR_TRAVEL (INT32_C(1) << 29) /* Q8 counts: 2^21, two million counts, to either side */
#define SM_MOTOR_Q8 256                    /* one encoder count as a Q8 position */
#define SM_MOTOR_EFFORT 1000               /* per mille; full drive */

/* effort 2^shift = kp e + ki Σ e dt − kd v + kv v_target + ka a_target,   e = target − position
 *
 * with e in Q8 counts, v in Q8 counts per 1024 µs, a in Q12 counts per (1024 µs)², dt in 1024 µs. The derivative
 * acts on the position alone, so a bend of the target gives no kick. kv is kd plus the effort that keeps a speed. ka
 * is the effort that slows the motor down, less the braking that kd does because the measured speed is late. Sums
 * are 64 bits wide and cannot overflow with these types. */
typedef struct {
  uint32_t period_us;      /* µs between commands, 1000 … 1000000 */
  uint32_t extrapolate_us; /* µs that a target goes on beyond its command while the next one is late, max 1000000 */
  int32_t low;             /* Q8 counts, least target, within ±SM_MOTOR_TRAVEL */
  int32_t high;            /* Q8 counts, largest target, within ±SM_MOTOR_TRAVEL */
  uint16_t kp;             /* proportional gain */
  uint16_t ki;             /* integral gain */
  uint16_t kd;             /* derivative gain */
  uint16_t kv;             /* speed feed-forward */
  uint16_t ka;             /* acceleration feed-forward */
  uint8_t shift;           /* fraction bits of the five gains, 1 … 24 */
  uint8_t speed_filter;    /* the measured speed is averaged over about 2^this steps, 0 … 8 */
  uint16_t anti_windup;    /* anti-windup gain: part of the effort beyond its limits, in 256ths, that is taken off the
                            * integral per 1024 µs */
  int32_t integral_limit;  /* per mille, largest effort of the integral */
  int32_t effort_limit;    /* per mille, largest effort, 0 … 1000 */
  int32_t slew_limit;      /* per mille per 1024 µs, largest change of the effort */
  int32_t following_limit; /* Q8 counts; a larger following error is a fault … */
  uint32_t following_time_us; /* … when it lasts longer than this, µs, max 1000000 */
  int32_t speed_limit;        /* whole counts per 1024 µs; an encoder that moves faster is broken */
} sm_motor_config;

typedef enum {
  SM_MOTOR_OK = 0,
  SM_MOTOR_FOLLOWING = 1, /* following error: the motor is stuck, overloaded or without power */
  SM_MOTOR_ENCODER = 2    /* counts came faster than the motor can turn; the position is not known any more */
} sm_motor_fault;

typedef enum {
  SM_MOTOR_OFF = 0,  /* no effort; the target is the position */
  SM_MOTOR_HOLD = 1, /* the target stands still */
  SM_MOTOR_LINE = 2, /* the target moves in a straight line to the command, then extrapolates */
  SM_MOTOR_BRAKE = 3 /* the target slows down evenly and stands */
} sm_motor_mode;

/* Other files read it; only the functions below write it. "Slope" is Q8 counts per µs with 20 fraction bits. */
typedef struct {
  sm_motor_mode mode;
  sm_motor_fault fault;    /* sticky until start or reset; the effort is 0 meanwhile */
  int32_t position;        /* Q8 counts */
  int32_t target;          /* Q8 counts */
  int32_t error;           /* Q8 counts, following error target − position of the last step */
  int32_t effort;          /* per mille, of the last step */
  uint32_t limited_steps;  /* steps with the effort at its limit or slew limit; counts up, wraps */
  int32_t encoder;         /* raw counts of the last step, wraps */
  int32_t speed_sum;       /* mean speed times 2^speed_filter */
  int32_t command;         /* Q8 counts, where the line or the brake ends */
  int32_t start;           /* Q8 counts, target when the line or the brake began */
  int32_t slope;           /* slope of the line, or at the start of the brake */
  int32_t command_slope;   /* slope from the command before to this one: that of the extrapolation */
  int32_t target_slope;    /* slope of the target now */
  int32_t acceleration;    /* Q12 counts per (1024 µs)², of the target while braking, else 0 */
  uint32_t length_us;      /* µs that the line or the brake takes */
  uint32_t elapsed_us;     /* µs since it began, max 3000000 */
  uint32_t inverse_length; /* 1/length_us of a brake with 31 fraction bits */
  uint32_t following_us;   /* µs that the following error has been above its limit, max 2000000 */
  int64_t integral;        /* per mille times 2^shift */
} sm_motor;

/* Resets all of *m: off, without a fault, at `position` (Q8 counts) where the encoder shows `encoder`. */
void sm_motor_start(sm_motor *m, int32_t encoder, int32_t position);

/* Off: no effort from now on. sm_motor_step still tracks the position; a fault stays. */
void sm_motor_off(sm_motor *m);

/* Off and without a fault. The position stays; after SM_MOTOR_ENCODER it is wrong until sm_motor_start. */
void sm_motor_reset(sm_motor *m);

/* Closes the loop at the present position. Does nothing unless the motor is off. */
void sm_motor_hold(sm_motor *m);

/* Sends the target in a straight line to `position` (Q8 counts, clamped to low … high), where it arrives one period
 * after the instant the command belongs to. That instant was late_us ago (µs), or is still to come where late_us is
 * negative: the known latency of measurement, link, filter and drive. At most half a period is compensated either
 * way. After that the target goes on at the speed between the last two commands for up to extrapolate_us, so that a
 * late next command finds it where it should be by then. Does nothing while the motor is off. */
void sm_motor_command(sm_motor *m, const sm_motor_config *c, int32_t position, int32_t late_us);

/* Brings the target to rest within time_us (µs, max 1000000) with constant deceleration. Does nothing unless the
 * target is on a line, so it may be called again and again. */
void sm_motor_brake(sm_motor *m, const sm_motor_config *c, uint32_t time_us);

/* Returns the effort, per mille within ±effort_limit, after dt_us more (µs, clamped to 100 … 65535) with the encoder at
 * `encoder`. 0 while off or faulty; m->fault tells of a new fault. Costs one 32-bit division. */
int32_t sm_motor_step(sm_motor *m, const sm_motor_config *c, int32_t encoder, uint32_t dt_us);

/* Limits of a command in any unit: the model's fixed point or counts. */
typedef struct {
  int32_t low;  /* least command */
  int32_t high; /* largest command, not below low */
  int32_t step; /* largest change per tick, not negative */
} sm_motor_limits;

/* Returns the number of low … high nearest to `wanted`. */
int32_t sm_motor_clamp(int32_t wanted, int32_t low, int32_t high);

/* Returns the number nearest to `wanted` that is at most `step` from `last`. */
int32_t sm_motor_rate_limit(int32_t wanted, int32_t last, int32_t step);

/* Returns `wanted` within range and rate, and counts in *limited where that differs from `wanted`. The rate has
 * priority: from a `last` outside of the range the way back takes steps, never a jump. */
int32_t sm_motor_limit_command(const sm_motor_limits *limits, int32_t wanted, int32_t last, uint32_t *limited);

#endif
