/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder: takes requests in the order of their PSNs, and answers them in that order.  A gap is told once; a
 * request that was taken before is acknowledged again, or, if it is a READ or an atomic operation, answered again.
 */
#include "qp.h"

enum {
	RNR_TIMER = 14,			/* 1 ms, by the codes of table 45 */
	ANSWERS = 64,			/* packets of READ responses at a go */
};

static uint32_t response_packets(const struct ro_qp *qp, uint32_t len)
{
	return ro_packets(len, qp->mtu);
}

/* ---- answers ---- */

static void send_aeth(struct ro_qp *qp, struct ro_burst *b, uint8_t syndrome, uint32_t psn)
{
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .psn = psn };
	uint8_t *packet = ro_burst_packet(b, &bth, 0);

	ro_put32(packet + RO_BTH, qp->rsp.msn);
	packet[RO_BTH] = syndrome;
	ro_burst_seal(b, packet, 0);
}

/* The request cannot be carried out: the peer is told at once, since nothing is sent after the end. */
static void refuse(struct ro_qp *qp, uint8_t nak, enum ibv_wc_status status, const char *why)
{
	struct ro_burst b;

	ro_burst_begin(&b, qp);
	send_aeth(qp, &b, nak, qp->rsp.epsn);
	ro_burst_send(&b);
	qp->recv_fail_status = qp->rsp.kind == RO_SEND ? status : 0;
	ro_qp_fail(qp, "%s", why);
}

static bool read_packet(struct ro_qp *qp, struct ro_burst *b, struct ro_read *rd)
{
	const uint32_t n = response_packets(qp, rd->len), off = rd->sent * qp->mtu;
	const bool first = !rd->sent, last = rd->sent + 1 == n;
	const uint32_t len = last ? rd->len - off : qp->mtu;
	const struct ro_bth bth = {
		.opcode = first && last ? RO_OP_READ_ONLY : first ? RO_OP_READ_FIRST :
			  last ? RO_OP_READ_LAST : RO_OP_READ_MIDDLE,
		.psn = ro_psn_add(rd->psn, rd->sent),
	};
	uint8_t *packet;

	if (len && iw_mr_look(qp->qp.pd, &qp->windows, rd->rkey, rd->va + off, len,
			      IBV_ACCESS_REMOTE_READ) != IW_OK)
		return false;
	packet = ro_burst_packet(b, &bth, len);
	if (ro_ops[bth.opcode].flags & RO_F_AETH) {
		ro_put32(packet + RO_BTH, qp->rsp.msn);
		packet[RO_BTH] = RO_AETH_ACK | RO_CREDITS_UNLIMITED;
	}
	if (len)
		memcpy(packet + ro_ops[bth.opcode].hdr, (const void *)(uintptr_t)(rd->va + off), len);
	ro_burst_seal(b, packet, len);
	rd->sent++;
	return true;
}

static bool answer_packet(struct ro_qp *qp, struct ro_burst *b, struct ro_read *rd)
{
	const struct ro_bth bth = { .opcode = RO_OP_ATOMIC_ACK, .psn = rd->psn };
	uint8_t *packet;

	if (!rd->atomic)
		return read_packet(qp, b, rd);
	packet = ro_burst_packet(b, &bth, 0);
	ro_put32(packet + RO_BTH, qp->rsp.msn);
	packet[RO_BTH] = RO_AETH_ACK | RO_CREDITS_UNLIMITED;
	ro_put64(packet + RO_BTH + RO_AETH, rd->va);
	ro_burst_seal(b, packet, 0);
	rd->sent++;
	return true;
}

bool ro_answer(struct ro_qp *qp, struct ro_burst *b)
{
	struct ro_responder *r = &qp->rsp;

	for (uint32_t n = 0; r->reads_tail != r->reads_head; n++) {
		struct ro_read *rd = &r->reads[r->reads_tail % RO_MAX_RD];

		if (n == ANSWERS)
			return false;
		if (!answer_packet(qp, b, rd)) {
			ro_burst_send(b);
			/* of the response that is missing: what comes before it is acknowledged by that */
			r->epsn = ro_psn_add(rd->psn, rd->sent);
			refuse(qp, RO_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
			       "memory went while the peer read it");
			return true;
		}
		if (rd->sent == response_packets(qp, rd->len))
			r->reads_tail++;
	}
	if (r->nak) {
		send_aeth(qp, b, r->nak, r->epsn);
		r->nak = 0;
	} else if (r->ack_due) {
		send_aeth(qp, b, RO_AETH_ACK | RO_CREDITS_UNLIMITED, (r->epsn - 1) & RO_MASK24);
	}
	r->ack_due = false;
	return true;
}

/* ---- requests ---- */

static struct iw_rwr *receive_of(struct ro_qp *qp, struct ibv_sge **sge)
{
	const uint32_t slot = qp->rsp.tail & (qp->rsp.size - 1);

	*sge = qp->rsp.sge + (size_t)slot * qp->cap.max_recv_sge;
	return &qp->rsp.rq[slot];
}

/* Have a receive at the tail of the queue; false if there is none. */
static bool take_receive(struct ro_qp *qp)
{
	struct ro_responder *r = &qp->rsp;

	if (!qp->srq || r->head != r->tail)
		return r->head != r->tail;
	if (!iw_srq_take(qp->srq, &qp->place, &r->rq[r->tail & (r->size - 1)],
			 r->sge + (size_t)(r->tail & (r->size - 1)) * qp->cap.max_recv_sge)) {
		/* the peer asks again; nothing is kept for one that may not */
		iw_srq_leave(qp->srq, &qp->place);
		return false;
	}
	r->head++;
	return true;
}

static void receive_done(struct ro_qp *qp, const struct ro_packet *p, enum ibv_wc_opcode opcode, uint32_t len)
{
	const uint8_t *behind = p->ext + (p->op->flags & RO_F_RETH ? RO_RETH : 0);
	struct ibv_sge *sge;
	struct ibv_wc wc = {
		.wr_id = receive_of(qp, &sge)->wr_id, .status = IBV_WC_SUCCESS, .opcode = opcode,
		.byte_len = len, .qp_num = qp->qp.qp_num, .src_qp = qp->dqpn,
	};

	if (p->op->flags & RO_F_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		memcpy(&wc.imm_data, behind, RO_IMM);
	} else if (p->op->flags & RO_F_INV) {
		wc.wc_flags = IBV_WC_WITH_INV;
		wc.invalidated_rkey = ro_get32(behind);
	}
	qp->rsp.tail++;
	iw_cq_push(iw_cq(qp->qp.recv_cq), &wc, 1, p->bth.solicited);
}

static void taken(struct ro_qp *qp, const struct ro_packet *p, uint32_t packets)
{
	struct ro_responder *r = &qp->rsp;

	r->epsn = ro_psn_add(r->epsn, packets);
	if (p->op->flags & RO_F_LAST) {
		r->msn = (r->msn + 1) & RO_MASK24;
		r->kind = RO_NONE;
	}
	r->ack_due |= p->bth.ack_req;
	if (!atomic_load_explicit(&qp->data, memory_order_relaxed)) {
		atomic_store(&qp->data, true);
		iw_helper_call(&qp->caller);
	}
}

static void receiver_not_ready(struct ro_qp *qp)
{
	qp->rsp.nak = RO_AETH_RNR | RNR_TIMER;
	qp->rsp.nak_sent = true;	/* what follows it is not another gap */
}

static void take_send(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	struct iw_rwr *wr;
	struct ibv_sge *sge;

	if (p->op->flags & RO_F_FIRST) {
		if (!take_receive(qp)) {
			receiver_not_ready(qp);
			return;
		}
		r->kind = RO_SEND;
		r->have = 0;
	}
	wr = receive_of(qp, &sge);
	if (p->len > wr->len - r->have) {
		refuse(qp, RO_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,
		       "the peer sent more than the receive has room for");
		return;
	}
	if (p->len && ro_sge_copy(qp->recv_pd, sge, wr->num_sge, r->have, (uint8_t *)(uintptr_t)p->payload, p->len,
				  true) != IW_OK) {
		refuse(qp, RO_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR,
		       "memory to be received into is not registered for it");
		return;
	}
	r->have += p->len;
	if ((p->op->flags & RO_F_INV) &&
	    iw_mr_invalidate(qp->qp.pd, &qp->windows, ro_get32(p->ext), true) != IW_OK) {
		refuse(qp, RO_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
		       "the peer invalidated a key that is not its own to invalidate");
		return;
	}
	if (p->op->flags & RO_F_LAST)
		receive_done(qp, p, IBV_WC_RECV, r->have);
	taken(qp, p, 1);
}

static void take_write(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;

	if (p->op->flags & RO_F_FIRST) {
		r->va = ro_get64(p->ext);
		r->rkey = ro_get32(p->ext + 8);
		r->length = r->left = ro_get32(p->ext + 12);
		r->kind = RO_WRITE;
	}
	/* the last packet has all that is left, the others less than that */
	if (p->op->flags & RO_F_LAST ? p->len != r->left : p->len >= r->left) {
		refuse(qp, RO_NAK_INVALID_REQUEST, 0, "the peer's write is not as long as it said");
		return;
	}
	if ((p->op->flags & RO_F_IMM) && !take_receive(qp)) {
		if (p->op->flags & RO_F_FIRST)
			r->kind = RO_NONE;
		receiver_not_ready(qp);
		return;
	}
	if (p->len && iw_mr_look(qp->qp.pd, &qp->windows, r->rkey, r->va, p->len,
				 IBV_ACCESS_REMOTE_WRITE) != IW_OK) {
		refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer wrote to memory that it was not given");
		return;
	}
	if (p->len)
		memcpy((void *)(uintptr_t)r->va, p->payload, p->len);
	r->va += p->len;
	r->left -= p->len;
	if (p->op->flags & RO_F_IMM)
		receive_done(qp, p, IBV_WC_RECV_RDMA_WITH_IMM, r->length);
	taken(qp, p, 1);
}

/* False if the peer may not read that, or not that much at once. */
static bool queue_read(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	struct ro_read rd = {
		.va = ro_get64(p->ext), .rkey = ro_get32(p->ext + 8), .len = ro_get32(p->ext + 12),
		.psn = p->bth.psn,
	};

	if (rd.len > 0x80000000u ||
	    (rd.len && iw_mr_look(qp->qp.pd, &qp->windows, rd.rkey, rd.va, rd.len, IBV_ACCESS_REMOTE_READ) != IW_OK))
		return false;
	r->reads[r->reads_head++ % RO_MAX_RD] = rd;
	return true;
}

static void take_read(struct ro_qp *qp, const struct ro_packet *p)
{
	if (qp->rsp.reads_head - qp->rsp.reads_tail >= qp->ird) {
		refuse(qp, RO_NAK_INVALID_REQUEST, 0, "the peer has more READs open than was agreed on");
		return;
	}
	if (!queue_read(qp, p)) {
		refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer read memory that it was not given");
		return;
	}
	taken(qp, p, response_packets(qp, ro_get32(p->ext + 12)));
	qp->rsp.ack_due = false;	/* the response says it */
}

static void take_atomic(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	const uint64_t va = ro_get64(p->ext), swap = ro_get64(p->ext + 12);
	uint64_t *at = (uint64_t *)(uintptr_t)va, was = ro_get64(p->ext + 20);
	struct ro_read rd = { .psn = p->bth.psn, .atomic = true };

	if (va % RO_ATOMIC_SIZE || r->reads_head - r->reads_tail >= qp->ird) {
		refuse(qp, RO_NAK_INVALID_REQUEST, 0,
		       va % RO_ATOMIC_SIZE ? "the peer's atomic operation is at an address that is not a multiple of 8" :
					     "the peer has more atomic operations open than was agreed on");
		return;
	}
	if (iw_mr_look(qp->qp.pd, &qp->windows, ro_get32(p->ext + 8), va, RO_ATOMIC_SIZE,
		       IBV_ACCESS_REMOTE_ATOMIC) != IW_OK) {
		refuse(qp, RO_NAK_REMOTE_ACCESS, 0,
		       "the peer's atomic operation is on memory that it was not given for that");
		return;
	}
	if (p->bth.opcode == RO_OP_FETCH_ADD)
		was = __atomic_fetch_add(at, swap, __ATOMIC_SEQ_CST);
	else	/* the value that was there is left in "was" if it is another */
		__atomic_compare_exchange_n(at, &was, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	rd.va = was;
	r->reads[r->reads_head++ % RO_MAX_RD] = rd;
	r->atomics[r->atomics_head++ % RO_MAX_RD] = rd;
	taken(qp, p, 1);
	qp->rsp.ack_due = false;	/* the response says it */
}

/* Answer an atomic operation again as it was answered; nothing if that was too long ago. */
static void again_atomic(struct ro_responder *r, uint32_t psn)
{
	const uint32_t n = r->atomics_head < RO_MAX_RD ? r->atomics_head : RO_MAX_RD;

	for (uint32_t i = 1; i <= n; i++) {
		const struct ro_read *one = &r->atomics[(r->atomics_head - i) % RO_MAX_RD];

		if (one->psn == psn) {
			r->reads[r->reads_head++ % RO_MAX_RD] = *one;
			return;
		}
	}
}

/* One that was taken before. */
static void again(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;

	if (p->op->kind != RO_READ && p->op->kind != RO_ATOMIC) {
		r->ack_due = true;
		return;
	}
	/* all that is not sent yet is asked for again, or answered with what comes before it */
	for (uint32_t i = r->reads_tail; i != r->reads_head; i++)
		if (r->reads[i % RO_MAX_RD].psn == p->bth.psn)
			return;
	if (r->reads_head - r->reads_tail >= RO_MAX_RD)
		return;
	if (p->op->kind == RO_ATOMIC)
		again_atomic(r, p->bth.psn);
	else
		(void)queue_read(qp, p);
}

/* Whether a packet may come where it does, and is as long as it must be there. */
static bool in_place(const struct ro_qp *qp, const struct ro_packet *p)
{
	const uint8_t flags = p->op->flags;

	if ((flags & RO_F_FIRST) ? qp->rsp.kind != RO_NONE : qp->rsp.kind != p->op->kind)
		return false;
	if (p->op->kind == RO_READ)
		return true;
	if (!(flags & RO_F_LAST))
		return p->len == qp->mtu;
	return p->len <= qp->mtu && (p->len || (flags & RO_F_FIRST));
}

void ro_respond(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	const int32_t ahead = ro_psn_diff(p->bth.psn, r->epsn);

	if (ahead > 0) {
		if (!r->nak_sent)
			r->nak = RO_NAK_SEQUENCE;
		r->nak_sent = true;
		return;
	}
	if (ahead < 0) {
		again(qp, p);
		return;
	}
	r->nak_sent = false;
	if (!in_place(qp, p))
		refuse(qp, RO_NAK_INVALID_REQUEST, IBV_WC_LOC_QP_OP_ERR,
		       "the peer sent a packet out of place or of a wrong length");
	else if (p->op->kind == RO_SEND)
		take_send(qp, p);
	else if (p->op->kind == RO_WRITE)
		take_write(qp, p);
	else if (p->op->kind == RO_READ)
		take_read(qp, p);
	else
		take_atomic(qp, p);
}
