/*
 * pacing: queue pairs with rate limits, one set by ibv_modify_qp_rate_limit, one by ibv_modify_qp, one taken away again, and
 * paced messages under way at READY. Afterwards the limits are what they were, or, on a device without packet pacing, gone;
 * all messages have come, and a limit can be changed, or is refused.
 */
#include <errno.h>

#include "pair.h"

#define LINKS 3
#define MESSAGES 16
#define SIZE 1024
#define AREA (2 * LINKS * MESSAGES * SIZE)	/* what is sent, then what is received */

const char *const program_name = "pacing";
const char *const program_modes[] = { "plain", NULL };

/* kbit/s: at these a message takes about a millisecond. */
static uint32_t limits[LINKS] = { 9000, 12000, 0 };

static bool is_paced(struct pair *pair)
{
	struct ibv_device_attr_ex attr;
	int err = ibv_query_device_ex(pair->endpoint.context, NULL, &attr);

	if (err)
		die(err, "ibv_query_device_ex");
	return attr.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_RC;
}

static int limit(struct ibv_qp *qp, uint32_t rate)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = rate, .max_burst_sz = rate ? SIZE : 0 };

	return ibv_modify_qp_rate_limit(qp, &attr);
}

static void set_limits(struct link *links)
{
	struct ibv_qp_attr attr = { .rate_limit = limits[1] };
	int err = limit(links[0].qp, limits[0]);

	if (!err)
		err = ibv_modify_qp(links[1].qp, &attr, IBV_QP_RATE_LIMIT);
	if (!err)
		err = limit(links[2].qp, 7000);
	if (!err)
		err = limit(links[2].qp, 0);
	if (err)
		die(err, "a rate limit cannot be set");
}

static void check_limits(struct link *links, const uint32_t *expected)
{
	for (int i = 0; i < LINKS; i++) {
		struct ibv_qp_init_attr init;
		/* Not every device fills in a rate limit. */
		struct ibv_qp_attr attr = { 0 };
		int err = ibv_query_qp(links[i].qp, &attr, IBV_QP_STATE, &init);

		if (err)
			die(err, "ibv_query_qp");
		if (attr.rate_limit != expected[i])
			die(0, "queue pair %d has a rate limit of %u instead of %u kbit/s", i, attr.rate_limit, expected[i]);
	}
}

static unsigned char *sent(struct area *area, int link, int message)
{
	return area->memory + (link * MESSAGES + message) * SIZE;
}

static unsigned char *received(struct area *area, int link, int message)
{
	return sent(area, LINKS + link, message);
}

static void post_all(struct pair *pair, struct link *links, struct area *area, int round)
{
	for (int i = 0; i < LINKS; i++)
		for (int m = 0; m < MESSAGES; m++)
			link_receive(&links[i], m, received(area, i, m), SIZE);
	pair_sync(pair, "receives posted");
	for (int i = 0; i < LINKS; i++)
		for (int m = 0; m < MESSAGES; m++) {
			pattern_fill(sent(area, i, m), SIZE, mix64_two(round * LINKS + i, pair->rank), m * SIZE);
			link_post(&links[i], IBV_WR_SEND, m, IBV_SEND_SIGNALED, sent(area, i, m), SIZE, 0);
		}
}

static void await_all(struct pair *pair, const struct link_wishes *wishes, struct area *area, int round)
{
	struct ibv_wc wc;

	for (int i = 0; i < LINKS; i++)
		for (int m = 0; m < MESSAGES; m++) {
			await_completion(wishes[i].send_cq, m, &wc, "send");
			await_completion(wishes[i].receive_cq, m, &wc, "receive");
			if (wc.byte_len != SIZE || !pattern_matches(received(area, i, m), SIZE,
								    mix64_two(round * LINKS + i, !pair->rank), m * SIZE))
				die(0, "message %d of queue pair %d is damaged", m, i);
		}
}

void program_run(struct pair *pair)
{
	static const uint32_t none[LINKS];
	struct link_wishes wishes[LINKS];
	struct link links[LINKS];
	struct area area;

	area_create(pair, &area, AREA, ACCESS_NOTHING_REMOTE);
	for (int i = 0; i < LINKS; i++) {
		wishes[i] = (struct link_wishes){ .max_send = MESSAGES, .max_receive = MESSAGES,
						  .send_cq = endpoint_create_cq(&pair->endpoint, MESSAGES, NULL),
						  .receive_cq = endpoint_create_cq(&pair->endpoint, MESSAGES, NULL) };
		link_create(pair, &links[i], &wishes[i], &area);
	}
	if (!is_paced(pair))
		die(0, "the device has no packet pacing");
	set_limits(links);
	check_limits(links, limits);
	post_all(pair, links, &area, 0);
	pair_ready(pair);
	await_all(pair, wishes, &area, 0);
	if (is_paced(pair)) {
		check_limits(links, limits);
		limits[2] = 15000;
		if (limit(links[2].qp, limits[2]))
			die(0, "a rate limit cannot be set any more");
		check_limits(links, limits);
	} else {
		check_limits(links, none);
		if (limit(links[2].qp, 15000) != EOPNOTSUPP)
			die(0, "a rate limit is not refused by a device without packet pacing");
	}
	post_all(pair, links, &area, 1);
	await_all(pair, wishes, &area, 1);
	for (int i = 0; i < LINKS; i++) {
		link_destroy(&links[i]);
		cq_destroy(wishes[i].send_cq);
		cq_destroy(wishes[i].receive_cq);
	}
	area_destroy(&area);
}
