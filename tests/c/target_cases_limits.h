/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits: commands over one wait, in turn, and continue when they no longer exceed it; no test depends on time. */
#ifndef TESTS_TARGET_CASES_LIMITS_H
#define TESTS_TARGET_CASES_LIMITS_H

#include "target_cases_gate.h"

enum { LIMIT_DEPTH = 64 };

static const struct target_limits limit_none, limit_still = { .bandwidth = 1 },
					      limit_some = { .iops = 5000, .burst_ms = 10 };

static uint64_t throttled(struct target_namespace *ns)
{
	struct target_namespace_stats stats;

	target_namespace_stats(ns, &stats);
	return stats.throttled;
}

/* Numbered writes of one block, of which the first runs and the others wait. */
static void send_writes(struct queue *q, struct target_namespace *ns, struct nvme_sqe *sqe,
			unsigned count)
{
	uint64_t before = throttled(ns);

	for (unsigned i = 0; i < count; i++) {
		memset(q->memory + 512 * i, (int)i + 1, 512);
		sqe[i] = sqe_io(q, NVME_OPC_WRITE, 0, 1, 512 * i);
		queue_send(q, &sqe[i], NULL, 0);
	}
	LAB_UNTIL(throttled(ns) >= before + count - 1);
}

static unsigned statuses(struct queue *q, const struct nvme_sqe *sqe, unsigned count, int status)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++)
		found += queue_wait(q, sqe[i].cid) == status;
	return found;
}

static void case_limit_turns(struct queue *q, struct queue *modest, struct target_namespace *ns)
{
	struct nvme_sqe sqe[LIMIT_DEPTH], read = sqe_io(modest, NVME_OPC_READ, 0, 1, 0);

	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, LIMIT_DEPTH);
	queue_send(modest, &read, NULL, 0);
	CHECK(LAB_UNTIL(throttled(ns) >= LIMIT_DEPTH), "over the limit, %u commands wait",
	      (unsigned)throttled(ns));
	CHECK(!run_flush(modest, 1) && !run_io(modest, 2, NVME_OPC_READ, 0, 8, 4096),
	      "Flush does not, nor does another namespace");
	CHECK(run_abort(q->qp, sqe[10].cid) && queue_wait(q, sqe[10].cid) == NVME_ABORTED_BY_REQUEST,
	      "what waits can be taken back");
	target_namespace_limits(ns, &limit_some);
	CHECK(!queue_wait(modest, read.cid) && modest->memory[0] && modest->memory[0] <= 2,
	      "one host's %u commands go before the other's one: write %u was the last before it",
	      (unsigned)LIMIT_DEPTH, modest->memory[0]);
	CHECK(statuses(q, sqe, LIMIT_DEPTH, 0) == LIMIT_DEPTH - 1, "all run, in the end");
	target_namespace_limits(ns, &limit_none);
	CHECK(gated(q, 1, 0, 0, 0), "without limits nothing waits");
}

/* Commands that wait for a limit of their direction do not delay those of the other one. */
static void case_limit_directions(struct queue *q, struct queue *modest, struct target_namespace *ns)
{
	static const struct target_limits limits[] = {
		{ .write_bandwidth = 1 },
		{ .write_bandwidth = 1, .iops = 1000000 },	/* the common limit has room */
	};
	struct nvme_sqe sqe[8];

	for (int i = 0; i < 2; i++) {
		target_namespace_limits(ns, &limits[i]);
		send_writes(q, ns, sqe, 8);
		CHECK(!run_io(modest, 1, NVME_OPC_READ, 0, 8, 4096) && !run_io(q, 1, NVME_OPC_READ, 8, 8, 4096),
		      "%d: while writes wait, reads of both hosts run", i);
		CHECK(run_abort(q->qp, sqe[3].cid) && queue_wait(q, sqe[3].cid) == NVME_ABORTED_BY_REQUEST,
		      "%d: a write is aborted", i);
		target_namespace_limits(ns, &limit_none);
		CHECK(statuses(q, sqe, 8, 0) == 7, "%d: the others run without the limit", i);
	}
}

/* Verify of memory reads nothing, and so takes nothing of what others may transfer. */
static void case_limit_verify(struct queue *q, struct target_namespace *ns)
{
	uint64_t before = throttled(ns);
	struct nvme_sqe sqe;
	unsigned done = 0;

	target_namespace_limits(ns, &limit_still);
	for (unsigned i = 0; i < 8; i++) {
		sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
		sqe.cdw12 = (32 << 20) / 512 - 1;
		done += !queue_run(q, &sqe, NULL, 0);
	}
	CHECK(done == 8 && throttled(ns) == before && !run_io(q, 1, NVME_OPC_READ, 0, 8, 0),
	      "%u of 8 Verify commands, then a Read: none waits", done);
	target_namespace_limits(ns, &limit_none);
}

/* The first piece of a long Verify of a file runs, and the next ones wait for the limit. */
static void case_limit_verify_pieces(struct queue *q, struct queue *modest, struct target_namespace *ns)
{
	struct target_namespace_stats stats, before;
	struct nvme_sqe sqe[2];

	target_namespace_stats(ns, &before);
	for (unsigned i = 0; i < 2; i++) {
		target_namespace_limits(ns, &limit_still);
		sqe[i] = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
		sqe[i].nsid = 2;
		sqe[i].cdw12 = (4 << 20) / 512 - 1;
		queue_send(q, &sqe[i], NULL, 0);
		CHECK(LAB_UNTIL(throttled(ns) > before.throttled + i), "the second piece waits");
		if (!i)
			target_namespace_limits(ns, &limit_none);
		CHECK(i ? run_abort(q->qp, sqe[i].cid) && queue_wait(q, sqe[i].cid) == NVME_ABORTED_BY_REQUEST
			: !queue_wait(q, sqe[i].cid), "%s", i ? "it is aborted" : "without limits, the rest runs");
	}
	target_namespace_limits(ns, &limit_none);
	target_namespace_stats(ns, &stats);
	CHECK(stats.verifies == before.verifies + 1 && stats.checked_bytes == before.checked_bytes + (4 << 20),
	      "it counts as one command");
	CHECK(!run_io(modest, 2, NVME_OPC_READ, 0, 8, 4096), "and holds nothing");
}

/* The pieces of a mapped file are read at once, one in the call of the other: each is charged, and has its turn. */
static void case_limit_verify_mapped(struct queue *q)
{
	char path[] = "/dev/shm/nvmf-target-verify-XXXXXX";
	int fd = mkstemp(path);
	const struct target_limits slow = { .bandwidth = 100 << 20, .burst_ms = 1 };
	struct store_options pmem = { .kind = "pmem", .path = path, .block_size = 512 };
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
	struct target_namespace *ns = NULL;
	struct store *store = NULL;
	int status;

	if (fd >= 0 && !ftruncate(fd, 32 << 20))
		ns = lab_namespace(3, &pmem, &store);
	if (!CHECK(ns && store->map, "a mapped file"))
		return;
	target_namespace_limits(ns, &slow);
	sqe.nsid = 3;
	sqe.cdw12 = (32 << 20) / 512 - 1;
	status = queue_run(q, &sqe, NULL, 0);
	CHECK(!status && throttled(ns) > 2, "its pieces wait for the limit: %u times (%#x)", (unsigned)throttled(ns),
	      status);
	lab_namespace_end(3, ns, store);
	close(fd);
	unlink(path);
}

static void case_limit_gate(struct queue *q, struct target_namespace *ns)
{
	struct target_gate gate = { .write = GATE_W }, none = { 0 };
	struct nvme_sqe sqe[8];

	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, 8);
	target_namespace_gate(ns, &gate);
	CHECK(fenced(target_fence_create(lab.target, &q->qp, 1, 1, 0, NULL)),
	      "a fence does not wait for what waits");
	target_namespace_limits(ns, &limit_none);
	CHECK(statuses(q, sqe, 8, GATE_W) == 7, "which meets the gate when its turn comes");
	target_namespace_gate(ns, &none);
}

static void case_limit_disabled(struct queue *q, struct target_namespace *ns)
{
	struct nvme_sqe sqe[8];

	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, 8);
	target_qpair_enable(q->qp, false);
	CHECK(fenced(target_fence_create(lab.target, &q->qp, 1, 0, 0, NULL)),
	      "a shutdown does not wait for what waits");
	target_namespace_limits(ns, &limit_none);
	CHECK(statuses(q, sqe, 8, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR) == 7, "which is refused after it");
	target_qpair_enable(q->qp, true);
}

static void case_limit_death(struct queue *q, struct target_namespace *ns)
{
	struct queue *other = queue_open(4, 32, 4096);
	struct nvme_sqe sqe[8], more[8];

	target_namespace_limits(ns, &limit_still);
	send_writes(other, ns, sqe, 8);
	send_writes(q, ns, more, 8);
	queue_close(other);
	target_namespace_limits(ns, &limit_none);
	CHECK(statuses(q, more, 8, 0) == 8, "a host that dies in line takes nobody along");
}

/* A queue that waits in the lines of two namespaces, some of whose commands are aborted, and that then dies. */
static void case_limit_two(struct queue *q, struct target_namespace *one, struct target_namespace *two)
{
	struct queue *other = queue_open(5, 32, 4096);
	struct nvme_sqe first[6], second[6], more[6];
	uint64_t before, before_two = throttled(two);

	target_namespace_limits(one, &limit_still);
	target_namespace_limits(two, &limit_still);
	send_writes(q, one, more, 6);
	before = throttled(one);
	for (unsigned i = 0; i < 6; i++) {
		first[i] = sqe_io(other, NVME_OPC_WRITE, 0, 1, 0);
		second[i] = sqe_io(other, NVME_OPC_WRITE, 0, 1, 0);
		second[i].nsid = 2;
		queue_send(other, &first[i], NULL, 0);
		queue_send(other, &second[i], NULL, 0);
	}
	/* the second namespace's limit lets its first command through */
	LAB_UNTIL(throttled(one) >= before + 6 && throttled(two) >= before_two + 5);
	CHECK(!queue_wait(other, second[0].cid), "each namespace has its line");
	CHECK(run_abort(other->qp, first[0].cid) && run_abort(other->qp, first[3].cid) &&
	      run_abort(other->qp, second[1].cid), "two lines: the first, one in the middle, the other's first");
	CHECK(queue_wait(other, first[0].cid) == NVME_ABORTED_BY_REQUEST &&
	      queue_wait(other, first[3].cid) == NVME_ABORTED_BY_REQUEST &&
	      queue_wait(other, second[1].cid) == NVME_ABORTED_BY_REQUEST, "two lines: taken back");
	queue_close(other);
	target_namespace_limits(one, &limit_none);
	target_namespace_limits(two, &limit_none);
	CHECK(statuses(q, more, 6, 0) == 6, "two lines: the other host continues");
	CHECK(!run_io(q, 2, NVME_OPC_READ, 0, 8, 0), "two lines: and both are empty");
}

static void case_limit_retire(struct queue *q, struct target_namespace *ns)
{
	struct nvme_sqe sqe[8];

	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, 8);
	lab.retired_count = 0;
	target_nstable_set(lab.table, 1, NULL);
	CHECK(LAB_UNTIL(lab.retired_count) && statuses(q, sqe, 8, GATE_HIDDEN) >= 7,
	      "a namespace that goes away does not wait for its limits");
}

static void test_limits(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct target_namespace *ns, *two;
	struct queue *q, *modest;
	struct store *stores[2];

	lab_start(&options);
	ns = lab_namespace(1, &ram, &stores[0]);
	two = lab_namespace(2, &file, &stores[1]);
	q = queue_open(1, 128, 4096);
	modest = queue_open(2, 32, 4096);
	case_limit_verify(q, ns);
	case_limit_verify_pieces(q, modest, two);
	case_limit_verify_mapped(q);
	case_limit_turns(q, modest, ns);
	case_limit_directions(q, modest, ns);
	case_limit_gate(q, ns);
	case_limit_disabled(q, ns);
	case_limit_death(q, ns);
	case_limit_two(q, ns, two);
	case_limit_retire(q, ns);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
