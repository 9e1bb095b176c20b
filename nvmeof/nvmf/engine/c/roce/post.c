/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work: checks a list of work requests, copies it into the rings and sends it at once.  Runs on the
 * application's threads, under the lock of the queue pair.
 */
#include "qp.h"
#include "util/fetch.h"

static int set_bind(struct ro_swr *w, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	const struct ibv_mw *mw = wr->bind_mw.mw;

	if (!info->mr || mw->type != IBV_MW_TYPE_2 || (mw->rkey ^ wr->bind_mw.rkey) >> 8)
		return EINVAL;
	w->wc_opcode = IBV_WC_BIND_MW;
	w->bind = true;
	w->imm = wr->bind_mw.rkey;
	w->rkey = info->mr->lkey;
	w->raddr = info->addr;
	w->bind_len = info->length;
	w->bind_access = (int)(info->mw_access_flags & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE);
	return 0;
}

static int set_atomic(struct ro_swr *w, const struct ibv_send_wr *wr)
{
	w->kind = RO_ATOMIC;
	w->adds = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	w->wc_opcode = w->adds ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP;
	w->raddr = wr->wr.atomic.remote_addr;
	w->rkey = wr->wr.atomic.rkey;
	w->swap = w->adds ? wr->wr.atomic.compare_add : wr->wr.atomic.swap;
	w->compare = w->adds ? 0 : wr->wr.atomic.compare_add;
	return w->len == RO_ATOMIC_SIZE ? 0 : EINVAL;
}

static int set_flush(struct ro_swr *w, const struct ibv_send_wr *wr)
{
	const uint64_t feth = wr->wr.atomic.swap, length = wr->wr.atomic.compare_add;
	const uint64_t type = feth & RO_FETH_PLT, level = feth >> RO_FETH_SEL_SHIFT;

	w->kind = RO_FLUSH;
	w->wc_opcode = VERBS_WC_FLUSH;
	w->raddr = wr->wr.atomic.remote_addr;
	w->rkey = wr->wr.atomic.rkey;
	w->feth = (uint32_t)feth;
	w->flush_len = (uint32_t)length;
	if (w->len || length > UINT32_MAX || !type || type > (RO_PLT_GLOBAL | RO_PLT_PERSISTENT) || level > RO_SEL_MR)
		return EINVAL;
	return 0;
}

static int set_opcode(struct ro_swr *w, const struct ibv_send_wr *wr)
{
	if ((int)wr->opcode == VERBS_WR_FLUSH)
		return set_flush(w, wr);
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_INV:
		w->invalidates = true;
		w->imm = wr->invalidate_rkey;
		break;
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w->has_imm = true;
		w->imm = __builtin_bswap32(wr->imm_data);
		break;
	case IBV_WR_LOCAL_INV:
		w->wc_opcode = IBV_WC_LOCAL_INV;
		w->imm = wr->invalidate_rkey;
		return 0;
	case IBV_WR_BIND_MW:
		return set_bind(w, wr);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return set_atomic(w, wr);
	default:
		break;
	}
	w->raddr = wr->wr.rdma.remote_addr;
	w->rkey = wr->wr.rdma.rkey;
	if ((int)wr->opcode == VERBS_WR_ATOMIC_WRITE) {
		w->kind = RO_ATOMIC_WRITE;
		w->wc_opcode = VERBS_WC_ATOMIC_WRITE;
		return w->len == RO_ATOMIC_SIZE && !(w->raddr % RO_ATOMIC_SIZE) ? 0 : EINVAL;
	}
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		w->kind = RO_SEND;
		w->wc_opcode = IBV_WC_SEND;
		return 0;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w->kind = RO_WRITE;
		w->wc_opcode = IBV_WC_RDMA_WRITE;
		return 0;
	case IBV_WR_RDMA_READ:
		w->kind = RO_READ;
		w->wc_opcode = IBV_WC_RDMA_READ;
		return 0;
	default:
		return EINVAL;
	}
}

static int post_one(struct ro_qp *qp, const struct ibv_send_wr *wr)
{
	struct ro_requester *r = &qp->req;
	const size_t slot = r->head & (r->size - 1);
	struct ro_swr w = { .wr_id = wr->wr_id };
	int num_sge = wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV ? 0 : wr->num_sge;

	if (r->head - r->tail >= qp->cap.max_send_wr)
		return ENOMEM;
	if (num_sge < 0 || (uint32_t)num_sge > qp->cap.max_send_sge ||
	    iw_take_sges(r->sge + slot * qp->cap.max_send_sge, wr->sg_list, num_sge, &w.len) ||
	    set_opcode(&w, wr))
		return EINVAL;
	w.num_sge = (uint16_t)num_sge;
	w.signaled = qp->sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	w.fence = wr->send_flags & IBV_SEND_FENCE;
	w.solicited = (wr->send_flags & IBV_SEND_SOLICITED) && (w.kind == RO_SEND || w.has_imm);
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint8_t *to = r->data + slot * qp->cap.max_inline_data;

		if (w.len > qp->cap.max_inline_data || w.kind == RO_READ || w.kind == RO_ATOMIC)
			return EINVAL;
		for (int k = 0; k < num_sge; k++) {
			if (wr->sg_list[k].length)
				memcpy(to, (const void *)(uintptr_t)wr->sg_list[k].addr, wr->sg_list[k].length);
			to += wr->sg_list[k].length;
		}
		w.inline_data = true;
	}
	if (w.kind == RO_WRITE && num_sge && !w.inline_data) {
		fetch_to_send((const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length, FETCH_THIRD);
		fetch_to_send((const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length, FETCH_FOURTH);
	}
	r->sq[slot] = w;
	r->head++;
	return 0;
}

int ro_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ro_qp *qp = ro_qp(ibqp);
	struct iw_epoch *section = iw_section_lock(&qp->lock);
	const int state = ro_qp_state(qp);
	int rc = state == IBV_QPS_RTS || state == IBV_QPS_ERR ? 0 : EINVAL;

	while (wr && !rc) {
		rc = post_one(qp, wr);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	if (state == IBV_QPS_ERR) {
		ro_qp_flush(qp);
	} else if (state == IBV_QPS_RTS) {
		struct ro_burst b;

		ro_burst_begin(&b, qp);
		ro_send(qp, &b);
		if (ro_qp_state(qp) == IBV_QPS_RTS) {
			ro_acknowledge_along(qp, &b);
			ro_burst_send(&b);
		}
	}
	iw_section_unlock(section, &qp->lock);
	return rc;
}

static int post_recv_one(struct ro_qp *qp, const struct ibv_recv_wr *wr)
{
	struct ro_responder *r = &qp->rsp;
	const uint32_t slot = r->head & (r->size - 1);
	struct iw_rwr *w = &r->rq[slot];

	if (qp->srq)
		return EINVAL;
	if (r->head - r->tail >= qp->cap.max_recv_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge ||
	    iw_take_sges(r->sge + (size_t)slot * qp->cap.max_recv_sge, wr->sg_list, wr->num_sge, &w->len))
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->num_sge = (uint32_t)wr->num_sge;
	r->head++;
	return 0;
}

int ro_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ro_qp *qp = ro_qp(ibqp);
	int rc = 0;

	iw_lock(&qp->lock);
	while (wr && !rc) {
		rc = post_recv_one(qp, wr);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	if (ro_qp_state(qp) == IBV_QPS_ERR)
		ro_qp_flush(qp);
	iw_unlock(&qp->lock);
	return rc;
}
