/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: each command is counted once, on any reactor, and its latency in one bucket. */
#ifndef TESTS_TARGET_CASES_COUNTERS_H
#define TESTS_TARGET_CASES_COUNTERS_H

#include "target_cases_limits.h"

static uint64_t total(const uint64_t *buckets)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TARGET_LATENCY_BUCKETS; i++)
		sum += buckets[i];
	return sum;
}

static void run_each(struct queue *q, uint32_t nsid)
{
	struct range range = { .blocks = 1 };

	run_io(q, nsid, NVME_OPC_READ, 0, 8, 0);
	run_io(q, nsid, NVME_OPC_READ, 64, 128, 0);
	run_io(q, nsid, NVME_OPC_WRITE, 0, 8, 0);
	run_io(q, nsid, NVME_OPC_COMPARE, 0, 8, 0);
	run_verify(q, nsid);
	run_write_zeroes(q, nsid, 64, 8, 0);
	run_dsm(q, nsid, &range, 1, 16, 4);
	run_flush(q, nsid);
	run_flush(q, 0xffffffff);
	run_io(q, nsid, NVME_OPC_READ, 1ull << 60, 8, 0);
}

static void case_counters(struct queue *q, struct queue *other, struct target_namespace *ns,
			  uint32_t nsid)
{
	struct target_namespace_stats s;
	struct target_latency latency;

	run_each(q, nsid);
	run_each(other, nsid);
	target_namespace_stats(ns, &s);
	CHECK(s.reads == 4 && s.read_bytes == 2 * 136 * 512 && s.writes == 2 && s.errors == 2,
	      "namespace %u: reads and writes, on both reactors", nsid);
	CHECK(s.compares == 2 && s.verifies == 2 && s.zeroes == 2 && s.deallocates == 2,
	      "Compare, Verify, Write Zeroes, Dataset Management");
	CHECK(s.checked_bytes == 2 * 9 * 512, "bytes of Compare and Verify: %lu",
	      (unsigned long)s.checked_bytes);
	CHECK(s.flushes == 4, "Flush of it, and of all namespaces: %u", (unsigned)s.flushes);
	target_namespace_latency(ns, &latency);
	CHECK(total(latency.read) == 4 && total(latency.write) == 2,
	      "a latency for each Read and Write that succeeded");
	CHECK(latency.read_ns && latency.write_ns, "which took some time");
}

/* The latency of commands that wait in line for longer than a turn. */
static void case_latency_of_waiting(struct queue *q, struct target_namespace *ns)
{
	struct nvme_sqe sqe[2];
	struct target_latency latency;
	uint64_t from, waited;

	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, 2);
	from = clock_ns();
	lab_turns(5);
	waited = clock_ns() - from;
	target_namespace_limits(ns, &limit_none);
	statuses(q, sqe, 2, 0);
	target_namespace_latency(ns, &latency);
	CHECK(latency.write_ns >= waited, "the wait for a limit is in the latency");
	CHECK(total(latency.write) > latency.write[0], "and in a bucket of its length");
}

static void test_counters(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct target_namespace *ns[2];
	struct queue *q, *other;
	struct store *stores[2];

	lab_start(&options);
	ns[0] = lab_namespace(1, &ram, &stores[0]);
	q = queue_open(1, 128, 4096);
	other = queue_new(1, 32, 4096);
	other->reactor = 1;
	CHECK(queue_dial(other) && !queue_connect_command(other), "a queue on the other reactor");
	case_counters(q, other, ns[0], 1);
	case_latency_of_waiting(q, ns[0]);
	ns[1] = lab_namespace(2, &file, &stores[1]);
	case_counters(q, other, ns[1], 2);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
