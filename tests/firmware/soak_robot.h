/* The robot of soak.c in simulated time: the board, its motors and encoders, and a camera that sees it. Motors and time
 * are those of messages, or the board's own. */
#ifndef SOAK_ROBOT_H
#define SOAK_ROBOT_H

#include "soak_host.h"

/* The plan, as measured words. */
typedef struct {
  const int32_t *view; /* rows of SM_NZ */
  uint32_t rows;
  int32_t start[SM_NZ];
  int32_t start_u[SM_NU];
} soak_plan;

typedef struct {
  soak_plan plan;
  uint8_t key[32];
  bool is_virtual;
  uint32_t stamp_us; /* virtual time */
  uint32_t clock_before;
  uint32_t frame_us;               /* real time since the last measurement was due */
  int32_t counts[PORT_ENCODERS];   /* of virtual motors */
  int64_t position[PORT_ENCODERS]; /* of real ones, thousandths of counts */
  uint32_t alarms;                 /* that hardware tells by itself */
  uint32_t stuck[PORT_ENCODERS];   /* ticks that a motor still stands still */
  mavlink_measurement_t late;      /* under way */
  uint32_t late_ms;                /* that it still needs; 0: none */
} soak_robot;

extern soak_robot robot;

loop_facts look(void);
void start(void);                    /* the firmware begins, as after a reset */
void serve(void);                    /* the board reads what was sent to it */
void pass_ms(void);                  /* a millisecond of the board's clock and motors */
void pass_virtual(uint32_t us);      /* time of the stamps, without a message */
void send_encoders(void);            /* of virtual motors */
void pass(uint32_t us);              /* in which motors get to their commands */
mavlink_measurement_t seen(int32_t); /* now, with noise of so many mm */
void measure(int32_t noise);         /* sends that */

#endif
