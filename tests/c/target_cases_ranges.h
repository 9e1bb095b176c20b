/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write Zeroes and Dataset Management of long ranges: a queue pair has a limited length under way, so that its commands
 * are soon gone when its host is, and are not all in the lines of latches that others wait in.
 */
#ifndef TESTS_TARGET_CASES_RANGES_H
#define TESTS_TARGET_CASES_RANGES_H

#include "store/fault.h"
#include "target/latch_entries.h"
#include "target_cases_fua.h"

enum { RANGES = 7, RANGE_BLOCKS = (4 << 20) / 512, RANGES_AT_ONCE = LATCH_PIECE / (4 << 20) };

static struct nvme_sqe range_zero(struct queue *q, unsigned i)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_WRITE_ZEROES, 0, 0);

	sqe.cdw10 = i * RANGE_BLOCKS;
	sqe.cdw12 = RANGE_BLOCKS - 1;
	return sqe;
}

static uint32_t ranges_outstanding(struct queue *q)
{
	struct target_qpair_stats stats;

	target_qpair_stats(q->qp, &stats);
	return stats.outstanding;
}

static void case_ranges(struct queue *q, struct queue *other, struct store *store)
{
	const struct store_fault_options slow = { .ops = 1u << STORE_WRITE_ZEROES, .delay_us = 2000000 };
	struct nvme_sqe sqe[RANGES], own;
	unsigned done = 0;

	store_fault_set(store, &slow);
	for (unsigned i = 0; i < RANGES; i++) {
		sqe[i] = range_zero(q, i);
		queue_send(q, &sqe[i], NULL, 0);
	}
	CHECK(LAB_UNTIL(ranges_outstanding(q) == RANGES && store_fault_hits(store)), "all have arrived");
	CHECK(store_fault_hits(store) == RANGES_AT_ONCE, "%u of %u are begun: %u", (unsigned)RANGES_AT_ONCE,
	      (unsigned)RANGES, (unsigned)store_fault_hits(store));
	CHECK(run_abort(q->qp, sqe[RANGES - 1].cid) &&
		      queue_wait(q, sqe[RANGES - 1].cid) == NVME_ABORTED_BY_REQUEST, "one that waits can be aborted");
	CHECK(!run_abort(q->qp, sqe[0].cid), "one that is begun cannot");
	own = range_zero(q, 0);
	own.nsid = 2;
	CHECK(!queue_run(q, &own, NULL, 0), "one of a different namespace does not wait for a slow store");
	own = range_zero(other, RANGES);
	queue_send(other, &own, NULL, 0);
	CHECK(LAB_UNTIL(store_fault_hits(store) == RANGES_AT_ONCE + 1), "another queue's does not wait for them");
	store_fault_set(store, NULL);
	for (unsigned i = 0; i < RANGES - 1; i++)
		done += !queue_wait(q, sqe[i].cid);
	CHECK(done == RANGES - 1 && !queue_wait(other, own.cid), "all the others run, in the end: %u", done);
	CHECK(!run_io(q, 1, NVME_OPC_WRITE, 0, 8, 0), "and hold nothing");
}

/* Its host goes: those that wait go with it. */
static void case_ranges_gone(struct queue *other, struct store *store)
{
	const struct store_fault_options slow = { .ops = 1u << STORE_WRITE_ZEROES, .delay_us = 2000000 };
	struct queue *q = queue_open(3, 32, 0);
	struct nvme_sqe sqe;

	store_fault_set(store, &slow);
	for (unsigned i = 0; i < RANGES; i++) {
		sqe = range_zero(q, i);
		queue_send(q, &sqe, NULL, 0);
	}
	CHECK(LAB_UNTIL(ranges_outstanding(q) == RANGES && store_fault_hits(store) == RANGES_AT_ONCE),
	      "some are begun, and some wait");
	queue_close(q);
	CHECK(store_fault_hits(store) == RANGES_AT_ONCE, "of a host that is gone, none is begun: %u",
	      (unsigned)store_fault_hits(store));
	store_fault_set(store, NULL);
	CHECK(!run_io(other, 1, NVME_OPC_WRITE, 0, 8, 0), "its latches are free");
}

/* Between two checks of waiting latches, a reactor does other work for a multiple of what a check takes. */
static void case_latch_cost(void)
{
	uint64_t cost = latch_cost_after(1000, 3000000000);
	unsigned checks = 1;

	CHECK(cost < 1000000, "a check in which the system stopped the thread for 3 s delays the next one by %lu ns",
	      (unsigned long)cost);
	while (cost < 50000000 && checks++ < 100)
		cost = latch_cost_after(cost, 50000000);
	CHECK(cost == 50000000 && checks < 12, "checks that take long are rarer after %u of them", checks);
	CHECK(latch_cost_after(cost, 1000) == 1000, "and no longer when they are short again");
}

static struct target_namespace *verify_namespace(uint32_t block_size, struct store **store)
{
	const struct store_options ram = { .kind = "ram", .size = 8 << 20, .block_size = block_size };
	const struct target_limits wide = { .bandwidth = 1ull << 40 };
	struct target_namespace *ns;
	char err[256];

	*store = store_fault(store_open(&ram, err, sizeof(err)), NULL);
	ns = target_namespace_create(lab.target, 3, *store, err, sizeof(err));
	target_namespace_limits(ns, &wide);	/* a Verify is done in pieces */
	target_nstable_set(lab.table, 3, ns);
	return ns;
}

/* While the first piece of a Verify is read, its namespace is replaced by one with smaller blocks. */
static void case_verify_replaced(struct queue *q, struct store *stores[2])
{
	const struct store_fault_options slow = { .ops = 1u << STORE_READ, .delay_us = 300000 };
	const struct store_fault_options behind = { .ops = 1u << STORE_READ, .offset = 1024 * 512 };
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
	struct target_namespace *old = verify_namespace(4096, &stores[0]);
	int status;

	store_fault_set(stores[0], &slow);
	sqe.nsid = 3;
	sqe.cdw12 = 1024 - 1;
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(store_fault_hits(stores[0])), "the first piece is begun");
	target_nstable_set(lab.table, 3, NULL);
	verify_namespace(512, &stores[1]);
	store_fault_set(stores[1], &behind);
	lab.retired_count = 0;
	status = queue_wait(q, sqe.cid);
	CHECK(!status && !store_fault_hits(stores[1]), "the rest of its blocks is verified (%#x), and no others (%u)",
	      status, (unsigned)store_fault_hits(stores[1]));
	CHECK(LAB_UNTIL(lab.retired_count), "and the one before is free");
	target_namespace_destroy(old);
}

static void test_ranges(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	const struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	const struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store *store, *healthy, *replaced[2];
	struct queue *q, *other;
	char err[256];

	lab_start(&options);
	lab_namespace(2, &ram, &healthy);
	store = store_fault(store_open(&file, err, sizeof(err)), NULL);
	target_nstable_set(lab.table, 1, target_namespace_create(lab.target, 1, store, err, sizeof(err)));
	q = queue_open(1, 32, 0);
	other = queue_open(2, 32, 0);
	case_latch_cost();
	case_ranges(q, other, store);
	case_ranges_gone(other, store);
	case_verify_replaced(other, replaced);
	lab_stop();
	store_close(store);
	store_close(replaced[0]);
	store_close(replaced[1]);
	store_close(healthy);
}

#endif
