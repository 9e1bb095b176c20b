/* SPDX-License-Identifier: BSD-3-Clause */
/* Fair shares: hosts that request as much as possible, one that does not receive its data, and a modest one. */
#ifndef TESTS_TARGET_CASES_FAIR_H
#define TESTS_TARGET_CASES_FAIR_H

#include "target_cases_limits.h"

enum { GREEDY_DEPTH = 128, GREEDY_BLOCKS = 2048 /* 1 MiB */, TRICKLE_DEPTH = 31, MODEST_IO = 64,
       MODEST_LBA = 40000, MODEST_AT = 7 << 20 };

static void greedy_send(struct queue *q, struct nvme_sqe *sqe)
{
	for (unsigned i = 0; i < GREEDY_DEPTH; i++) {
		sqe[i] = sqe_io(q, i & 1 ? NVME_OPC_WRITE : NVME_OPC_READ,
				i % 16 * GREEDY_BLOCKS, GREEDY_BLOCKS, 0);
		sqe[i].nsid = i % 4 < 2 ? 1 : 2;
		queue_send(q, &sqe[i], NULL, 0);
	}
}

static unsigned answered(const struct queue *q, const struct nvme_sqe *sqe)
{
	unsigned count = 0;

	for (unsigned i = 0; i < GREEDY_DEPTH; i++)
		count += q->done[sqe[i].cid];
	return count;
}

/* Writes that are read back, one after the other; returns how many were correct. */
static unsigned modest_run(struct queue *q, uint32_t nsid, unsigned count)
{
	unsigned right = 0;

	for (unsigned i = 0; i < count; i++) {
		uint8_t *written = q->memory + MODEST_AT, *read = written + 4096;

		memset(written, (int)i + 1, 4096);
		right += !run_io(q, nsid, NVME_OPC_WRITE, MODEST_LBA + 8 * i, 8, MODEST_AT) &&
			 !run_io(q, nsid, NVME_OPC_READ, MODEST_LBA + 8 * i, 8, MODEST_AT + 4096) &&
			 !memcmp(written, read, 4096);
	}
	return right;
}

/* Each command waits for RDMA READs that its host never answers. */
static void trickle_send(struct raw_host *h)
{
	for (unsigned i = 0; i < TRICKLE_DEPTH; i++) {
		struct nvme_sqe sqe = raw_sqe(h, NVME_OPC_WRITE, 1 << 20);

		raw_capsule(h, &sqe);
	}
}

enum { STILL_DEPTH = 128, STILL_HOSTS = 12 };

/* Hosts whose commands take all the buffers that they may have, and that move no data; another host has its share. */
static void still_hosts(unsigned hosts, uint8_t opcode, uint32_t bytes)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct raw_host still[STILL_HOSTS];
	struct target_qpair_stats stats;
	struct queue *modest;
	struct store *store;
	unsigned right, closed = 0;
	const int little = 4096;

	lab_start(&options);
	lab_namespace(1, &file, &store);
	modest = queue_open(1, 32, 4096);
	for (unsigned k = 0; k < hosts; k++) {
		if (!CHECK(raw_open(&still[k], 1, STILL_DEPTH) && raw_connect(&still[k]), "host %u", k))
			exit(1);
		setsockopt(still[k].fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
		for (unsigned i = 0; i < STILL_DEPTH - 8; i++) {
			struct nvme_sqe sqe = raw_sqe(&still[k], opcode, bytes);

			raw_capsule(&still[k], &sqe);
		}
		/* all have arrived, and Connect: each is outstanding, or its response was put in line */
		CHECK(LAB_UNTIL((target_qpair_stats(still[k].q->qp, &stats),
				 stats.outstanding + stats.commands > STILL_DEPTH - 8)));
	}
	right = modest_run(modest, 1, 4);
	for (unsigned k = 0; k < hosts; k++)
		closed += still[k].q->closed;
	CHECK(right == 4, "%u hosts that move no data of %u bytes, opcode %u: %u of 4 commands of a different one run",
	      hosts, bytes, opcode, right);
	CHECK(!run_io(modest, 1, NVME_OPC_WRITE, 0, 512, 0) && !run_io(modest, 1, NVME_OPC_READ, 0, 512, 0),
	      "and those that need more than one buffer");
	CHECK(!closed, "before any of them lost its connection: %u", closed);
	for (unsigned k = 0; k < hosts; k++)
		raw_close(&still[k], true);
	lab_stop();
	store_close(store);
}

static void test_still(void)
{
	still_hosts(1, NVME_OPC_WRITE, 131072);
	still_hosts(STILL_HOSTS, NVME_OPC_WRITE, 131072);
	still_hosts(3, NVME_OPC_WRITE, 4096);
	still_hosts(STILL_HOSTS, NVME_OPC_READ, 131072);
}

static void test_fair(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct nvme_sqe sqe[GREEDY_DEPTH];
	struct queue *greedy, *modest;
	struct store *stores[2];
	struct raw_host trickle;
	unsigned right = 0, before = GREEDY_DEPTH;

	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &file, &stores[1]);
	greedy = queue_open(1, GREEDY_DEPTH, 4096);
	modest = queue_open(1, 32, 4096);
	CHECK(raw_open(&trickle, 1, TRICKLE_DEPTH + 1) && raw_connect(&trickle),
	      "a host that will not move its data");
	trickle_send(&trickle);
	/* if this thread was stalled in between, all are answered in any case: try again */
	for (unsigned i = 0; i < 20 && before == GREEDY_DEPTH; i++) {
		statuses(greedy, sqe, i ? GREEDY_DEPTH : 0, 0);
		greedy_send(greedy, sqe);
		right = modest_run(modest, 1, 1) + modest_run(modest, 2, 1);
		before = right == 2 ? answered(greedy, sqe) : 0;
	}
	CHECK(right == 2 && before < GREEDY_DEPTH,
	      "a modest host's first commands end before %u of 1 MiB that were there first: after %u",
	      (unsigned)GREEDY_DEPTH, before);
	right = modest_run(modest, 1, MODEST_IO) + modest_run(modest, 2, MODEST_IO);
	CHECK(right == 2 * MODEST_IO, "and all its others do: %u", right);
	CHECK(statuses(greedy, sqe, GREEDY_DEPTH, 0) == GREEDY_DEPTH, "as do the greedy one's");
	raw_close(&trickle, true);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
