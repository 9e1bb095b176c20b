/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder's part for requests that have a response: READs, atomic operations, FLUSH and ATOMIC WRITE.  Their
 * responses are sent in the order of the requests, those of READs and long FLUSHes in pieces, between which other
 * queue pairs are served.  A repeated request is answered again, but not executed again.
 */
#include "respond.h"
#include "util/lines.h"

enum { FLUSH_PIECE = 65536 };	/* bytes written back in the place of a packet */

uint32_t ro_response_packets(const struct ro_qp *qp, uint32_t len)
{
	return ro_packets(len, qp->mtu);
}

/* Touch the memory of a packet, which is in two pages at most; false if it has failed, so that there is no data. */
static bool is_readable(uint32_t rkey, uint64_t va, uint32_t len)
{
	const volatile uint8_t *at = (const volatile uint8_t *)(uintptr_t)va;

	(void)at[0];
	(void)at[len - 1];
	return !iw_mr_failed(rkey);
}

static bool read_packet(struct ro_qp *qp, struct ro_burst *b, struct ro_read *rd)
{
	const uint32_t n = ro_response_packets(qp, rd->len), off = rd->sent * qp->mtu;
	const bool first = !rd->sent, last = rd->sent + 1 == n;
	const uint32_t len = last ? rd->len - off : qp->mtu;
	const struct ro_bth bth = {
		.opcode = first && last ? RO_OP_READ_ONLY : first ? RO_OP_READ_FIRST :
			  last ? RO_OP_READ_LAST : RO_OP_READ_MIDDLE,
		.psn = ro_psn_add(rd->psn, rd->sent),
	};
	uint8_t *packet;

	if (len && (iw_mr_look(qp->qp.pd, &qp->windows, rd->rkey, rd->va + off, len, IBV_ACCESS_REMOTE_READ) != IW_OK ||
		    !is_readable(rd->rkey, rd->va + off, len)))
		return false;
	packet = ro_burst_packet(b, &bth, len);
	if (ro_ops[bth.opcode].flags & RO_F_AETH) {
		ro_put32(packet + RO_BTH, qp->rsp.msn);
		packet[RO_BTH] = RO_AETH_ACK | RO_CREDITS_UNLIMITED;
	}
	if (len)
		ro_burst_copy(b, packet, (const void *)(uintptr_t)(rd->va + off), len, rd->len - off - len);
	ro_burst_seal(b, packet, len);
	rd->sent++;
	return true;
}

/* Write back the next piece of the range of a FLUSH; false if the memory is gone. */
static bool flush_piece(struct ro_qp *qp, struct ro_read *rd)
{
	const uint64_t len = rd->to_flush < FLUSH_PIECE ? rd->to_flush : FLUSH_PIECE;

	if (iw_mr_look(qp->qp.pd, &qp->windows, rd->rkey, rd->va, len, VERBS_ACCESS_FLUSH_PERSISTENT) != IW_OK)
		return false;
	lines_write_back((const void *)(uintptr_t)rd->va, len);
	if (iw_mr_failed(rd->rkey))
		return false;
	rd->va += len;
	rd->to_flush -= len;
	qp->rsp.flushing = rd->to_flush;
	return true;
}

bool ro_answer_packet(struct ro_qp *qp, struct ro_burst *b, struct ro_read *rd)
{
	const struct ro_bth bth = { .opcode = RO_OP_ATOMIC_ACK, .psn = rd->psn };
	uint8_t *packet;

	if (rd->to_flush)
		return flush_piece(qp, rd);
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

uint32_t ro_reads_served(const struct ibv_qp *ibqp)
{
	return atomic_load_explicit(&ro_qp((struct ibv_qp *)(uintptr_t)ibqp)->rsp.served, memory_order_relaxed);
}

/* ---- requests ---- */

/*
 * Make room for a new request; false if the peer has more open than agreed.  Repeated responses do not count: a peer that
 * has sent its requests again, because it waited for too long, may have received the first responses meanwhile, and then
 * sends new requests.  The repeated ones are given up if there are too many: the peer requests again what it lacks.
 */
static bool has_room(struct ro_qp *qp)
{
	struct ro_responder *r = &qp->rsp;
	uint32_t open = 0, kept = r->reads_tail;

	for (uint32_t i = r->reads_tail; i != r->reads_head; i++)
		open += !r->reads[i % RO_MAX_RD].again;
	if (open >= qp->ird)
		return false;
	if (r->reads_head - r->reads_tail < RO_MAX_RD)
		return true;
	for (uint32_t i = r->reads_tail; i != r->reads_head; i++)
		if (!r->reads[i % RO_MAX_RD].again)
			r->reads[kept++ % RO_MAX_RD] = r->reads[i % RO_MAX_RD];
	r->reads_head = kept;
	return true;
}

/* Queue a READ; false if the peer may not read that memory, or has too many READs open. */
static bool queue_read(struct ro_qp *qp, const struct ro_packet *p, bool again)
{
	struct ro_responder *r = &qp->rsp;
	struct ro_read rd = {
		.va = ro_get64(p->ext), .rkey = ro_get32(p->ext + 8), .len = ro_get32(p->ext + 12),
		.psn = p->bth.psn, .again = again,
	};

	if (rd.len > 0x80000000u ||
	    (rd.len && iw_mr_look(qp->qp.pd, &qp->windows, rd.rkey, rd.va, rd.len, IBV_ACCESS_REMOTE_READ) != IW_OK))
		return false;
	r->reads[r->reads_head++ % RO_MAX_RD] = rd;
	return true;
}

static void take_read(struct ro_qp *qp, const struct ro_packet *p)
{
	if (!has_room(qp)) {
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, 0, "the peer has more READs open than agreed");
		return;
	}
	if (!queue_read(qp, p, false)) {
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer read memory without permission");
		return;
	}
	ro_taken(qp, p, ro_response_packets(qp, ro_get32(p->ext + 12)));
	ro_acknowledged(qp);	/* by the response */
}

static void take_atomic(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	const uint64_t va = ro_get64(p->ext), swap = ro_get64(p->ext + 12);
	uint64_t *at = (uint64_t *)(uintptr_t)va, was = ro_get64(p->ext + 20);
	struct ro_read rd = { .psn = p->bth.psn, .atomic = true };

	if (va % RO_ATOMIC_SIZE || !has_room(qp)) {
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, 0,
		       va % RO_ATOMIC_SIZE ? "the peer's atomic operation is at an address that is not a multiple of 8" :
					     "the peer has more atomic operations open than agreed");
		return;
	}
	if (iw_mr_look(qp->qp.pd, &qp->windows, ro_get32(p->ext + 8), va, RO_ATOMIC_SIZE,
		       IBV_ACCESS_REMOTE_ATOMIC) != IW_OK) {
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, 0,
		       "the peer has no permission for an atomic operation on that memory");
		return;
	}
	if (p->bth.opcode == RO_OP_FETCH_ADD)
		was = __atomic_fetch_add(at, swap, __ATOMIC_SEQ_CST);
	else	/* if the compared value differs, "was" has it */
		__atomic_compare_exchange_n(at, &was, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	rd.va = was;
	r->reads[r->reads_head++ % RO_MAX_RD] = rd;
	r->atomics[r->atomics_head++ % RO_MAX_RD] = rd;
	ro_taken(qp, p, 1);
	ro_acknowledged(qp);	/* by the response */
}

/* Answer with a READ response of no bytes. */
static void respond_empty(struct ro_qp *qp, const struct ro_packet *p, const struct ro_read *rd)
{
	qp->rsp.reads[qp->rsp.reads_head++ % RO_MAX_RD] = *rd;
	ro_taken(qp, p, 1);
	ro_acknowledged(qp);	/* by the response */
}

static void take_flush(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;
	const uint32_t feth = ro_get32(p->ext), type = feth & RO_FETH_PLT;
	const uint32_t level = feth >> RO_FETH_SEL_SHIFT & RO_FETH_SEL, len = ro_get32(p->ext + RO_FETH + 12);
	const int access = ((type & RO_PLT_GLOBAL) ? VERBS_ACCESS_FLUSH_GLOBAL : 0) |
			   ((type & RO_PLT_PERSISTENT) ? VERBS_ACCESS_FLUSH_PERSISTENT : 0);
	struct ro_read rd = {
		.va = ro_get64(p->ext + RO_FETH), .rkey = ro_get32(p->ext + RO_FETH + 8), .to_flush = len,
		.psn = p->bth.psn,
	};

	if (!type || type > (RO_PLT_GLOBAL | RO_PLT_PERSISTENT) || level > RO_SEL_MR || !has_room(qp)) {
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, 0,
		       "the peer's FLUSH has an invalid type or level, or exceeds the agreed number");
		return;
	}
	if (level == RO_SEL_MR ? !iw_mr_range(qp->qp.pd, &qp->windows, rd.rkey, access, &rd.va, &rd.to_flush) :
	    len && iw_mr_look(qp->qp.pd, &qp->windows, rd.rkey, rd.va, len, access) != IW_OK) {
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer has no permission for a FLUSH of that memory");
		return;
	}
	if (!(type & RO_PLT_PERSISTENT))
		rd.to_flush = 0;	/* the placed data is visible to all */
	else if (rd.to_flush && rd.to_flush <= FLUSH_PIECE)
		(void)flush_piece(qp, &rd);
	if (iw_mr_failed(rd.rkey)) {
		ro_refuse(qp, RO_NAK_REMOTE_OPERATION, 0, "memory in the range of the peer's FLUSH has failed");
		return;
	}
	r->flushing = rd.to_flush;
	respond_empty(qp, p, &rd);
}

static void take_atomic_write(struct ro_qp *qp, const struct ro_packet *p)
{
	const uint64_t va = ro_get64(p->ext);
	const struct ro_read rd = { .psn = p->bth.psn };
	uint64_t value;

	if (va % RO_ATOMIC_SIZE || p->len != RO_ATOMIC_SIZE || ro_get32(p->ext + 12) != RO_ATOMIC_SIZE ||
	    !has_room(qp)) {
		ro_refuse(qp, RO_NAK_INVALID_REQUEST, 0,
		       "the peer's ATOMIC WRITE is not of 8 aligned bytes, or exceeds the agreed number");
		return;
	}
	if (iw_mr_look(qp->qp.pd, &qp->windows, ro_get32(p->ext + 8), va, RO_ATOMIC_SIZE, IBV_ACCESS_REMOTE_WRITE) !=
	    IW_OK) {
		ro_refuse(qp, RO_NAK_REMOTE_ACCESS, 0, "the peer wrote to memory without permission");
		return;
	}
	memcpy(&value, p->payload, sizeof(value));
	__atomic_store_n((uint64_t *)(uintptr_t)va, value, __ATOMIC_SEQ_CST);
	if (iw_mr_failed(ro_get32(p->ext + 8))) {
		ro_refuse(qp, RO_NAK_REMOTE_OPERATION, 0, "memory written by the peer has failed");
		return;
	}
	respond_empty(qp, p, &rd);
}

/* Repeat the answer to an atomic operation; no answer if that was too long ago. */
static void again_atomic(struct ro_responder *r, uint32_t psn)
{
	const uint32_t n = r->atomics_head < RO_MAX_RD ? r->atomics_head : RO_MAX_RD;

	for (uint32_t i = 1; i <= n; i++) {
		const struct ro_read *one = &r->atomics[(r->atomics_head - i) % RO_MAX_RD];

		if (one->psn == psn) {
			r->reads[r->reads_head % RO_MAX_RD] = *one;
			r->reads[r->reads_head++ % RO_MAX_RD].again = true;
			return;
		}
	}
}

void ro_respond_again(struct ro_qp *qp, const struct ro_packet *p)
{
	struct ro_responder *r = &qp->rsp;

	if (!ro_has_response(p->op->kind)) {
		r->ack_due = true;
		return;
	}
	/* responses that were not sent yet are requested again, or sent after those before them */
	for (uint32_t i = r->reads_tail; i != r->reads_head; i++)
		if (r->reads[i % RO_MAX_RD].psn == p->bth.psn)
			return;
	if (r->reads_head - r->reads_tail >= RO_MAX_RD)
		return;
	if (p->op->kind == RO_ATOMIC)
		again_atomic(r, p->bth.psn);
	else if (p->op->kind == RO_READ)
		(void)queue_read(qp, p, true);
	else	/* it was executed, and is not executed again */
		r->reads[r->reads_head++ % RO_MAX_RD] = (struct ro_read){ .psn = p->bth.psn, .again = true };
}

void ro_respond_memory(struct ro_qp *qp, const struct ro_packet *p)
{
	switch (p->op->kind) {
	case RO_READ:
		take_read(qp, p);
		break;
	case RO_FLUSH:
		take_flush(qp, p);
		break;
	case RO_ATOMIC_WRITE:
		take_atomic_write(qp, p);
		break;
	default:
		take_atomic(qp, p);
		break;
	}
}
