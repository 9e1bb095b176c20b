/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that the requester receives: acknowledgements, negative acknowledgements, and responses with the data of
 * READs and atomic operations.  They arrive in the order of their PSNs; a packet for a later request than the expected
 * one shows that an earlier packet was lost.
 */
#include "qp.h"
#include "util/clock.h"

/* RNR timers by their codes, in units of 10 us (table 45); 0 is the longest. */
static const uint32_t rnr_delay[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void progress(struct ro_qp *qp, uint32_t una)
{
	enum { SINCE_MAX = 4 * RO_DENSE };	/* a long time without a loss does not hide the beginning of congestion */
	struct ro_requester *r = &qp->req;
	uint32_t until;

	r->grown += (una - r->una) & RO_MASK24;
	r->since += (una - r->una) & RO_MASK24;
	r->since = r->since < SINCE_MAX ? r->since : SINCE_MAX;
	r->una = una;
	r->calming &= ro_psn_diff(una, r->calm_psn) < 0;
	r->rewound = false;
	r->retries = r->rnr_retries = 0;
	if (r->grown >= r->window) {
		r->grown = 0;
		r->window += r->window < RO_WINDOW_MAX;
		if (!r->cut)
			r->alpha -= r->alpha / RO_ALPHA_SHARE;
		r->cut = false;
	}
	for (until = r->reads_tail; until != r->reads_head; until++)
		if (ro_psn_diff(una, r->read_end[until % RO_MAX_RD]) < 0)
			break;
	ro_reads_end(qp, until);
}

/* The oldest request that is not done; its index in *index.  NULL if none was begun. */
static struct ro_swr *oldest(struct ro_qp *qp, uint32_t *index)
{
	struct ro_requester *r = &qp->req;

	for (*index = r->tail; *index != r->fresh; ++*index)
		if (!ro_sq(qp, *index)->done)
			return ro_sq(qp, *index);
	return NULL;
}

/* Acknowledge all packets before psn; false if the data of a READ among them is missing. */
static bool acknowledged(struct ro_qp *qp, uint32_t psn)
{
	struct ro_swr *w;
	uint32_t index;

	while (ro_psn_diff(psn, qp->req.una) > 0 && (w = oldest(qp, &index))) {
		uint32_t end = ro_psn_add(w->psn, w->packets);

		if (ro_has_response(w->kind))
			return ro_psn_diff(psn, w->psn) <= 0;
		qp->fits |= w->len >= qp->mtu;
		if (ro_psn_diff(psn, end) < 0) {
			progress(qp, psn);
			break;
		}
		w->done = true;
		progress(qp, end);
	}
	return true;
}

/*
 * A packet is missing.  again: and since it was sent again, the peer has told that once more; not what was on the way when
 * it was sent again.
 */
static void lost(struct ro_qp *qp, bool again)
{
	if (!qp->req.rewound || again)
		ro_rewind(qp, RO_GAP);
}

/* Whether a negative acknowledgement of the packet that was sent again is not a copy of the one that had that done. */
static bool told_again(const struct ro_qp *qp)
{
	enum { COPY_NS = 100000 };

	return qp->req.rewound && clock_ns() - qp->req.rewound_at > COPY_NS;
}

/* A response came after a gap.  If an earlier one came last, the peer has sent again, and it was lost again. */
static void gap(struct ro_qp *qp, uint32_t psn)
{
	struct ro_requester *r = &qp->req;
	const bool again = r->rewound && ro_psn_diff(psn, r->ahead_psn) < 0;

	r->ahead_psn = psn;
	lost(qp, again);
}

static void refused(struct ro_qp *qp, uint8_t nak)
{
	static const struct {
		enum ibv_wc_status status;
		const char *why;
	} refusals[] = {
		{ IBV_WC_REM_INV_REQ_ERR, "the peer refused a request as invalid" },
		{ IBV_WC_REM_ACCESS_ERR, "the peer refused access to its memory" },
		{ IBV_WC_REM_OP_ERR, "the peer could not carry out a request" },
	};
	uint32_t index;

	oldest(qp, &index);
	ro_fail_request(qp, index, refusals[nak - RO_NAK_INVALID_REQUEST].status,
			refusals[nak - RO_NAK_INVALID_REQUEST].why);
}

static void not_ready(struct ro_qp *qp, uint8_t code)
{
	struct ro_requester *r = &qp->req;
	uint32_t index;

	if (qp->rnr_limit < 7 && r->rnr_retries++ >= qp->rnr_limit) {
		oldest(qp, &index);
		ro_fail_request(qp, index, IBV_WC_RNR_RETRY_EXC_ERR,
				"the peer had no receive posted, and retries are exceeded");
		return;
	}
	ro_rewind(qp, RO_NOT_READY);
	r->rnr = true;
	r->rnr_until = clock_ns() + rnr_delay[code] * 10000ull;
}

static void acknowledge(struct ro_qp *qp, const struct ro_packet *p)
{
	const uint8_t syndrome = p->ext[0];
	const uint32_t psn = p->bth.psn;

	switch (syndrome & RO_AETH_KIND) {
	case RO_AETH_ACK:
		if (!acknowledged(qp, ro_psn_add(psn, 1)))
			lost(qp, false);
		break;
	case RO_AETH_RNR:
		if (acknowledged(qp, psn) && qp->req.una == psn)
			not_ready(qp, syndrome & RO_AETH_VALUE);
		break;
	case RO_AETH_NAK:
		if (!acknowledged(qp, psn))
			lost(qp, false);
		else if (qp->req.una == psn && syndrome == RO_NAK_SEQUENCE)
			lost(qp, told_again(qp));
		else if (qp->req.una == psn && syndrome <= RO_NAK_REMOTE_OPERATION)
			refused(qp, syndrome);
		break;
	default:
		break;
	}
}

static void read_data(struct ro_qp *qp, const struct ro_packet *p)
{
	const uint32_t psn = p->bth.psn;
	uint32_t index, off, expected;
	struct ro_swr *w;

	if (!acknowledged(qp, psn) || ro_psn_diff(psn, qp->req.una) > 0) {
		gap(qp, psn);
		return;
	}
	w = oldest(qp, &index);
	if (psn != qp->req.una || !w || (w->kind != RO_READ && w->kind != RO_FLUSH && w->kind != RO_ATOMIC_WRITE))
		return;		/* a repeated response, or one without a request */
	if (w->kind != RO_READ && p->len) {
		ro_fail_request(qp, index, IBV_WC_BAD_RESP_ERR, "the peer answered a FLUSH or ATOMIC WRITE with data");
		return;
	}
	if (w->kind != RO_READ) {
		w->done = true;
		qp->flush_known |= w->icrcs == 1 << qp->flush;	/* it was not sent with both ICRCs */
		progress(qp, ro_psn_add(psn, 1));
		return;
	}
	off = ((psn - w->psn) & RO_MASK24) * qp->mtu;
	expected = w->len - off < qp->mtu ? w->len - off : qp->mtu;
	if (p->len != expected) {
		ro_fail_request(qp, index, IBV_WC_BAD_RESP_ERR, "the peer answered a READ with a different length");
		return;
	}
	if (ro_sge_copy(qp->qp.pd, qp->req.sge + (size_t)(index & (qp->req.size - 1)) * qp->cap.max_send_sge,
			w->num_sge, off, (uint8_t *)(uintptr_t)p->payload, p->len, NULL) != IW_OK) {
		ro_fail_request(qp, index, IBV_WC_LOC_PROT_ERR, "the destination of a READ is not registered for it");
		return;
	}
	w->done = off + p->len == w->len;
	progress(qp, ro_psn_add(psn, 1));
}

static void atomic_data(struct ro_qp *qp, const struct ro_packet *p)
{
	uint64_t value = ro_get64(p->ext + RO_AETH);
	uint32_t index;
	struct ro_swr *w;

	if (!acknowledged(qp, p->bth.psn) || ro_psn_diff(p->bth.psn, qp->req.una) > 0) {
		gap(qp, p->bth.psn);
		return;
	}
	w = oldest(qp, &index);
	if (p->bth.psn != qp->req.una || !w || w->kind != RO_ATOMIC)
		return;		/* a repeated response, or one without a request */
	if (ro_sge_copy(qp->qp.pd, qp->req.sge + (size_t)(index & (qp->req.size - 1)) * qp->cap.max_send_sge,
			w->num_sge, 0, (uint8_t *)&value, sizeof(value), NULL) != IW_OK) {
		ro_fail_request(qp, index, IBV_WC_LOC_PROT_ERR,
				"memory for the result of an atomic operation is not registered for it");
		return;
	}
	w->done = true;
	progress(qp, ro_psn_add(p->bth.psn, 1));
}

void ro_complete(struct ro_qp *qp, const struct ro_packet *p)
{
	/* a response to a packet that was not sent is invalid; a repeated response is ignored */
	if (ro_psn_diff(p->bth.psn, qp->req.high_psn) >= 0 || ro_psn_diff(p->bth.psn, qp->req.una) < 0)
		return;
	if (p->op->kind == RO_READ_RESPONSE)
		read_data(qp, p);
	else if (p->op->kind == RO_ATOMIC_RESPONSE)
		atomic_data(qp, p);
	else if (p->op->kind == RO_ACK)
		acknowledge(qp, p);
	if (ro_qp_state(qp) != IBV_QPS_ERR)
		ro_sweep(qp);
}
