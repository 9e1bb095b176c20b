/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: created, started, queried; ended, on any thread.  Owns the rings.  Control threads and the helper. */
#include "qp.h"
#include "stats.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static void qp_memory_free(struct ro_qp *qp)
{
	pthread_mutex_destroy(&qp->qp.mutex);
	pthread_cond_destroy(&qp->qp.cond);
	free(qp->req.sq);
	free(qp->req.sge);
	free(qp->req.data);
	free(qp->rsp.rq);
	free(qp->rsp.sge);
	free(qp);
}

void ro_qp_free(struct ro_qp *qp)
{
	ro_number_take(qp);
	ro_ahead_free(qp);
	iw_windows_release(&qp->windows);
	iw_helper_forget(&qp->caller);
	ro_tick_stop(qp);
	atomic_fetch_sub(&iw_cq(qp->qp.send_cq)->users, 1);
	atomic_fetch_sub(&iw_cq(qp->qp.recv_cq)->users, 1);
	iw_pd_ref(qp->qp.pd, -1);
	if (qp->srq)
		iw_srq_ref(qp->srq, -1);
	iw_live.qp--;
	qp_memory_free(qp);
}

static bool caps_ok(const struct ibv_qp_cap *c)
{
	return c->max_send_wr <= RO_MAX_WR && c->max_recv_wr <= RO_MAX_WR && c->max_send_sge <= RO_MAX_SGE &&
	       c->max_recv_sge <= RO_MAX_SGE && c->max_inline_data <= RO_MAX_INLINE;
}

static void no_wake(struct iw_srq_place *place)
{
	(void)place;	/* the peer repeats its request */
}

static bool qp_memory(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;
	struct ro_responder *s = &qp->rsp;

	r->size = pow2(qp->cap.max_send_wr);
	s->size = pow2(qp->cap.max_recv_wr);
	r->sq = calloc(r->size, sizeof(*r->sq));
	r->sge = calloc((size_t)r->size * qp->cap.max_send_sge, sizeof(*r->sge));
	r->data = calloc(r->size, qp->cap.max_inline_data + !qp->cap.max_inline_data);
	s->rq = calloc(s->size, sizeof(*s->rq));
	s->sge = calloc((size_t)s->size * qp->cap.max_recv_sge, sizeof(*s->sge));
	return r->sq && r->sge && r->data && s->rq && s->sge;
}

struct ro_qp *ro_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ro_qp *qp;

	if (!pd || !attr->send_cq || !attr->recv_cq || !caps_ok(&attr->cap) ||
	    (attr->qp_type != IBV_QPT_RC && attr->qp_type != 0)) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->cap = attr->cap;
	qp->cap.max_send_sge += !qp->cap.max_send_sge;
	qp->cap.max_recv_sge += !qp->cap.max_recv_sge;
	qp->srq = (struct iw_srq *)attr->srq;
	if (qp->srq) {
		qp->cap.max_recv_wr = 1;
		qp->cap.max_recv_sge = iw_srq_max_sge(qp->srq);
	}
	if (!qp_memory(qp)) {
		qp_memory_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	qp->windows.lock = &qp->lock;
	qp->place.wake = no_wake;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;
	qp->recv_pd = attr->srq ? attr->srq->pd : pd;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.srq = attr->srq;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_type = IBV_QPT_RC;
	qp->qp.state = IBV_QPS_INIT;
	atomic_store(&qp->state, IBV_QPS_INIT);
	ro_number_give(qp);
	atomic_fetch_add(&iw_cq(attr->send_cq)->users, 1);
	atomic_fetch_add(&iw_cq(attr->recv_cq)->users, 1);
	iw_pd_ref(pd, 1);
	if (qp->srq)
		iw_srq_ref(qp->srq, 1);
	iw_live.qp++;
	attr->cap = qp->cap;
	return qp;
}

void ro_qp_sends(struct ro_qp *qp, uint32_t psn, unsigned int ord, unsigned int retry_limit, unsigned int rnr_limit)
{
	qp->req.next_psn = qp->req.high_psn = qp->req.una = psn;
	qp->ord = (uint16_t)(ord < RO_MAX_RD ? ord : RO_MAX_RD);
	qp->retry_limit = retry_limit;
	qp->rnr_limit = rnr_limit;
	ro_qp_set_state(qp, IBV_QPS_RTS);
}

int ro_qp_start(struct ro_qp *qp, const struct ro_path *path)
{
	struct iw_cq *send = iw_cq(qp->qp.send_cq), *recv = iw_cq(qp->qp.recv_cq);

	if (ro_port_attach(path->port, recv))
		return -1;
	if (send != recv && ro_port_attach(path->port, send)) {
		ro_port_detach(path->port, recv);
		return -1;
	}
	path->port->users++;
	iw_lock(&qp->lock);
	qp->port = path->port;
	qp->peer = path->peer;
	if (qp->peer.sa.sa_family == AF_INET)
		qp->peer.in.sin_port = htons(RO_UDP_PORT);
	else
		qp->peer.in6.sin6_port = htons(RO_UDP_PORT);
	ro_flow_set(&qp->flow, &path->port->addr.sa, &qp->peer.sa);
	qp->dqpn = path->dqpn;
	qp->mtu = path->mtu;
	qp->read_packets = ro_room_packets(path->port, path->mtu);
	qp->acks_unasked = path->acks_unasked;
	qp->ird = (uint16_t)(path->ird < RO_MAX_RD ? path->ird : RO_MAX_RD);
	qp->req.window = RO_WINDOW_FIRST;
	qp->req.alpha = RO_ALPHA;
	qp->req.spacing = 2 * RO_DENSE;
	qp->rsp.epsn = path->epsn;
	if (path->receives)
		ro_qp_set_state(qp, IBV_QPS_RTR);
	else
		ro_qp_sends(qp, path->psn, path->ord, path->retry_limit, path->rnr_limit);
	iw_unlock(&qp->lock);
	return 0;
}

void ro_qp_reap(struct ro_qp *qp)
{
	struct iw_cq *send = iw_cq(qp->qp.send_cq), *recv = iw_cq(qp->qp.recv_cq);
	struct ro_port *port = qp->port;

	if (qp->reaped || !port)
		return;
	qp->reaped = true;
	ro_tick_stop(qp);
	iw_lock(&port->lock);
	list_remove(&qp->more);
	list_remove(&qp->held);
	iw_lock(&qp->lock);
	ro_room_leave(port, qp);
	qp->port = NULL;
	ro_ahead_free(qp);
	iw_unlock(&qp->lock);
	iw_unlock(&port->lock);
	ro_port_detach(port, recv);
	if (send != recv)
		ro_port_detach(port, send);
	ro_port_put(port);
}

void ro_qp_flush(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;
	struct ro_responder *s = &qp->rsp;

	for (; r->tail != r->head; r->tail++) {
		const bool failed = qp->fail_status && r->tail == qp->fail_index;
		const struct ibv_wc wc = {
			.wr_id = ro_sq(qp, r->tail)->wr_id,
			.status = failed ? qp->fail_status : IBV_WC_WR_FLUSH_ERR,
			.opcode = ro_sq(qp, r->tail)->wc_opcode,
			.qp_num = qp->qp.qp_num,
		};

		iw_cq_push(iw_cq(qp->qp.send_cq), &wc, 1, false);
	}
	r->tx = r->fresh = r->head;
	r->high_psn = r->una;
	ro_reads_end(qp, r->reads_head);
	if (qp->in_line)
		ro_room_leave(qp->port, qp);
	for (; s->tail != s->head; s->tail++) {
		const struct ibv_wc wc = {
			.wr_id = s->rq[s->tail & (s->size - 1)].wr_id,
			.status = qp->recv_fail_status ? qp->recv_fail_status : IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.qp_num = qp->qp.qp_num,
		};

		qp->recv_fail_status = 0;	/* for the open message only */
		iw_cq_push(iw_cq(qp->qp.recv_cq), &wc, 1, true);
	}
}

void ro_qp_fail(struct ro_qp *qp, const char *format, ...)
{
	va_list ap;

	if (ro_qp_state(qp) == IBV_QPS_ERR)
		return;
	if (ro_qp_up(qp) && qp->port)
		ro_acknowledge(qp);	/* packets that were taken before the end stay acknowledged */
	va_start(ap, format);
	vsnprintf(qp->reason, sizeof(qp->reason), format, ap);
	va_end(ap);
	ro_qp_set_state(qp, IBV_QPS_ERR);
	if (qp->srq)
		iw_srq_leave(qp->srq, &qp->place);
	ro_qp_flush(qp);
	atomic_store_explicit(&qp->ended, true, memory_order_release);
	if (qp->port)
		iw_helper_call(&qp->caller);
}

const char *ro_qp_reason(struct ro_qp *qp)
{
	return atomic_load_explicit(&qp->ended, memory_order_acquire) ? qp->reason : "";
}

static enum ibv_mtu qp_mtu(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	for (; bytes > RO_MTU_MIN; bytes /= 2)
		mtu++;
	return mtu;
}

int ro_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct ro_qp *qp = ro_qp(ibqp);

	(void)mask;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)ro_qp_state(qp);
	attr->path_mtu = qp_mtu(qp->mtu ? qp->mtu : RO_MTU_MAX);
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->dest_qp_num = qp->dqpn;
	attr->cap = qp->cap;
	attr->max_rd_atomic = (uint8_t)qp->ord;
	attr->max_dest_rd_atomic = (uint8_t)qp->ird;
	attr->port_num = 1;
	attr->qp_access_flags = (unsigned int)qp->access;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->qp_type = IBV_QPT_RC;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}
