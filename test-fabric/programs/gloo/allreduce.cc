// SPDX-License-Identifier: Apache-2.0
/*
 * usage: allreduce RANK SIZE FOLDER
 *
 * Sums over gloo's ibverbs transport, in four contexts, for ever: a process has a completion channel, and a completion queue on
 * it for each context and peer, all of which it arms before it polls them. Prints a line for so many sums that were right.
 * FOLDER is where the ranks find each other.
 */
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

static constexpr int NUMBERS = 64;
static constexpr long REPORT_AFTER = 100;
/* gloo gives up on a peer by the clock that goes on while the job is saved and gone. */
static constexpr std::chrono::minutes PATIENCE{10};

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: allreduce RANK SIZE FOLDER\n");
		return 2;
	}
	const int rank = atoi(argv[1]), size = atoi(argv[2]);
	gloo::transport::ibverbs::attr attr;
	attr.port = 1;
	attr.index = 0;
	auto device = gloo::transport::ibverbs::CreateDevice(attr);
	gloo::rendezvous::FileStore store(argv[3]);
	std::vector<int> data(NUMBERS);
	const std::vector<int *> ends{data.data()};
	std::vector<std::unique_ptr<gloo::Algorithm>> algorithms;

	for (int i = 0; i < 4; i++) {
		gloo::rendezvous::PrefixStore own(std::to_string(i), store);
		auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);

		context->setTimeout(PATIENCE);
		context->connectFullMesh(own, device);
		if (i == 0)
			algorithms.emplace_back(new gloo::AllreduceRing<int>(context, ends, NUMBERS));
		else if (i == 1)
			algorithms.emplace_back(new gloo::AllreduceHalvingDoubling<int>(context, ends, NUMBERS));
		else
			algorithms.emplace_back(new gloo::AllreduceRingChunked<int>(context, ends, NUMBERS));
	}
	for (long round = 1;; round++) {
		for (int i = 0; i < NUMBERS; i++)
			data[i] = round + i + rank;
		algorithms[round % algorithms.size()]->run();
		for (int i = 0; i < NUMBERS; i++) {
			if (data[i] != size * (round + i) + size * (size - 1) / 2) {
				fprintf(stderr, "rank %d, round %ld: number %d is wrong\n", rank, round, i);
				return 1;
			}
		}
		if (round % REPORT_AFTER == 0) {
			printf("round %ld\n", round);
			fflush(stdout);
		}
	}
}
