/*
 * Ids: drawn at random per context, so that nothing a program remembers from an earlier open is right by chance; or as the
 * driver gives them out whose personality the device has.
 */
#include <sys/random.h>
#include <time.h>

#include "hca.h"

uint64_t hca_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void ids_seed(struct hca_context *ctx)
{
	static uint32_t opens;

	if (ctx->personality == PERSONALITY_HOSTILE) {
		ctx->random[0] = ctx->seg_settings.seed * 0x9e3779b97f4a7c15ULL + 1;
		ctx->random[1] = __atomic_add_fetch(&opens, 1, __ATOMIC_RELAXED);
		ids_random(ctx);
	} else if (getrandom(ctx->random, sizeof(ctx->random), GRND_NONBLOCK) != sizeof(ctx->random)) {
		ctx->random[0] = hca_now_ns();
		ctx->random[1] = (uintptr_t)ctx;
	}
	ctx->random[0] |= 1;
}

uint32_t ids_context(void)
{
	uint32_t id;

	return getrandom(&id, sizeof(id), GRND_NONBLOCK) == sizeof(id) ? id : (uint32_t)hca_now_ns();
}

/* xorshift128+ (Vigna 2014) */
uint64_t ids_random(struct hca_context *ctx)
{
	uint64_t a = ctx->random[0], b = ctx->random[1];

	ctx->random[0] = b;
	a ^= a << 23;
	ctx->random[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
	return ctx->random[1] + b;
}

/* One after the other, from where the last one was; of a key the lowest byte is no part of the number. */
static uint32_t next_id(struct hca_context *ctx, enum id_kind kind, uint32_t first, uint32_t last)
{
	uint32_t shift = kind == ID_KEY ? 8 : 0, variant = shift ? (ids_random(ctx) >> 11) & 0xff : 0;

	first = (first + (1u << shift) - 1) >> shift;
	if (ctx->ids_next[kind] < first || ctx->ids_next[kind] > (last >> shift) - 1)
		ctx->ids_next[kind] = first;
	return ctx->ids_next[kind]++ << shift | variant;
}

uint32_t ids_draw(struct hca_context *ctx, enum id_kind kind, uint32_t first, uint32_t last, uint32_t attempt)
{
	uint64_t span = (uint64_t)last - first + 1;
	uint64_t narrow = ctx->seg ? ctx->seg->settings.id_space : 0;

	switch (ctx->personality) {
	case PERSONALITY_RXE:
	case PERSONALITY_MLX5:
		return next_id(ctx, kind, first, last);
	case PERSONALITY_HOSTILE:
		/* Few numbers, the same for all kinds, until they are in use. */
		narrow = 32ULL << (attempt / 4 < 27 ? attempt / 4 : 27);
		if (first < 0x100)
			first = 0x100;
		span = (uint64_t)last - first + 1;
		break;
	case PERSONALITY_STRICT:
		break;
	}
	if (narrow && narrow < span)
		span = narrow;
	return first + (ids_random(ctx) >> 11) % span;
}
