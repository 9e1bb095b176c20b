/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that cannot be read until they are written, and the commands that write them. */
#ifndef TESTS_TARGET_CASES_INVALID_H
#define TESTS_TARGET_CASES_INVALID_H

#include "target_cases_fused.h"

enum { INVALID_READ = NVME_UNRECOVERED_READ_ERROR | NVME_DNR };

static const struct target_range invalid_marks[] = { { 10, 2 }, { 40, 1 }, { 100, 300 } };

static int invalid_verify(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);

	sqe.nsid = nsid;
	sqe.cdw10 = (uint32_t)lba;
	sqe.cdw12 = blocks - 1;
	return queue_run(q, &sqe, NULL, 0);
}

/* All reading commands end with this status. */
static bool invalid_reads(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks, int status)
{
	memset(q->memory, 0, blocks * 512);
	return run_io(q, nsid, NVME_OPC_READ, lba, blocks, 1 << 20) == status &&
	       run_io(q, nsid, NVME_OPC_COMPARE, lba, blocks, 0) == status &&
	       invalid_verify(q, nsid, lba, blocks) == status;
}

static void case_invalid_reads(struct queue *q, uint32_t nsid, const char *name)
{
	CHECK(invalid_reads(q, nsid, 10, 1, INVALID_READ) &&
		      invalid_reads(q, nsid, 11, 1, INVALID_READ) &&
		      invalid_reads(q, nsid, 9, 2, INVALID_READ) &&
		      invalid_reads(q, nsid, 11, 29, INVALID_READ) &&
		      invalid_reads(q, nsid, 250, 1, INVALID_READ) &&
		      invalid_reads(q, nsid, 0, 2048, INVALID_READ),
	      "%s: reads, comparisons, verifications that touch a marked block", name);
	CHECK(invalid_reads(q, nsid, 0, 10, 0) && invalid_reads(q, nsid, 12, 28, 0) &&
		      invalid_reads(q, nsid, 41, 59, 0) && invalid_reads(q, nsid, 400, 2048, 0),
	      "%s: and those on every side of them", name);
}

/*
 * A command that writes marked blocks goes to the control thread when done, and is answered when it is completed: the
 * written blocks are then no longer marked.
 */
static bool invalid_written(struct queue *q, struct nvme_sqe *sqe, const void *data, uint32_t length,
			    struct target_namespace *ns, const struct target_range *left, uint32_t count)
{
	q->hold_all = true;
	queue_send(q, sqe, data, length);
	if (!LAB_UNTIL(q->held_count == 1))
		return false;
	q->hold_all = false;
	q->held_count = 0;
	if (target_request_sqe(q->held[0])->cid != sqe->cid || q->last_opcode != sqe->opc ||
	    target_namespace_invalid(ns, left, count))
		return false;
	target_complete(q->held[0], 0, 0, 0, NULL, 0);
	return !queue_wait(q, sqe->cid);
}

static bool invalid_has(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
	return !run_io(q, nsid, NVME_OPC_READ, lba, blocks, 1 << 20) &&
	       !memcmp(q->memory + (1 << 20), q->memory, blocks * 512);
}

static void case_invalid_writes(struct queue *q, uint32_t nsid, struct target_namespace *ns,
				const char *name)
{
	struct nvme_sqe sqe;

	target_namespace_invalid(ns, invalid_marks, 3);
	CHECK(!run_io(q, nsid, NVME_OPC_WRITE, 12, 28, 0) && !run_write_zeroes(q, nsid, 0, 10, 0),
	      "%s: a write beside them is as ever", name);
	fill(q->memory, 400 * 512, 77);
	sqe = sqe_io(q, NVME_OPC_WRITE, 40, 1, 0);
	sqe.nsid = nsid;
	sqe.sgl = (struct nvme_sgl){ .plain = { .length = 512, .type = NVME_SGL_IN_CAPSULE } };
	CHECK(invalid_written(q, &sqe, q->memory, 512, ns, invalid_marks, 1) &&
		      invalid_has(q, nsid, 40, 1),
	      "%s: a write from its capsule", name);
	target_namespace_invalid(ns, invalid_marks, 3);
	sqe = sqe_io(q, NVME_OPC_WRITE, 50, 400, 0);
	sqe.nsid = nsid;
	CHECK(invalid_written(q, &sqe, NULL, 0, ns, invalid_marks, 2) &&
		      invalid_has(q, nsid, 50, 400) && invalid_reads(q, nsid, 10, 1, INVALID_READ),
	      "%s: a long write", name);
	sqe = sqe_new(q, NVME_OPC_WRITE_ZEROES, 0, 0);
	sqe.nsid = nsid;
	sqe.cdw10 = 11;
	CHECK(invalid_written(q, &sqe, NULL, 0, ns, (struct target_range[]){ { 10, 1 } }, 1) &&
		      zeroes(q, nsid, 11, 1),
	      "%s: Write Zeroes", name);
}

static void case_invalid_dsm(struct queue *q, uint32_t nsid, struct target_namespace *ns,
			     const char *name)
{
	struct range ranges[2] = { { .blocks = 8, .slba = 600 }, { .blocks = 8, .slba = 36 } };
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_DSM, 0, 4096);

	target_namespace_invalid(ns, invalid_marks, 3);
	CHECK(!run_dsm(q, nsid, ranges, 1, 16, 4), "%s: a deallocation beside them", name);
	memcpy(q->memory, ranges, sizeof(ranges));
	sqe.nsid = nsid;
	sqe.cdw10 = 1;
	sqe.cdw11 = 4;
	CHECK(invalid_written(q, &sqe, NULL, 0, ns, NULL, 0) && q->last_length == sizeof(ranges) &&
		      !memcmp(q->last_data, ranges, sizeof(ranges)) && zeroes(q, nsid, 36, 8),
	      "%s: a deallocation comes with its ranges", name);
}

static void case_invalid_fused(struct queue *q, struct target_namespace *ns)
{
	struct fused_pair p = pair_new(q, 10, FUSED_AT, FUSED_AT);

	target_namespace_invalid(ns, invalid_marks, 3);
	CHECK(pair_run(q, &p, INVALID_READ, FUSED_FAILED), "Compare and Write of a marked block");
	target_namespace_invalid(ns, NULL, 0);
}

/* Replaced marks are freed. */
static void case_invalid_replaced(struct queue *q, uint32_t nsid, struct target_namespace *ns)
{
	struct nvme_sqe sqe[16];
	unsigned wrong = 0;

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 16; i++) {
			sqe[i] = sqe_io(q, NVME_OPC_READ, 8 * i, 8, 0);
			sqe[i].nsid = nsid;
			queue_send(q, &sqe[i], NULL, 0);
			wrong += target_namespace_invalid(ns, invalid_marks, (round + i) % 4) != 0;
		}
		for (unsigned i = 0; i < 16; i++) {
			int status = queue_wait(q, sqe[i].cid);

			wrong += status && status != INVALID_READ;
		}
	}
	CHECK(!wrong, "marks are replaced while they are looked at");
	target_namespace_invalid(ns, NULL, 0);
}

static void case_invalid_gone(struct target_namespace *ns)
{
	struct queue *q = queue_open(1, 32, 4096);
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_WRITE, 10, 1, 0);

	target_namespace_invalid(ns, invalid_marks, 3);
	q->hold_all = true;
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->held_count == 1), "a write that waits to be answered");
	target_qpair_disconnect(q->qp);
	CHECK(LAB_UNTIL(q->closed), "its connection ends meanwhile");
	q->held_count = 0;
	target_complete(q->held[0], 0, 0, 0, NULL, 0);
	queue_close(q);
	target_namespace_invalid(ns, NULL, 0);
}

static void test_invalid(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 4 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct target_namespace *ns[2];
	struct store *stores[2];
	struct queue *q;

	lab_start(&options);
	ns[0] = lab_namespace(1, &ram, &stores[0]);
	ns[1] = lab_namespace(2, &file, &stores[1]);
	q = queue_open(1, 32, 4096);
	for (uint32_t nsid = 1; nsid <= 2; nsid++) {
		const char *name = nsid == 1 ? "ram" : "file";

		CHECK(!run_write_zeroes(q, nsid, 0, 16384, 0), "%s: zeroes", name);
		target_namespace_invalid(ns[nsid - 1], invalid_marks, 3);
		case_invalid_reads(q, nsid, name);
		case_invalid_writes(q, nsid, ns[nsid - 1], name);
		case_invalid_dsm(q, nsid, ns[nsid - 1], name);
		case_invalid_replaced(q, nsid, ns[nsid - 1]);
	}
	case_invalid_fused(q, ns[0]);
	case_invalid_gone(ns[0]);
	CHECK(!lab.fault_count, "none of this is said to be a store's fault");
	target_namespace_invalid(ns[0], invalid_marks, 3);	/* freed with the target */
	target_namespace_invalid(ns[0], invalid_marks, 2);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
