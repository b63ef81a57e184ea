/* What a host asks for: commands, pings, uploads. Each is answered. */
#ifndef SM_HOST_H
#define SM_HOST_H

#include "sm_loop.h"

/* A command that is repeated because its answer got lost is answered again, and not carried out again. */
void sm_take_command(sm_loop *l, const sm_message *message);

void sm_take_ping(sm_loop *l, const sm_message *message);

/* Any other message; one that is not of an upload is left alone. */
void sm_take_upload(sm_loop *l, const sm_message *message);

#endif
