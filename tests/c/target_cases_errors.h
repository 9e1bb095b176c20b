/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalid commands of a host, and their results; commands that go to the control thread. */
#ifndef TESTS_TARGET_CASES_ERRORS_H
#define TESTS_TARGET_CASES_ERRORS_H

#include "target_cases_io.h"

#define REFUSED(q, sqe, expected, what)                                              \
	do {                                                                         \
		int refused_status = queue_run(q, &(sqe), NULL, 0);                  \
		CHECK(refused_status == (int)(expected), "%s: %#x", what, refused_status); \
	} while (0)

static void cases_sgl(struct queue *q)
{
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	struct nvme_sgl list[17];
	uint8_t data[4096] = { 0 };

	sqe.flags = 0;
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "PSDT 00b");
	sqe.flags = 0x80;
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "PSDT 10b");
	sqe.flags = NVME_PSDT_SGL | 1;
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "FUSE");
	sqe.flags = NVME_PSDT_SGL;
	for (unsigned type = 0; type < 256; type += 3) {
		if (type == 0x01 || type == 0x31 || type == 0x40 || type == 0x4f)
			continue;
		sqe.sgl.keyed.type = (uint8_t)type;
		if (queue_run(q, &sqe, NULL, 0) != (NVME_SGL_TYPE_INVALID | NVME_DNR))
			CHECK(false, "SGL type %#x", type);
	}
	CHECK(true, "undefined SGL types: SGL Descriptor Type Invalid");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	sqe.sgl.keyed.length[1]++;
	REFUSED(q, sqe, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, "SGL longer than the read");
	sqe = sqe_io(q, NVME_OPC_WRITE, 0, 8, 0);
	sqe.sgl.keyed.length[1]--;
	REFUSED(q, sqe, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, "SGL shorter than the write");
	sqe = sqe_new(q, NVME_OPC_FLUSH, 0, 512);
	REFUSED(q, sqe, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, "Flush with data");
	CHECK(run_in_capsule(q, 1, NVME_OPC_READ, 0, 8, data, 0, 4096) ==
		      (NVME_INVALID_FIELD | NVME_DNR), "read into the capsule");
	CHECK(run_in_capsule(q, 1, NVME_OPC_WRITE, 0, 8, data, 1, 4096) ==
		      (NVME_SGL_OFFSET_INVALID | NVME_DNR), "in-capsule data past its end");
	CHECK(run_in_capsule(q, 1, NVME_OPC_WRITE, 0, 8, data, ~0ull - 100, 4096) ==
		      (NVME_SGL_OFFSET_INVALID | NVME_DNR), "in-capsule offset that wraps");
	CHECK(run_in_capsule(q, 1, NVME_OPC_WRITE, 0, 8, data, 0, 4000) ==
		      (NVME_SGL_OFFSET_INVALID | NVME_DNR), "capsule shorter than its data");
	for (unsigned i = 0; i < 17; i++)
		nvme_sgl_set_keyed(&list[i], (uintptr_t)q->memory, 512, q->mr->rkey, NVME_SGL_KEYED);
	sqe = sqe_io(q, NVME_OPC_READ, 0, 17, 0);
	sqe.sgl = (struct nvme_sgl){ .plain = { .length = sizeof(list),
						.type = NVME_SGL_LAST_SEGMENT_OFFSET } };
	CHECK(queue_run(q, &sqe, list, sizeof(list)) == (NVME_INVALID_SGL_COUNT | NVME_DNR),
	      "17 descriptors");
	sqe.sgl.plain.length = 17;
	CHECK(queue_run(q, &sqe, list, sizeof(list)) == (NVME_INVALID_SGL_SEGMENT | NVME_DNR),
	      "a descriptor and a byte");
	sqe.sgl.plain.length = 256;
	CHECK(queue_run(q, &sqe, list, 255) == (NVME_SGL_OFFSET_INVALID | NVME_DNR),
	      "a list past the capsule");
	list[3].keyed.type = NVME_SGL_LAST_SEGMENT_OFFSET;
	CHECK(queue_run(q, &sqe, list, sizeof(list)) == (NVME_SGL_TYPE_INVALID | NVME_DNR),
	      "a list in a list");
}

static void cases_ranges(struct queue *q)
{
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 65535, 8, 0);

	REFUSED(q, sqe, NVME_LBA_OUT_OF_RANGE | NVME_DNR, "read across the end");
	sqe = sqe_io(q, NVME_OPC_WRITE, ~0ull - 3, 8, 0);
	REFUSED(q, sqe, NVME_LBA_OUT_OF_RANGE | NVME_DNR, "write at an LBA that wraps");
	sqe = sqe_io(q, NVME_OPC_READ, 65536 - 8, 8, 0);
	REFUSED(q, sqe, 0, "read of the last blocks");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8193, 0);
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "longer than MDTS");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	sqe.nsid = 9;
	REFUSED(q, sqe, NVME_INVALID_NAMESPACE | NVME_DNR, "an NSID that is not there");
	sqe.nsid = 0;
	REFUSED(q, sqe, NVME_INVALID_NAMESPACE | NVME_DNR, "NSID 0");
	sqe.nsid = 0xffffffff;
	REFUSED(q, sqe, NVME_INVALID_NAMESPACE | NVME_DNR, "read of NSID FFFFFFFFh");
	sqe = sqe_io(q, NVME_OPC_WRITE, 0, 8, 0);
	sqe.nsid = 2;
	REFUSED(q, sqe, NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR, "write to a read-only store");
	CHECK(run_write_zeroes(q, 2, 0, 8, 0) == (NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR),
	      "Write Zeroes to a read-only store");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	sqe.nsid = 2;
	REFUSED(q, sqe, 0, "read of a read-only store");
}

/* The commands and data that reach the control thread, and the answers. */
static void cases_upcalls(struct queue *q)
{
	static const uint32_t sizes[] = { 4, 4096, 100000, 300000, 1000000 };
	struct nvme_sqe sqe = sqe_new(q, 0x81, 0, 1024);
	uint8_t data[4096];
	int status;

	fill(q->memory, 65536, 4);
	status = queue_run(q, &sqe, NULL, 0);
	CHECK(status == (NVME_INVALID_OPCODE | NVME_DNR) && q->last_length == 1024 &&
		      !memcmp(q->last_data, q->memory, 1024) && q->cqe[sqe.cid].dw0 == 1024,
	      "an unknown opcode goes up with its data");
	sqe = sqe_new(q, 0x81, 0, 65536);
	queue_run(q, &sqe, NULL, 0);
	CHECK(q->last_length == 65536 && !memcmp(q->last_data, q->memory, 65536),
	      "64 KiB go up");
	sqe = sqe_new(q, 0x81, 0, 65540);
	REFUSED(q, sqe, NVME_INVALID_FIELD | NVME_DNR, "more do not");
	fill(data, sizeof(data), 8);
	run_in_capsule(q, 1, 0x81, 0, 8, data, 0, 4096);
	CHECK(q->last_length == 4096 && !memcmp(q->last_data, data, 4096),
	      "data in the capsule goes up");
	sqe = sqe_new(q, 0x84, 0, 0);
	queue_run(q, &sqe, NULL, 0);
	CHECK(q->last_length == 0 && q->last_opcode == 0x84, "a command without data goes up");
	for (unsigned i = 0; i < 5; i++) {
		unsigned wrong = 0;

		memset(q->memory, 0xaa, 1 << 20);
		sqe = sqe_new(q, NVME_OPC_IDENTIFY, 0, sizes[i]);
		sqe.cdw11 = sizes[i];
		status = queue_run(q, &sqe, NULL, 0);
		for (uint32_t k = 0; k < sizes[i]; k++)
			wrong += q->memory[k] != (uint8_t)(k * 7 + (k >> 8));
		CHECK(!status && !wrong && q->memory[sizes[i]] == 0xaa, "%u bytes come back",
		      sizes[i]);
	}
	sqe = sqe_new(q, NVME_OPC_IDENTIFY, 0, 100);
	sqe.cdw11 = 4096;
	memset(q->memory, 0xaa, 4096);
	status = queue_run(q, &sqe, NULL, 0);
	CHECK(!status && q->memory[99] != 0xaa && q->memory[100] == 0xaa,
	      "what the SGL has no room for is cut");
	q->hold_all = true;
	for (unsigned i = 0; i < 16; i++) {
		sqe = sqe_new(q, 0x81, 0, 65536);
		queue_send(q, &sqe, NULL, 0);
	}
	LAB_UNTIL(q->held_count == 4);
	lab_turns(20);
	CHECK(q->held_count == 4, "no more than 256 KiB of data are up at once");
	q->hold_all = false;
	while (q->held_count)
		target_complete(q->held[--q->held_count], 0, 0, 0, NULL, 0);
	CHECK(LAB_UNTIL(!q->outstanding), "the others come when there is room");
}

/* Commands that return data: a host that takes none of it, or that ends, has few of them with the control thread. */
static void case_answers(struct queue *q)
{
	struct queue *dies = queue_open(4, 32, 4096);
	struct queue *both[] = { q, dies };

	for (unsigned i = 0; i < 2; i++) {
		both[i]->hold_all = true;
		for (unsigned k = 0; k < 8; k++) {
			struct nvme_sqe sqe = sqe_new(both[i], 0x82, 0, k ? 65536 : 1 << 20);

			queue_send(both[i], &sqe, NULL, 0);
		}
		LAB_UNTIL(both[i]->held_count);
		lab_turns(20);
		CHECK(both[i]->held_count == 1, "one that returns more than 256 KiB is alone");
		target_complete(both[i]->held[--both[i]->held_count], 0, 0, 0, both[i]->memory, 1 << 20);
		LAB_UNTIL(both[i]->held_count == 4);
		lab_turns(20);
		CHECK(both[i]->held_count == 4, "then as many as return 256 KiB");
	}
	queue_close(dies);
	q->hold_all = false;
	while (q->held_count)
		target_complete(q->held[--q->held_count], 0, 0, 0, q->memory, 65536);
	CHECK(LAB_UNTIL(!q->outstanding), "the others have their turn");
}

static void cases_invalidate(struct queue *q)
{
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad;
	struct ibv_mw *mw = ibv_alloc_mw(lab.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr;
	int status;

	mr = lab.v->reg_mr(lab.pd, q->memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)q->memory, 4096,
							  IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_post_send(q->id->qp, &wr, &bad), "a window for the command");
	nvme_sgl_set_keyed(&sqe.sgl, (uintptr_t)q->memory, 4096, wr.bind_mw.rkey,
			   NVME_SGL_KEYED_INVALIDATE);
	sqe.nsid = 9;
	status = queue_run(q, &sqe, NULL, 0);
	CHECK(status == (NVME_INVALID_NAMESPACE | NVME_DNR) && !q->invalidated,
	      "a failed command is answered by a plain Send");
	sqe.nsid = 1;
	status = queue_run(q, &sqe, NULL, 0);
	CHECK(!status && q->invalidated == wr.bind_mw.rkey, "0x4F: Send with Invalidate of the key");
	ibv_dealloc_mw(mw);
	lab.v->dereg_mr(mr);
	status = run_io(q, 1, NVME_OPC_READ, 0, 8, 0);
	CHECK(!status && !q->invalidated, "0x40: a plain Send");
}

static void cases_conflict(struct queue *q)
{
	struct nvme_sqe aer = sqe_new(q, LAB_HOLD, 0, 0), sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);

	queue_send(q, &aer, NULL, 0);
	LAB_UNTIL(q->held_count == 1);
	sqe.cid = aer.cid;
	REFUSED(q, sqe, NVME_COMMAND_ID_CONFLICT | NVME_DNR, "a CID that is in use");
	q->done[aer.cid] = false;
	q->outstanding++;
	target_complete(q->held[--q->held_count], 0, 5, 6, NULL, 0);
	CHECK(queue_wait(q, aer.cid) == 0 && q->cqe[aer.cid].dw0 == 5 && q->cqe[aer.cid].dw1 == 6,
	      "the command that had it first still completes");
	q->outstanding = 0;
	REFUSED(q, sqe, 0, "and then the CID is free");
}

static void cases_sequence(void)
{
	struct queue *q = queue_new(1, 32, 0);
	struct nvme_sqe sqe;
	bool right = true;

	q->keep_disabled = true;
	queue_dial(q);
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	REFUSED(q, sqe, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR, "a read before Connect");
	sqe = sqe_new(q, NVME_OPC_FABRICS, 0, 0);
	sqe.nsid = NVME_FCTYPE_PROPERTY_GET;
	REFUSED(q, sqe, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR, "Property Get before Connect");
	CHECK(!queue_connect_command(q) && q->sqhd == 1, "Connect; SQHD %u", q->sqhd);
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	REFUSED(q, sqe, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR, "a read before enable");
	target_qpair_enable(q->qp, true);
	REFUSED(q, sqe, 0, "a read after it");
	for (unsigned i = 0; i < 70; i++) {
		uint16_t before = q->sqhd;

		sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
		right &= !queue_run(q, &sqe, NULL, 0) && q->sqhd == (before + 1) % 32;
	}
	CHECK(right, "SQHD goes round the queue");
	queue_close(q);

	q = queue_new(1, 32, 0);
	q->no_flow_control = true;
	queue_dial(q);
	CHECK(!queue_connect_command(q) && q->sqhd == 0xffff, "no flow control: SQHD FFFFh");
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	CHECK(!queue_run(q, &sqe, NULL, 0) && q->sqhd == 0, "and 0 later");
	queue_close(q);
}

/* The file of a store becomes shorter: reported once, and again after a reset. */
static void case_faults(struct queue *q)
{
	char path[] = "/tmp/nvmf-target-fault-XXXXXX";
	int fd = mkstemp(path);
	struct store_options file = { .kind = "file", .path = path, .block_size = 512 };
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 1024, 8, 0);
	struct target_namespace *ns = NULL;
	struct store *store = NULL;

	if (fd >= 0 && !ftruncate(fd, 1 << 20))
		ns = lab_namespace(3, &file, &store);
	CHECK(ns && !ftruncate(fd, 1 << 18), "a file that becomes shorter");
	if (!ns)
		return;
	sqe.nsid = 3;
	lab.fault_count = 0;
	for (unsigned i = 0; i < 3; i++)
		REFUSED(q, sqe, NVME_UNRECOVERED_READ_ERROR, "a read past its end");
	CHECK(LAB_UNTIL(lab.fault_count) && lab.fault.opcode == NVME_OPC_READ &&
	      lab.fault.status == NVME_UNRECOVERED_READ_ERROR && lab.fault.offset == 1024 * 512 &&
	      lab.fault.length == 4096 && !lab.fault.error, "told of");
	sqe = sqe_io(q, NVME_OPC_READ, 4096, 8, 0);
	sqe.nsid = 3;
	REFUSED(q, sqe, NVME_LBA_OUT_OF_RANGE | NVME_DNR, "a mistake of the host's");
	CHECK(lab.fault_count == 1, "three commands failed, one is reported: %u", lab.fault_count);
	target_namespace_rearm(ns);
	sqe = sqe_io(q, NVME_OPC_READ, 1032, 8, 0);
	sqe.nsid = 3;
	REFUSED(q, sqe, NVME_UNRECOVERED_READ_ERROR, "another read past its end");
	CHECK(LAB_UNTIL(lab.fault_count == 2) && lab.fault.offset == 1032 * 512, "told again");
	lab_namespace_end(3, ns, store);
	close(fd);
	unlink(path);
}

/* The file of mapped memory becomes shorter: Verify finds what a Read finds. */
static void case_verify_map(struct queue *q)
{
	char path[] = "/dev/shm/nvmf-target-verify-XXXXXX";
	int fd = mkstemp(path);
	struct store_options pmem = { .kind = "pmem", .path = path, .block_size = 512 };
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
	struct target_namespace *ns = NULL;
	struct store *store = NULL;

	if (fd >= 0 && !ftruncate(fd, 1 << 20))
		ns = lab_namespace(3, &pmem, &store);
	if (!CHECK(ns && store->map, "a mapped file"))
		return;
	sqe.nsid = 3;
	sqe.cdw10 = 1024;
	sqe.cdw12 = 511;
	CHECK(!queue_run(q, &sqe, NULL, 0), "Verify of its memory");
	CHECK(!ftruncate(fd, 1 << 18), "it becomes shorter");
	sqe.cid = sqe_new(q, NVME_OPC_VERIFY, 0, 0).cid;
	REFUSED(q, sqe, NVME_UNRECOVERED_READ_ERROR, "Verify of memory that is gone");
	sqe = sqe_io(q, NVME_OPC_READ, 1024, 8, 0);
	sqe.nsid = 3;
	REFUSED(q, sqe, NVME_UNRECOVERED_READ_ERROR, "as a Read of it");
	lab_namespace_end(3, ns, store);
	close(fd);
	unlink(path);
}

static void test_errors(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options fixed = { .kind = "ram", .size = 32 << 20, .block_size = 512,
				       .read_only = true };
	struct store *stores[2];
	struct target_qpair_stats stats;
	struct queue *q;

	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &fixed, &stores[1]);
	if (stores[1])
		stores[1]->read_only = true;
	q = queue_open(1, 128, 8192);
	cases_sgl(q);
	cases_ranges(q);
	cases_upcalls(q);
	case_answers(q);
	cases_invalidate(q);
	cases_conflict(q);
	case_faults(q);
	case_verify_map(q);
	queue_idle(q);
	target_qpair_stats(q->qp, &stats);
	CHECK(stats.malformed > 80 && stats.errors > stats.malformed && stats.outstanding == 0,
	      "counted: %lu commands, %lu errors, %lu malformed, %u outstanding",
	      (unsigned long)stats.commands, (unsigned long)stats.errors,
	      (unsigned long)stats.malformed, stats.outstanding);
	cases_sequence();
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		if (stores[i])
			store_close(stores[i]);
}

#endif
