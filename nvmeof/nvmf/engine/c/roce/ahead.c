/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that arrived after a gap.  They are kept, and carried out when the gap is filled, so that a lost packet costs
 * its repetition, and not a repetition of everything after it.  Owns the kept packets; nothing is allocated before the
 * first gap of a queue pair, and all queue pairs of the process together keep a limited number of bytes.  Under the lock of
 * the queue pair.
 */
#include "respond.h"

#include <stdlib.h>

enum { BYTES_MAX = 16 << 20 };		/* of all queue pairs */

static atomic_uint kept_bytes;

struct ro_kept {
	struct ro_packet packet;
	uint32_t size;
	uint8_t bytes[];
};

/* By PSN, modulo the number of packets that a peer of this device has on the way at most. */
struct ro_ahead {
	unsigned int count;
	struct ro_kept *slots[RO_WINDOW_MAX];
};

static struct ro_kept **slot_of(struct ro_ahead *ahead, uint32_t psn)
{
	return &ahead->slots[psn % RO_WINDOW_MAX];
}

static void drop(struct ro_ahead *ahead, struct ro_kept **slot)
{
	atomic_fetch_sub_explicit(&kept_bytes, (*slot)->size, memory_order_relaxed);
	free(*slot);
	*slot = NULL;
	ahead->count--;
}

void ro_ahead_keep(struct ro_qp *qp, const struct ro_packet *p)
{
	const uint8_t *from = p->ext - RO_BTH;
	const uint32_t length = (uint32_t)(p->payload - from) + p->len;
	const uint32_t size = (uint32_t)sizeof(struct ro_kept) + length;
	struct ro_kept **slot, *kept;

	if (ro_psn_diff(p->bth.psn, qp->rsp.epsn) >= RO_WINDOW_MAX)
		return;
	if (!qp->rsp.ahead)
		qp->rsp.ahead = calloc(1, sizeof(*qp->rsp.ahead));
	if (!qp->rsp.ahead)
		return;
	slot = slot_of(qp->rsp.ahead, p->bth.psn);
	if (*slot)
		return;
	if (atomic_fetch_add_explicit(&kept_bytes, size, memory_order_relaxed) > BYTES_MAX - size ||
	    !(kept = malloc(size))) {
		atomic_fetch_sub_explicit(&kept_bytes, size, memory_order_relaxed);
		return;
	}
	kept->size = size;
	kept->packet = *p;
	memcpy(kept->bytes, from, length);
	kept->packet.ext = kept->bytes + RO_BTH;
	kept->packet.payload = kept->bytes + (p->payload - from);
	*slot = kept;
	qp->rsp.ahead->count++;
}

/* Forget packets that the peer has repeated meanwhile: a PSN comes again after 2^24 packets. */
static void forget_old(struct ro_qp *qp)
{
	struct ro_ahead *ahead = qp->rsp.ahead;

	for (unsigned int i = 0; ahead->count && i < RO_WINDOW_MAX; i++)
		if (ahead->slots[i] && ro_psn_diff(ahead->slots[i]->packet.bth.psn, qp->rsp.epsn) < 0)
			drop(ahead, &ahead->slots[i]);
}

bool ro_ahead_resume(struct ro_qp *qp, void (*take)(struct ro_qp *qp, const struct ro_packet *p))
{
	struct ro_ahead *ahead = qp->rsp.ahead;
	uint32_t epsn = qp->rsp.epsn;
	bool taken = false;

	while (ahead->count) {
		struct ro_kept **slot = slot_of(ahead, epsn);

		if (!*slot || (*slot)->packet.bth.psn != epsn)
			break;
		take(qp, &(*slot)->packet);
		if (!ro_qp_up(qp))
			break;
		drop(ahead, slot);
		if (qp->rsp.epsn == epsn)	/* it has to wait for a receive, and the peer repeats it */
			break;
		epsn = qp->rsp.epsn;
		taken = true;
	}
	if (ahead->count)
		forget_old(qp);
	return taken;
}

bool ro_ahead_waits(const struct ro_qp *qp)
{
	return qp->rsp.ahead && qp->rsp.ahead->count;
}

void ro_ahead_free(struct ro_qp *qp)
{
	struct ro_ahead *ahead = qp->rsp.ahead;

	for (unsigned int i = 0; ahead && i < RO_WINDOW_MAX; i++)
		if (ahead->slots[i])
			drop(ahead, &ahead->slots[i]);
	free(ahead);
	qp->rsp.ahead = NULL;
}
