/* Host: handles what a host asks for. Every command, ping and upload message is answered. Main loop only. */
#ifndef SM_HOST_H
#define SM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "sm_link.h"

typedef struct sm_loop sm_loop; /* sm_loop.h */

/* Other files read it; only sm_host.c writes it. */
typedef struct {
  mavlink_command_ack_t answers[SM_LINK_STREAMS]; /* to the last command of each sender */
  uint32_t evictions;                             /* answers that were given to another sender; counter, wraps */
  uint32_t restart_us;                            /* µs, board clock: when a restart was commanded */
  bool is_restarting;                             /* the processor restarts soon; messages are ignored */
} sm_host;

/* Handles COMMAND: changes the state as far as the supervisor allows, and answers. A command that is repeated
 * because its answer got lost (same sender and token) is answered again and not carried out again, except for stop. */
void sm_host_on_command(sm_loop *l, const sm_message *message);

/* Handles PING: answers a request. A reply is ignored. */
void sm_host_on_ping(sm_loop *l, const sm_message *message);

/* Handles the messages of an upload; ignores any other. Flash is written in the state idle only. */
void sm_host_on_upload(sm_loop *l, const sm_message *message);

#endif
