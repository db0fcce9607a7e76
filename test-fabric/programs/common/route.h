/* The global route header in front of a datagram. */
#ifndef PROGRAMS_ROUTE_H
#define PROGRAMS_ROUTE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define ROUTE_SIZE 40

/* Whether it says these GIDs, in a struct ibv_grh or, of RoCE over IPv4, in an IPv4 header in its last 20 bytes. */
bool route_says(const void *header, const union ibv_gid *from, const union ibv_gid *to);

#endif
