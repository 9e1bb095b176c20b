/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds FPDUs from the send queue and from the answers to the peer's READs: headers and small payloads in a buffer,
 * everything else by reference to the application's memory.  Segmentation depends only on the work request, so that
 * an FPDU cut by a full socket is built again with the same bytes.
 *
 * Runs under qp->lock, on the thread that posts or polls.
 */
#include "util/crc32c.h"
#include "util/fetch.h"
#include "tx.h"

/* Add the bytes written to buf since the last vector as a vector. */
static void close_run(struct tx_batch *b)
{
	if (b->run == b->len)
		return;
	b->iov[b->niov++] = (struct iovec){ b->buf + b->run, b->len - b->run };
	b->run = b->len;
}

int iw_sge_iov(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t num_sge, uint64_t off,
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
		*err = iw_mr_look(pd, NULL, sge[i].lkey, sge[i].addr + off, part,
				  access | IW_ACCESS_LOCAL);
		if (*err != IW_OK)
			return -1;
		iov[n++] = (struct iovec){ (void *)(uintptr_t)(sge[i].addr + off), part };
		len -= part;
		off = 0;
	}
	return n;
}

/* A large payload with a CRC: a second pass over a copy would cost as much as the first. */
static void put_summed(struct tx_batch *b, uint32_t start, const struct iovec *iov, int n)
{
	b->crc = crc32c(0, b->buf + start, b->len - start);
	b->summed = true;
	for (int i = 0; i < n; i++) {
		if (b->copy) {
			b->crc = crc32c_copy(b->crc, b->buf + b->len, iov[i].iov_base, iov[i].iov_len);
			b->len += (uint32_t)iov[i].iov_len;
		} else {
			b->crc = crc32c(b->crc, iov[i].iov_base, iov[i].iov_len);
			close_run(b);
			b->iov[b->niov++] = iov[i];
		}
	}
}

/* Add the payload after the header, which begins at start. */
static void put_payload(struct iw_stream *s, struct tx_batch *b, uint32_t start, const struct iovec *iov, int n,
			uint32_t len)
{
	bool small = len <= TX_COPY_MAX;

	b->summed = false;
	if (s->crc && !small) {
		put_summed(b, start, iov, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		if (small) {
			memcpy(b->buf + b->len, iov[i].iov_base, iov[i].iov_len);
			b->len += (uint32_t)iov[i].iov_len;
		} else {
			close_run(b);
			b->iov[b->niov++] = iov[i];
		}
	}
}

/* After the header, of hl bytes, and the payload: add padding and CRC, and count the FPDU. */
static void end_fpdu(struct iw_stream *s, struct tx_batch *b, uint32_t start, uint32_t hl, uint32_t payload,
		     enum iw_kind kind, bool last)
{
	uint32_t tail = fpdu_pad(hl - FPDU_LEN + payload) + FPDU_CRC;
	uint32_t bytes = hl + payload + tail;

	memset(b->buf + b->len, 0, TX_TAIL_MAX);
	if (s->crc) {
		uint32_t from = b->summed ? b->len : start, crc;

		b->len += tail;
		crc = crc32c(b->summed ? b->crc : 0, b->buf + from, b->len - from - FPDU_CRC);
		memcpy(b->buf + b->len - FPDU_CRC, &crc, FPDU_CRC);
	} else {
		b->len += tail;
	}
	b->rec[b->nrec++] = (struct tx_rec){ bytes, payload, kind, last };
	b->bytes += bytes;
	if (s->tx.mss)
		b->seg = (b->seg + bytes) % s->tx.mss;
	b->at.kind = kind;
}

/*
 * Whether the end of a TCP segment would cut the next FPDU, with a header of hl bytes, in a place that Linux's siw
 * does not handle: after the first 16 bytes of an untagged header, the rest of which siw copies over the memory
 * after it, or in a trailer with a CRC, which siw then considers wrong.
 */
static bool is_cut_badly(const struct iw_stream *s, const struct tx_batch *b, uint32_t hl, uint32_t payload)
{
	const uint32_t tail = fpdu_pad(hl - FPDU_LEN + payload) + FPDU_CRC, bytes = hl + payload + tail;
	const uint32_t at = s->tx.mss - b->seg;		/* the segment's end, in the FPDU */

	if (!s->tx.mss || at >= bytes)
		return false;
	return (at > FPDU_TAGGED && at < hl) || (s->crc && at > bytes - tail);
}

/* Build the next FPDU of an answer to the peer's READ; false if it cannot be built (b->err), or not in this batch. */
static bool put_answer(struct iw_stream *s, struct tx_batch *b)
{
	const struct iw_irq *r = &s->irq[b->at.irq % IW_MAX_IRD];
	uint64_t src = r->src_to + b->at.rr_off;
	uint32_t left = r->size - b->at.rr_off, start = b->len;
	uint32_t len = left < r->seg ? left : r->seg;
	struct iovec iov = { (void *)(uintptr_t)src, len };
	bool last = len == left;

	if (b->nrec && is_cut_badly(s, b, FPDU_TAGGED, len))
		return false;
	if (len) {
		b->err = iw_mr_failed(r->src_stag) ? IW_BAD_BOUNDS :
			 iw_mr_look(s->pd, &s->windows, r->src_stag, src, len, IBV_ACCESS_REMOTE_READ);
		if (b->err != IW_OK)
			return false;
	}
	fpdu_put_tagged(b->buf + start, RDMAP_READ_RESP, last, len, r->sink_stag,
			r->sink_to + b->at.rr_off);
	b->len += FPDU_TAGGED;
	put_payload(s, b, start, &iov, len != 0, len);
	end_fpdu(s, b, start, FPDU_TAGGED, len, IW_TX_READ_RESP, last);
	b->at.rr_off = last ? 0 : b->at.rr_off + len;
	b->at.irq += last;
	return true;
}

/* Get the payload of a work request. */
static int work_iov(struct iw_stream *s, struct tx_batch *b, const struct iw_swr *wr, uint32_t len,
		    struct iovec *iov)
{
	size_t slot = b->at.sq & (s->sq_size - 1);
	const struct ibv_sge *sge = iw_sq_sge(s, b->at.sq);
	uint64_t addr;

	if (!len)
		return 0;
	if (wr->inline_data) {
		iov[0] = (struct iovec){ s->sq_inline + slot * s->cap.max_inline_data +
					 b->at.off, len };
		return 1;
	}
	if (wr->num_sge != 1)
		return iw_sge_iov(s->pd, sge, wr->num_sge, b->at.off, len, 0, iov, &b->err);
	addr = sge->addr + b->at.off;
	b->err = iw_mr_look(s->pd, NULL, sge->lkey, addr, len, IW_ACCESS_LOCAL);
	iov[0] = (struct iovec){ (void *)(uintptr_t)addr, len };
	return b->err == IW_OK ? 1 : -1;
}

/* The beginning of the next WRITE's payload, or NULL; in a target's queue, a response follows each WRITE. */
static const struct ibv_sge *next_written(const struct iw_stream *s, uint32_t sq)
{
	for (uint32_t i = sq + 1; i != s->sq_head && i - sq <= 2; i++) {
		const struct iw_swr *wr = iw_sq(s, i);

		if (wr->rdmap == RDMAP_WRITE && wr->num_sge && !wr->inline_data)
			return iw_sq_sge(s, i);
	}
	return NULL;
}

/* Fetch what is read next: this payload when the batch is sent, or after the CRC of this one, the next payload. */
static inline __attribute__((always_inline)) void fetch_payload(const struct iw_stream *s, const struct tx_batch *b,
								bool last)
{
	const struct ibv_sge *sge = NULL;

	if (s->crc)
		sge = last ? next_written(s, b->at.sq) : NULL;
	else if (!b->at.off)	/* once, whatever the size of its segments */
		sge = iw_sq_sge(s, b->at.sq);
	if (sge)
		fetch_to_send((const void *)(uintptr_t)sge->addr, sge->length, FETCH_FOURTH);
}

static void work_header(struct iw_stream *s, struct tx_batch *b, const struct iw_swr *wr, uint32_t len,
			bool last)
{
	uint8_t *h = b->buf + b->len;

	switch (wr->rdmap) {
	case RDMAP_WRITE:
		fpdu_put_tagged(h, RDMAP_WRITE, last, len, wr->rkey, wr->raddr + b->at.off);
		break;
	case RDMAP_READ_REQ:
		fpdu_put_read_req(h, wr->msn, s->sink_stag, (uint64_t)b->at.sq << 32, wr->len,
				  wr->rkey, wr->raddr);
		break;
	default:
		fpdu_put_untagged(h, wr->rdmap, last, len, wr->inval, DDP_QN_SEND, wr->msn,
				  b->at.off);
	}
}

static uint32_t work_header_len(const struct iw_swr *wr)
{
	switch (wr->rdmap) {
	case RDMAP_WRITE:
		return FPDU_TAGGED;
	case RDMAP_READ_REQ:
		return FPDU_READ_REQ;
	default:
		return FPDU_UNTAGGED;
	}
}

/* Build the next FPDU of the next work request; false if it cannot be built (b->err), or not in this batch. */
static bool put_work(struct iw_stream *s, struct tx_batch *b)
{
	const struct iw_swr *wr = iw_sq(s, b->at.sq);
	bool read = wr->rdmap == RDMAP_READ_REQ;
	uint32_t left = read ? 0 : wr->len - b->at.off, start = b->len;
	uint32_t len = left < wr->seg ? left : wr->seg;
	const uint32_t hl = work_header_len(wr);
	bool last = len == left;
	struct iovec iov[IW_MAX_SGE];
	int n;

	if (b->nrec && is_cut_badly(s, b, hl, len))
		return false;
	n = work_iov(s, b, wr, len, iov);
	if (n < 0)
		return false;
	if (wr->rdmap == RDMAP_WRITE && len > TX_COPY_MAX && !wr->inline_data)
		fetch_payload(s, b, last);
	work_header(s, b, wr, len, last);
	b->len += hl;
	put_payload(s, b, start, iov, n, len);
	end_fpdu(s, b, start, hl, len, IW_TX_SQ, last);
	b->at.off = last ? 0 : b->at.off + len;
	b->at.sq += last;
	b->at.reads += read;
	return true;
}

/*
 * Execute a bind or a LOCAL_INV; false if it has to wait (or failed: b->err).  A region waits until all earlier data
 * has been sent, because that may come from its memory.
 */
static bool put_local(struct iw_stream *s, struct tx_batch *b, struct iw_swr *wr)
{
	if (wr->rdmap == IW_OP_BIND) {
		const struct iw_bind bind = { wr->inval, wr->rkey, wr->raddr, wr->bind_len,
					      wr->bind_access };

		b->err = iw_mw_bind(s->pd, &s->windows, &bind);
	} else {
		if (b->nrec && !iw_is_window(wr->inval))
			return false;
		b->err = iw_mr_invalidate(s->pd, &s->windows, wr->inval, false);
	}
	wr->done = b->err == IW_OK;
	return wr->done;
}

/* Whether the next work request may be sent.  Requests that send nothing are executed here. */
static bool sq_ready(struct iw_stream *s, struct tx_batch *b)
{
	for (; b->at.sq != s->sq_head; b->at.sq++) {
		struct iw_swr *wr = iw_sq(s, b->at.sq);

		if (b->at.off)
			return true;
		if (wr->fence && b->at.reads)
			return false;
		if (wr->rdmap == RDMAP_READ_REQ && !s->ord)
			b->err = IW_BAD_ACCESS;
		if (!(wr->rdmap & IW_OP_LOCAL))
			return wr->rdmap != RDMAP_READ_REQ || b->at.reads < s->ord;
		if (!wr->done && !put_local(s, b, wr))
			return false;
		if (!b->nrec)	/* otherwise commit() skips it */
			s->sq_tx = b->at.sq + 1;
	}
	return false;
}

/*
 * Whether the next FPDU of a kind is built in the bounce buffer: with CRC on, if the application may write to the
 * memory in the meantime.  Memory that the peer READs may always be written to.
 */
static bool needs_bounce(struct iw_stream *s, const struct tx_batch *b, enum iw_kind kind)
{
	return s->crc && (kind == IW_TX_READ_RESP || !iw_sq(s, b->at.sq)->stable);
}

static void use_buffer(struct iw_stream *s, struct tx_batch *b, bool bounce)
{
	b->copy = bounce;
	b->buf = bounce ? s->tx.bounce : b->scratch;
	b->cap = bounce ? TX_BOUNCE : b->scratch_size;
	b->margin = bounce ? FPDU_MAX : TX_FPDU_MAX;
}

/*
 * Whether the next FPDU is of the same kind as the last one although both have work: a message is sent IW_TOGETHER
 * segments at a time, which the peer can receive together (rx_ahead.c).  Then the kinds alternate, so that a long READ
 * does not delay Sends.
 */
static bool goes_on(const struct iw_stream *s, const struct tx_batch *b)
{
	bool rr = b->at.kind == IW_TX_READ_RESP;
	uint32_t off = rr ? b->at.rr_off : b->at.off;
	uint32_t seg = rr ? s->irq[b->at.irq % IW_MAX_IRD].seg : iw_sq(s, b->at.sq)->seg;

	return off && off / seg % IW_TOGETHER;
}

void iw_tx_build(struct iw_stream *s, struct tx_batch *b)
{
	const size_t most = s->crc ? TX_BATCH_SUMMED : TX_BATCH_BYTES;

	b->at = (struct tx_cursor){ s->sq_tx, s->tx.off, s->irq_head, s->tx.rr_off, s->reads_out,
				 s->tx.kind };
	b->niov = b->nrec = 0;
	b->len = b->run = 0;
	b->bytes = 0;
	b->seg = s->tx.mss ? (s->tx.seg + s->tx.mss - s->tx.part % s->tx.mss) % s->tx.mss : 0;
	b->err = IW_OK;
	b->copy = false;
	while (b->nrec < TX_BATCH && b->niov + IW_MAX_SGE + 3 <= TX_BATCH_IOV && b->bytes < most &&
	       (!b->nrec || b->len + b->margin <= b->cap)) {
		bool rr = b->at.irq != s->irq_tail;
		bool cut = !b->nrec && s->tx.part;
		bool sq = !(cut && b->at.kind == IW_TX_READ_RESP) && sq_ready(s, b);
		enum iw_kind kind;

		if (b->err != IW_OK || (!rr && !sq))
			break;
		if (cut)
			kind = b->at.kind;
		else if (rr && sq)
			kind = goes_on(s, b) ? b->at.kind : b->at.kind == IW_TX_SQ ? IW_TX_READ_RESP : IW_TX_SQ;
		else
			kind = rr ? IW_TX_READ_RESP : IW_TX_SQ;
		if (!b->nrec)
			use_buffer(s, b, needs_bounce(s, b, kind));
		else if (needs_bounce(s, b, kind) != b->copy)
			break;
		if (!(kind == IW_TX_READ_RESP ? put_answer(s, b) : put_work(s, b))) {
			b->at.kind = kind;	/* identifies the request at fault */
			break;
		}
	}
	if (b->nrec)
		close_run(b);
}
