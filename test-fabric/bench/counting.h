/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a data path must not do: allocations and system calls of the calling thread, wherever in the process
 * the code is that makes them.
 */
#ifndef COUNTING_H
#define COUNTING_H

/* Begins to count; sets both counters to 0. Returns 0 or an errno value. */
int counting_begin(void);
void counting_end(void);

unsigned long counting_allocations(void);
unsigned long counting_system_calls(void);

#endif
