/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that refuses to post, and a target that ends while a store is busy. */
#ifndef TESTS_TARGET_CASES_POSTS_H
#define TESTS_TARGET_CASES_POSTS_H

#include "store/fault.h"
#include "target_cases_fua.h"

static struct {
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);	/* the device's own */
	const struct ibv_qp *qp;	/* whose next chain is refused, until that has happened */
	pthread_t poster;	/* that posted it */
	atomic_bool broken;	/* it has put a queue pair into the error state, too */
} refusing;

static void refuse_no_more(void)
{
	refusing.qp = NULL;
	refusing.poster = pthread_self();
}

static int posts_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (!refusing.qp && pthread_equal(refusing.poster, pthread_self()))
		atomic_store(&refusing.broken, true);
	return verbs_iwarp()->modify_qp(qp, attr, mask);
}

static struct ibv_send_wr *response_of(struct ibv_send_wr *wr)
{
	while (wr && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_INV)
		wr = wr->next;
	return wr;
}

/* Accept a chain with several responses up to the first of them. */
static int post_a_part(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *first = qp == refusing.qp ? response_of(wr) : NULL, *next = first ? first->next : NULL;
	int rc;

	if (!response_of(next))
		return refusing.post_send(qp, wr, bad);
	first->next = NULL;
	rc = refusing.post_send(qp, wr, bad);
	first->next = next;
	if (rc)
		return rc;
	*bad = next;
	refuse_no_more();
	return ENOMEM;
}

/* Refuse a chain from its first request, while others are posted. */
static int post_nothing(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (qp != refusing.qp)
		return refusing.post_send(qp, wr, bad);
	refuse_no_more();
	*bad = wr;
	return ENOMEM;
}

/* Accept a chain and report an error, as libsiw does if the kernel refuses its doorbell. */
static int post_and_complain(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int rc = refusing.post_send(qp, wr, bad);

	if (rc || qp != refusing.qp)
		return rc;
	refuse_no_more();
	*bad = NULL;
	return ENOTCONN;
}

static void case_post_refused(int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **), const char *what)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct ibv_context *context = embedded_context();
	struct store *store;
	struct queue *q, *other;

	refusing.post_send = context->ops.post_send;
	context->ops.post_send = post_send;
	atomic_store(&refusing.broken, false);
	lab_start(&options);
	lab_verbs.modify_qp = posts_modify_qp;
	lab_namespace(1, &ram, &store);
	q = queue_open(1, 128, 4096);
	other = queue_open(2, 128, 4096);
	refusing.qp = q->qp->ibqp;
	for (unsigned round = 0; round < 500 && refusing.qp; round++)
		for (unsigned i = 0; i < 16; i++) {
			struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);

			queue_send(q, &sqe, NULL, 0);
			if (i == 15)
				queue_wait(q, sqe.cid);
		}
	CHECK(!refusing.qp && LAB_UNTIL(q->closed), "%s: the connection ends: \"%s\"", what, q->reason);
	CHECK(atomic_load(&refusing.broken), "%s: what was posted before uses no memory from then on", what);
	CHECK(!run_io(other, 1, NVME_OPC_READ, 0, 8, 0), "%s: others go on", what);
	lab_stop();
	store_close(store);
	context->ops.post_send = refusing.post_send;
}

/* The store needs longer for a Read than connections have time to end. */
static void case_ends_while_busy(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50 };
	const struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	const struct store_fault_options slow = { .ops = 1u << STORE_READ, .delay_us = 2000000 };
	struct nvme_sqe sqe;
	struct store *store;
	struct queue *q;
	char err[256];

	lab_start(&options);
	store = store_fault(store_open(&file, err, sizeof(err)), &slow);
	target_nstable_set(lab.table, 1, target_namespace_create(lab.target, 1, store, err, sizeof(err)));
	q = queue_open(1, 128, 4096);
	sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	queue_send(q, &sqe, NULL, 0);
	CHECK(LAB_UNTIL(store_fault_hits(store)), "the store is busy");
	lab_stop();
	CHECK(true, "the target ends when the store has");
	store_close(store);
}

static void test_posts(void)
{
	case_post_refused(post_and_complain, "all is posted, and an error");
	case_post_refused(post_nothing, "nothing is posted");
	lab_private = true;	/* each response is posted apart from others where it is not */
	case_post_refused(post_a_part, "a part is posted");
	lab_private = false;
	case_ends_while_busy();
}

#endif
