/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue and the answers to the peer's READs as FPDUs: headers and small payloads into a buffer,
 * everything else by reference to the application's memory.  Segmentation depends on nothing but the work
 * request, so that an FPDU cut by a full socket is built again to the same bytes.
 * Runs under qp->lock, on whichever thread posts or polls.
 */
#include "crc32c.h"
#include "tx.h"

static void add(struct tx_batch *b, const void *p, uint32_t n)
{
	if (b->niov) {
		struct iovec *last = &b->iov[b->niov - 1];

		if ((const uint8_t *)last->iov_base + last->iov_len == p) {
			last->iov_len += n;
			return;
		}
	}
	b->iov[b->niov++] = (struct iovec){ (void *)(uintptr_t)p, n };
}

static uint8_t *scratch(struct tx_batch *b, uint32_t n)
{
	uint8_t *p = b->buf + b->len;

	b->len += n;
	add(b, p, n);
	return p;
}

int iw_sge_iov(const struct iw_qp *qp, const struct ibv_sge *sge, uint32_t num_sge, uint64_t off,
	       uint32_t len, int access, struct iovec *iov, enum iw_access *err)
{
	int n = 0;

	for (uint32_t i = 0; i < num_sge && len; i++) {
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}

		uint32_t part = sge[i].length - (uint32_t)off;

		if (part > len)
			part = len;
		*err = iw_mr_check(qp->qp.pd, sge[i].lkey, sge[i].addr + off, part, access);
		if (*err != IW_OK)
			return -1;
		iov[n++] = (struct iovec){ (void *)(uintptr_t)(sge[i].addr + off), part };
		len -= part;
		off = 0;
	}
	return n;
}

/* The payload's pieces in memory. */
static int payload_iov(struct iw_qp *qp, struct tx_batch *b, enum iw_kind kind, uint32_t len,
		       struct iovec *iov)
{
	if (!len)
		return 0;
	if (kind == IW_TX_READ_RESP) {
		const struct iw_irq *r = &qp->irq[b->at.irq % IW_MAX_IRD];

		b->err = iw_mr_check(qp->qp.pd, r->src_stag, r->src_to + b->at.rr_off, len,
				     IBV_ACCESS_REMOTE_READ);
		iov[0] = (struct iovec){ (void *)(uintptr_t)(r->src_to + b->at.rr_off), len };
		return b->err == IW_OK ? 1 : -1;
	}

	const struct iw_swr *wr = iw_sq(qp, b->at.sq);
	size_t slot = b->at.sq & (qp->sq_size - 1);

	if (wr->inline_data) {
		iov[0] = (struct iovec){ qp->sq_inline + slot * qp->cap.max_inline_data +
					 b->at.off, len };
		return 1;
	}
	return iw_sge_iov(qp, qp->sq_sge + slot * qp->cap.max_send_sge, wr->num_sge, b->at.off,
			  len, 0, iov, &b->err);
}

static uint32_t put_header(struct iw_qp *qp, struct tx_batch *b, enum iw_kind kind, uint32_t len,
			   bool last, uint8_t *h)
{
	if (kind == IW_TX_READ_RESP) {
		const struct iw_irq *r = &qp->irq[b->at.irq % IW_MAX_IRD];

		fpdu_put_tagged(h, RDMAP_READ_RESP, last, len, r->sink_stag,
				r->sink_to + b->at.rr_off);
		return FPDU_TAGGED;
	}

	const struct iw_swr *wr = iw_sq(qp, b->at.sq);

	switch (wr->rdmap) {
	case RDMAP_WRITE:
		fpdu_put_tagged(h, RDMAP_WRITE, last, len, wr->rkey, wr->raddr + b->at.off);
		return FPDU_TAGGED;
	case RDMAP_READ_REQ:
		fpdu_put_read_req(h, wr->msn, qp->sink_stag, (uint64_t)b->at.sq << 32, wr->len,
				  wr->rkey, wr->raddr);
		return FPDU_READ_REQ;
	default:
		fpdu_put_untagged(h, wr->rdmap, last, len, wr->inval, DDP_QN_SEND, wr->msn,
				  b->at.off);
		return FPDU_UNTAGGED;
	}
}

/* One FPDU of this kind behind the others; false if it cannot be built (b->err). */
static bool put_fpdu(struct iw_qp *qp, struct tx_batch *b, enum iw_kind kind)
{
	struct iovec iov[IW_MAX_SGE];
	const struct iw_swr *wr = iw_sq(qp, b->at.sq);
	bool rr = kind == IW_TX_READ_RESP;
	bool read = !rr && wr->rdmap == RDMAP_READ_REQ;
	uint32_t total = rr ? qp->irq[b->at.irq % IW_MAX_IRD].size : read ? 0 : wr->len;
	uint32_t seg = rr ? qp->irq[b->at.irq % IW_MAX_IRD].seg : wr->seg;
	uint32_t left = total - (rr ? b->at.rr_off : b->at.off);
	uint32_t len = left < seg ? left : seg;
	bool last = len == left;
	int n = payload_iov(qp, b, kind, len, iov);
	uint8_t h[FPDU_HDR_MAX];

	if (n < 0)
		return false;

	uint32_t start = b->len;
	uint32_t hl = put_header(qp, b, kind, len, last, h);
	uint32_t tail = fpdu_pad(hl - FPDU_LEN + len) + FPDU_CRC;

	memcpy(scratch(b, hl), h, hl);
	for (int i = 0; i < n; i++) {
		uint32_t part = (uint32_t)iov[i].iov_len;

		if (b->copy || len <= TX_COPY_MAX)
			memcpy(scratch(b, part), iov[i].iov_base, part);
		else
			add(b, iov[i].iov_base, part);
	}
	memset(scratch(b, tail), 0, tail);
	if (b->copy) {
		uint32_t crc = iw_crc32c(0, b->buf + start, b->len - start - FPDU_CRC);

		memcpy(b->buf + b->len - FPDU_CRC, &crc, FPDU_CRC);
	}
	b->rec[b->nrec++] = (struct tx_rec){ hl + len + tail, len, kind, last };
	b->bytes += hl + len + tail;
	if (rr) {
		b->at.rr_off = last ? 0 : b->at.rr_off + len;
		b->at.irq += last;
	} else {
		b->at.off = last ? 0 : b->at.off + len;
		b->at.sq += last;
		b->at.reads += read;
	}
	b->at.kind = kind;
	return true;
}

/* May the next work request go?  LOCAL_INV is carried out here, once all before it has been sent. */
static bool sq_ready(struct iw_qp *qp, struct tx_batch *b)
{
	for (; b->at.sq != qp->sq_head; qp->sq_tx = ++b->at.sq) {
		struct iw_swr *wr = iw_sq(qp, b->at.sq);

		if (b->at.off)
			return true;
		if (wr->fence && b->at.reads)
			return false;
		if (wr->rdmap != IW_OP_LOCAL_INV)
			return wr->rdmap != RDMAP_READ_REQ || b->at.reads < qp->ord;
		if (b->nrec)
			return false;
		if (iw_mr_invalidate(qp->qp.pd, wr->inval, false) != IW_OK) {
			b->err = IW_BAD_STAG;
			return false;
		}
		wr->done = true;
	}
	return false;
}

void iw_tx_build(struct iw_qp *qp, struct tx_batch *b)
{
	uint32_t margin = b->copy ? FPDU_MAX : FPDU_HDR_MAX + TX_COPY_MAX + 8;

	b->at = (struct tx_cursor){ qp->sq_tx, qp->tx.off, qp->irq_head, qp->tx.rr_off, qp->reads_out,
				 qp->tx.kind };
	b->niov = b->nrec = 0;
	b->len = 0;
	b->bytes = 0;
	b->err = IW_OK;
	while (b->nrec < TX_BATCH && b->niov + IW_MAX_SGE + 3 <= TX_BATCH_IOV &&
	       b->bytes < TX_BATCH_BYTES && b->len + margin <= b->cap) {
		bool rr = b->at.irq != qp->irq_tail;
		bool cut = !b->nrec && qp->tx.part;
		bool sq = !(cut && b->at.kind == IW_TX_READ_RESP) && sq_ready(qp, b);
		enum iw_kind kind;

		if (b->err != IW_OK || (!rr && !sq))
			break;
		if (cut)
			kind = b->at.kind;
		else if (rr && sq)	/* take turns */
			kind = b->at.kind == IW_TX_SQ ? IW_TX_READ_RESP : IW_TX_SQ;
		else
			kind = rr ? IW_TX_READ_RESP : IW_TX_SQ;
		if (!put_fpdu(qp, b, kind)) {
			b->at.kind = kind;	/* whose fault it is */
			break;
		}
	}
}
