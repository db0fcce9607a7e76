/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests' stand-in for the driver offers besides answering requests. */
#ifndef DRIVER_H
#define DRIVER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

void driver_start(void);

/* DETACH and REATTACH of all objects of a context, as a checkpoint does it; the gate must be closed. */
void driver_detach(struct ibv_context *vcontext);
void driver_reattach(struct ibv_context *vcontext);
/* Virtual ids of what is made anew differ from real ones: tells the context and the QPs. Frees the maps before. */
void driver_push_keys(struct ibv_context *vcontext);

/* How often each operation was asked for, and the status that the process said at its end. */
extern unsigned driver_requests[];
extern int driver_exit_status;
/* The token of the last SV_OP_CM_DISCONNECT. */
extern uint64_t driver_disconnected;
/* How many SV_OP_CHECKPOINT have come, and the arguments of the last one. They are not answered but by sv_program_answer. */
extern unsigned driver_checkpoints;
extern uint64_t driver_checkpoint_call;
extern int driver_checkpoint_processes;
/* Set: this operation is answered with this errno value and nothing is done. */
extern int driver_fail_op, driver_fail_err;
/* Set: XRC receive QPs live on in other processes when they are destroyed here. */
extern bool driver_others_have_open;
/* Set: requests are taken, but answered only when it is cleared. */
extern unsigned driver_hold;
/* Requests taken so far, answered or not. */
extern unsigned driver_taken;

#endif
