/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: created, started on a socket, queried.  Owns the rings.  Control threads, and the helper. */
#include "qp.h"
#include "stats.h"
#include "tx.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

void iw_qp_free(struct iw_qp *qp)
{
	struct iw_stream *s = &qp->stream;
	struct iw_cq *send = iw_cq(qp->qp.send_cq), *recv = iw_cq(qp->qp.recv_cq);

	if (qp->number_prev) {
		iw_windows_release(&qp->stream.windows);
		iw_helper_forget(&qp->caller);
		iw_number_take(qp);
		atomic_fetch_sub(&send->users, 1);
		atomic_fetch_sub(&recv->users, 1);
		iw_pd_ref(qp->qp.pd, -1);
		if (qp->stream.srq)
			iw_srq_ref(qp->stream.srq, -1);
		iw_live.qp--;
	}
	pthread_mutex_destroy(&qp->qp.mutex);
	pthread_cond_destroy(&qp->qp.cond);
	free(s->sq);
	free(s->sq_sge);
	free(s->sq_inline);
	free(s->rq);
	free(s->rq_sge);
	free(s->irq);
	free(s->rx.carry);
	free(s->rx.stash);
	free(s->tx.bounce);
	free(qp->last_words);
	free(qp);
}

static bool caps_ok(const struct ibv_qp_cap *c)
{
	return c->max_send_wr <= IW_MAX_WR && c->max_recv_wr <= IW_MAX_WR &&
	       c->max_send_sge <= IW_MAX_SGE && c->max_recv_sge <= IW_MAX_SGE &&
	       c->max_inline_data <= IW_MAX_INLINE;
}

struct iw_qp *iw_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!pd || !attr->send_cq || !attr->recv_cq || !caps_ok(&attr->cap) ||
	    (attr->qp_type != IBV_QPT_RC && attr->qp_type != 0)) {
		errno = EINVAL;
		return NULL;
	}

	struct iw_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;

	struct iw_stream *s = &qp->stream;

	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	s->cap = attr->cap;
	s->cap.max_send_sge += !s->cap.max_send_sge;
	s->cap.max_recv_sge += !s->cap.max_recv_sge;
	s->sq_size = pow2(s->cap.max_send_wr);
	if (attr->srq) {
		s->srq = (struct iw_srq *)attr->srq;
		s->cap.max_recv_wr = 1;
		s->cap.max_recv_sge = iw_srq_max_sge(s->srq);
	}
	s->rq_size = pow2(s->cap.max_recv_wr);
	s->sq = calloc(s->sq_size, sizeof(*s->sq));
	s->sq_sge = calloc((size_t)s->sq_size * s->cap.max_send_sge, sizeof(*s->sq_sge));
	s->sq_inline = calloc(s->sq_size, s->cap.max_inline_data + !s->cap.max_inline_data);
	s->rq = calloc(s->rq_size, sizeof(*s->rq));
	s->rq_sge = calloc((size_t)s->rq_size * s->cap.max_recv_sge, sizeof(*s->rq_sge));
	s->irq = calloc(IW_MAX_IRD, sizeof(*s->irq));
	if (!s->sq || !s->sq_sge || !s->sq_inline || !s->rq || !s->rq_sge || !s->irq) {
		iw_qp_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	s->fd = -1;
	qp->turns[0] = (struct iw_turn){ iw_cq(attr->recv_cq), &iw_qp_turn_calls, qp, .fd = -1 };
	qp->turns[1] = (struct iw_turn){ iw_cq(attr->send_cq), &iw_qp_turn_calls, qp, .fd = -1 };
	s->windows.lock = &qp->lock;
	s->place.wake = iw_qp_wake;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	s->pd = pd;
	qp->qp.pd = pd;
	s->recv_pd = attr->srq ? attr->srq->pd : pd;
	qp->qp.srq = attr->srq;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_type = IBV_QPT_RC;
	qp->qp.state = IBV_QPS_INIT;
	atomic_store(&qp->state, IBV_QPS_INIT);
	if (iw_number_give(qp)) {
		iw_qp_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	s->qp_num = qp->qp.qp_num;
	atomic_fetch_add(&iw_cq(attr->send_cq)->users, 1);
	atomic_fetch_add(&iw_cq(attr->recv_cq)->users, 1);
	iw_pd_ref(pd, 1);
	if (s->srq)
		iw_srq_ref(s->srq, 1);
	iw_live.qp++;
	attr->cap = s->cap;
	return qp;
}

int iw_qp_start(struct iw_qp *qp, int fd, bool crc, bool initiator, unsigned int ird,
		unsigned int ord)
{
	struct iw_stream *s = &qp->stream;

	iw_lock(&qp->lock);
	s->fd = fd;
	s->crc = crc;
	qp->initiator = initiator;
	s->ird = (uint16_t)(ird > IW_MAX_IRD ? IW_MAX_IRD : ird);
	s->ord = (uint16_t)(ord > IW_MAX_IRD ? IW_MAX_IRD : ord);
	s->rx.send_msn = s->rx.read_msn = 1;
	s->tx.hold = !initiator;
	do
		s->sink_stag = iw_random32();
	while (s->sink_stag <= MPA_RTR_READ_STAG);
	if (crc) {
		s->tx.bounce = malloc(TX_BOUNCE);
		s->rx.carry = malloc(FPDU_MAX);
	}

	bool ok = !crc || (s->tx.bounce && s->rx.carry);

	iw_unlock(&qp->lock);
	/* in this order: a CQ's lock is taken before a queue pair's */
	if (!ok || iw_turn_attach(&qp->turns[0], fd))
		return -1;
	if (qp->qp.send_cq != qp->qp.recv_cq && iw_turn_attach(&qp->turns[1], fd)) {
		iw_turn_detach(&qp->turns[0]);
		return -1;
	}
	iw_lock(&qp->lock);
	iw_qp_set_state(qp, IBV_QPS_RTS);
	iw_unlock(&qp->lock);
	return 0;
}

void iw_qp_detach(struct iw_qp *qp)
{
	iw_turn_detach(&qp->turns[0]);
	if (qp->qp.send_cq != qp->qp.recv_cq)
		iw_turn_detach(&qp->turns[1]);
}

int iw_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init)
{
	struct iw_qp *qp = iw_qp(ibqp);

	(void)mask;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)atomic_load(&qp->state);
	attr->path_mtu = IBV_MTU_4096;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->cap = qp->stream.cap;
	attr->max_rd_atomic = (uint8_t)qp->stream.ord;
	attr->max_dest_rd_atomic = (uint8_t)qp->stream.ird;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->stream.cap;
	init->qp_type = IBV_QPT_RC;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}

int iw_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct iw_qp *qp = iw_qp(ibqp);

	if (!(mask & IBV_QP_STATE))
		return mask ? EOPNOTSUPP : 0;
	if (attr->qp_state != IBV_QPS_ERR) {
		/* the CM makes all other transitions; a transition to the current state succeeds */
		return (int)attr->qp_state == atomic_load(&qp->state) ? 0 : EINVAL;
	}
	iw_lock(&qp->lock);
	/* an abortive end, unlike rdma_disconnect: unsent data is dropped */
	qp->cut |= iw_qp_state(qp) == IBV_QPS_RTS;
	iw_qp_fail(qp, TERM_NONE, NULL, "this side put the queue pair into the error state");
	iw_unlock(&qp->lock);
	return 0;
}
