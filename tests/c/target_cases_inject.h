/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on purpose: delayed, failed, held, dropped, cut and torn commands; no test depends on a time. */
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
	CHECK(!run_io(q, 1, NVME_OPC_READ, 16, 8, 0), "after the range: it runs");
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

/* Dropped commands are never answered; the end of their connection frees them. */
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

/* Write zeroes, then a torn write of ones.  Returns the number of blocks with ones; 0 if they are not the first. */
static uint32_t inject_tear(struct queue *q, uint32_t blocks, uint32_t capsule, int wanted)
{
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_WRITE, 64, blocks, 0);
	uint32_t ones = 0, bytes = blocks * 512;

	memset(q->memory, 0, bytes);
	CHECK(!run_io(q, 2, NVME_OPC_WRITE, 64, blocks, 0), "write zeroes to the other namespace");
	memset(q->memory, 1, bytes);
	if (capsule)
		sqe.sgl = (struct nvme_sgl){ .plain = { .length = bytes, .type = NVME_SGL_IN_CAPSULE } };
	sqe.nsid = 2;
	CHECK(queue_run(q, &sqe, capsule ? q->memory : NULL, capsule ? bytes : 0) == wanted,
	      "it ends with %#x", (unsigned)wanted);
	memset(q->memory, 7, bytes);
	CHECK(!run_io(q, 2, NVME_OPC_READ, 64, blocks, 0), "read it");
	while (ones < bytes && q->memory[ones] == 1)
		ones++;
	for (uint32_t i = ones; i < bytes; i++)
		if (q->memory[i])
			return 0;
	return ones % 512 ? 0 : ones / 512;
}

static void case_inject_torn(struct queue *q)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_TORN);
	uint32_t first[8], again, differ = 0;
	unsigned slot;

	options.status = INJECT_STATUS;
	for (unsigned repeat = 0; repeat < 2; repeat++) {
		options.after = 0;
		slot = inject(q, &options);
		CHECK(!run_io(q, 1, NVME_OPC_WRITE, 0, 1, 0), "a write of one block cannot be torn");
		CHECK(!run_io(q, 1, NVME_OPC_READ, 0, 8, 0), "a read is not torn");
		inject_end(q, slot);
		options.nsid = 2;
		options.after = 1;	/* the write of zeroes */
		options.count = 1;
		for (unsigned i = 0; i < 8; i++) {
			uint32_t blocks = i & 1 ? 200 : 7;	/* by RDMA READ, in chunks; in the capsule */

			options.seed = 100 + i;
			slot = inject(q, &options);
			again = inject_tear(q, blocks, !(i & 1), INJECT_STATUS);
			inject_end(q, slot);
			CHECK(again > 0 && again < blocks, "%u of %u blocks are written", again, blocks);
			if (repeat)
				CHECK(again == first[i], "the seed decides how many");
			else
				first[i] = again;
			differ |= again ^ first[i & 1];
		}
		options.nsid = 0;
		options.count = 0;
	}
	CHECK(differ, "other seeds tear at other places");
}

/* Without a status, the connection ends as if the target had crashed. */
static void case_inject_torn_crash(struct queue *other)
{
	struct target_inject_options options = inject_options(TARGET_INJECT_TORN);
	struct queue *q = queue_open(7, 32, 4096);
	struct nvme_sqe sqe;
	uint32_t ones = 0;
	unsigned slot;

	memset(other->memory, 0, 512 * 64);
	CHECK(!run_io(other, 1, NVME_OPC_WRITE, 512, 64, 0), "write zeroes");
	slot = inject(q, &options);
	memset(q->memory, 1, 512 * 64);
	sqe = sqe_io(q, NVME_OPC_WRITE, 512, 64, 0);
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->closed) && strstr(q->reason, "torn"), "it ends: %s", q->reason);
	target_inject_end(lab.target, slot);
	queue_close(q);
	CHECK(!run_io(other, 1, NVME_OPC_READ, 512, 64, 0), "read it");
	while (ones < 512 * 64 && other->memory[ones] == 1)
		ones++;
	CHECK(ones && ones < 512 * 64 && !(ones % 512) && !other->memory[ones],
	      "its first blocks are written: %u bytes", ones);
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
	case_inject_torn(q);
	case_inject_torn_crash(other);
	case_inject_slots(q);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
