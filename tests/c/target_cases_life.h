/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of connections and targets, without effect on others. */
#ifndef TESTS_TARGET_CASES_LIFE_H
#define TESTS_TARGET_CASES_LIFE_H

#include <poll.h>

#include "target/calls.h"
#include "target_cases_io.h"
#include "target_cases_namespace.h"

static bool still_works(struct queue *q)
{
	return round_trip(q, 1, 0, 64);
}

static void cases_bad_connections(struct queue *other)
{
	struct queue *q = queue_open(2, 32, 0);
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_WRITE, 0, 8, 0);
	char reason[256];

	queue_send_raw(q, &sqe, 12);
	CHECK(LAB_UNTIL(q->closed) && strstr(q->reason, "capsule of 12 bytes"),
	      "a capsule of 12 bytes: %s", q->reason);
	queue_close(q);

	q = queue_open(2, 32, 0);
	sqe = sqe_io(q, NVME_OPC_WRITE, 0, 8, 0);
	sqe.sgl.keyed.key[2] ^= 0x5a;
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->closed), "a write from a foreign key: %s", q->reason);
	queue_close(q);

	q = queue_open(2, 32, 0);
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, LAB_MEMORY - 100);
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(q->closed), "a read past the end of the memory: %s", q->reason);
	queue_close(q);

	q = queue_open(2, 32, 0);
	target_qpair_disconnect(q->qp);
	target_qpair_disconnect(q->qp);
	LAB_UNTIL(q->closed && q->lost);
	snprintf(reason, sizeof(reason), "%s", q->reason);
	CHECK(q->closed && q->lost, "disconnected from this side: %s", reason);
	queue_close(q);
	CHECK(still_works(other), "the other queue noticed nothing");
}

/* A response that was completed just before the disconnect reaches the host. */
static void case_last_words(void)
{
	struct queue *q = queue_open(2, 32, 0);
	struct nvme_sqe sqe = sqe_new(q, 0x81, 0, 0);

	q->hold_all = true;
	queue_send(q, &sqe, NULL, 0);
	LAB_UNTIL(q->held_count);
	target_complete(q->held[--q->held_count], NVME_ACCESS_DENIED, 0, 0, NULL, 0);
	target_qpair_disconnect(q->qp);
	CHECK(queue_wait(q, sqe.cid) == NVME_ACCESS_DENIED && LAB_UNTIL(q->closed),
	      "a response completed just before the disconnect arrives");
	queue_close(q);
}

/* However late the reactor notices, waiting responses are posted before the end. */
static void case_late_reactor(void)
{
	static const struct verbs silent;	/* it gives no reason for an end */
	const struct timespec late = { .tv_nsec = 250000000 };	/* a response has 100 ms to be sent */
	struct reactor *r = aligned_alloc(CACHE_LINE, (sizeof(*r) + 63) & ~63ul);
	struct target_qpair *qp = aligned_alloc(CACHE_LINE, sizeof(*qp));

	memset(r, 0, sizeof(*r));
	memset(qp, 0, sizeof(*qp));
	fifo_init(&r->lingering);
	qp->reactor = r;
	qp->verbs = &silent;
	qp->sq_count = 1;	/* and it has no free place */
	qpair_disconnect_deliver(r, &qp->disconnect_mail);
	nanosleep(&late, NULL);
	CHECK(qpair_linger(r) && !qp->dead, "a late look at a queue pair that was to be disconnected");
	nanosleep(&late, NULL);
	CHECK(!qpair_linger(r) && qp->dead, "the next one ends it");
	free(qp);
	free(r);
}

/* Hosts that disconnect with everything in progress, several times, while a different one works. */
static void case_dies_in_transfer(struct queue *other)
{
	unsigned closed = 0;

	for (unsigned round = 0; round < 20; round++) {
		struct queue *q = queue_open(2, 128, 8192);

		for (unsigned i = 0; i < 64; i++) {
			struct nvme_sqe sqe = sqe_io(q, i & 1 ? NVME_OPC_WRITE : NVME_OPC_READ,
						     i * 64, 2048, 0);

			sqe.nsid = i % 3 ? 1 : 2;
			queue_send(q, &sqe, NULL, 0);
		}
		lab_turns(round);
		lab.v->disconnect(q->id);
		closed += LAB_UNTIL(q->closed);
		queue_close(q);
	}
	CHECK(closed == 20, "%u of 20 hosts that died in the middle are removed", closed);
	CHECK(still_works(other), "the other queue noticed nothing");
}

static void case_held_over_close(void)
{
	struct queue *q = queue_open(2, 32, 0);

	for (unsigned i = 0; i < 8; i++) {
		struct nvme_sqe sqe = sqe_new(q, i & 1 ? 0x81 : LAB_HOLD, 0, i & 1 ? 4096 : 0);

		q->hold_all = true;
		queue_send(q, &sqe, NULL, 0);
	}
	LAB_UNTIL(q->held_count == 8);
	lab.v->disconnect(q->id);
	CHECK(LAB_UNTIL(q->closed), "closed with 8 commands up: %s", q->reason);
	queue_close(q);		/* completes them and destroys */
	CHECK(true, "they were completed after it");
}

/* Three queues that require far more buffers than exist, and a fourth. */
static void case_small_pool(struct queue *other)
{
	struct queue *q[3];
	struct target_qpair_stats stats;
	unsigned wrong = 0;
	uint64_t waited = 0;

	for (unsigned k = 0; k < 3; k++)
		q[k] = queue_open((uint16_t)(k + 2), 32, 0);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 16; i++) {
			for (unsigned k = 0; k < 3; k++) {
				struct nvme_sqe sqe = sqe_io(q[k], round & 1 ? NVME_OPC_READ
									     : NVME_OPC_WRITE,
							     i * 512, 512, 0);

				sqe.nsid = 2;
				queue_send(q[k], &sqe, NULL, 0);
			}
		}
		for (unsigned k = 0; k < 3; k++)
			wrong += !LAB_UNTIL(!q[k]->outstanding);
	}
	for (unsigned k = 0; k < 3; k++) {
		target_qpair_stats(q[k]->qp, &stats);
		waited += stats.waited_for_buffer;
		wrong += stats.errors != 0;
		queue_close(q[k]);
	}
	CHECK(!wrong && waited, "more I/O than buffers: all done, %lu waits", (unsigned long)waited);
	CHECK(still_works(other), "the other queue works");
}

/* A host that has disconnected before its connection is accepted. */
static void case_gone_before_accept(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct queue *q = queue_new(3, 32, 0);
		struct pollfd request = { .fd = lab.server->fd, .events = POLLIN };
		uint64_t until = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;

		lab.connecting = q;
		lab.v->create_id(lab.client, &q->id, q, RDMA_PS_TCP);
		lab.v->resolve_addr(q->id, NULL, (struct sockaddr *)&lab.address, 1000);
		while (poll(&request, 1, 1) != 1 && clock_ns() < until)
			lab_client_events();
		lab.v->disconnect(q->id);
		lab.v->destroy_qp(q->id);
		lab.v->destroy_id(q->id);
		q->id = NULL;
		LAB_UNTIL(q->qp || *q->reason);
		if (q->qp)
			LAB_UNTIL(q->closed);
		CHECK(q->qp ? q->closed : *q->reason, "gone before it was accepted: %s", q->reason);
		queue_close(q);
	}
}

/* ---- the whole target ---- */

static unsigned random32(void)
{
	static uint32_t x = 12345;

	x = x * 1664525u + 1013904223u;
	return x >> 8;
}

static void case_many_queues(void)
{
	enum { QUEUES = 48, SLOTS = 4 };
	struct queue *q[QUEUES];
	unsigned wrong = 0, ios = 0;

	for (unsigned k = 0; k < QUEUES; k++) {
		q[k] = queue_new((uint16_t)(k + 2), 16, 4096);
		q[k]->reactor = k & 1;
		if (!queue_dial(q[k]) || queue_connect_command(q[k]))
			wrong++;
	}
	for (unsigned round = 0; round < 20 && !wrong; round++) {
		uint32_t seed = random32();

		for (unsigned pass = 0; pass < 2; pass++) {
			for (unsigned k = 0; k < QUEUES; k++) {
				if (!pass)
					fill(q[k]->memory, SLOTS * 8192, seed + k);
				for (unsigned i = 0; i < SLOTS; i++, ios++) {
					struct nvme_sqe sqe = sqe_io(q[k],
						pass ? NVME_OPC_READ : NVME_OPC_WRITE,
						(k * SLOTS + i) * 16, 16,
						(pass << 20) + i * 8192);

					sqe.nsid = 1 + (k >> 1 & 1);
					queue_send(q[k], &sqe, NULL, 0);
				}
			}
			for (unsigned k = 0; k < QUEUES; k++)
				wrong += !LAB_UNTIL(!q[k]->outstanding);
		}
		for (unsigned k = 0; k < QUEUES; k++)
			wrong += memcmp(q[k]->memory, q[k]->memory + (1 << 20), SLOTS * 8192) != 0;
	}
	CHECK(!wrong, "48 queues on two reactors, %u I/Os on their own blocks, %u wrong", ios, wrong);
	for (unsigned k = 0; k < QUEUES; k++)
		queue_close(q[k]);
}

static void case_idle(struct queue *q)
{
	lab_turns(50);
	CHECK(check_threads_sleep("nvmf-target"), "with nothing to do the reactors sleep");
	CHECK(still_works(q), "and wake up");
}

static void case_refused(void)
{
	struct queue *q = queue_new(3, 32, 0);

	q->reactor = 77;
	CHECK(!queue_dial(q) && q->rejected && *q->reason, "refused: %s", q->reason);
	queue_close(q);
}

static void case_destroy(void)
{
	for (unsigned k = 0; k < 6; k++) {
		struct queue *q = queue_open((uint16_t)k, 32, 0);

		for (unsigned i = 0; i < 8; i++) {
			struct nvme_sqe sqe = sqe_io(q, i & 1 ? NVME_OPC_WRITE : NVME_OPC_READ, 0,
						     1024, 0);

			if (k == 0)
				sqe = sqe_new(q, LAB_HOLD, 0, 0);
			queue_send(q, &sqe, NULL, 0);
		}
		if (!k)
			LAB_UNTIL(q->held_count == 8);
		q->held_count = 0;
		q->qp = NULL;	/* freed with the target */
	}
	target_destroy(lab.target);
	lab.gone = true;
	CHECK(true, "a target with hosts at work ends");
}

static void test_life(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct store *stores[2];
	struct queue *q;

	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &file, &stores[1]);
	q = queue_open(1, 64, 4096);
	cases_bad_connections(q);
	case_last_words();
	case_late_reactor();
	case_dies_in_transfer(q);
	case_held_over_close();
	case_small_pool(q);
	case_namespace(q);
	case_retire_under_load(q);
	case_retire_file(q);
	case_idle(q);
	case_refused();
	case_gone_before_accept();
	queue_close(q);
	case_many_queues();
	case_destroy();
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		if (stores[i])
			store_close(stores[i]);
}

#endif
