/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receives: few while little is needed, as many as all may need, none lost to queue pairs that end, and for
 * each host at most as many as its queue has entries.
 */
#ifndef TESTS_TARGET_CASES_SHARED_H
#define TESTS_TARGET_CASES_SHARED_H

#include "target/calls.h"
#include "target_cases_apart.h"

enum { SHARED_QUEUES = 6, SHARED_DEPTH = 120, SHARED_BLOCKS = 8 };

/* Writes to a part of the namespace, with data in their capsules, which are held while the store hangs. */
static void shared_send(struct queue *q, unsigned part)
{
	static const uint8_t data[512 * SHARED_BLOCKS];

	for (unsigned i = 0; i < SHARED_DEPTH; i++) {
		struct nvme_sqe sqe = sqe_io(q, NVME_OPC_WRITE,
					    (part * SHARED_DEPTH + i) * SHARED_BLOCKS * 2, SHARED_BLOCKS, 0);

		sqe.sgl = (struct nvme_sgl){ .plain = { .length = sizeof(data),
							.type = NVME_SGL_IN_CAPSULE } };
		queue_send(q, &sqe, data, sizeof(data));
	}
}

/* Whether all its receives are posted again, or spare. */
static bool shared_is_whole(struct target_srq *srq)
{
	return LAB_UNTIL(__atomic_load_n(&srq->posted, __ATOMIC_RELAXED) +
				 __atomic_load_n(&srq->spares, __ATOMIC_RELAXED) ==
			 __atomic_load_n(&srq->total, __ATOMIC_RELAXED));
}

static void case_shared_grows(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct queue *q[SHARED_QUEUES];
	struct target_srq *srq;
	struct store *store;
	uint32_t first;

	lab_start(&options);
	lab_namespace(1, &file, &store);
	for (unsigned i = 0; i < SHARED_QUEUES; i++)
		q[i] = queue_open(1, SHARED_DEPTH + 8, 4096);
	srq = q[0]->qp->srq;
	CHECK(srq && srq == q[SHARED_QUEUES - 1]->qp->srq, "queue pairs share their receives");
	first = srq->total;
	CHECK(first < SHARED_QUEUES * SHARED_DEPTH / 2, "of which there are %u at first", first);
	CHECK(q[0]->qp->registered_bytes < 64 << 10, "a queue of depth %u registers %zu bytes",
	      SHARED_DEPTH + 8, q[0]->qp->registered_bytes);
	hang_begin(store);
	for (unsigned i = 0; i < SHARED_QUEUES; i++)
		shared_send(q[i], i);
	CHECK(LAB_UNTIL(hang.count == SHARED_QUEUES * SHARED_DEPTH),
	      "a store hangs with all that hosts may send: %u commands", hang.count);
	CHECK(srq->total > first, "there are %u receives then", srq->total);
	hang_end(store);
	for (unsigned i = 0; i < SHARED_QUEUES; i++)
		CHECK(LAB_UNTIL(!q[i]->outstanding), "queue %u: all commands end", i);
	CHECK(shared_is_whole(srq), "%u of %u receives are back", srq->posted + srq->spares, srq->total);
	for (unsigned i = 1; i < SHARED_QUEUES; i++) {
		shared_send(q[i], i);	/* disconnect while they are in progress */
		queue_close(q[i]);
	}
	CHECK(shared_is_whole(srq), "after hosts have left: %u of %u", srq->posted + srq->spares, srq->total);
	CHECK(modest_run(q[0], 1, 4) == 4, "who stayed is served");
	lab_stop();
	store_close(store);
}

/* Connections are opened and closed, some in the middle of a capsule. */
static void case_shared_come_and_go(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct target_srq *srq;
	struct raw_host h;
	struct store *store;
	struct queue *q;

	lab_start(&options);
	lab_namespace(1, &ram, &store);
	q = queue_open(1, 32, 4096);
	srq = q->qp->srq;
	for (unsigned i = 0; i < 30; i++) {
		uint8_t half[FPDU_UNTAGGED + 10] = { 0 };

		CHECK(raw_open(&h, 1, 32) && raw_connect(&h), "a host connects");
		fpdu_put_untagged(half, RDMAP_SEND, true, SQE_SIZE, 0, DDP_QN_SEND, ++h.msn, 0);
		raw_send(&h, half, sizeof(half));
		lab_turns(1);
		raw_close(&h, i & 1);
	}
	CHECK(shared_is_whole(srq), "after 30 that left in the middle of a capsule: %u of %u", srq->posted + srq->spares,
	      srq->total);
	CHECK(round_trip(q, 1, 3, 64), "who stayed is served");
	lab_stop();
	store_close(store);
}

/* A host that sends endlessly more than can be answered: it uses as many receives as its queue has entries. */
static void case_shared_flood(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct queue *q;
	struct raw_host h;
	struct store *store;

	lab_start(&options);
	lab_namespace(1, &file, &store);
	q = queue_open(1, 32, 4096);
	CHECK(raw_open(&h, 1, 16) && raw_connect(&h), "a host connects");
	hang_begin(store);
	for (unsigned i = 0; i < 200 && !h.q->closed; i++) {
		struct nvme_sqe sqe = raw_sqe(&h, NVME_OPC_FLUSH, 0);

		if (!raw_capsule(&h, &sqe))
			break;
		lab_turns(1);
	}
	hang_end(store);
	CHECK(LAB_UNTIL(h.q->closed) && strstr(h.q->reason, "more commands than"),
	      "a host with a queue of 16 that sends more: %s", h.q->reason);
	CHECK(shared_is_whole(q->qp->srq), "its receives are back");
	CHECK(modest_run(q, 1, 4) == 4, "another host is served");
	raw_close(&h, true);
	lab_stop();
	store_close(store);
}

static void test_shared(void)
{
	lab_shares = true;
	case_shared_grows();
	case_shared_come_and_go();
	case_shared_flood();
	test_io(131072, 128);
	lab_shares = false;
}

#endif
