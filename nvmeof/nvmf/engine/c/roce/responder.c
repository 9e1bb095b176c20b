/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder: takes requests in the order of their PSNs, and answers them in that order.  A gap is reported
 * once, and again if the missing packet is lost again; what came after it is kept (ahead.c).  A repeated request is
 * acknowledged again, or, if it has a response, answered again.
 */
#include "respond.h"

enum {
	RNR_TIMER = 14,			/* 1 ms, by the codes of table 45 */
	ANSWERS = 64,			/* packets of READ responses at once */
	HOLD_PACKETS = RO_WINDOW_MAX / 2,	/* taken since the last acknowledgement; from then on the next one is not held */
};

/* ---- answers ---- */

static void put_aeth(const struct ro_qp *qp, uint8_t *packet, uint8_t syndrome)
{
	ro_put32(packet + RO_BTH, qp->rsp.msn);
	packet[RO_BTH] = syndrome;
}

void ro_acknowledged(struct ro_qp *qp)
{
	qp->rsp.ack_due = qp->rsp.ack_held = qp->rsp.unasked = false;
	qp->rsp.unacked = 0;
}

static void send_aeth(struct ro_qp *qp, struct ro_burst *b, uint8_t syndrome, uint32_t psn)
{
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .psn = psn };
	uint8_t *packet = ro_burst_packet(b, &bth, 0);

	put_aeth(qp, packet, syndrome);
	ro_burst_seal(b, packet, 0);
	ro_acknowledged(qp);
}

/* The last packet that was taken. */
static uint32_t taken_psn(const struct ro_qp *qp)
{
	return (qp->rsp.epsn - 1) & RO_MASK24;
}

/* An acknowledgement implies that READs before it were answered. */
static bool may_acknowledge(const struct ro_qp *qp)
{
	return qp->rsp.ack_due && !qp->rsp.nak && qp->rsp.reads_tail == qp->rsp.reads_head;
}

bool ro_ack_can_wait(const struct ro_qp *qp)
{
	return may_acknowledge(qp) && qp->rsp.unacked < HOLD_PACKETS;
}

void ro_acknowledge_along(struct ro_qp *qp, struct ro_burst *b)
{
	if (may_acknowledge(qp) && ro_burst_has_room(b, RO_OP_ACK))
		send_aeth(qp, b, RO_AETH_ACK | RO_CREDITS_UNLIMITED, taken_psn(qp));
}

void ro_acknowledge(struct ro_qp *qp)
{
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .psn = taken_psn(qp), .qpn = qp->dqpn };
	uint8_t packet[RO_BTH + RO_AETH + RO_ICRC];
	uint32_t icrc;

	qp->rsp.ack_due |= qp->rsp.unasked;
	if (!may_acknowledge(qp))
		return;
	ro_bth_put(packet, &bth);
	put_aeth(qp, packet, RO_AETH_ACK | RO_CREDITS_UNLIMITED);
	icrc = ro_icrc(&qp->flow, 0, packet, RO_BTH + RO_AETH);
	memcpy(packet + RO_BTH + RO_AETH, &icrc, RO_ICRC);
	(void)ro_port_send(qp->port, &qp->peer, packet, sizeof(packet), sizeof(packet));
	ro_acknowledged(qp);
}

void ro_refuse(struct ro_qp *qp, uint8_t nak, enum ibv_wc_status status, const char *why)
{
	struct ro_burst b;

	ro_burst_begin(&b, qp);
	send_aeth(qp, &b, nak, qp->rsp.epsn);
	ro_burst_send(&b);
	qp->recv_fail_status = qp->rsp.kind == RO_SEND ? status : 0;
	ro_qp_fail(qp, "%s", why);
}

bool ro_answer(struct ro_qp *qp, struct ro_burst *b, bool hold)
{
	struct ro_responder *r = &qp->rsp;

	for (uint32_t n = 0; r->reads_tail != r->reads_head; n++) {
		struct ro_read *rd = &r->reads[r->reads_tail % RO_MAX_RD];

		if (n == ANSWERS)
			return false;
		if (!ro_answer_packet(qp, b, rd)) {
			if (rd->again) {	/* the peer has the first answer, and may have invalidated the key */
				r->reads_tail++;
				continue;
			}
			ro_burst_send(b);
			/* that of the missing response, so that all packets before it are acknowledged */
			r->epsn = ro_psn_add(rd->psn, rd->sent);
			ro_refuse(qp, RO_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
			       rd->to_flush ? "memory was deregistered during a FLUSH of the peer" :
					      "memory was deregistered during a READ of the peer");
			return true;
		}
		if (rd->sent == ro_response_packets(qp, rd->len)) {
			r->reads_tail++;
			atomic_store_explicit(&r->served, r->reads_tail, memory_order_relaxed);
		}
	}
	if (r->nak) {
		send_aeth(qp, b, r->nak, r->epsn);
		r->nak = 0;
	} else if (r->ack_due && !(hold && ro_ack_can_wait(qp))) {
		send_aeth(qp, b, RO_AETH_ACK | RO_CREDITS_UNLIMITED, taken_psn(qp));
	}
	return true;
}

/* ---- requests ---- */

static struct iw_rwr *receive_of(struct ro_qp *qp, struct ibv_sge **sge)
{
	const uint32_t slot = qp->rsp.tail & (qp->rsp.size - 1);

	*sge = qp->rsp.sge + (size_t)slot * qp->cap.max_recv_sge;
	return &qp->rsp.rq[slot];
}

/* Make sure that a receive is at the tail of the queue; false if there is none. */
static bool take_receive(struct ro_qp *qp)
{
	struct ro_responder *r = &qp->rsp;

	if (!qp->srq || r->head != r->tail)
		return r->head != r->tail;
	if (!iw_srq_take(qp->srq, &qp->place, &r->rq[r->tail & (r->size - 1)],
			 r->sge + (size_t)(r->tail & (r->size - 1)) * qp->cap.max_recv_sge)) {
		/* the peer repeats the request; nothing is kept for a peer without permission */
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

void ro_taken(struct ro_qp *qp, const struct ro_packet *p, uint32_t packets)
{
	struct ro_responder *r = &qp->rsp;

	r->epsn = ro_psn_add(r->epsn, packets);
	r->unacked += packets;
	if (p->op->flags & RO_F_LAST) {
		r->msn = (r->msn + 1) & RO_MASK24;
		r->kind = RO_NONE;
	}
	r->ack_due |= p->bth.ack_req;
	if (!p->bth.ack_req) {
		r->unasked = true;
		ro_tick_want(qp);
	}
	if (!atomic_load_explicit(&qp->data, memory_order_relaxed)) {
		atomic_store(&qp->data, true);
		iw_helper_call(&qp->caller);
	}
}

static void receiver_not_ready(struct ro_qp *qp)
{
	qp->rsp.nak = RO_AETH_RNR | RNR_TIMER;
	qp->rsp.nak_sent = true;	/* later packets are not a new gap */
	qp->rsp.gap = false;
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
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,
		       "the peer sent more bytes than the receive has room for");
		return;
	}
	if (p->len && ro_sge_copy(qp->recv_pd, sge, wr->num_sge, r->have, (uint8_t *)(uintptr_t)p->payload, p->len,
				  NULL) != IW_OK) {
		ro_refuse(qp, RO_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR,
		       "the memory of a receive is not registered for it");
		return;
	}
	r->have += p->len;
	if ((p->op->flags & RO_F_INV) &&
	    iw_mr_invalidate(qp->qp.pd, &qp->windows, ro_get32(p->ext), true) != IW_OK) {
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
		       "the peer invalidated a key that it may not invalidate");
		return;
	}
	if (p->op->flags & RO_F_LAST)
		receive_done(qp, p, IBV_WC_RECV, r->have);
	ro_taken(qp, p, 1);
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
	/* the last packet has all remaining bytes, the others fewer */
	if (p->op->flags & RO_F_LAST ? p->len != r->left : p->len >= r->left) {
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, 0, "the length of the peer's write is not as announced");
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
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer wrote to memory without permission");
		return;
	}
	if (p->len)
		memcpy((void *)(uintptr_t)r->va, p->payload, p->len);
	r->va += p->len;
	r->left -= p->len;
	if (p->op->flags & RO_F_IMM)
		receive_done(qp, p, IBV_WC_RECV_RDMA_WITH_IMM, r->length);
	ro_taken(qp, p, 1);
}

/* Whether a packet is allowed at its place in the message, and has the length required there. */
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

/* Whether the access rights of the queue pair permit this kind of request. */
static bool permitted(const struct ro_qp *qp, uint8_t kind)
{
	static const int rights[] = {
		[RO_WRITE] = IBV_ACCESS_REMOTE_WRITE, [RO_READ] = IBV_ACCESS_REMOTE_READ,
		[RO_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC, [RO_ATOMIC_WRITE] = IBV_ACCESS_REMOTE_WRITE,
	};

	return kind > RO_ATOMIC_WRITE || !(rights[kind] & ~qp->access);
}

/* A packet comes after one that is missing. */
static void missing(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	/* if a later one came before it, the peer has sent again from the missing one on, which was lost again */
	const bool again = r->gap && ro_psn_diff(p->bth.psn, r->ahead_psn) < 0;

	r->gap |= !r->nak_sent;
	if (!r->nak_sent || again)
		r->nak = RO_NAK_SEQUENCE;
	r->nak_sent = true;
	if (!r->gap)
		return;
	r->ahead_psn = p->bth.psn;
	r->stirred = true;
	ro_ahead_keep(qp, p);
	ro_tick_want(qp);
}

void ro_ask_again(struct ro_qp *qp)
{
	struct ro_responder *r = &qp->rsp;
	struct ro_burst b;

	if (r->gap && !r->stirred && r->reads_tail == r->reads_head) {
		ro_burst_begin(&b, qp);
		send_aeth(qp, &b, RO_NAK_SEQUENCE, r->epsn);
		ro_burst_send(&b);
	}
	r->stirred = false;
}

/* Carry out the request that comes next. */
static void take(struct ro_qp *qp, const struct ro_packet *p)
{
	if (qp->rsp.flushing) {
		receiver_not_ready(qp);
		return;
	}
	qp->rsp.nak_sent = qp->rsp.gap = false;
	if (!in_place(qp, p))
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, IBV_WC_LOC_QP_OP_ERR,
		       "the peer sent a packet at a wrong place or of a wrong length");
	else if (!permitted(qp, p->op->kind))
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
		       "the queue pair does not permit the request of the peer");
	else if (p->op->kind == RO_SEND)
		take_send(qp, p);
	else if (p->op->kind == RO_WRITE)
		take_write(qp, p);
	else
		ro_respond_memory(qp, p);
}

void ro_respond(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	const int32_t ahead = ro_psn_diff(p->bth.psn, r->epsn);

	if (ahead > 0) {
		missing(qp, p);
		return;
	}
	if (ahead < 0) {
		ro_respond_again(qp, p);
		return;
	}
	take(qp, p);
	if (!ro_ahead_waits(qp) || !ro_qp_up(qp))
		return;
	r->ack_due |= ro_ahead_resume(qp, take);
	r->gap |= !r->nak_sent && ro_ahead_waits(qp);	/* one more is missing, and its repetition is likely on the way */
}
