/* Ids: drawn at random per context, so that nothing a program remembers from an earlier open is right by chance. */
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
	if (getrandom(ctx->random, sizeof(ctx->random), GRND_NONBLOCK) != sizeof(ctx->random)) {
		ctx->random[0] = hca_now_ns();
		ctx->random[1] = (uintptr_t)ctx;
	}
	ctx->random[0] |= 1;
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

uint32_t ids_draw(struct hca_context *ctx, uint32_t first, uint32_t last)
{
	uint64_t span = (uint64_t)last - first + 1;
	uint64_t narrow = ctx->seg ? ctx->seg->settings.id_space : 0;

	if (narrow && narrow < span)
		span = narrow;
	return first + (ids_random(ctx) >> 11) % span;
}
