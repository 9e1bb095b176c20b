/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepts a connection, on the control thread: creates its queue pair, posts receives and passes it to its reactor.
 * If that fails, everything except the caller's id is freed.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_SEND_WR 64u
#define RNR_TIMER 10	/* 0.32 ms (IBTA 1.4, table 46) */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int accept_check(const struct target *target, const struct target_qpair_options *o,
			char *err, size_t len)
{
	const char *why = NULL;

	if (o->reactor >= target->reactors)
		why = "there is no such reactor";
	else if (!o->recv_depth)
		why = "the queue has no entries";
	else if (!o->initiator_depth)
		why = "the host allows no RDMA READs (responder resources 0)";
	if (!why)
		return 0;
	snprintf(err, len, "cannot accept queue %u: %s", o->qid, why);
	return -EINVAL;
}

static int accept_create_ibqp(struct target_qpair *qp, char *err, size_t len)
{
	const struct ibv_device_attr *attr = &qp->dev->attr;
	uint32_t limit = attr->max_qp_wr > 0 ? (uint32_t)attr->max_qp_wr : UINT32_MAX;
	uint32_t wanted = 2u * qp->options.recv_depth;	/* data and response of each command */
	struct ibv_qp_init_attr init = {
		.qp_context = qp,
		.qp_type = IBV_QPT_RC,
		.srq = qp->srq ? qp->srq->srq : NULL,
		.cap = {
			.max_recv_wr = qp->srq ? 0 : qp->options.recv_depth,
			.max_recv_sge = qp->srq ? 0 : qp->in_capsule ? 2 : 1,
			.max_inline_data = sizeof(struct nvme_cqe),
		},
	};
	int rc;

	/*
	 * On iWARP, the completion of a Send does not mean that the peer has received earlier data.  siw sends
	 * unsignalled work directly from its memory, as long as TCP needs it, and signalled work from a copy: so a
	 * buffer may be reused only after signalled work.
	 *
	 * siw's own thread continues what a system call could not send.  Until that call has returned, the thread
	 * treats short data of a single element as memory of the caller, which it cannot access: the Send fails with
	 * EFAULT.  Data of two elements is not affected.
	 */
	qp->iwarp_adapter = !qp->verbs->read_sink_is_local &&
			    qp->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	init.cap.max_send_sge = qp->iwarp_adapter ? 2 : 1;
	if (qp->options.recv_depth > limit) {
		snprintf(err, len, "queue %u: %u receives requested, but the device allows %u",
			 qp->options.qid, qp->options.recv_depth, limit);
		return -EINVAL;
	}
	qp->sq_count = qp->sq_free = least(limit, wanted < MIN_SEND_WR ? MIN_SEND_WR : wanted);
	init.cap.max_send_wr = qp->sq_count;
	qp->recv_share = qp->options.recv_depth;
	qp->send_share = qp->sq_count;
	rc = cqs_get(qp, err, len);
	if (rc)
		return rc;
	init.recv_cq = qp->recv_cq->cq;
	init.send_cq = qp->send_cq->cq;
	errno = 0;	/* some providers require it */
	rc = qp->verbs->create_qp(qp->id, qp->pd, &init);
	if (rc) {	/* the device may not support inline data */
		init.cap.max_inline_data = 0;
		init.cap.max_send_wr = qp->sq_count;
		rc = qp->verbs->create_qp(qp->id, qp->pd, &init);
	}
	if (rc) {
		rc = -errno;
		snprintf(err, len, "queue %u: create_qp (%u receives, %u sends): %s",
			 qp->options.qid, qp->options.recv_depth, qp->sq_count,
			 rc ? strerror(-rc) : "the device gives no reason");
		return rc ? rc : -EIO;
	}
	/*
	 * siw accepts inline data only with a plain Send, but most responses are Sends with Invalidate.
	 */
	qp->inline_response = init.cap.max_inline_data >= sizeof(struct nvme_cqe) && !qp->iwarp_adapter;
	qp->ibqp = qp->id->qp;
	qp->number = qp->ibqp->qp_num;
	return 0;
}

static int accept_prepare(struct target_qpair *qp, char *err, size_t len)
{
	const struct ibv_device_attr *attr;
	uint32_t reads = qp->options.initiator_depth;
	int rc = 0;

	qp->dev = device_get(qp->target, qp->verbs, qp->id->verbs, err, len);
	if (!qp->dev)
		return -errno;
	attr = &qp->dev->attr;
	if (attr->max_qp_init_rd_atom > 0)
		reads = least(reads, (uint32_t)attr->max_qp_init_rd_atom);
	qp->read_limit = qp->read_free = reads;
	qp->device = (uint8_t)qp->dev->index;
	qp->send_with_invalidate = qp->dev->send_with_invalidate;
	if (qp->dev->private_pd) {
		rc = region_make_private(qp);
	} else {
		qp->pd = qp->dev->pd;
		qp->pool_lkey = qp->dev->pool_mr[qp->reactor->index]->lkey;
	}
	qp->srq = srq_get(qp);
	if (!rc)
		rc = region_map(qp);
	if (!rc)
		rc = region_register(qp);
	if (rc) {
		snprintf(err, len, "queue %u: cannot register %zu bytes of capsules: %s",
			 qp->options.qid, qp->registered_bytes, strerror(-rc));
		return rc;
	}
	return accept_create_ibqp(qp, err, len);
}

/*
 * Time after which a host repeats a Send that found no receive, while a shared queue grows: the connection manager
 * sets 655 ms.  iWARP has no such timer.
 */
static void accept_set_rnr_timer(struct target_qpair *qp)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = RNR_TIMER };

	if (qp->srq && qp->id->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		qp->verbs->modify_qp(qp->ibqp, &attr, IBV_QP_MIN_RNR_TIMER);
}

static int accept_start(struct target_qpair *qp, char *err, size_t len)
{
	struct nvme_rdma_cm_rep rep = { .crqsize = qp->options.recv_depth };
	struct rdma_conn_param param = {
		.private_data = &rep,
		.private_data_len = sizeof(rep),
		.responder_resources = qp->options.responder_resources,
		.initiator_depth = (uint8_t)qp->read_limit,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct recv_chain chain;
	int rc;

	if (qpair_post_receives(qp, &chain)) {
		snprintf(err, len, "queue %u: the device refused to post a receive", qp->options.qid);
		return -EIO;
	}
	qp->id->context = qp;
	if (!qp->verbs->accept(qp->id, &param)) {
		accept_set_rnr_timer(qp);
		reactor_mail(qp->reactor, &qp->up_mail, qpair_up_deliver);
		return 0;
	}
	rc = -errno;
	snprintf(err, len, "queue %u: accept: %s", qp->options.qid, strerror(-rc));
	return rc;
}

struct target_qpair *target_qpair_accept(struct target *target, const struct verbs *verbs,
					 struct rdma_cm_id *id,
					 const struct target_qpair_options *options, char *err,
					 size_t len)
{
	void *context = id->context;
	struct target_qpair *qp;
	int rc;

	if (accept_check(target, options, err, len))
		return NULL;
	qp = qpair_new(target, verbs, id, options);
	if (!qp) {
		snprintf(err, len, "queue %u: out of memory", options->qid);
		return NULL;
	}
	qp->next = target->qpairs;
	target->qpairs = qp;
	rc = accept_prepare(qp, err, len);
	if (!rc)
		rc = accept_start(qp, err, len);
	if (!rc)
		return qp;

	id->context = context;
	qp->abandoned = true;	/* the id is the caller's */
	if (!qp->ibqp) {
		qpair_unlink(qp);
		qpair_clear(qp);
		free(qp);
		errno = -rc;
		return NULL;
	}
	/*
	 * The reactor may be handling one of its completions: it releases the queue pair before the memory is freed.
	 * It has not used the id, because the connection was not established.
	 */
	qp->verbs->destroy_qp(id);
	qp->ibqp = NULL;
	qp->id = NULL;
	qp->destroy_sent = true;
	reactor_mail(qp->reactor, &qp->destroy_mail, qpair_destroy_deliver);
	errno = -rc;
	return NULL;
}
