/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on purpose: delayed, failed, held, dropped and cut commands; no test depends on a time. */
#ifndef TESTS_TARGET_CASES_INJECT_H
#define TESTS_TARGET_CASES_INJECT_H

#include "target_cases_gate.h"
#include "target/inject.h"

enum { INJECT_DEPTH = 64, INJECT_STATUS = NVME_WRITE_FAULT };

/* Reads or writes, or both. */
static struct target_inject_options inject_options(enum target_inject_kind kind)
{
	struct target_inject_options options = { .kind = kind, .threshold = 1ull << 32 };

	options.opcodes[0] = 1ull << NVME_OPC_READ | 1ull << NVME_OPC_WRITE;
	return options;
}

static unsigned inject(struct queue *q, const struct target_inject_options *options)
{
	int slot = target_inject_begin(lab.target, options, q);

	CHECK(slot >= 0, "an injection begins in slot %d", slot);
	target_qpair_inject(q->qp, 1u << slot);
	return (unsigned)slot;
}

static void inject_end(struct queue *q, unsigned slot)
{
	target_qpair_inject(q->qp, 0);
	target_inject_end(lab.target, slot);
}

static uint64_t inject_hits(unsigned slot)
{
	uint64_t matched, hits;

	target_inject_counts(lab.target, slot, &matched, &hits);
	return hits;
}

static void case_inject_status(struct queue *q, struct queue *other)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_DELAY);
	unsigned slot;

	options.status = INJECT_STATUS;
	options.count = 3;
	options.after = 1;
	options.slba = 8;
	options.blocks = 8;
	options.nsid = 1;
	lab.injected = NULL;
	slot = inject(q, &options);
	CHECK(!run_io(q, 1, NVME_OPC_READ, 0, 8, 0), "before the range: it runs");
	CHECK(!run_io(q, 1, NVME_OPC_READ, 16, 8, 0), "behind the range: it runs");
	CHECK(!run_io(q, 1, NVME_OPC_READ, 8, 1, 0), "the first one passes");
	CHECK(run_io(q, 1, NVME_OPC_READ, 15, 8, 0) == INJECT_STATUS, "the second one fails");
	CHECK(!run_io(q, 2, NVME_OPC_READ, 8, 1, 0), "a different namespace");
	CHECK(!run_io(other, 1, NVME_OPC_READ, 8, 1, 0), "a different queue");
	CHECK(!run_flush(q, 1), "a different command");
	CHECK(run_io(q, 1, NVME_OPC_WRITE, 0, 16, 0) == INJECT_STATUS, "a write that overlaps");
	CHECK(!lab.injected, "the count is not reached");
	CHECK(run_io(q, 1, NVME_OPC_WRITE, 8, 1, 0) == INJECT_STATUS, "the third hit");
	CHECK(LAB_UNTIL(lab.injected == q), "the count is reached");
	CHECK(!run_io(q, 1, NVME_OPC_WRITE, 8, 1, 0), "it has ended");
	CHECK(inject_hits(slot) == 3, "3 hits: %u", (unsigned)inject_hits(slot));
	inject_end(q, slot);
}

/* Returns which of 64 reads fail, as a bitmap. */
static uint64_t inject_pattern(struct queue *q, uint64_t seed)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_DELAY);
	uint64_t failed = 0;
	unsigned slot;

	options.status = INJECT_STATUS;
	options.threshold = 1ull << 31;
	options.seed = seed;
	slot = inject(q, &options);
	for (unsigned i = 0; i < 64; i++)
		failed |= (uint64_t)(run_io(q, 1, NVME_OPC_READ, 0, 1, 0) == INJECT_STATUS) << i;
	inject_end(q, slot);
	return failed;
}

static void case_inject_seed(struct queue *q)
{
	uint64_t one = inject_pattern(q, 1), two = inject_pattern(q, 2);
	int count = __builtin_popcountll(one);

	CHECK(count > 16 && count < 48, "about half of the reads fail: %d of 64", count);
	CHECK(one != two && inject_pattern(q, 1) == one, "the seed decides which");
}

static void case_inject_delay(struct queue *q)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_DELAY);
	struct nvme_sqe sqe[INJECT_DEPTH];
	unsigned slot, good = 0;

	for (unsigned i = 0; i < TARGET_INJECT_DELAYS; i++)
		options.delay_us[i] = (i * 37) % 256 * 20;
	slot = inject(q, &options);
	for (unsigned i = 0; i < INJECT_DEPTH; i++) {
		memset(q->memory + 512 * i, (int)i + 1, 512);
		sqe[i] = sqe_io(q, NVME_OPC_WRITE, i, 1, 512 * i);
		queue_send(q, &sqe[i], NULL, 0);
	}
	for (unsigned i = 0; i < INJECT_DEPTH; i++)
		good += !queue_wait(q, sqe[i].cid);
	CHECK(good == INJECT_DEPTH, "%u of %d delayed writes end well, in any order", good, INJECT_DEPTH);
	CHECK(inject_hits(slot) == INJECT_DEPTH, "each was delayed");
	inject_end(q, slot);
	memset(q->memory, 0, 512 * INJECT_DEPTH);
	CHECK(!run_io(q, 1, NVME_OPC_READ, 0, INJECT_DEPTH, 0), "read them");
	good = 0;
	for (unsigned i = 0; i < INJECT_DEPTH; i++)
		good += q->memory[512 * i] == i + 1;
	CHECK(good == INJECT_DEPTH, "all data is in place");
}

static void case_inject_hang(struct queue *q)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_HANG);
	struct nvme_sqe sqe[8];
	unsigned slot = inject(q, &options);

	for (unsigned i = 0; i < 8; i++) {
		sqe[i] = sqe_io(q, NVME_OPC_READ, i, 1, 512 * i);
		queue_send(q, &sqe[i], NULL, 0);
	}
	CHECK(LAB_UNTIL(inject_hits(slot) == 8), "8 commands hang");
	CHECK(!run_flush(q, 1), "a Flush does not");
	CHECK(run_abort(q->qp, sqe[3].cid) && queue_wait(q, sqe[3].cid) == NVME_ABORTED_BY_REQUEST,
	      "a hanging command can be aborted");
	inject_end(q, slot);
	CHECK(!queue_wait(q, sqe[0].cid) && !queue_wait(q, sqe[7].cid), "afterwards they run");
}

/* Dropped commands stay so; their connection's end frees them. */
static void case_inject_drop(void)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_DROP);
	struct queue *q = queue_open(5, 32, 4096);
	struct nvme_sqe sqe[8];
	unsigned slot = inject(q, &options);

	for (unsigned i = 0; i < 8; i++) {
		sqe[i] = sqe_io(q, i & 1 ? NVME_OPC_WRITE : NVME_OPC_READ, i, 1, 512 * i);
		queue_send(q, &sqe[i], NULL, 0);
	}
	CHECK(LAB_UNTIL(inject_hits(slot) == 8), "8 commands are dropped");
	inject_end(q, slot);
	CHECK(!run_io(q, 1, NVME_OPC_READ, 0, 1, 0), "the next one runs");
	CHECK(run_abort(q->qp, sqe[5].cid) && queue_wait(q, sqe[5].cid) == NVME_ABORTED_BY_REQUEST,
	      "a dropped command can be aborted");
	queue_close(q);
}

static void case_inject_cut(void)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_CUT);
	struct queue *q = queue_open(6, 32, 4096);
	struct nvme_sqe sqe;
	unsigned slot;

	options.after = 2;
	options.count = 1;
	slot = inject(q, &options);
	CHECK(!run_io(q, 1, NVME_OPC_READ, 0, 1, 512) && !run_io(q, 1, NVME_OPC_READ, 0, 1, 0),
	      "two commands run");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 1, 0);
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->closed) && strstr(q->reason, "on purpose"), "the third one cuts: %s",
	      q->reason);
	target_inject_end(lab.target, slot);
	queue_close(q);
}

/* A slot is free again some time after the end of its injection. */
static int inject_when_free(struct queue *q, const struct target_inject_options *options)
{
	int slot = -ENOSPC;

	(void)LAB_UNTIL(slot >= 0 || (slot = target_inject_begin(lab.target, options, q)) >= 0);
	return slot;
}

static void case_inject_slots(struct queue *q)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_DELAY);

	for (unsigned i = 0; i < TARGET_INJECTIONS; i++)
		CHECK(inject_when_free(q, &options) >= 0, "injection %u", i);
	CHECK(target_inject_begin(lab.target, &options, q) == -ENOSPC, "there is no more room");
	for (unsigned i = 0; i < TARGET_INJECTIONS; i++)
		target_inject_end(lab.target, i);
	CHECK(inject_when_free(q, &options) >= 0, "there is room again");
}

static void test_inject(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store *stores[2];
	struct queue *q, *other;

	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &ram, &stores[1]);
	q = queue_open(1, 128, 4096);
	other = queue_open(2, 32, 4096);
	case_inject_status(q, other);
	case_inject_seed(q);
	case_inject_delay(q);
	case_inject_hang(q);
	case_inject_drop();
	case_inject_cut();
	case_inject_slots(q);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
