/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of this job, which the agent writes into a file beside its socket before any restored process runs. Until a
 * restart a look costs one stat(2), of the folder that the agent's socket is in. No lock is taken and nothing allocated
 * by malloc: it may be asked in signal handlers and in forked children.
 */
#ifndef SV_ADDRESS_BOOK_H
#define SV_ADDRESS_BOOK_H

#include "address/address_table.h"

/*
 * The table now, or NULL: every address means itself. It stays valid for good, so that nobody need say when it is done
 * with; the memory of those before is not given back, one for each restart. errno stays as it is.
 */
const struct sv_address_table *sv_addresses(void);

/*
 * Likewise, for a call from that address of code; NULL, too, for one of the Java virtual machine, which knows real
 * addresses.
 */
const struct sv_address_table *sv_addresses_for(const void *caller);

/*
 * Likewise, at the cost of reading a clock, but it may be what was true some milliseconds ago: where a program may lose
 * what it sends in that time anyway. The clock is the wall clock, as the monotonic one of a restored process has not
 * seen the restart.
 */
const struct sv_address_table *sv_addresses_lately(const void *caller);

#endif
