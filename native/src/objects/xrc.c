/* SPDX-License-Identifier: Apache-2.0 */
/* Which shared receive queues the requests of an XRC queue pair have named. */
#include "objects/xrc.h"

void sv_xrc_new_target(struct sv_targets *targets, uint32_t number)
{
	uint32_t slot = number * 0x9e3779b1u >> 24;

	targets->last = number + 1;
	while (targets->slots[slot] && targets->slots[slot] != number + 1)
		slot = (slot + 1) % SV_TARGET_SLOTS;
	if (targets->slots[slot] || targets->count < 0)
		return;
	if (targets->count == SV_MAX_TARGETS) {
		targets->count = -1;
		return;
	}
	targets->slots[slot] = number + 1;
	targets->count++;
}
