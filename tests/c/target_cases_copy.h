/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy: what arrives where, what is refused, and what a failure in the middle says. */
#ifndef TESTS_TARGET_CASES_COPY_H
#define TESTS_TARGET_CASES_COPY_H

#include "store/fault.h"
#include "target_cases_errors.h"
#include "target_cases_invalid.h"

enum {
	COPY_MOST = 2048,	/* blocks of 512 bytes: MCL */
	COPY_SEEN = 3 << 20,	/* where in the host's memory the namespace is read to */
	COPY_LISTS = 7 << 20,	/* and where source ranges are */
};

struct copy_from {
	uint64_t slba;
	uint32_t blocks;
};

static struct nvme_sqe copy_sqe(struct queue *q, uint32_t nsid, uint64_t sdlba, const struct copy_from *from,
				uint32_t count, uint32_t place)
{
	uint32_t length = count * (uint32_t)sizeof(struct nvme_copy_range);
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_COPY, COPY_LISTS + place * 8192, length);

	for (uint32_t i = 0; i < count; i++) {
		struct nvme_copy_range range = { .slba = from[i].slba, .nlb = (uint16_t)(from[i].blocks - 1) };

		memcpy(q->memory + COPY_LISTS + place * 8192 + i * sizeof(range), &range, sizeof(range));
	}
	sqe.nsid = nsid;
	sqe.cdw10 = (uint32_t)sdlba;
	sqe.cdw11 = (uint32_t)(sdlba >> 32);
	sqe.cdw12 = count - 1;
	return sqe;
}

static int run_copy(struct queue *q, uint32_t nsid, uint64_t sdlba, const struct copy_from *from, uint32_t count)
{
	struct nvme_sqe sqe = copy_sqe(q, nsid, sdlba, from, count, 0);

	return queue_run(q, &sqe, NULL, 0);
}

/* 6144 blocks from 0 on, each different; also in the host's memory. */
static void copy_prepare(struct queue *q, uint32_t nsid, uint32_t seed)
{
	fill(q->memory, COPY_SEEN, seed);
	for (uint32_t at = 0; at < COPY_SEEN / 512; at += COPY_MOST)
		CHECK(!run_io(q, nsid, NVME_OPC_WRITE, at, COPY_MOST, at * 512), "blocks to copy");
}

/* The namespace's blocks from lba on are those of the host's memory from block `like` on. */
static bool copy_is(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks, uint64_t like)
{
	memset(q->memory + COPY_SEEN, 0xee, blocks * 512);
	return !run_io(q, nsid, NVME_OPC_READ, lba, blocks, COPY_SEEN) &&
	       !memcmp(q->memory + COPY_SEEN, q->memory + like * 512, blocks * 512);
}

static void case_copy(struct queue *q, uint32_t nsid, const char *name)
{
	const struct copy_from three[] = { { 9, 1 }, { 700, 300 }, { 100, 17 } }, most = { 1000, COPY_MOST };
	struct copy_from many[TARGET_COPY_RANGES];
	bool right = true;

	copy_prepare(q, nsid, nsid);
	CHECK(!run_copy(q, nsid, 4001, three, 3) && copy_is(q, nsid, 4001, 1, 9) &&
		      copy_is(q, nsid, 4002, 300, 700) && copy_is(q, nsid, 4302, 17, 100),
	      "%s: three ranges, one after the other", name);
	CHECK(copy_is(q, nsid, 0, COPY_MOST, 0) && copy_is(q, nsid, 4000, 1, 4000) && copy_is(q, nsid, 4319, 1, 4319),
	      "%s: and nothing else has changed", name);
	CHECK(!run_copy(q, nsid, 4000, &most, 1) && copy_is(q, nsid, 4000, COPY_MOST, 1000),
	      "%s: as much as one command may copy, in one range", name);
	for (uint32_t i = 0; i < TARGET_COPY_RANGES; i++)
		many[i] = (struct copy_from){ 16 * (TARGET_COPY_RANGES - 1 - i), COPY_MOST / TARGET_COPY_RANGES };
	CHECK(!run_copy(q, nsid, 4096, many, TARGET_COPY_RANGES), "%s: and in as many ranges as it may have", name);
	for (uint32_t i = 0; i < TARGET_COPY_RANGES; i++)
		right = right && copy_is(q, nsid, 4096 + 16 * i, 16, many[i].slba);
	CHECK(right, "%s: which are in their order", name);
}

static void case_copy_capsule(struct queue *q, uint32_t nsid, const char *name)
{
	const struct copy_from from[] = { { 40, 8 }, { 5, 2 } };
	struct nvme_sqe sqe = copy_sqe(q, nsid, 5000, from, 2, 0);

	copy_prepare(q, nsid, 40 + nsid);
	sqe.sgl = (struct nvme_sgl){ .plain = { .length = 64, .type = NVME_SGL_IN_CAPSULE } };
	CHECK(!queue_run(q, &sqe, q->memory + COPY_LISTS, 64) && copy_is(q, nsid, 5000, 8, 40) &&
		      copy_is(q, nsid, 5008, 2, 5),
	      "%s: ranges in the capsule", name);
}

/* Commands that change nothing. */
static void case_copy_refused(struct queue *q, uint32_t nsid, const char *name)
{
	const uint64_t end = (32 << 20) / 512;
	const struct copy_from good = { 0, 8 }, lost[] = { { 0, 8 }, { end - 4, 5 } }, far = { 1ull << 63, 1 },
			       under = { 5998, 3 }, half[] = { { 0, 1024 }, { 0, 1025 } },
			       longer = { 0, COPY_MOST + 1 };
	struct copy_from many[TARGET_COPY_RANGES + 1];
	struct nvme_sqe sqe;

	copy_prepare(q, nsid, 80 + nsid);
	CHECK(run_copy(q, nsid, 6000, lost, 2) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) &&
		      run_copy(q, nsid, 6000, &far, 1) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) &&
		      run_copy(q, nsid, end - 7, &good, 1) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) &&
		      run_copy(q, nsid, UINT64_MAX, &good, 1) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR),
	      "%s: a source or a destination that is not there", name);
	CHECK(run_copy(q, nsid, 6000, &under, 1) == (NVME_OVERLAPPING_IO_RANGE | NVME_DNR) &&
		      run_copy(q, nsid, 5996, &under, 1) == (NVME_OVERLAPPING_IO_RANGE | NVME_DNR),
	      "%s: a source that the destination overlaps", name);
	CHECK(run_copy(q, nsid, 6000, &longer, 1) == (NVME_COMMAND_SIZE_LIMIT_EXCEEDED | NVME_DNR) &&
		      run_copy(q, nsid, 6000, half, 2) == (NVME_COMMAND_SIZE_LIMIT_EXCEEDED | NVME_DNR),
	      "%s: more blocks than MCL", name);
	for (uint32_t i = 0; i <= TARGET_COPY_RANGES; i++)
		many[i] = (struct copy_from){ i, 1 };
	CHECK(run_copy(q, nsid, 6000, many, TARGET_COPY_RANGES + 1) == (NVME_COMMAND_SIZE_LIMIT_EXCEEDED | NVME_DNR),
	      "%s: more ranges than MSRC", name);
	sqe = copy_sqe(q, nsid, 6000, many, 2, 0);
	sqe.cdw12 |= 1 << 8;
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "descriptors of another format");
	sqe = copy_sqe(q, nsid, 6000, many, 2, 0);
	sqe.cdw12++;
	REFUSED(q, sqe, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, "fewer descriptors than it says");
	sqe = copy_sqe(q, 99, 6000, many, 2, 0);
	REFUSED(q, sqe, NVME_INVALID_NAMESPACE | NVME_DNR, "a namespace that is not there");
	CHECK(copy_is(q, nsid, 5000, 1144, 5000), "%s: they have changed nothing", name);
}

/* Copies, reads and writes on all buffers; each copies its own blocks. */
static void case_copy_deep(struct queue *q, uint32_t nsid, const char *name)
{
	unsigned wrong = 0;

	for (unsigned round = 0; round < 4; round++) {
		uint16_t cids[48];

		copy_prepare(q, nsid, 1000 * round);
		for (unsigned i = 0; i < 48; i++) {
			const struct copy_from from[2] = { { 64 * i, 40 }, { 64 * i + 40, 24 } };
			struct nvme_sqe sqe = copy_sqe(q, nsid, 8192 + 64 * i, from, 2, i);

			if (i % 4 == 3) {	/* the read's data is not compared */
				sqe = sqe_io(q, NVME_OPC_READ, 0, 256, COPY_SEEN);
				sqe.nsid = nsid;
			}
			cids[i] = sqe.cid;
			queue_send(q, &sqe, NULL, 0);
		}
		for (unsigned i = 0; i < 48; i++)
			wrong += queue_wait(q, cids[i]) != 0;
		for (unsigned i = 0; i < 48; i++)
			wrong += i % 4 != 3 && !copy_is(q, nsid, 8192 + 64 * i, 64, 64 * i);
	}
	CHECK(!wrong, "%s: 48 commands at once, %u wrong", name, wrong);
}

static void case_copy_marks(struct queue *q, uint32_t nsid, struct target_namespace *ns, const char *name)
{
	const struct copy_from bad[] = { { 0, 4 }, { 9, 2 } }, good = { 600, 200 };
	struct nvme_sqe sqe;

	copy_prepare(q, nsid, 5);
	target_namespace_invalid(ns, invalid_marks, 3);
	CHECK(run_copy(q, nsid, 6000, bad, 2) == INVALID_READ && copy_is(q, nsid, 6000, 6, 6000),
	      "%s: a source with a marked block", name);
	sqe = copy_sqe(q, nsid, 30, &good, 1, 0);
	q->hold_all = true;
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->held_count == 1), "%s: a copy to marked blocks is passed on", name);
	q->hold_all = false;
	if (q->held_count == 1) {
		const struct nvme_sqe *passed = target_request_sqe(q->held[0]);

		CHECK(passed->opc == NVME_OPC_WRITE && passed->cdw10 == 30 && passed->cdw12 == 199 &&
			      passed->nsid == nsid,
		      "%s: as a Write of its destination", name);
		q->held_count = 0;
		target_namespace_invalid(ns, NULL, 0);
		target_complete(q->held[0], 0, 0, 0, NULL, 0);
	}
	CHECK(!queue_wait(q, sqe.cid) && copy_is(q, nsid, 30, 200, 600), "%s: and its data is there", name);
	target_namespace_invalid(ns, NULL, 0);
}

static void case_copy_gate(struct queue *q, uint32_t nsid, struct target_namespace *ns)
{
	const struct target_gate gate = { .write = NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR }, none = { 0 };
	const struct copy_from from = { 0, 8 };

	target_namespace_gate(ns, &gate);
	CHECK(run_copy(q, nsid, 6000, &from, 1) == (NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR),
	      "a namespace that nobody may write is not copied to");
	target_namespace_gate(ns, &none);
}

/* A copy costs what it copies, however little, and not the most that it could. */
static void case_copy_limits(struct queue *q, uint32_t nsid, struct target_namespace *ns)
{
	struct queue *other = queue_open(3, 32, 4096);
	const struct target_limits slow = { .write_bandwidth = COPY_MOST * 512 }, still = { .bandwidth = 1 };
	const struct copy_from one = { 0, 1 }, most = { 0, COPY_MOST }, more = { 0, COPY_MOST + 1 };
	uint64_t before = throttled(ns);
	struct nvme_sqe sqe;
	unsigned failed = 0;

	target_namespace_limits(ns, &slow);
	for (unsigned i = 0; i < 16; i++)
		failed += run_copy(q, nsid, 6000, &one, 1) != 0;
	CHECK(!failed && throttled(ns) == before, "16 copies of a block within a limit do not wait");
	CHECK(run_copy(q, nsid, 6000, &more, 1) && throttled(ns) == before,
	      "one that is refused costs nothing");
	sqe = copy_sqe(other, nsid, 6000, &one, 1, 0);
	sqe.sgl.keyed.key[0] ^= 0x5a;
	queue_send(other, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(other->closed), "one whose ranges cannot be fetched loses its connection");
	CHECK(!run_copy(q, nsid, 6000, &one, 1) && throttled(ns) == before, "and costs nothing");
	target_namespace_limits(ns, &still);
	CHECK(!run_copy(q, nsid, 6000, &most, 1), "a long one");
	sqe = copy_sqe(q, nsid, 6000, &one, 1, 0);
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(throttled(ns) == before + 1), "makes the next one wait");
	CHECK(run_abort(q->qp, sqe.cid) && queue_wait(q, sqe.cid) == NVME_ABORTED_BY_REQUEST, "which can be aborted");
	target_namespace_limits(ns, &limit_none);
	queue_close(other);
}

/* Dword 0 of a failure: the lowest source range that was not copied. */
static void case_copy_failure(struct queue *q, uint32_t nsid, struct store *store)
{
	const struct store_fault_options read = { .ops = 1 << STORE_READ, .offset = 200 * 512, .length = 512,
						  .status = NVME_UNRECOVERED_READ_ERROR },
		write = { .ops = 1 << STORE_WRITE, .status = NVME_WRITE_FAULT };
	const struct copy_from from[] = { { 100, 8 }, { 110, 8 }, { 198, 4 }, { 120, 8 } };
	struct nvme_sqe sqe = copy_sqe(q, nsid, 6000, from, 4, 0);

	copy_prepare(q, nsid, 3);
	store_fault_set(store, &read);
	CHECK(queue_run(q, &sqe, NULL, 0) == NVME_UNRECOVERED_READ_ERROR && q->cqe[sqe.cid].dw0 == 2,
	      "a source that cannot be read: range %u", q->cqe[sqe.cid].dw0);
	CHECK(copy_is(q, nsid, 6000, 8, 100) && copy_is(q, nsid, 6008, 8, 110), "those before it have been copied");
	store_fault_set(store, &write);
	sqe = copy_sqe(q, nsid, 6000, from, 4, 0);
	CHECK(queue_run(q, &sqe, NULL, 0) == NVME_WRITE_FAULT && !q->cqe[sqe.cid].dw0,
	      "nothing can be written: range %u", q->cqe[sqe.cid].dw0);
	store_fault_set(store, NULL);
	CHECK(!run_copy(q, nsid, 6000, from, 4) && copy_is(q, nsid, 6020, 8, 120), "it is copied afterwards");
}

/* The connection ends while copies wait for the store. */
static void case_copy_gone(struct store *store)
{
	const struct store_fault_options slow = { .ops = 1 << STORE_WRITE, .delay_us = 50000 };
	struct queue *q = queue_open(2, 32, 4096);
	const struct copy_from from = { 0, COPY_MOST };

	store_fault_set(store, &slow);
	for (unsigned i = 0; i < 16; i++) {
		struct nvme_sqe sqe = copy_sqe(q, 3, 6000, &from, 1, i);

		queue_send(q, &sqe, NULL, 0);
	}
	CHECK(LAB_UNTIL(store_fault_hits(store)), "copies are being written");
	target_qpair_disconnect(q->qp);
	CHECK(LAB_UNTIL(q->closed), "their connection ends meanwhile");
	queue_close(q);
	store_fault_set(store, NULL);
}

/* A host on the other reactor writes the source, each block full of one byte, while it is copied: no copy is torn. */
static void case_copy_whole(struct queue *q, struct queue *other, uint32_t nsid, const char *name)
{
	enum { BLOCKS = 256, WRITES = 16, COPIES = 500 };
	const struct copy_from from = { 0, BLOCKS };
	struct nvme_sqe write[WRITES];
	unsigned torn = 0, failed = 0, n = 0, copies = 0;

	for (unsigned i = 0; i < WRITES; i++)
		memset(other->memory + i * BLOCKS * 512, (int)i, BLOCKS * 512);
	CHECK(!run_io(other, nsid, NVME_OPC_WRITE, 0, BLOCKS, 0), "%s: the source is written once", name);
	for (unsigned i = 0; i < WRITES; i++, n++) {
		write[i] = sqe_io(other, NVME_OPC_WRITE, 0, BLOCKS, i * BLOCKS * 512);
		write[i].nsid = nsid;
		queue_send(other, &write[i], NULL, 0);
	}
	for (; (copies < COPIES || n < COPIES / 4) && !failed; copies++) {
		failed += run_copy(q, nsid, 10000, &from, 1) != 0 || run_io(q, nsid, NVME_OPC_READ, 10000, BLOCKS, 0);
		for (unsigned i = 0; i < BLOCKS; i++)
			torn += memcmp(q->memory + i * 512, q->memory + i * 512 + 1, 511) != 0;
		for (unsigned i = 0; i < WRITES; i++) {
			if (!other->done[write[i].cid])
				continue;
			failed += other->cqe[write[i].cid].status != 0;
			write[i].cid = sqe_new(other, NVME_OPC_WRITE, 0, 0).cid;
			queue_send(other, &write[i], NULL, 0);
			n++;
		}
	}
	for (unsigned i = 0; i < WRITES; i++)
		failed += queue_wait(other, write[i].cid) != 0;
	CHECK(!torn && !failed, "%s: %u copies beside %u writes: %u torn blocks, %u failed", name, copies, n, torn,
	      failed);
}

static void test_copy(uint32_t buffer_size, uint32_t buffers)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = buffer_size, .buffers = buffers };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct target_namespace *ns[3];
	struct store *stores[3];
	struct queue *q, *other;
	char err[256];

	lab_start(&options);
	ns[0] = lab_namespace(1, &ram, &stores[0]);
	ns[1] = lab_namespace(2, &file, &stores[1]);
	stores[2] = store_fault(store_open(&ram, err, sizeof(err)), NULL);
	ns[2] = target_namespace_create(lab.target, 3, stores[2], err, sizeof(err));
	target_nstable_set(lab.table, 3, ns[2]);
	q = queue_open(1, 64, 4096);
	other = queue_new(1, 64, 4096);
	other->reactor = 1;
	CHECK(queue_dial(other) && !queue_connect_command(other), "a queue on the other reactor");
	for (uint32_t nsid = 1; nsid <= 3; nsid++) {
		const char *name = nsid == 1 ? "ram" : nsid == 2 ? "file" : "ram without a map";

		case_copy(q, nsid, name);
		case_copy_capsule(q, nsid, name);
		case_copy_refused(q, nsid, name);
		case_copy_deep(q, nsid, name);
		case_copy_marks(q, nsid, ns[nsid - 1], name);
		case_copy_gate(q, nsid, ns[nsid - 1]);
		case_copy_limits(q, nsid, ns[nsid - 1]);
		case_copy_whole(q, other, nsid, name);
	}
	case_copy_failure(q, 3, stores[2]);
	case_copy_gone(stores[2]);
	lab_stop();
	for (unsigned i = 0; i < 3; i++)
		store_close(stores[i]);
}

#endif
