/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's record of the commands that it refused itself, and of its busy time. */
#ifndef TESTS_TARGET_CASES_LOG_H
#define TESTS_TARGET_CASES_LOG_H

#include "target_cases_errors.h"
#include "target_cases_fused.h"

static bool more(const struct queue *q, uint16_t cid)
{
	return q->cqe[cid].status >> 1 & NVME_MORE;
}

static void case_entries(struct queue *q)
{
	struct target_error e[TARGET_ERRORS];
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 1ull << 40, 8, 0);
	uint64_t last;

	CHECK(!target_qpair_errors(q->qp, 0, &last, e) && !last, "nothing yet");
	REFUSED(q, sqe, NVME_LBA_OUT_OF_RANGE | NVME_DNR, "a read far beyond the end");
	CHECK(target_qpair_errors(q->qp, 0, &last, e) == 1 && last == 1 && e[0].number == 1 &&
		      e[0].cid == sqe.cid && e[0].status == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) &&
		      e[0].nsid == 1 && e[0].lba == 1ull << 40 && e[0].location == 40 &&
		      e[0].opcode == NVME_OPC_READ && e[0].when, "with its LBA");
	CHECK(more(q, sqe.cid), "and the response says so");
	sqe = sqe_io(q, NVME_OPC_WRITE, 7, 8, 0);
	sqe.nsid = 9;
	REFUSED(q, sqe, NVME_INVALID_NAMESPACE | NVME_DNR, "a namespace that is not there");
	sqe = sqe_new(q, NVME_OPC_FLUSH, 0, 512);
	REFUSED(q, sqe, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, "Flush with data");
	sqe = sqe_new(q, NVME_OPC_FABRICS, 0, 0);
	sqe.sgl.keyed.type = 0x7f;
	REFUSED(q, sqe, NVME_SGL_TYPE_INVALID | NVME_DNR, "a fabrics command with a wrong SGL");
	CHECK(target_qpair_errors(q->qp, 1, &last, e) == 3 && last == 4, "those after the first");
	CHECK(e[0].nsid == 9 && e[0].lba == 7 && e[0].location == 4, "an NSID");
	CHECK(e[1].nsid == 1 && !e[1].lba && e[1].location == 24, "no LBA where there is none");
	CHECK(!e[2].nsid && e[2].location == 39 && e[2].opcode == NVME_OPC_FABRICS, "nor an NSID");
	CHECK(!target_qpair_errors(q->qp, 4, &last, e) && last == 4, "none after the last");
}

static void case_not_entries(struct queue *q)
{
	struct target_error e[TARGET_ERRORS];
	struct nvme_sqe sqe = sqe_new(q, 0x84, 0, 0);
	uint64_t last;

	REFUSED(q, sqe, NVME_INVALID_OPCODE | NVME_DNR, "what the control thread refuses");
	CHECK(!more(q, sqe.cid), "is its own to remember");
	run_write_zeroes(q, 1, 0, 8, 0);
	memset(q->memory, 1, 4096);
	sqe = sqe_io(q, NVME_OPC_COMPARE, 0, 8, 0);
	REFUSED(q, sqe, NVME_COMPARE_FAILURE, "a miscompare");
	CHECK(!more(q, sqe.cid) && !target_qpair_errors(q->qp, 4, &last, e) && last == 4,
	      "is an answer and no error");
}

static void case_overrun(struct queue *q)
{
	struct target_error e[TARGET_ERRORS];
	struct nvme_sqe sqe;
	uint64_t last;
	bool right = true;

	for (unsigned i = 0; i < 40; i++) {
		sqe = sqe_io(q, NVME_OPC_READ, (1ull << 40) + i, 8, 0);
		right &= queue_run(q, &sqe, NULL, 0) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	}
	CHECK(right && target_qpair_errors(q->qp, 4, &last, e) == TARGET_ERRORS && last == 44,
	      "the last %u of 40 are there", TARGET_ERRORS);
	for (unsigned i = 0; i < TARGET_ERRORS; i++)
		right &= e[i].number == last - TARGET_ERRORS + 1 + i &&
			 e[i].lba == (1ull << 40) + 40 - TARGET_ERRORS + i;
	CHECK(right, "in their order");
}

/* A reader in parallel with the reactor sees entries as they were written, and never a mixture of two. */
static void case_reading(struct queue *q)
{
	struct target_error e[TARGET_ERRORS];
	struct nvme_sqe sqe;
	uint64_t last = 0;
	unsigned seen = 0;
	bool right = true;

	target_qpair_errors(q->qp, 0, &last, e);
	for (unsigned i = 0; i < 400; i++) {
		sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
		sqe.nsid = 1000 + i;
		sqe.cdw10 = 1000 + i;
		queue_send(q, &sqe, NULL, 0);
		while (!q->lost) {
			bool done = q->done[sqe.cid];
			unsigned count = target_qpair_errors(q->qp, last, &last, e);

			for (unsigned k = 0; k < count; k++)
				right &= e[k].nsid == e[k].lba && e[k].nsid == 1000 + i;
			seen += count;
			if (done)
				break;
			lab_turn();
		}
		right &= queue_wait(q, sqe.cid) == (NVME_INVALID_NAMESPACE | NVME_DNR);
	}
	CHECK(right && seen == 400, "read while they come: %u", seen);
}

static void case_busy(struct queue *q, struct target_namespace *ns)
{
	uint64_t before, from, until, busy;
	struct nvme_sqe sqe[2];

	CHECK(queue_idle(q), "no command is under way");
	before = target_namespace_busy(ns, 0);
	lab_turns(2);
	CHECK(before && target_namespace_busy(ns, 0) == before, "it was busy, and is not");
	target_namespace_limits(ns, &limit_still);
	send_writes(q, ns, sqe, 2);
	from = clock_ns();
	lab_turns(2);
	until = clock_ns();
	busy = target_namespace_busy(ns, 0);
	CHECK(busy - before >= until - from, "it is while a command waits");
	target_namespace_limits(ns, &limit_none);
	CHECK(statuses(q, sqe, 2, 0) == 2 && queue_idle(q), "which ends");
	before = target_namespace_busy(ns, 0);
	lab_turns(2);
	CHECK(before >= busy && target_namespace_busy(ns, 0) == before, "and then no more");
}

static void test_log(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct target_namespace *ns;
	struct store *store;
	struct queue *q;

	lab_start(&options);
	ns = lab_namespace(1, &ram, &store);
	q = queue_open(1, 128, 4096);
	case_entries(q);
	case_not_entries(q);
	case_overrun(q);
	case_reading(q);
	case_busy(q, ns);
	lab_stop();
	store_close(store);
}

#endif
