/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused Compare and Write: invalid pairs, and pairs with concurrent writes. */
#ifndef TESTS_TARGET_CASES_FUSED_H
#define TESTS_TARGET_CASES_FUSED_H

#include "target_cases_counters.h"

enum { FUSED_MISSING = NVME_ABORTED_MISSING_FUSED | NVME_DNR, FUSED_FAILED = NVME_ABORTED_FAILED_FUSED,
       FUSED_FIELD = NVME_INVALID_FIELD | NVME_DNR, FUSED_AT = 6 << 20 };

struct fused_pair {
	struct nvme_sqe first, second;
};

/* Compare with memory[expected], write memory[wanted]: one block. */
static struct fused_pair pair_new(struct queue *q, uint64_t lba, uint32_t expected, uint32_t wanted)
{
	struct fused_pair p = { sqe_io(q, NVME_OPC_COMPARE, lba, 1, expected),
				sqe_io(q, NVME_OPC_WRITE, lba, 1, wanted) };

	p.first.flags |= NVME_FUSE_FIRST;
	p.second.flags |= NVME_FUSE_SECOND;
	return p;
}

static void pair_send(struct queue *q, const struct fused_pair *p)
{
	queue_send(q, &p->first, NULL, 0);
	queue_send(q, &p->second, NULL, 0);
}

static bool pair_ends(struct queue *q, const struct fused_pair *p, int first, int second)
{
	int a = queue_wait(q, p->first.cid), b = queue_wait(q, p->second.cid);

	if (a != first || b != second)
		check_note("the pair ended with %#x and %#x", a, b);
	return a == first && b == second;
}

static bool pair_run(struct queue *q, const struct fused_pair *p, int first, int second)
{
	pair_send(q, p);
	return pair_ends(q, p, first, second);
}

static void set_block(struct queue *q, uint32_t at, int value)
{
	memset(q->memory + FUSED_AT + at, value, 512);
}

static void case_fused(struct queue *q, uint32_t nsid, const char *name)
{
	struct fused_pair p = pair_new(q, 9, FUSED_AT, FUSED_AT + 512), capsule;
	uint8_t old[512];

	p.first.nsid = p.second.nsid = nsid;
	set_block(q, 0, 1);
	set_block(q, 512, 2);
	run_io(q, nsid, NVME_OPC_WRITE, 9, 1, FUSED_AT);
	CHECK(pair_run(q, &p, 0, 0), "%s: compared and written", name);
	CHECK(!run_io(q, nsid, NVME_OPC_READ, 9, 1, 0) && q->memory[0] == 2 && q->memory[511] == 2,
	      "%s: it is there", name);
	CHECK(pair_run(q, &p, NVME_COMPARE_FAILURE, FUSED_FAILED), "%s: no longer equal", name);
	capsule = p;
	memset(old, 2, sizeof(old));
	set_block(q, 512, 3);
	capsule.first.sgl = (struct nvme_sgl){ .plain = { .length = 512,
							  .type = NVME_SGL_IN_CAPSULE } };
	queue_send(q, &capsule.first, old, sizeof(old));
	queue_send(q, &capsule.second, NULL, 0);
	CHECK(pair_ends(q, &capsule, 0, 0) && !run_io(q, nsid, NVME_OPC_READ, 9, 1, 0) &&
		      q->memory[0] == 3,
	      "%s: with data in the capsule", name);
}

/* Invalid pairs, and the results of both halves. */
static void case_fused_refused(struct queue *q)
{
	struct fused_pair p = pair_new(q, 9, FUSED_AT, FUSED_AT), other;
	struct nvme_sqe read = sqe_io(q, NVME_OPC_READ, 0, 1, 0);
	struct target_qpair_stats before, after;

	CHECK(queue_run(q, &p.second, NULL, 0) == FUSED_MISSING, "a second without a first");
	queue_send(q, &p.first, NULL, 0);
	CHECK(!queue_run(q, &read, NULL, 0) && queue_wait(q, p.first.cid) == FUSED_MISSING,
	      "a first that something else follows; which runs");
	other = pair_new(q, 9, FUSED_AT, FUSED_AT);
	queue_send(q, &p.first, NULL, 0);
	queue_send(q, &other.first, NULL, 0);
	queue_send(q, &other.second, NULL, 0);
	CHECK(queue_wait(q, p.first.cid) == FUSED_MISSING &&
		      queue_wait(q, other.first.cid) != FUSED_MISSING &&
		      queue_wait(q, other.second.cid) != FUSED_MISSING,
	      "two firsts: the later one has the second");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	p.second.cdw10 = 10;
	CHECK(pair_run(q, &p, FUSED_FIELD, FUSED_FIELD), "of two ranges");
	p.second.cdw10 = 9;
	p.second.nsid = 2;
	CHECK(pair_run(q, &p, FUSED_FIELD, FUSED_FIELD), "of two namespaces");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	p.first = sqe_io(q, NVME_OPC_COMPARE, 9, 2, FUSED_AT);
	p.first.flags |= NVME_FUSE_FIRST;
	CHECK(pair_run(q, &p, FUSED_FIELD, FUSED_FAILED), "of more than a block");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	p.first.opc = NVME_OPC_READ;
	CHECK(pair_run(q, &p, FUSED_FIELD, FUSED_FAILED), "a first that is no Compare");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	p.second.opc = NVME_OPC_VERIFY;
	CHECK(pair_run(q, &p, FUSED_FAILED, FUSED_FIELD), "a second that is no Write");
	p = pair_new(q, 1ull << 40, FUSED_AT, FUSED_AT);
	CHECK(pair_run(q, &p, NVME_LBA_OUT_OF_RANGE | NVME_DNR, FUSED_FAILED), "out of range");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	p.second.flags |= NVME_FUSE_MASK;
	CHECK(queue_run(q, &p.second, NULL, 0) == FUSED_FIELD, "a FUSE of 11b");
	target_qpair_stats(q->qp, &before);
	CHECK(pair_run(q, &p, FUSED_MISSING, FUSED_FIELD), "which is no second");
	target_qpair_stats(q->qp, &after);
	CHECK(after.commands == before.commands + 2 && after.errors == before.errors + 2,
	      "and ends no first twice");
}

static uint32_t block_value(const struct queue *q, uint32_t at)
{
	uint32_t value;

	memcpy(&value, q->memory + FUSED_AT + at, sizeof(value));
	return value;
}

static void put_block(struct queue *q, uint32_t at, uint32_t value)
{
	for (uint32_t i = 0; i < 512; i += 4)
		memcpy(q->memory + FUSED_AT + at + i, &value, sizeof(value));
}

/*
 * Every queue increments the same block as often as it can, by Compare and Write, while the last one writes the
 * blocks on both sides of it and across other blocks.  No increment may be lost.
 */
static void case_fused_counter(struct queue **qs, unsigned count, uint32_t nsid, const char *name)
{
	enum { ADDITIONS = 200 };
	struct fused_pair p[4];
	uint32_t known[4] = { 0 }, added[4] = { 0 }, total = 0, left = count, failures = 0;

	put_block(qs[0], 0, 0);
	run_io(qs[0], nsid, NVME_OPC_WRITE, 33, 1, FUSED_AT);
	for (unsigned i = 0; i < count; i++)
		p[i].first.opc = 0;
	while (left) {
		for (unsigned i = 0; i < count; i++) {
			struct queue *q = qs[i];

			if (p[i].first.opc) {
				int status = queue_wait(q, p[i].first.cid);

				if (status != (queue_wait(q, p[i].second.cid) ? NVME_COMPARE_FAILURE : 0)) {
					CHECK(false, "%s: a pair ended with %#x", name, status);
					return;
				}
				added[i] += !status;
				failures += !!status;
				if (added[i] == ADDITIONS && !status)
					left--;
			}
			p[i].first.opc = 0;
			if (added[i] == ADDITIONS)
				continue;
			run_io(q, nsid, NVME_OPC_READ, 33, 1, FUSED_AT);
			known[i] = block_value(q, 0);
		}
		for (unsigned i = 0; i < count; i++) {
			if (added[i] == ADDITIONS)
				continue;
			put_block(qs[i], 0, known[i]);
			put_block(qs[i], 512, known[i] + 1);
			p[i] = pair_new(qs[i], 33, FUSED_AT, FUSED_AT + 512);
			p[i].first.nsid = p[i].second.nsid = nsid;
			pair_send(qs[i], &p[i]);
		}
	}
	run_io(qs[0], nsid, NVME_OPC_READ, 33, 1, FUSED_AT);
	for (unsigned i = 0; i < count; i++)
		total += added[i];
	CHECK(block_value(qs[0], 0) == total && total == count * ADDITIONS,
	      "%s: %u additions by %u queues, none lost (%u had to try again)", name, total, count,
	      failures);
}

/*
 * Writes across the block, on two reactors, while pairs run: each pair either finds the expected data or fails; a
 * pair never undoes a Write that came after its comparison.
 */
static void case_fused_writes(struct queue *q, struct queue *other, uint32_t nsid, const char *name)
{
	enum { ROUNDS = 200 };
	unsigned lost = 0, equal = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct fused_pair p;
		struct nvme_sqe write;
		bool paired;

		put_block(q, 0, 1);
		run_io(q, nsid, NVME_OPC_WRITE, 33, 1, FUSED_AT);
		put_block(q, 512, 2);
		for (unsigned i = 0; i < 3; i++)
			put_block(other, 512 * i, 3);
		p = pair_new(q, 33, FUSED_AT, FUSED_AT + 512);
		p.first.nsid = p.second.nsid = nsid;
		write = sqe_io(other, NVME_OPC_WRITE, 32, 3, FUSED_AT);
		write.nsid = nsid;
		if (round & 1)
			queue_send(other, &write, NULL, 0);
		pair_send(q, &p);
		if (!(round & 1))
			queue_send(other, &write, NULL, 0);
		paired = !queue_wait(q, p.first.cid);
		queue_wait(q, p.second.cid);
		queue_wait(other, write.cid);
		equal += paired;
		/* 1 -> 2 -> 3, or 1 -> 3 and the pair fails: 3 is the last in either order */
		run_io(q, nsid, NVME_OPC_READ, 33, 1, FUSED_AT);
		lost += block_value(q, 0) != 3;
	}
	CHECK(!lost, "%s: %u writes across %u pairs (%u found them equal), %u undone", name, ROUNDS,
	      ROUNDS, equal, lost);
}

/* A pair whose data never arrives blocks no other command, and ends with its connection. */
static void case_fused_stalls(struct queue *q)
{
	struct fused_pair p = pair_new(q, 33, FUSED_AT, FUSED_AT + 512);
	struct nvme_sqe sqe;
	struct raw_host h;

	if (!CHECK(raw_open(&h, 1, 32) && raw_connect(&h), "a host that does not answer"))
		return;
	sqe = raw_sqe(&h, NVME_OPC_COMPARE, 512);
	sqe.flags |= NVME_FUSE_FIRST;
	sqe.cdw10 = 33;
	raw_capsule(&h, &sqe);
	sqe = raw_sqe(&h, NVME_OPC_WRITE, 512);
	sqe.flags |= NVME_FUSE_SECOND;
	sqe.cdw10 = 33;
	raw_capsule(&h, &sqe);
	sqe = raw_sqe(&h, NVME_OPC_COMPARE, 512);
	sqe.flags |= NVME_FUSE_FIRST;
	raw_capsule(&h, &sqe);
	run_io(q, 1, NVME_OPC_READ, 33, 1, FUSED_AT);
	CHECK(pair_run(q, &p, 0, 0) && !run_io(q, 1, NVME_OPC_WRITE, 33, 1, FUSED_AT),
	      "others compare and write the same block meanwhile");
	raw_close(&h, true);
	CHECK(!run_io(q, 1, NVME_OPC_WRITE, 33, 1, FUSED_AT), "and after it has gone");
}

/* A first command that was aborted before the second came, which then fails with it. */
static void case_fused_aborted(struct queue *q)
{
	struct fused_pair p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	struct target_qpair_stats stats;

	CHECK(queue_idle(q), "nothing under way");
	queue_send(q, &p.first, NULL, 0);
	CHECK(LAB_UNTIL((target_qpair_stats(q->qp, &stats), stats.outstanding == 1)),
	      "a first has come");
	CHECK(run_abort(q->qp, p.first.cid) && queue_wait(q, p.first.cid) == NVME_ABORTED_BY_REQUEST,
	      "a first that stands alone is taken back");
	CHECK(queue_run(q, &p.second, NULL, 0) == FUSED_FAILED, "and its second fails");
	CHECK(queue_run(q, &p.second, NULL, 0) == FUSED_MISSING, "once");
}

/* A first command without a second, on a target with a short time limit for it. */
static void test_fused_alone(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .fused_wait_ms = 1 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store *store;
	struct fused_pair p;
	struct queue *q;

	lab_start(&options);
	lab_namespace(1, &ram, &store);
	q = queue_new(1, 32, 4096);
	CHECK(queue_dial(q) && !queue_connect_command(q), "a queue");
	p = pair_new(q, 9, FUSED_AT, FUSED_AT);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(queue_run(q, &p.first, NULL, 0) == FUSED_MISSING, "a first that stands alone");
		CHECK(queue_run(q, &p.second, NULL, 0) == FUSED_MISSING, "its second comes too late");
	}
	p.first.cid++;
	queue_send(q, &p.first, NULL, 0);
	lab_stop();
	store_close(store);
}

static void test_fused(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 2 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct queue *qs[4];
	struct store *stores[2];

	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &file, &stores[1]);
	for (unsigned i = 0; i < 4; i++) {
		qs[i] = queue_new(1, 32, 4096);
		qs[i]->reactor = i & 1;
		CHECK(queue_dial(qs[i]) && !queue_connect_command(qs[i]), "queue %u", i);
	}
	case_fused(qs[0], 1, "ram");
	case_fused(qs[1], 1, "ram, from the other reactor");
	case_fused(qs[0], 2, "file");
	case_fused_refused(qs[0]);
	case_fused_aborted(qs[0]);
	for (uint32_t nsid = 1; nsid <= 2; nsid++) {
		const char *name = nsid == 1 ? "ram" : "file";

		case_fused_counter(qs, 4, nsid, name);
		case_fused_writes(qs[0], qs[1], nsid, name);
		case_fused_writes(qs[0], qs[2], nsid, name);
	}
	case_fused_stalls(qs[0]);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
	test_fused_alone();
}

#endif
