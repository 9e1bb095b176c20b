/* SPDX-License-Identifier: BSD-3-Clause */
/* Force Unit Access on Read: the returned data is stable, if the store has a volatile cache. */
#ifndef TESTS_TARGET_CASES_FUA_H
#define TESTS_TARGET_CASES_FUA_H

#include "store/fault.h"
#include "target_cases_fused.h"

enum { FUA_BLOCKS = 8, FUA_AT = 5 << 20 };

static struct nvme_sqe fua_read(struct queue *q)
{
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 0, FUA_BLOCKS, FUA_AT);

	sqe.cdw12 |= 1u << 30;
	return sqe;
}

static void case_fua(struct queue *q, struct queue *other, struct store *store, uint64_t syncs)
{
	const struct store_fault_options count = { .ops = 1u << STORE_FLUSH },
		slow = { .ops = 1u << STORE_FLUSH, .delay_us = 100000 },
		bad = { .ops = 1u << STORE_FLUSH, .status = NVME_WRITE_FAULT };
	struct nvme_sqe read = fua_read(q), write;

	store_fault_set(store, &count);
	memset(other->memory, 1, FUA_BLOCKS * 512);
	CHECK(!run_io(other, 1, NVME_OPC_WRITE, 0, FUA_BLOCKS, 0) &&
		      !run_io(q, 1, NVME_OPC_READ, 0, FUA_BLOCKS, 0) && !store_fault_hits(store),
	      "a Read without FUA makes nothing stable");
	CHECK(!queue_run(q, &read, NULL, 0) && store_fault_hits(store) == syncs &&
		      q->memory[FUA_AT] == 1,
	      "one with FUA does: %u times", (unsigned)store_fault_hits(store));
	if (!syncs)
		return;
	store_fault_set(store, &slow);
	memset(other->memory, 2, FUA_BLOCKS * 512);
	write = sqe_io(other, NVME_OPC_WRITE, 0, FUA_BLOCKS, 0);
	queue_send(q, &read, NULL, 0);
	CHECK(LAB_UNTIL(store_fault_hits(store)), "the store is being made stable");
	queue_send(other, &write, NULL, 0);
	CHECK(!queue_wait(other, write.cid) && !q->done[read.cid], "others need not wait for that to write the blocks");
	CHECK(!queue_wait(q, read.cid) && q->memory[FUA_AT] == 1 &&
		      q->memory[FUA_AT + FUA_BLOCKS * 512 - 1] == 1,
	      "what was written after that is not returned");
	store_fault_set(store, &bad);
	CHECK(queue_run(q, &read, NULL, 0) == NVME_WRITE_FAULT, "what cannot be made stable is an error");
	store_fault_set(store, NULL);
}

static void fua_on(const struct store_options *options, uint64_t syncs)
{
	struct target_options target = { .reactors = 2, .spin_us = 50 };
	struct target_namespace *ns;
	struct queue *q, *other;
	struct store *store;
	char err[256];

	lab_start(&target);
	store = store_fault(store_open(options, err, sizeof(err)), NULL);
	ns = target_namespace_create(lab.target, 1, store, err, sizeof(err));
	target_nstable_set(lab.table, 1, ns);
	q = queue_open(1, 32, 4096);
	other = queue_new(1, 32, 4096);
	other->reactor = 1;
	if (CHECK(queue_dial(other) && !queue_connect_command(other), "a queue on the other reactor"))
		case_fua(q, other, store, syncs);
	lab_stop();
	store_close(store);
}

/* Writes of the same blocks have all buffers of the namespace when the Read needs some. */
static void case_fua_without_buffers(void)
{
	struct target_options target = { .reactors = 1, .spin_us = 50, .buffers = 8, .buffer_size = 131072 };
	const struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	const struct store_fault_options slow = { .ops = 1u << STORE_FLUSH, .delay_us = 200000 };
	struct nvme_sqe read, write[24];
	struct queue *q, *other;
	struct store *store;
	unsigned failed = 0;
	char err[256];

	lab_start(&target);
	store = store_fault(store_open(&file, err, sizeof(err)), &slow);
	target_nstable_set(lab.table, 1, target_namespace_create(lab.target, 1, store, err, sizeof(err)));
	q = queue_open(1, 128, 4096);
	other = queue_open(2, 128, 4096);
	read = sqe_io(q, NVME_OPC_READ, 0, 128, 4 << 20);
	read.cdw12 |= 1u << 30;
	queue_send(q, &read, NULL, 0);
	CHECK(LAB_UNTIL(store_fault_hits(store)), "the store is being made stable");
	for (unsigned i = 0; i < 24; i++) {
		write[i] = sqe_io(other, NVME_OPC_WRITE, 0, 128, 0);
		queue_send(other, &write[i], NULL, 0);
	}
	CHECK(!queue_wait(q, read.cid) && !q->lost, "a Read with FUA waits for no write that waits for it: \"%s\"", q->reason);
	for (unsigned i = 0; i < 24; i++)
		failed += queue_wait(other, write[i].cid) != 0;
	CHECK(!failed, "and the writes end (%u of 24 do not)", failed);
	lab_stop();
	store_close(store);
}

static void test_fua(void)
{
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };

	fua_on(&ram, 0);
	fua_on(&file, 1);
	case_fua_without_buffers();
}

#endif
