/* The robot: measurement → gate → update → law → predict → telemetry, the motors in between, and who may do what.
 *
 *     port_init();
 *     sm_loop_start(&loop, &sm_loop_defaults);
 *     for (;;) {
 *       sm_loop_turn(&loop);
 *     }
 *
 * A tick is done when a measurement arrives, and half a period after it was due when none does. The filter runs while
 * armed, running, holding and stopped; the law moves something while running alone.
 *
 * On a bench motors and encoders can be those of messages (virtual IO), and with them time can be that of their stamps
 * (virtual time): then the board does the same thing for the same messages however long they take, bit for bit. */
#ifndef SM_LOOP_H
#define SM_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller.h"
#include "port.h"
#include "robot.h"
#include "sm_link.h"
#include "sm_motor.h"
#include "sm_numbers.h"
#include "sm_schedule.h"
#include "sm_store.h"
#include "sm_supervisor.h"
#include "sm_upload.h"

#define SM_LOOP_CHUNK 64U  /* bytes that are taken off the line at once */
#define SM_CALIBRATION 64U /* measurements whose mean is where the motors stand */

typedef struct {
  uint8_t system;     /* MAVLink system id */
  const uint8_t *key; /* 32 bytes, or NULL: nothing is taken */
  uint32_t late_us;   /* from a measurement to its command: camera, tracker, link */
  uint32_t watchdog_ms;
} sm_loop_config;

typedef struct {
  const sm_loop_config *config;
  sm_controller controller;
  sm_schedule schedule;
  sm_store store;
  sm_link link;
  sm_upload upload;
  sm_supervisor supervisor;
  sm_motor motors[SM_MOTORS];
  sm_real applied[SM_MOTORS]; /* commands of the last tick */
#if SM_AHEAD > 0
  sm_controller ahead;                 /* as the controller will be when its command takes effect */
  sm_real issued[SM_AHEAD][SM_MOTORS]; /* commands since the measurement was made; the oldest is in effect */
#endif
  int64_t calibration[SM_MOTORS];
  int64_t calibration_low[SM_MOTORS];
  int64_t calibration_high[SM_MOTORS];
  int32_t calibration_encoder[SM_MOTORS]; /* at its first measurement */
  int32_t encoders[PORT_AXES];            /* virtual ones */
  uint32_t calibrations;
  uint32_t limited; /* commands limited in range or rate */
  uint32_t tick;
  uint32_t gated;
  uint32_t sequence;
  uint32_t taken;
  uint32_t virtual_us;
  uint32_t stamp_us;      /* that virtual time has reached, once stamped */
  uint32_t due_us;        /* when the measurement of the next tick should come */
  uint32_t steady;        /* measurements that due_us is the mean of; 0 where it is a guess */
  uint32_t missed;        /* ticks since the last measurement */
  uint32_t poll_us;       /* when time was last looked at */
  uint32_t motor_us;      /* when the real motors were */
  uint32_t motor_longest; /* µs between two steps of the real motors since they were switched on */
  uint32_t tick_longest;  /* µs of a tick since then */
  uint32_t offset_us;     /* least of arrival minus stamp of measurements, of late; where known */
  uint32_t encoders_us;   /* stamp of the virtual encoders, once paced */
  uint32_t beat_us;
  uint32_t beats;
  uint32_t answered; /* commands */
  uint32_t uptime_ms;
  uint32_t uptime_us; /* the clock at that time */
  uint32_t heard_us;
  uint32_t chunk_us;    /* when the bytes of `chunk` were taken off the line */
  uint32_t begun_us;    /* when the frame that the link waits for was begun … */
  uint32_t begun_after; /* … after that many bytes of others */
  uint32_t restart_us;
  uint32_t lost_before;                           /* saturations at the begin of the run */
  mavlink_command_ack_t answers[SM_LINK_STREAMS]; /* to the last command of each sender */
  const char *complaint;                          /* what is wrong with this board; NULL where nothing is */
  uint16_t faults;
  sm_motion motion;
  uint32_t told; /* transitions that heartbeats have told */
  uint8_t schedule_name[SM_STORE_NAME];
  uint8_t chunk[SM_LOOP_CHUNK];
  uint8_t chunk_size;
  uint8_t chunk_done; /* bytes of it that the link has */
  uint8_t owed;       /* messages that go with heartbeats, one bit each */
  bool linked;
  bool has_schedule;
  bool uploaded;
  bool ticking; /* the filter runs: a tick is due at due_us */
  bool running; /* since the last run command; false again when idle */
  bool virtual_io;
  bool virtual_time;
  bool stamped;
  bool paced;
  bool offset_known;
  bool restarting;
} sm_loop;

extern const sm_loop_config sm_loop_defaults;

/* Opens the store, tests the controller, and begins to listen. */
void sm_loop_start(sm_loop *l, const sm_loop_config *config);

/* Takes what has arrived, does what is due, and sleeps if that was nothing. */
void sm_loop_turn(sm_loop *l);

#endif
