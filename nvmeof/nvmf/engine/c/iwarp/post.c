/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work: checks a list of work requests, copies it into the rings and has it sent at once.
 * Also the completion side of the send queue.  Runs on the application's threads, under qp->lock.
 */
#include "iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
	MSS_MIN = 256,
	MULPDU_LASTS = 256,		/* messages until the MSS is asked for again */
};

/*
 * The largest ULPDU that fits into one TCP segment without markers (RFC 5044, section 4.1), as the
 * connection's effective MSS is now.  Over loopback that is beyond IW_SEGMENT.
 */
static uint32_t post_mulpdu(const struct iw_qp *qp)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	if (getsockopt(qp->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) || mss < MSS_MIN)
		return UINT32_MAX;	/* of no TCP, or one that says nothing */
	return (uint32_t)mss - FPDU_LEN - FPDU_CRC - (uint32_t)mss % 4;
}

uint32_t iw_segment(struct iw_qp *qp, uint32_t len, uint32_t hdr_len)
{
	if (!qp->tx.mulpdu_left--) {	/* a path may change */
		qp->tx.mulpdu = post_mulpdu(qp);
		qp->tx.mulpdu_left = MULPDU_LASTS;
	}
	hdr_len -= FPDU_LEN;
	if (qp->tx.mulpdu < IW_SEGMENT + hdr_len)
		return qp->tx.mulpdu - hdr_len;
	if (len <= IW_SEGMENT)
		return IW_SEGMENT;

	/* equal parts, whole pages: a last segment of a few bytes would cost as much as a full one */
	uint32_t n = (len + IW_SEGMENT - 1) / IW_SEGMENT;

	return ((len + n - 1) / n + 4095) & ~4095u;
}

static struct ibv_wc wc_of(const struct iw_qp *qp, const struct iw_swr *wr,
			   enum ibv_wc_status status)
{
	return (struct ibv_wc){
		.wr_id = wr->wr_id,
		.status = status,
		.opcode = wr->wc_opcode,
		.byte_len = wr->len,
		.qp_num = qp->qp.qp_num,
	};
}

void iw_wc_send(struct iw_qp *qp, const struct iw_swr *wr, enum ibv_wc_status status)
{
	struct ibv_wc wc = wc_of(qp, wr, status);

	iw_cq_push(iw_cq(qp->qp.send_cq), &wc, 1, false);
}

/* Complete what is done, in order: a READ without its data holds back what was posted after it. */
void iw_sq_sweep(struct iw_qp *qp)
{
	struct ibv_wc wc[16];
	unsigned int n = 0;

	while (qp->sq_tail != qp->sq_tx) {
		const struct iw_swr *wr = iw_sq(qp, qp->sq_tail);

		if (!wr->done)
			break;
		if (wr->signaled)
			wc[n++] = wc_of(qp, wr, IBV_WC_SUCCESS);
		qp->sq_tail++;
		if (n == 16) {
			iw_cq_push(iw_cq(qp->qp.send_cq), wc, n, false);
			n = 0;
		}
	}
	if (n)
		iw_cq_push(iw_cq(qp->qp.send_cq), wc, n, false);
}

/* The list into the ring, and the sum of its lengths. */
int iw_take_sges(struct ibv_sge *to, const struct ibv_sge *from, int num, uint32_t *len)
{
	uint64_t sum = 0;

	for (int i = 0; i < num; i++) {
		to[i] = from[i];
		sum += from[i].length;
	}
	if (sum > 0x80000000u)
		return EINVAL;
	*len = (uint32_t)sum;
	return 0;
}

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

static int post_one(struct iw_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t i = qp->sq_head;
	size_t slot = i & (qp->sq_size - 1);
	struct iw_swr *w = &qp->sq[slot];
	int num_sge = wr->opcode == IBV_WR_BIND_MW ? 0 : wr->num_sge;

	if (i - qp->sq_tail >= qp->cap.max_send_wr)
		return ENOMEM;
	if (num_sge < 0 || (uint32_t)num_sge > qp->cap.max_send_sge ||
	    iw_take_sges(qp->sq_sge + slot * qp->cap.max_send_sge, wr->sg_list, num_sge, &w->len))
		return EINVAL;
	w->placed = 0;
	if (set_opcode(w, wr))
		return EINVAL;
	if (!(w->rdmap & IW_OP_LOCAL))
		w->seg = iw_segment(qp, w->len, w->rdmap == RDMAP_WRITE ? FPDU_TAGGED : FPDU_UNTAGGED);
	w->wr_id = wr->wr_id;
	w->signaled = qp->sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	w->fence = wr->send_flags & IBV_SEND_FENCE;
	w->inline_data = false;
	w->stable = (wr->send_flags & IW_SEND_STABLE) || w->rdmap == RDMAP_READ_REQ || !w->len;
	w->done = false;
	w->num_sge = (uint16_t)num_sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint8_t *to = qp->sq_inline + slot * qp->cap.max_inline_data;

		if (w->len > qp->cap.max_inline_data || w->rdmap == RDMAP_READ_REQ)
			return EINVAL;
		for (int k = 0; k < num_sge; k++) {
			if (wr->sg_list[k].length)
				memcpy(to, (const void *)(uintptr_t)wr->sg_list[k].addr,
				       wr->sg_list[k].length);
			to += wr->sg_list[k].length;
		}
		w->inline_data = w->stable = true;
	}
	if (w->wc_opcode == IBV_WC_SEND)
		w->msn = ++qp->tx.send_msn;
	else if (w->rdmap == RDMAP_READ_REQ)
		w->msn = ++qp->tx.read_msn;
	qp->sq_head = i + 1;
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
		rc = post_one(qp, wr);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	if (state == IBV_QPS_ERR)
		iw_qp_flush(qp);
	else if (!qp->tx.blocked)
		iw_tx_run(qp);
	if (qp->tx.yielded) {	/* who comes back to it is whoever polls */
		qp->tx.yielded = false;
		if (qp->fd >= 0)
			iw_qp_stir(qp);
	}
	iw_section_unlock(section, &qp->lock);
	return rc;
}

static int post_recv_one(struct iw_qp *qp, const struct ibv_recv_wr *wr)
{
	uint32_t slot = qp->rq_head & (qp->rq_size - 1);
	struct iw_rwr *w = &qp->rq[slot];

	if (qp->srq)
		return EINVAL;
	if (qp->rq_head - qp->rq_tail >= qp->cap.max_recv_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge ||
	    iw_take_sges(qp->rq_sge + (size_t)slot * qp->cap.max_recv_sge, wr->sg_list, wr->num_sge,
		      &w->len))
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->num_sge = (uint32_t)wr->num_sge;
	qp->rq_head++;
	return 0;
}

int iw_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct iw_qp *qp = iw_qp(ibqp);
	int rc = 0;

	iw_lock(&qp->lock);
	while (wr && !rc) {
		rc = post_recv_one(qp, wr);
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
