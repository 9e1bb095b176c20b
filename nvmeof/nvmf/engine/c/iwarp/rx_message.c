/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received DDP segments: header checks with their TERMINATE codes, the payload's destination, the end of a message.
 *
 * Runs under qp->lock, on the thread that polls.  Memory is looked up at each step, so that a region that is
 * deregistered in the middle of a segment is not written to.
 */
#include "rx.h"
#include "stats.h"
#include "terminate.h"

static const uint16_t tagged_codes[] = {
	[IW_BAD_STAG] = TERM_DDP_T_STAG,
	[IW_BAD_BOUNDS] = TERM_DDP_T_BOUNDS,
	[IW_BAD_ACCESS] = TERM_DDP_T_STAG,	/* DDP has no code for access rights; siw sends this as well */
	[IW_BAD_PD] = TERM_DDP_T_ASSOCIATION,
	[IW_BAD_WRAP] = TERM_DDP_T_WRAP,
};
static const uint16_t rdmap_codes[] = {
	[IW_BAD_STAG] = TERM_RDMAP_INVALID_STAG,
	[IW_BAD_BOUNDS] = TERM_RDMAP_BOUNDS,
	[IW_BAD_ACCESS] = TERM_RDMAP_ACCESS,
	[IW_BAD_PD] = TERM_RDMAP_NOT_ASSOCIATED,
	[IW_BAD_WRAP] = TERM_RDMAP_WRAP,
};

static enum iw_verdict bad(struct iw_out *out, uint16_t code, const uint8_t *hdr, const char *what, uint64_t got)
{
	return iw_end(out, code, hdr, "%s 0x%llx", what, (unsigned long long)got);
}

static struct iw_rwr *recv_wr(const struct iw_stream *s)
{
	return &s->rq[s->rq_tail & (s->rq_size - 1)];
}

static enum iw_verdict check_write(struct iw_stream *s, const uint8_t *hdr, uint32_t payload, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	rx->stag = iw_get32(hdr + OFF_STAG);
	rx->start = rx->to = iw_get64(hdr + OFF_TO);
	if (!payload)
		return IW_GO_ON;
	enum iw_access a = iw_mr_look(s->pd, &s->windows, rx->stag, rx->to, payload,
				      IBV_ACCESS_REMOTE_WRITE);

	return a == IW_OK ? IW_GO_ON : bad(out, tagged_codes[a], hdr, "a WRITE to STag", rx->stag);
}

/* Check that a response continues the oldest READ: return 0, or the TERMINATE code. */
static uint16_t answer_error(const struct iw_stream *s, const uint8_t *hdr, uint32_t payload, bool last)
{
	const struct iw_swr *wr = iw_sq(s, s->read_next);

	if (!s->reads_out || iw_get32(hdr + OFF_STAG) != s->sink_stag)
		return TERM_DDP_T_STAG;
	if (iw_get64(hdr + OFF_TO) != ((uint64_t)s->read_next << 32) + wr->placed ||
	    payload > wr->len - wr->placed || (last && payload != wr->len - wr->placed))
		return TERM_DDP_T_BOUNDS;
	return 0;
}

static enum iw_verdict check_read_resp(struct iw_stream *s, const uint8_t *hdr, uint32_t payload, struct iw_out *out)
{
	uint16_t code = answer_error(s, hdr, payload, s->rx.last);

	s->rx.stag = iw_get32(hdr + OFF_STAG);
	if (code == TERM_DDP_T_STAG)
		return bad(out, code, hdr, "a Read Response to STag", s->rx.stag);
	return code ? bad(out, code, hdr, "a Read Response to offset", iw_get64(hdr + OFF_TO)) : IW_GO_ON;
}

bool iw_rx_may_place(const struct iw_stream *s, const uint8_t *hdr)
{
	uint32_t ctrl = iw_get16(hdr + OFF_CTRL), stag = iw_get32(hdr + OFF_STAG);
	uint32_t payload = iw_get16(hdr) + (uint32_t)FPDU_LEN - FPDU_TAGGED;

	if ((ctrl & (DDP_TAGGED | DDP_VERSION_MASK | RDMAP_VERSION_MASK)) !=
	    (DDP_TAGGED | DDP_VERSION | RDMAP_VERSION))
		return false;
	switch (ctrl & RDMAP_OPCODE_MASK) {
	case RDMAP_WRITE:
		return iw_is_window(stag) && iw_mr_look(s->pd, &s->windows, stag, iw_get64(hdr + OFF_TO),
							payload, IBV_ACCESS_REMOTE_WRITE) == IW_OK;
	case RDMAP_READ_RESP:
		return !answer_error(s, hdr, payload, ctrl & DDP_LAST);
	default:
		return false;
	}
}

static bool take_shared(struct iw_stream *s)
{
	if (!iw_srq_take(s->srq, &s->place, s->rq, s->rq_sge))
		return false;
	s->rq_head++;
	return true;
}

static enum iw_verdict check_send(struct iw_stream *s, const uint8_t *hdr, uint32_t payload, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	uint32_t msn = iw_get32(hdr + OFF_MSN), mo = iw_get32(hdr + OFF_MO);

	if (iw_get32(hdr + OFF_QN) != DDP_QN_SEND)
		return bad(out, TERM_DDP_U_QN, hdr, "a Send on queue", iw_get32(hdr + OFF_QN));
	if (msn != rx->send_msn)
		return bad(out, TERM_DDP_U_MSN, hdr, "a Send with MSN", msn);
	if (s->rq_tail == s->rq_head && s->srq && !take_shared(s))
		return IW_WAIT;
	if (s->rq_tail == s->rq_head)
		return bad(out, TERM_DDP_U_NO_BUFFER, hdr, "no receive was posted for Send", msn);
	if (mo != rx->mo)
		return bad(out, TERM_DDP_U_MO, hdr, "a Send with offset", mo);
	if (payload > recv_wr(s)->len - mo) {
		s->rq_fail_index = s->rq_tail;
		s->rq_fail_status = IBV_WC_LOC_LEN_ERR;
		return bad(out, TERM_DDP_U_TOO_LONG, hdr, "a Send of at least", (uint64_t)mo + payload);
	}
	return IW_GO_ON;
}

static enum iw_verdict check_read_req(struct iw_stream *s, const uint8_t *hdr, uint32_t payload, struct iw_out *out)
{
	uint32_t msn = iw_get32(hdr + OFF_MSN), stag = iw_get32(hdr + OFF_RR_SRC_STAG);
	uint32_t size = iw_get32(hdr + OFF_RR_SIZE);
	uint64_t src = iw_get64(hdr + OFF_RR_SRC_TO);
	enum iw_access a;

	if (iw_get32(hdr + OFF_QN) != DDP_QN_READ_REQ)
		return bad(out, TERM_DDP_U_QN, hdr, "a Read Request on queue", iw_get32(hdr + OFF_QN));
	if (msn != s->rx.read_msn)
		return bad(out, TERM_DDP_U_MSN, hdr, "a Read Request with MSN", msn);
	if (iw_get32(hdr + OFF_MO))
		return bad(out, TERM_DDP_U_MO, hdr, "a Read Request with offset", iw_get32(hdr + OFF_MO));
	if (payload || !s->rx.last)
		return bad(out, TERM_DDP_U_TOO_LONG, hdr, "a Read Request with extra bytes", payload);
	/* even with a depth of 0, a zero-length READ that serves as RTR is permitted */
	if (s->irq_tail - s->irq_head >= (s->ird ? s->ird : !size))
		return bad(out, TERM_DDP_U_NO_BUFFER, hdr, "more READs than the agreed depth,",
			   s->ird);
	if (!size)
		return IW_GO_ON;
	a = iw_mr_look(s->pd, &s->windows, stag, src, size, IBV_ACCESS_REMOTE_READ);
	return a == IW_OK ? IW_GO_ON : bad(out, rdmap_codes[a], hdr, "a READ of STag", stag);
}

enum iw_verdict iw_rx_header(struct iw_stream *s, const uint8_t *hdr, uint32_t hdr_len, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	uint32_t ctrl = iw_get16(hdr + OFF_CTRL), payload;

	rx->ulpdu_len = iw_get16(hdr);
	if (rx->ulpdu_len + FPDU_LEN < hdr_len)
		return bad(out, TERM_LLP_FPDU, NULL, "an FPDU too short for its header,", rx->ulpdu_len);
	payload = rx->ulpdu_len + FPDU_LEN - hdr_len;
	rx->opcode = ctrl & RDMAP_OPCODE_MASK;
	rx->last = ctrl & DDP_LAST;
	if ((ctrl & DDP_VERSION_MASK) != DDP_VERSION)
		return bad(out, ctrl & DDP_TAGGED ? TERM_DDP_T_VERSION : TERM_DDP_U_VERSION, hdr,
			   "control word", ctrl);
	if ((ctrl & RDMAP_VERSION_MASK) != RDMAP_VERSION)
		return bad(out, TERM_RDMAP_VERSION, hdr, "control word", ctrl);
	if (rx->opcode > RDMAP_TERMINATE ||
	    rdmap_is_tagged(rx->opcode) != !!(ctrl & DDP_TAGGED))
		return bad(out, TERM_RDMAP_OPCODE, hdr, "control word", ctrl);

	switch (rx->opcode) {
	case RDMAP_WRITE:
		return check_write(s, hdr, payload, out);
	case RDMAP_READ_RESP:
		return check_read_resp(s, hdr, payload, out);
	case RDMAP_READ_REQ:
		if (hdr != rx->hdr)	/* needed at the segment's end */
			memcpy(rx->hdr, hdr, FPDU_READ_REQ);
		return check_read_req(s, hdr, payload, out);
	case RDMAP_TERMINATE:
		rx->term_have = 0;
		if (iw_get32(hdr + OFF_QN) != DDP_QN_TERMINATE)
			return bad(out, TERM_DDP_U_QN, hdr, "a TERMINATE on queue", iw_get32(hdr + OFF_QN));
		return IW_GO_ON;
	default:
		rx->stag = iw_get32(hdr + OFF_STAG);	/* to invalidate */
		return check_send(s, hdr, payload, out);
	}
}

static enum iw_verdict recv_failed(struct iw_stream *s, enum iw_access a, struct iw_out *out)
{
	s->rq_fail_index = s->rq_tail;
	s->rq_fail_status = IBV_WC_LOC_PROT_ERR;
	return iw_end(out, TERM_DDP_CATASTROPHIC, NULL,
		      "a receive refers to memory that is not registered for it (lkey error %d)", a);
}

int iw_rx_place_iov(struct iw_stream *s, uint32_t max, struct iovec *iov, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	struct iw_swr *wr;
	enum iw_access a = IW_OK;
	int n;

	switch (rx->opcode) {
	case RDMAP_WRITE:
		a = iw_mr_look(s->pd, &s->windows, rx->stag, rx->to, max, IBV_ACCESS_REMOTE_WRITE);
		if (a != IW_OK)
			return bad(out, tagged_codes[a], NULL, "a WRITE to STag", rx->stag);
		iov[0] = (struct iovec){ (void *)(uintptr_t)rx->to, max };
		return 1;
	case RDMAP_READ_RESP:
		wr = iw_sq(s, s->read_next);
		n = iw_sge_iov(s->pd, iw_sq_sge(s, s->read_next), wr->num_sge, wr->placed, max,
			       IBV_ACCESS_LOCAL_WRITE, iov, &a);
		if (n >= 0)
			return n;
		s->sq_fail_index = s->read_next;
		s->sq_fail_status = IBV_WC_LOC_PROT_ERR;
		return iw_end(out, TERM_DDP_CATASTROPHIC, NULL,
			      "a READ refers to memory that is not registered for it (lkey error %d)", a);
	case RDMAP_TERMINATE:
		if (rx->term_have == sizeof(rx->term))
			return 0;
		iov[0] = (struct iovec){ rx->term + rx->term_have, sizeof(rx->term) - rx->term_have };
		if (iov[0].iov_len > max)
			iov[0].iov_len = max;
		return 1;
	default:
		n = iw_sge_iov(s->recv_pd, s->rq_sge + (size_t)(s->rq_tail & (s->rq_size - 1)) *
			       s->cap.max_recv_sge, recv_wr(s)->num_sge, rx->mo, max,
			       IBV_ACCESS_LOCAL_WRITE, iov, &a);
		return n >= 0 ? n : recv_failed(s, a, out);
	}
}

void iw_rx_placed(struct iw_stream *s, uint32_t n)
{
	struct iw_rx *rx = &s->rx;

	switch (rx->opcode) {
	case RDMAP_WRITE:
		rx->to += n;
		break;
	case RDMAP_READ_RESP:
		iw_sq(s, s->read_next)->placed += n;
		break;
	case RDMAP_TERMINATE:
		rx->term_have += n < sizeof(rx->term) - rx->term_have ?
				 n : (uint32_t)sizeof(rx->term) - rx->term_have;
		break;
	default:
		rx->mo += n;
	}
}

enum iw_verdict iw_rx_place(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out)
{
	struct iovec iov[IW_MAX_SGE];
	int n = iw_rx_place_iov(s, len, iov, out);

	if (n < 0)
		return IW_END;
	for (int i = 0; i < n; i++) {
		memcpy(iov[i].iov_base, data, iov[i].iov_len);
		data += iov[i].iov_len;
	}
	iw_rx_placed(s, len);
	return IW_GO_ON;
}

enum iw_verdict iw_rx_place_whole(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	const struct ibv_sge *sge;

	switch (rx->opcode) {
	case RDMAP_WRITE:
		memcpy((void *)(uintptr_t)rx->to, data, len);
		return IW_GO_ON;
	case RDMAP_READ_RESP:
	case RDMAP_TERMINATE:
		return iw_rx_place(s, data, len, out);
	default:	/* a capsule or a response: all of it is in the receive's first element */
		sge = s->rq_sge + (size_t)(s->rq_tail & (s->rq_size - 1)) * s->cap.max_recv_sge;
		if (rx->mo || len > sge->length ||
		    iw_mr_look(s->recv_pd, NULL, sge->lkey, sge->addr, len,
			       IBV_ACCESS_LOCAL_WRITE | IW_ACCESS_LOCAL))
			return iw_rx_place(s, data, len, out);
		memcpy((void *)(uintptr_t)sge->addr, data, len);
		rx->mo = len;
		return IW_GO_ON;
	}
}

static enum iw_verdict end_send(struct iw_stream *s, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	bool inv = rx->opcode == RDMAP_SEND_INV || rx->opcode == RDMAP_SEND_SE_INV;
	bool se = rx->opcode == RDMAP_SEND_SE || rx->opcode == RDMAP_SEND_SE_INV;
	struct ibv_wc *wc = &out->wc[out->n];

	*wc = (struct ibv_wc){
		.wr_id = recv_wr(s)->wr_id,
		.opcode = IBV_WC_RECV,
		.byte_len = rx->mo,
		.qp_num = s->qp_num,
	};
	if (inv) {
		enum iw_access a = iw_mr_invalidate(s->pd, &s->windows, rx->stag, true);

		if (a != IW_OK) {
			s->rq_fail_index = s->rq_tail;
			s->rq_fail_status = IBV_WC_REM_INV_REQ_ERR;
			return bad(out, a == IW_BAD_STAG ? TERM_RDMAP_CANNOT_INVALIDATE :
				   TERM_RDMAP_CANNOT_INVALIDATE_PROT, NULL,
				   "a Send invalidating STag", rx->stag);
		}
		wc->wc_flags = IBV_WC_WITH_INV;
		wc->invalidated_rkey = rx->stag;
	}
	s->rq_tail++;
	rx->send_msn++;
	rx->mo = 0;
	out->n++;
	out->solicited |= se;
	return IW_GO_ON;
}

static enum iw_verdict end_read_resp(struct iw_stream *s, struct iw_out *out)
{
	iw_sq(s, s->read_next)->done = true;
	s->rx.uneven -= s->rx.uneven > 0;
	if (--s->reads_out)
		do
			s->read_next++;
		while (iw_sq(s, s->read_next)->rdmap != RDMAP_READ_REQ);
	iw_sq_sweep(s, out);
	s->tx_due = true;
	return IW_GO_ON;
}

static void end_read_req(struct iw_stream *s)
{
	const uint8_t *hdr = s->rx.hdr;
	struct iw_irq *r = &s->irq[s->irq_tail++ % IW_MAX_IRD];

	__atomic_store_n(&s->rx.read_msn, s->rx.read_msn + 1, __ATOMIC_RELAXED);	/* iwarp_qp_reads_served() */
	stat_add(&s->rx.read, iw_get32(s->rx.hdr + OFF_RR_SIZE));
	r->sink_stag = iw_get32(hdr + OFF_RR_SINK_STAG);
	r->sink_to = iw_get64(hdr + OFF_RR_SINK_TO);
	r->size = iw_get32(hdr + OFF_RR_SIZE);
	r->seg = iw_segment(s, r->size, FPDU_TAGGED);
	r->src_stag = iw_get32(hdr + OFF_RR_SRC_STAG);
	r->src_to = iw_get64(hdr + OFF_RR_SRC_TO);
	s->tx_due = true;
}

static enum iw_verdict end_terminate(struct iw_stream *s, struct iw_out *out)
{
	const uint8_t *t = s->rx.term;
	uint16_t code = s->rx.term_have >= FPDU_TERM_CTRL ? iw_get16(t) : 0;
	char text[96];

	iw_term_text(code, text, sizeof(text));
	/* it refers to our oldest READ: that READ failed, the others are flushed */
	if (s->reads_out && s->rx.term_have >= FPDU_TERM_CTRL && (t[2] & TERM_FLAG_RDMAP)) {
		s->sq_fail_index = s->read_next;
		s->sq_fail_status = code >> 8 == 1 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR;
	}
	iw_stats.terminates_received++;
	return iw_end(out, TERM_NONE, NULL, "the peer sent TERMINATE %s", text);
}

enum iw_verdict iw_rx_segment_end(struct iw_stream *s, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	if (s->tx.hold) {	/* the initiator has sent its first FPDU */
		s->tx.hold = false;
		s->tx_due = true;
	}
	switch (rx->opcode) {
	case RDMAP_WRITE:
		stat_add(&rx->written, rx->ulpdu_len + FPDU_LEN - FPDU_TAGGED);
		if (!iw_mr_placed(s->pd, rx->stag, rx->start, rx->ulpdu_len + FPDU_LEN - FPDU_TAGGED))
			return iw_end(out, TERM_RDMAP_CATASTROPHIC, NULL, "memory written by the peer has failed");
		return IW_GO_ON;
	case RDMAP_READ_RESP:
		return rx->last ? end_read_resp(s, out) : IW_GO_ON;
	case RDMAP_READ_REQ:
		end_read_req(s);
		return IW_GO_ON;
	case RDMAP_TERMINATE:
		return end_terminate(s, out);
	default:
		return rx->last ? end_send(s, out) : IW_GO_ON;
	}
}
