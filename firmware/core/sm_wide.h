/* Messages whose arrays are as long as the model asks for: the usual ones, or where those are too short the ones called
 * WIDE_ in the dialect. One measurement, one set of encoders and one of efforts are always one message, so that a tick
 * never waits for the rest of one. Telemetry may have several parts; what a host lacks then is what it would lack of a
 * message that got lost. */
#ifndef SM_WIDE_H
#define SM_WIDE_H

#include "port.h"
#include "robot.h"
#include "sm_link.h"
#include "sm_numbers.h"

#ifdef SM_NMODE
#define SM_WORDS (SM_NX + SM_NZ + SM_AXES + SM_NMODE) /* of telemetry */
#else
#define SM_WORDS (SM_NX + SM_NZ + SM_AXES)
#endif

#if SM_NZ > MAVLINK_MSG_MEASUREMENT_FIELD_Z_LEN
typedef mavlink_wide_measurement_t sm_wide_measurement;
typedef uint32_t sm_wide_valid; /* a bit per channel */
#define SM_WIDE_MEASUREMENT MAVLINK_MSG_ID_WIDE_MEASUREMENT
#else
typedef mavlink_measurement_t sm_wide_measurement;
typedef uint16_t sm_wide_valid;
#define SM_WIDE_MEASUREMENT MAVLINK_MSG_ID_MEASUREMENT
#endif

#if SM_ENCODERS > MAVLINK_MSG_VIRTUAL_ENCODER_FIELD_COUNTS_LEN
typedef mavlink_wide_virtual_encoder_t sm_wide_encoder;
#define SM_WIDE_ENCODER MAVLINK_MSG_ID_WIDE_VIRTUAL_ENCODER
#define SM_WIDE_COUNTS MAVLINK_MSG_WIDE_VIRTUAL_ENCODER_FIELD_COUNTS_LEN
#else
typedef mavlink_virtual_encoder_t sm_wide_encoder;
#define SM_WIDE_ENCODER MAVLINK_MSG_ID_VIRTUAL_ENCODER
#define SM_WIDE_COUNTS MAVLINK_MSG_VIRTUAL_ENCODER_FIELD_COUNTS_LEN
#endif

#if SM_AXES > MAVLINK_MSG_VIRTUAL_ACTUATOR_FIELD_EFFORT_LEN
typedef mavlink_wide_virtual_actuator_t sm_wide_actuator;
#define SM_WIDE_ACTUATOR MAVLINK_MSG_ID_WIDE_VIRTUAL_ACTUATOR
#else
typedef mavlink_virtual_actuator_t sm_wide_actuator;
#define SM_WIDE_ACTUATOR MAVLINK_MSG_ID_VIRTUAL_ACTUATOR
#endif

#define SM_WIDE_PARTS (SM_WORDS > MAVLINK_MSG_TELEMETRY_FIELD_WORDS_LEN || SM_NZ > MAVLINK_MSG_MEASUREMENT_FIELD_Z_LEN)
#if SM_WIDE_PARTS
#define SM_WIDE_PART MAVLINK_MSG_WIDE_TELEMETRY_FIELD_WORDS_LEN /* words of each part but the last */
typedef mavlink_wide_telemetry_t sm_wide_head;
typedef uint32_t sm_wide_mask; /* of what the gate took, a bit per channel */
typedef struct {
  sm_wide_head head; /* a part, and what it has in common with the others */
  int32_t words[SM_WORDS];
} sm_wide_telemetry;
#else
typedef mavlink_telemetry_t sm_wide_head;
typedef uint16_t sm_wide_mask;
typedef sm_wide_head sm_wide_telemetry;
#endif

/* Virtual encoders that there is room for: more than the robot has, less than the board may have. */
#define SM_WIDE_ENCODERS (PORT_ENCODERS < SM_WIDE_COUNTS ? PORT_ENCODERS : SM_WIDE_COUNTS)

#endif
