/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester: sends the packets of posted work in the order of their PSNs, as many at a time as its window allows,
 * and again from the oldest that was not acknowledged if one is lost (go-back-N).  The window grows by a packet each time
 * that a whole window was acknowledged.  It halves when nothing is acknowledged for a while, and with each loss while
 * losses are dense; a single lost packet is no sign of congestion.  Reported congestion (CNP, CE) reduces it by half of
 * alpha, once for the packets on the way; alpha is the share of recent windows with such a report.  DCQCN controls a rate
 * in the same way.
 */
#include "qp.h"
#include "util/clock.h"

enum { ACK_EVERY = 16 };	/* packets, besides the last of messages that are waited for */

void ro_fail_request(struct ro_qp *qp, uint32_t index, enum ibv_wc_status status, const char *why)
{
	qp->fail_index = index;
	qp->fail_status = status;
	ro_qp_fail(qp, "%s", why);
}

static struct ibv_wc send_wc(const struct ro_qp *qp, const struct ro_swr *w, enum ibv_wc_status status)
{
	return (struct ibv_wc){
		.wr_id = w->wr_id, .status = status, .opcode = w->wc_opcode, .byte_len = w->len,
		.qp_num = qp->qp.qp_num,
	};
}

void ro_sweep(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;
	struct ibv_wc wc[32];
	unsigned int n = 0;

	while (r->tail != r->fresh && ro_sq(qp, r->tail)->done) {
		const struct ro_swr *w = ro_sq(qp, r->tail++);

		if (w->signaled)
			wc[n++] = send_wc(qp, w, IBV_WC_SUCCESS);
		if (n == 32) {
			iw_cq_push(iw_cq(qp->qp.send_cq), wc, n, false);
			n = 0;
		}
	}
	if (n)
		iw_cq_push(iw_cq(qp->qp.send_cq), wc, n, false);
	if ((int32_t)(r->tx - r->tail) < 0) {	/* acknowledged before it was sent again */
		r->tx = r->tail;
		r->tx_packet = 0;
	}
	if (r->tx == r->tail && r->tx != r->fresh) {
		const struct ro_swr *w = ro_sq(qp, r->tx);
		const int32_t acked = ro_psn_diff(r->una, w->psn);

		if (w->kind && acked > (int32_t)r->tx_packet)
			r->tx_packet = (uint32_t)acked;
	}
}

/* Count a loss; whether the losses of late are as many as those of a congested path. */
static bool losses_are_dense(struct ro_requester *r)
{
	r->spacing = (3 * r->spacing + r->since) / 4;
	r->since = 0;
	return r->spacing < RO_DENSE;
}

void ro_rewind(struct ro_qp *qp, enum ro_cause cause)
{
	struct ro_requester *r = &qp->req;
	const bool lost = cause != RO_NOT_READY;

	ro_sweep(qp);
	r->tx = r->tail;
	r->tx_packet = 0;
	ro_reads_end(qp, r->reads_head);
	if (r->tx != r->fresh && ro_sq(qp, r->tx)->kind)
		r->tx_packet = (uint32_t)ro_psn_diff(r->una, ro_sq(qp, r->tx)->psn);
	r->rewound = true;
	r->rewound_at = clock_ns();
	if (lost && r->tail != r->fresh && ro_sq(qp, r->tail)->kind == RO_FLUSH && !qp->flush_known)
		qp->flush = qp->flush == RO_FLUSH_RXE ? RO_FLUSH_RIGHT : RO_FLUSH_RXE;
	if (cause == RO_SILENCE || (cause == RO_GAP && losses_are_dense(r))) {
		r->window = r->window / 2 < RO_WINDOW_MIN ? RO_WINDOW_MIN : r->window / 2;
		r->grown = 0;
	}
}

void ro_congested(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;
	uint32_t window;

	if (r->calming)
		return;
	r->alpha += (RO_ALPHA - r->alpha) / RO_ALPHA_SHARE;
	window = r->window - r->window * r->alpha / (2 * RO_ALPHA);
	r->window = window < RO_WINDOW_MIN ? RO_WINDOW_MIN : window;
	r->grown = 0;
	r->cut = r->calming = true;
	r->calm_psn = ro_outstanding(qp) ? r->high_psn : ro_psn_add(r->una, 1);
}

/* ---- packets ---- */

static uint8_t send_opcode(const struct ro_swr *w, bool first, bool last)
{
	if (w->kind == RO_WRITE) {
		if (first && last)
			return w->has_imm ? RO_OP_WRITE_ONLY_IMM : RO_OP_WRITE_ONLY;
		if (last)
			return w->has_imm ? RO_OP_WRITE_LAST_IMM : RO_OP_WRITE_LAST;
		return first ? RO_OP_WRITE_FIRST : RO_OP_WRITE_MIDDLE;
	}
	if (first && last)
		return w->invalidates ? RO_OP_SEND_ONLY_INV : w->has_imm ? RO_OP_SEND_ONLY_IMM : RO_OP_SEND_ONLY;
	if (last)
		return w->invalidates ? RO_OP_SEND_LAST_INV : w->has_imm ? RO_OP_SEND_LAST_IMM : RO_OP_SEND_LAST;
	return first ? RO_OP_SEND_FIRST : RO_OP_SEND_MIDDLE;
}

static uint8_t *put_reth(uint8_t *p, uint64_t va, uint32_t rkey, uint32_t len)
{
	ro_put64(p, va);
	ro_put32(p + 8, rkey);
	ro_put32(p + 12, len);
	return p + RO_RETH;
}

static bool load(struct ro_qp *qp, struct ro_burst *b, uint32_t index, uint32_t off, uint8_t *packet, uint32_t len)
{
	const size_t slot = index & (qp->req.size - 1);
	const struct ro_swr *w = &qp->req.sq[slot];

	if (!len)
		return true;
	if (w->inline_data) {
		ro_burst_copy(b, packet, qp->req.data + slot * qp->cap.max_inline_data + off, len, 0);
		return true;
	}
	return ro_sge_copy(qp->qp.pd, qp->req.sge + slot * qp->cap.max_send_sge, w->num_sge, off, packet, len,
			   b) == IW_OK;
}

/*
 * Whether the peer is asked to acknowledge a packet at once.  If it acknowledges others after a tick, the last of a message
 * whose completion is not requested need not be: that saves both ends a packet per command.
 */
static bool asks(const struct ro_qp *qp, const struct ro_swr *w, uint32_t psn, bool last, uint32_t window_left)
{
	return window_left == 1 || psn % ACK_EVERY == 0 || (last && (w->signaled || !qp->acks_unasked));
}

static bool send_packet(struct ro_qp *qp, struct ro_burst *b, uint32_t index, uint32_t window_left)
{
	const struct ro_swr *w = ro_sq(qp, index);
	const uint32_t i = qp->req.tx_packet, off = i * qp->mtu;
	const bool first = i == 0, last = i + 1 == w->packets;
	const uint32_t len = last ? w->len - off : qp->mtu;
	struct ro_bth bth = {
		.opcode = send_opcode(w, first, last),
		.psn = ro_psn_add(w->psn, i),
		.solicited = last && w->solicited,
	};
	uint8_t *packet, *ext;

	bth.ack_req = asks(qp, w, bth.psn, last, window_left);
	packet = ro_burst_packet(b, &bth, len);
	ext = packet + RO_BTH;
	if (ro_ops[bth.opcode].flags & RO_F_RETH)
		ext = put_reth(ext, w->raddr, w->rkey, w->len);
	if (ro_ops[bth.opcode].flags & (RO_F_IMM | RO_F_INV))
		ro_put32(ext, w->imm);
	if (!load(qp, b, index, off, packet, len))
		return false;
	ro_burst_seal(b, packet, len);
	return true;
}

/*
 * The packets of the next request for a READ's data.  A repeated request ends where the original ended: the responder would
 * not count data beyond that, and would expect a further request for it.
 */
static uint32_t read_packets(const struct ro_qp *qp, const struct ro_swr *w)
{
	const uint32_t i = qp->req.tx_packet, left = ro_packets(w->len, qp->mtu) - i;
	const uint32_t most = qp->read_packets - i % qp->read_packets;

	return left < most ? left : most;
}

static uint32_t read_bytes(const struct ro_qp *qp, const struct ro_swr *w)
{
	const uint32_t left = w->len - qp->req.tx_packet * qp->mtu, most = read_packets(qp, w) * qp->mtu;

	return left < most ? left : most;
}

/* Request as much of a READ as one response should have; returns the number of its packets. */
static uint32_t send_read(struct ro_qp *qp, struct ro_burst *b, const struct ro_swr *w)
{
	const uint32_t i = qp->req.tx_packet, off = i * qp->mtu;
	const uint32_t n = read_packets(qp, w), len = read_bytes(qp, w);
	struct ro_bth bth = { .opcode = RO_OP_READ_REQ, .psn = ro_psn_add(w->psn, i), .ack_req = true };
	uint8_t *packet;

	packet = ro_burst_packet(b, &bth, 0);
	put_reth(packet + RO_BTH, w->raddr + off, w->rkey, len);
	ro_burst_seal(b, packet, 0);
	ro_expect(qp, ro_psn_add(bth.psn, n), len);
	return n;
}

/* Count a request among those whose responses are expected. */
static void expect_one(struct ro_qp *qp, const struct ro_swr *w)
{
	ro_expect(qp, ro_psn_add(w->psn, 1), 0);
}

static void send_atomic(struct ro_qp *qp, struct ro_burst *b, const struct ro_swr *w)
{
	const struct ro_bth bth = {
		.opcode = w->adds ? RO_OP_FETCH_ADD : RO_OP_CMP_SWAP, .psn = w->psn, .ack_req = true,
	};
	uint8_t *packet = ro_burst_packet(b, &bth, 0), *ext = packet + RO_BTH;

	ro_put64(ext, w->raddr);
	ro_put32(ext + 8, w->rkey);
	ro_put64(ext + 12, w->swap);
	ro_put64(ext + 20, w->compare);
	ro_burst_seal(b, packet, 0);
	expect_one(qp, w);
}

static void send_flush(struct ro_qp *qp, struct ro_burst *b, struct ro_swr *w)
{
	const struct ro_bth bth = { .opcode = RO_OP_FLUSH, .psn = w->psn, .ack_req = true };
	uint8_t *packet = ro_burst_packet(b, &bth, 0), *ext = packet + RO_BTH;

	ro_put32(ext, w->feth);
	put_reth(ext + RO_FETH, w->raddr, w->rkey, w->flush_len);
	w->icrcs |= (uint8_t)(1 << qp->flush);
	ro_burst_seal(b, packet, 0);
	expect_one(qp, w);
}

static bool send_atomic_write(struct ro_qp *qp, struct ro_burst *b, const struct ro_swr *w, uint32_t index)
{
	const struct ro_bth bth = { .opcode = RO_OP_ATOMIC_WRITE, .psn = w->psn, .ack_req = true };
	uint8_t *packet = ro_burst_packet(b, &bth, w->len), *ext = packet + RO_BTH;

	put_reth(ext, w->raddr, w->rkey, w->len);
	if (!load(qp, b, index, 0, packet, w->len))
		return false;
	ro_burst_seal(b, packet, w->len);
	expect_one(qp, w);
	return true;
}

/* Send the packets of a request that can be sent now; returns their number, or 0 if the memory cannot be read. */
static uint32_t send_request(struct ro_qp *qp, struct ro_burst *b, struct ro_swr *w, uint32_t window_left)
{
	const uint32_t index = qp->req.tx;

	switch (w->kind) {
	case RO_READ:
		return send_read(qp, b, w);
	case RO_ATOMIC:
		send_atomic(qp, b, w);
		return 1;
	case RO_FLUSH:
		send_flush(qp, b, w);
		return 1;
	case RO_ATOMIC_WRITE:
		return send_atomic_write(qp, b, w, index);
	default:
		return send_packet(qp, b, index, window_left);
	}
}

static void begin(struct ro_qp *qp, struct ro_swr *w)
{
	struct ro_requester *r = &qp->req;

	r->fresh++;
	w->psn = r->next_psn;
	w->packets = w->kind ? ro_packets(w->len, qp->mtu) : 0;
	r->next_psn = ro_psn_add(r->next_psn, w->packets);
}

static bool run_local(struct ro_qp *qp, struct ro_swr *w, uint32_t index)
{
	const struct iw_bind bind = { w->imm, w->rkey, w->raddr, w->bind_len, w->bind_access };
	enum iw_access a = IW_OK;

	if (w->done)	/* sent a second time */
		return true;
	a = w->bind ? iw_mw_bind(qp->qp.pd, &qp->windows, &bind) :
		      iw_mr_invalidate(qp->qp.pd, &qp->windows, w->imm, false);
	w->done = a == IW_OK;
	if (!w->done)
		ro_fail_request(qp, index, IBV_WC_MW_BIND_ERR,
				w->bind ? "a memory window could not be bound" :
					  "a key to be invalidated is not valid");
	return w->done;
}

/* Whether the next request has to wait. */
static bool held(const struct ro_qp *qp, const struct ro_swr *w, uint32_t psn)
{
	const struct ro_requester *r = &qp->req;
	const uint32_t out = (psn - r->una) & RO_MASK24, reads = r->reads_head - r->reads_tail;

	if (w->fence && reads && !r->tx_packet)
		return true;
	if (ro_has_response(w->kind) && reads >= qp->ord)
		return true;
	if (w->kind == RO_READ && reads && out + qp->read_packets > r->window)
		return true;
	return out >= r->window;
}

/*
 * Whether the window has room for a part of a train only, and it is better to wait for more: each train costs a system call
 * at both ends.  An acknowledgement comes, since one was asked for in every ACK_EVERY packets.
 */
static bool room_is_small(const struct ro_qp *qp, const struct ro_burst *b, const struct ro_swr *w, uint32_t psn)
{
	const struct ro_requester *r = &qp->req;
	const uint32_t room = r->window - ((psn - r->una) & RO_MASK24);

	if (ro_has_response(w->kind) || room >= RO_TRAIN || r->window < ACK_EVERY + RO_TRAIN ||
	    (b->packets && b->packets < RO_TRAIN))
		return false;
	return ro_packets(w->len, qp->mtu) - r->tx_packet > room;
}

void ro_send(struct ro_qp *qp, struct ro_burst *b)
{
	struct ro_requester *r = &qp->req;

	r->waits = false;
	while (r->tx != r->head && !r->rnr) {
		struct ro_swr *w = ro_sq(qp, r->tx);
		const uint32_t psn = r->tx == r->fresh ? r->next_psn : ro_psn_add(w->psn, r->tx_packet);
		uint32_t n;

		if (ro_has_response(w->kind) && !qp->ord) {
			ro_burst_send(b);
			ro_fail_request(qp, r->tx, IBV_WC_LOC_QP_OP_ERR,
					"a READ was posted, or an atomic operation or FLUSH, but this connection "
					"allows none: one of its ends gave 0 as the number that may be open");
			return;
		}
		if (w->kind && (held(qp, w, psn) || room_is_small(qp, b, w, psn)))
			break;
		if (w->kind == RO_READ && ro_room_wait(qp, read_bytes(qp, w)))
			break;
		if (r->tx == r->fresh)
			begin(qp, w);
		if (!w->kind) {
			if (!run_local(qp, w, r->tx))
				return;
			/* its completion waits for those before it; so may that of the next one like it */
			if (w->signaled && ro_outstanding(qp))
				qp->acks_unasked = false;
		} else {
			n = send_request(qp, b, w, r->window - ((psn - r->una) & RO_MASK24));
			if (!n) {
				ro_burst_send(b);
				ro_fail_request(qp, r->tx, IBV_WC_LOC_PROT_ERR,
						"the memory of a request is not registered for it");
				return;
			}
			r->tx_packet += n;
			if (ro_psn_diff(ro_psn_add(psn, n), r->high_psn) > 0)
				r->high_psn = ro_psn_add(psn, n);
		}
		if (r->tx_packet == w->packets) {
			r->tx++;
			r->tx_packet = 0;
		}
	}
	if (qp->in_line && !r->waits)
		ro_room_leave(qp->port, qp);
	ro_sweep(qp);
	if (ro_outstanding(qp) || r->waits)
		ro_tick_want(qp);
}
