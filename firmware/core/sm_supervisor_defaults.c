/* Limits and times of the supervisor, each with its reason. */
#include "sm_supervisor.h"

/* µs. The motor loop is made for 1 ms and oscillates at 10: half of that. A platform that shares its processor with
 * other processes defines a longer one. */
#ifndef STEPMAP_MOTOR_LATE_US
#define STEPMAP_MOTOR_LATE_US 5000U
#endif

const sm_supervisor_config sm_supervisor_defaults = {
    .hold_us = 200000U,          /* six ticks of 30 Hz: a few lost frames are normal */
    .ramp_us = 30000U,           /* one tick: the target stands before the next command would have come */
    .stop_us = 50000U,           /* the ramp and 20 ms for polls and for motors to settle */
    .age_us = 100000U,           /* half of hold_us: three ticks of 30 Hz */
    .calibration_us = 10000000U, /* 64 measurements take 2.1 s at 30 Hz */
    .overrun_us = 100000U,       /* three ticks of 30 Hz */
    .overrun_limit = 5U, /* one or two are an interrupt or a retransmission, five are a board that is too slow */
    .motor_late_us = STEPMAP_MOTOR_LATE_US,
    .motor_late_limit = 5U,      /* as overrun_limit */
    .gated_limit = 10U,          /* a third of a second at 30 Hz; single jumps of a depth camera are shorter */
    .nis_limit = 5U * SM_Q8_ONE, /* 1 is usual; the mean over 16 ticks of 4 channels has a standard deviation of 0.13 */
    .nis_window = 4U,            /* 16 ticks, half a second at 30 Hz */
    .calibration_required = true,
};
