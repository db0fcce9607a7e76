/* The heap of our own segment: blocks of a power of two, a free list for each size. Control path only. */
#include "hca.h"

uint32_t ring_slots(uint32_t entries)
{
	uint32_t slots = 1;

	while (slots < entries)
		slots <<= 1;
	return slots;
}

static unsigned int order_of(uint64_t size)
{
	unsigned int order = 12;

	while ((1ULL << order) < size)
		order++;
	return order;
}

uint64_t heap_alloc(struct hca_context *ctx, uint64_t size)
{
	unsigned int order = order_of(size);
	uint64_t offset = ctx->heap.free[order];

	if (offset) {
		ctx->heap.free[order] = *(uint64_t *)seg_at(ctx->seg, offset);
		memset(seg_at(ctx->seg, offset), 0, size);
		return offset;
	}
	if (!ctx->heap.next)
		ctx->heap.next = (sizeof(struct seg) + 4095) & ~4095ULL;
	offset = ctx->heap.next;
	if ((1ULL << order) > SEG_SIZE - offset) {
		errno = ENOMEM;
		return 0;
	}
	ctx->heap.next += 1ULL << order;
	return offset;
}

void heap_free(struct hca_context *ctx, uint64_t offset, uint64_t size)
{
	unsigned int order = order_of(size);

	if (!offset)
		return;
	*(uint64_t *)seg_at(ctx->seg, offset) = ctx->heap.free[order];
	ctx->heap.free[order] = offset;
}
