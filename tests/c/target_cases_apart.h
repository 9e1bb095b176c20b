/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Isolation: of working namespaces from those whose stores hang, and of hosts from each other on devices where the
 * peer can write to an RDMA READ's destination, for which the embedded one is used.
 */
#ifndef TESTS_TARGET_CASES_APART_H
#define TESTS_TARGET_CASES_APART_H

#include "target/calls.h"
#include "target_cases_fair.h"

#include "store/store_internal.h"

enum { HANG_DEPTH = 128 };

/* ---- a store that hangs ---- */

static struct {
	struct store_ops ops;
	const struct store_ops *real;
	struct fifo held;
	_Atomic unsigned count;
	pthread_mutex_t lock;
} hang = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct hung_io {
	struct fifo_link link;
	struct store_ring *ring;
	struct store *store;
	struct store_io *io;
};

static void hang_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	struct hung_io *hung = malloc(sizeof(*hung));

	*hung = (struct hung_io){ .ring = ring, .store = store, .io = io };
	pthread_mutex_lock(&hang.lock);
	fifo_push(&hang.held, &hung->link);
	pthread_mutex_unlock(&hang.lock);
	hang.count++;
}

static void hang_begin(struct store *store)
{
	fifo_init(&hang.held);
	hang.count = 0;
	hang.real = store->ops;
	hang.ops = *store->ops;
	hang.ops.submit = hang_submit;
	store->ops = &hang.ops;
}

static void hang_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fifo_link *link;

	(void)reactor;
	pthread_mutex_lock(&hang.lock);
	while ((link = fifo_pop(&hang.held))) {
		struct hung_io *hung = container_of(link, struct hung_io, link);

		hang.real->submit(hung->ring, hung->store, hung->io);
		free(hung);
	}
	pthread_mutex_unlock(&hang.lock);
	free(mail);
}

/* It answers again: on the reactor's thread, which owns these rings. */
static void hang_end(struct store *store)
{
	store->ops = hang.real;
	reactor_mail(lab.target->reactor[0], calloc(1, sizeof(struct mail)), hang_deliver);
}

/* Commands of this many blocks, reads and writes alternately. */
static void hang_send(struct queue *q, uint32_t nsid, uint32_t blocks)
{
	for (unsigned i = 0; i + 2 < HANG_DEPTH / 2; i++) {
		struct nvme_sqe sqe = sqe_io(q, i & 1 ? NVME_OPC_READ : NVME_OPC_WRITE, i * 256, blocks,
					     0);

		sqe.nsid = nsid;
		queue_send(q, &sqe, NULL, 0);
	}
}

static void case_store_hangs(uint32_t blocks)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .buffers = 16 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct queue *q[2], *dying;
	struct store *stores[2];

	lab_start(&options);
	lab_namespace(1, &file, &stores[0]);
	file.path = direct_file;
	lab_namespace(2, &file, &stores[1]);
	for (unsigned i = 0; i < 2; i++)
		q[i] = queue_open(1, HANG_DEPTH, 0);
	dying = queue_open(1, HANG_DEPTH, 0);
	hang_begin(stores[0]);
	for (unsigned i = 0; i < 2; i++)
		hang_send(q[i], 1, blocks);
	hang_send(dying, 1, blocks);
	LAB_UNTIL(hang.count >= 8);
	for (unsigned i = 0; i < 2; i++)
		CHECK(modest_run(q[i], 2, 16) == 16,
		      "%u blocks: while a store hangs with %u commands, another answers queue %u", blocks,
		      hang.count, i);
	lab.v->disconnect(dying->id);
	lab_turns(50);
	CHECK(modest_run(q[0], 2, 4) == 4, "a host that leaves meanwhile takes nobody along");
	hang_end(stores[0]);
	CHECK(LAB_UNTIL(!q[0]->outstanding && !q[1]->outstanding), "it answers again: all commands end");
	CHECK(modest_run(q[1], 1, 4) == 4, "and new ones, too");
	CHECK(LAB_UNTIL(dying->closed), "the host that left is done with: %s", dying->reason);
	queue_close(dying);
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

/* ---- separate protection domains ---- */

static void case_private_domains(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct target_namespace *ns;
	struct target_qpair *a, *b;
	struct queue *q[2];
	struct store *store;

	lab_start(&options);
	ns = lab_namespace(1, &ram, &store);
	for (unsigned i = 0; i < 2; i++)
		q[i] = queue_open(1, 32, 4096);
	a = q[0]->qp;
	b = q[1]->qp;
	CHECK(a->pd != b->pd && a->pd != a->dev->pd, "a protection domain for each queue pair");
	CHECK(a->pool_mr->pd == a->pd && a->own_mr->pd == a->pd && a->mr->pd == a->pd,
	      "all that it uses is registered in that");
	CHECK(a->pool != b->pool && a->pool->memory != b->pool->memory && a->pool != &a->reactor->pool,
	      "buffers of its own");
	CHECK(!atomic_load(&ns->window[0]), "reads are not sent from the namespace");
	CHECK(round_trip(q[0], 1, 3, 64) && round_trip(q[1], 1, 9, 2048), "reads and writes");
	lab_stop();
	store_close(store);
}

/* ---- siw's behaviour ---- */

static struct {
	int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	const struct ibv_qp *fails;	/* its next work request is refused */
	_Atomic unsigned posted, alone;	/* short data that is sent: all of it, and that in a single element */
	_Atomic unsigned fetched, parted;	/* data that is read: all of it, and that into several elements */
	char ends[4];			/* the calls of a queue pair's end, in order */
	_Atomic unsigned end_count;
} siw;

static int siw_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *at = wr; at; at = at->next) {
		uint32_t bytes = 0;

		for (int i = 0; i < at->num_sge; i++)
			bytes += at->sg_list[i].length;
		if (at->opcode == IBV_WR_RDMA_READ) {
			siw.fetched++;
			siw.parted += at->num_sge != 1;
		} else if (bytes && bytes <= 32 && !(at->send_flags & IBV_SEND_INLINE)) {
			siw.posted++;
			siw.alone += at->num_sge == 1;
		}
	}
	if (qp == siw.fails) {
		*bad = wr;
		return EIO;
	}
	return siw.real_post(qp, wr, bad);
}

static int siw_disconnect(struct rdma_cm_id *id)
{
	siw.ends[siw.end_count++ % sizeof(siw.ends)] = 'd';
	return verbs_iwarp()->disconnect(id);
}

static int siw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	siw.ends[siw.end_count++ % sizeof(siw.ends)] = 'e';
	return verbs_iwarp()->modify_qp(qp, attr, mask);
}

/* The behaviour of siw described in accept.c and close.c. */
static void case_siw(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct ibv_context *context = embedded_context();
	struct range range = { .blocks = 8 };
	struct queue *q[2];
	struct store *store;
	struct nvme_sqe sqe;

	siw.real_post = context->ops.post_send;
	context->ops.post_send = siw_post;
	lab_start(&options);
	lab_verbs.disconnect = siw_disconnect;
	lab_verbs.modify_qp = siw_modify_qp;
	lab_namespace(1, &ram, &store);
	for (unsigned i = 0; i < 2; i++)
		q[i] = queue_open(1, 32, 4096);
	siw.posted = siw.alone = 0;
	CHECK(round_trip(q[0], 1, 3, 64) && siw.posted && !siw.alone,
	      "%u of %u responses are in one element, which siw may take for another process's memory", siw.alone,
	      siw.posted);
	siw.fetched = 0;
	CHECK(!run_dsm(q[0], 1, &range, 1, sizeof(range), 4) && siw.fetched && !siw.parted,
	      "%u of %u RDMA READs are into several elements, which iWARP has not", siw.parted, siw.fetched);
	siw.end_count = 0;
	siw.fails = q[0]->qp->ibqp;
	sqe = sqe_io(q[0], NVME_OPC_READ, 0, 8, 0);
	sqe.nsid = 1;
	queue_send(q[0], &sqe, NULL, 0);
	/* by the reactor, and by the thread that ends connections */
	CHECK(LAB_UNTIL(q[0]->closed && siw.end_count == 3) && siw.ends[0] == 'e',
	      "work of it failed: in the error state before it is closed (%.3s)", siw.ends);
	siw.end_count = 0;
	target_qpair_disconnect(q[1]->qp);
	CHECK(LAB_UNTIL(q[1]->closed && siw.end_count == 2) && siw.ends[0] == 'd', "else it is closed in order");
	siw.fails = NULL;
	lab_stop();
	store_close(store);
	context->ops.post_send = siw.real_post;
}

static void test_apart(void)
{
	case_store_hangs(8);
	case_store_hangs(256);
	lab_private = true;
	case_private_domains();
	case_siw();
	test_io(131072, 128);
	lab_private = false;
}

#endif
