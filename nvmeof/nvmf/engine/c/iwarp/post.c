/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work: checks a list of work requests, copies it into the rings and sends it at once. Runs on the
 * application's threads, under qp->lock.
 */
#include "qp.h"
#include "util/fetch.h"

#include <errno.h>

static int set_bind(struct iw_swr *w, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	const struct ibv_mw *mw = wr->bind_mw.mw;

	if (!info->mr || mw->type != IBV_MW_TYPE_2 || (mw->rkey ^ wr->bind_mw.rkey) >> 8)
		return EINVAL;
	w->wc_opcode = IBV_WC_BIND_MW;
	w->rdmap = IW_OP_BIND;
	w->inval = wr->bind_mw.rkey;
	w->rkey = info->mr->lkey;
	w->raddr = info->addr;
	w->bind_len = info->length;
	w->bind_access = (int)(info->mw_access_flags & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE);
	return 0;
}

static int set_opcode(struct iw_swr *w, const struct ibv_send_wr *wr)
{
	bool se = wr->send_flags & IBV_SEND_SOLICITED;

	w->inval = 0;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		w->wc_opcode = IBV_WC_SEND;
		w->rdmap = se ? RDMAP_SEND_SE : RDMAP_SEND;
		return 0;
	case IBV_WR_SEND_WITH_INV:
		w->wc_opcode = IBV_WC_SEND;
		w->rdmap = se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
		w->inval = wr->invalidate_rkey;
		return 0;
	case IBV_WR_RDMA_WRITE:
		w->wc_opcode = IBV_WC_RDMA_WRITE;
		w->rdmap = RDMAP_WRITE;
		break;
	case IBV_WR_RDMA_READ:
		w->wc_opcode = IBV_WC_RDMA_READ;
		w->rdmap = RDMAP_READ_REQ;
		break;
	case IBV_WR_LOCAL_INV:
		w->wc_opcode = IBV_WC_LOCAL_INV;
		w->rdmap = IW_OP_LOCAL_INV;
		w->inval = wr->invalidate_rkey;
		return 0;
	case IBV_WR_BIND_MW:
		return set_bind(w, wr);
	default:
		return EINVAL;
	}
	w->raddr = wr->wr.rdma.remote_addr;
	w->rkey = wr->wr.rdma.rkey;
	return 0;
}

static int post_one(struct iw_stream *s, const struct ibv_send_wr *wr, bool signaled)
{
	uint32_t i = s->sq_head;
	size_t slot = i & (s->sq_size - 1);
	struct iw_swr *w = &s->sq[slot];
	int num_sge = wr->opcode == IBV_WR_BIND_MW ? 0 : wr->num_sge;

	if (i - s->sq_tail >= s->cap.max_send_wr)
		return ENOMEM;
	if (num_sge < 0 || (uint32_t)num_sge > s->cap.max_send_sge ||
	    iw_take_sges(iw_sq_sge(s, i), wr->sg_list, num_sge, &w->len))
		return EINVAL;
	w->placed = 0;
	if (set_opcode(w, wr))
		return EINVAL;
	if (!(w->rdmap & IW_OP_LOCAL))
		w->seg = iw_segment(s, w->len, w->rdmap == RDMAP_WRITE ? FPDU_TAGGED : FPDU_UNTAGGED);
	w->wr_id = wr->wr_id;
	w->signaled = signaled || (wr->send_flags & IBV_SEND_SIGNALED);
	w->fence = wr->send_flags & IBV_SEND_FENCE;
	w->inline_data = false;
	w->stable = (wr->send_flags & IW_SEND_STABLE) || w->rdmap == RDMAP_READ_REQ || !w->len;
	w->done = false;
	w->num_sge = (uint16_t)num_sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint8_t *to = s->sq_inline + slot * s->cap.max_inline_data;

		if (w->len > s->cap.max_inline_data || w->rdmap == RDMAP_READ_REQ)
			return EINVAL;
		for (int k = 0; k < num_sge; k++) {
			if (wr->sg_list[k].length)
				memcpy(to, (const void *)(uintptr_t)wr->sg_list[k].addr,
				       wr->sg_list[k].length);
			to += wr->sg_list[k].length;
		}
		w->inline_data = w->stable = true;
	}
	if (w->rdmap == RDMAP_WRITE && num_sge && !w->inline_data)
		fetch_to_send((const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length, FETCH_THIRD);
	if (w->wc_opcode == IBV_WC_SEND)
		w->msn = ++s->tx.send_msn;
	else if (w->rdmap == RDMAP_READ_REQ)
		w->msn = ++s->tx.read_msn;
	s->sq_head = i + 1;
	return 0;
}

int iw_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct iw_qp *qp = iw_qp(ibqp);
	struct iw_epoch *section = iw_section_lock(&qp->lock);
	int rc = 0;
	int state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	if (state != IBV_QPS_RTS && state != IBV_QPS_ERR)
		rc = EINVAL;
	while (wr && !rc) {
		rc = post_one(&qp->stream, wr, qp->sq_sig_all);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	if (state == IBV_QPS_ERR)
		iw_qp_flush(qp);
	else if (!qp->stream.tx.blocked)
		iw_qp_send(qp);
	if (qp->stream.tx.yielded) {	/* the polling thread continues to send */
		qp->stream.tx.yielded = false;
		if (qp->stream.fd >= 0)
			iw_qp_stir(qp);
	}
	iw_section_unlock(section, &qp->lock);
	return rc;
}

static int post_recv_one(struct iw_stream *s, const struct ibv_recv_wr *wr)
{
	uint32_t slot = s->rq_head & (s->rq_size - 1);
	struct iw_rwr *w = &s->rq[slot];

	if (s->srq)
		return EINVAL;
	if (s->rq_head - s->rq_tail >= s->cap.max_recv_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->cap.max_recv_sge ||
	    iw_take_sges(s->rq_sge + (size_t)slot * s->cap.max_recv_sge, wr->sg_list, wr->num_sge,
		      &w->len))
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->num_sge = (uint32_t)wr->num_sge;
	s->rq_head++;
	return 0;
}

int iw_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct iw_qp *qp = iw_qp(ibqp);
	int rc = 0;

	iw_lock(&qp->lock);
	while (wr && !rc) {
		rc = post_recv_one(&qp->stream, wr);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_ERR)
		iw_qp_flush(qp);
	iw_unlock(&qp->lock);
	return rc;
}
