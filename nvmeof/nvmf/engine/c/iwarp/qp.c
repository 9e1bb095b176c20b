/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: made, started on a socket, progressed, ended.  Owns the rings.  A queue pair's end is
 * in two parts: iw_qp_fail, on whichever thread met the reason, stops all work and flushes; the
 * helper then closes the socket in order and tells the CM id's owner.
 */
#include "qp.h"
#include "stats.h"
#include "terminate.h"
#include "tx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct iw_turn_calls turn_calls;

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

void iw_qp_free(struct iw_qp *qp)
{
	struct iw_cq *send = iw_cq(qp->qp.send_cq), *recv = iw_cq(qp->qp.recv_cq);

	if (qp->number_prev) {
		iw_windows_release(&qp->windows);
		iw_helper_forget(&qp->caller);
		iw_number_take(qp);
		atomic_fetch_sub(&send->users, 1);
		atomic_fetch_sub(&recv->users, 1);
		iw_pd_ref(qp->qp.pd, -1);
		if (qp->srq)
			iw_srq_ref(qp->srq, -1);
		iw_live.qp--;
	}
	pthread_mutex_destroy(&qp->qp.mutex);
	pthread_cond_destroy(&qp->qp.cond);
	free(qp->sq);
	free(qp->sq_sge);
	free(qp->sq_inline);
	free(qp->rq);
	free(qp->rq_sge);
	free(qp->irq);
	free(qp->rx.carry);
	free(qp->rx.stash);
	free(qp->tx.bounce);
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
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->cap = attr->cap;
	qp->cap.max_send_sge += !qp->cap.max_send_sge;
	qp->cap.max_recv_sge += !qp->cap.max_recv_sge;
	qp->sq_size = pow2(qp->cap.max_send_wr);
	if (attr->srq) {
		qp->srq = (struct iw_srq *)attr->srq;
		qp->cap.max_recv_wr = 1;
		qp->cap.max_recv_sge = iw_srq_max_sge(qp->srq);
	}
	qp->rq_size = pow2(qp->cap.max_recv_wr);
	qp->sq = calloc(qp->sq_size, sizeof(*qp->sq));
	qp->sq_sge = calloc((size_t)qp->sq_size * qp->cap.max_send_sge, sizeof(*qp->sq_sge));
	qp->sq_inline = calloc(qp->sq_size, qp->cap.max_inline_data + !qp->cap.max_inline_data);
	qp->rq = calloc(qp->rq_size, sizeof(*qp->rq));
	qp->rq_sge = calloc((size_t)qp->rq_size * qp->cap.max_recv_sge, sizeof(*qp->rq_sge));
	qp->irq = calloc(IW_MAX_IRD, sizeof(*qp->irq));
	if (!qp->sq || !qp->sq_sge || !qp->sq_inline || !qp->rq || !qp->rq_sge || !qp->irq) {
		iw_qp_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	qp->fd = -1;
	qp->turns[0] = (struct iw_turn){ iw_cq(attr->recv_cq), &turn_calls, qp, .fd = -1 };
	qp->turns[1] = (struct iw_turn){ iw_cq(attr->send_cq), &turn_calls, qp, .fd = -1 };
	qp->windows.lock = &qp->lock;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->recv_pd = attr->srq ? attr->srq->pd : pd;
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
	atomic_fetch_add(&iw_cq(attr->send_cq)->users, 1);
	atomic_fetch_add(&iw_cq(attr->recv_cq)->users, 1);
	iw_pd_ref(pd, 1);
	if (qp->srq)
		iw_srq_ref(qp->srq, 1);
	iw_live.qp++;
	attr->cap = qp->cap;
	return qp;
}

static void set_state(struct iw_qp *qp, enum ibv_qp_state state)
{
	atomic_store(&qp->state, state);
	__atomic_store_n(&qp->qp.state, state, __ATOMIC_RELAXED);
}

int iw_qp_start(struct iw_qp *qp, int fd, bool crc, bool initiator, unsigned int ird,
		unsigned int ord)
{
	iw_lock(&qp->lock);
	qp->fd = fd;
	qp->crc = crc;
	qp->initiator = initiator;
	qp->ird = (uint16_t)(ird > IW_MAX_IRD ? IW_MAX_IRD : ird);
	qp->ord = (uint16_t)(ord > IW_MAX_IRD ? IW_MAX_IRD : ord);
	qp->rx.send_msn = qp->rx.read_msn = 1;
	qp->tx.hold = !initiator;
	do
		qp->sink_stag = iw_random32();
	while (qp->sink_stag <= MPA_RTR_READ_STAG);
	if (crc) {
		qp->tx.bounce = malloc(TX_BOUNCE);
		qp->rx.carry = malloc(FPDU_MAX);
	}

	bool ok = !crc || (qp->tx.bounce && qp->rx.carry);

	iw_unlock(&qp->lock);
	/* in this order: a CQ's lock is taken before a queue pair's */
	if (!ok || iw_turn_attach(&qp->turns[0], fd))
		return -1;
	if (qp->qp.send_cq != qp->qp.recv_cq && iw_turn_attach(&qp->turns[1], fd)) {
		iw_turn_detach(&qp->turns[0]);
		return -1;
	}
	iw_lock(&qp->lock);
	set_state(qp, IBV_QPS_RTS);
	iw_unlock(&qp->lock);
	return 0;
}

void iw_qp_detach(struct iw_qp *qp)
{
	iw_turn_detach(&qp->turns[0]);
	if (qp->qp.send_cq != qp->qp.recv_cq)
		iw_turn_detach(&qp->turns[1]);
}

/* Everything outstanding completes; what had been posted is not touched again. */
void iw_qp_flush(struct iw_qp *qp)
{
	for (; qp->sq_tail != qp->sq_head; qp->sq_tail++) {
		struct iw_swr *wr = iw_sq(qp, qp->sq_tail);
		bool failed = qp->sq_fail_status && qp->sq_tail == qp->sq_fail_index;

		iw_wc_send(qp, wr, failed ? qp->sq_fail_status : IBV_WC_WR_FLUSH_ERR);
	}
	qp->sq_tx = qp->sq_head;
	for (; qp->rq_tail != qp->rq_head; qp->rq_tail++) {
		bool failed = qp->rq_fail_status && qp->rq_tail == qp->rq_fail_index;
		struct ibv_wc wc = {
			.wr_id = qp->rq[qp->rq_tail & (qp->rq_size - 1)].wr_id,
			.status = failed ? qp->rq_fail_status : IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.qp_num = qp->qp.qp_num,
		};

		iw_cq_push(iw_cq(qp->qp.recv_cq), &wc, 1, true);
	}
}

/*
 * The TERMINATE, and before it what the socket still lacks of the FPDU that it took a part of: RDMAP sends
 * nothing else after an error (RFC 5040, section 5.4.5), but MPA delimits the TERMINATE only behind a whole
 * FPDU (RFC 5044, section 4).
 */
static void last_words(struct iw_qp *qp, uint16_t term, const uint8_t *hdr)
{
	size_t room = TERM_FPDU_MAX + (qp->tx.part || qp->tx.bounce_len ? (size_t)FPDU_MAX : 0);
	uint8_t *buf = malloc(room);

	if (!buf)
		return;

	uint32_t rest = iw_tx_rest(qp, buf);

	if (rest == UINT32_MAX) {	/* cannot be finished, so nothing can follow */
		free(buf);
		return;
	}
	qp->last_words = buf;
	qp->last_len = rest + iw_term_build(buf + rest, term, hdr, qp->crc);
	iw_stats.terminates_sent++;
}

void iw_qp_fail(struct iw_qp *qp, uint16_t term, const uint8_t *hdr, const char *format, ...)
{
	char text[96], why[112] = "";

	if (atomic_load(&qp->state) == IBV_QPS_ERR)
		return;
	if (format) {
		va_list ap;

		va_start(ap, format);
		vsnprintf(why, sizeof(why), format, ap);
		va_end(ap);
	}
	if (term == TERM_NONE) {
		snprintf(qp->reason, sizeof(qp->reason), "%s", why);
	} else {
		iw_term_text(term, text, sizeof(text));
		snprintf(qp->reason, sizeof(qp->reason), "sent TERMINATE %.90s%s%s", text,
			 *why ? ": " : "", why);
		if (qp->fd >= 0)
			last_words(qp, term, hdr);
	}
	set_state(qp, IBV_QPS_ERR);
	if (qp->srq)
		iw_srq_leave(qp);
	iw_qp_flush(qp);
	atomic_store_explicit(&qp->ended, true, memory_order_release);
	if (qp->fd >= 0)
		iw_helper_attention(qp);
}

const char *iw_qp_reason(struct iw_qp *qp)
{
	return atomic_load_explicit(&qp->ended, memory_order_acquire) ? qp->reason : "";
}

static struct iw_visit qp_visit(struct iw_qp *qp, uint8_t *staging, bool try_only, bool to_end)
{
	struct iw_epoch *section = try_only ? iw_section_trylock(&qp->lock) : iw_section_lock(&qp->lock);
	struct iw_visit v = { 0 };
	int state;

	if (!section)
		return (struct iw_visit){ .more = true };
	state = atomic_load_explicit(&qp->state, memory_order_relaxed);
	if (state == IBV_QPS_RTS) {
		if (qp->tx.blocked)
			iw_tx_run(qp);
	}
	state = atomic_load_explicit(&qp->state, memory_order_relaxed);	/* to send may have failed */
	if (state == IBV_QPS_RTS) {
		v.bytes = iw_rx_run(qp, staging, to_end, &v.more);
		if (qp->tx_due) {
			qp->tx_due = false;
			if (!qp->tx.blocked)
				iw_tx_run(qp);
		}
		v.more |= qp->tx.yielded;
		qp->tx.yielded = false;
		state = atomic_load_explicit(&qp->state, memory_order_relaxed);
	} else if (state != IBV_QPS_ERR) {
		v.more = true;	/* attached, about to be started */
	}
	v.ended = state == IBV_QPS_ERR;
	iw_section_unlock(section, &qp->lock);
	return v;
}

static struct iw_visit qp_turn_visit(void *qp, uint8_t *staging, bool to_end)
{
	return qp_visit(qp, staging, true, to_end);
}

int iw_qp_progress(struct iw_qp *qp, uint8_t *staging, bool try_only)
{
	struct iw_visit v = qp_visit(qp, staging, try_only, false);

	/* the CQs' edges may have been for what is left */
	if (v.more && !v.ended)
		iw_qp_stir(qp);
	return v.ended ? -1 : v.bytes;
}

void iw_qp_stir(struct iw_qp *qp)
{
	iw_turn_stir(&qp->turns[0], qp->fd);
	if (qp->qp.send_cq != qp->qp.recv_cq)
		iw_turn_stir(&qp->turns[1], qp->fd);
}

void iw_helper_attention(struct iw_qp *qp)
{
	iw_helper_call(&qp->caller);
}

void iw_qp_wake(struct iw_qp *qp)
{
	iw_qp_stir(qp);
	if (atomic_load_explicit(&qp->watch, memory_order_relaxed) == IW_WATCH_ASLEEP)
		iw_helper_attention(qp);
}

void iw_qp_hangup(struct iw_qp *qp)
{
	iw_lock(&qp->lock);
	if (qp->rx.waits && atomic_load(&qp->state) == IBV_QPS_RTS)
		iw_qp_fail(qp, TERM_NONE, NULL, "the connection was lost while a receive was waited for");
	iw_unlock(&qp->lock);
}

static void qp_turn_hangup(void *qp)
{
	iw_qp_hangup(qp);
}

static const struct iw_turn_calls turn_calls = { qp_turn_visit, qp_turn_hangup };

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
	attr->cap = qp->cap;
	attr->max_rd_atomic = (uint8_t)qp->ord;
	attr->max_dest_rd_atomic = (uint8_t)qp->ird;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
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
		/* the CM makes all the other transitions; asking for where it is, is granted */
		return (int)attr->qp_state == atomic_load(&qp->state) ? 0 : EINVAL;
	}
	iw_lock(&qp->lock);
	iw_qp_fail(qp, TERM_NONE, NULL, "this side put the queue pair into the error state");
	iw_unlock(&qp->lock);
	return 0;
}
