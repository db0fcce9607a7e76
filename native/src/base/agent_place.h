/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process finds its agent, as AgentPlace.java has it: its environment says where the agent was at the launch,
 * and after a restart a file there says where it is. Needs nothing but the C library, as what has no verbs is built
 * with it, too. No lock, no allocation.
 */
#ifndef SV_AGENT_PLACE_H
#define SV_AGENT_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* No path of a socket is longer, its end counted: unix(7). */
#define SV_SOCKET_PATH 108

/*
 * The agent's socket now. `agent` and `job` are SHADOWVERBS_AGENT and SHADOWVERBS_JOB, or NULL. False when there is no
 * agent, or its path has no folder or does not fit.
 */
bool sv_agent_socket(const char *agent, const char *job, char *socket, size_t size);

/* The path of a file in the socket's folder; an empty name: of the folder. False when it does not fit. */
bool sv_beside(const char *socket, const char *name, char *path, size_t size);

/* The first line of a file, without its end. False when there is none. */
bool sv_first_line(const char *path, char *line, size_t size);

#endif
