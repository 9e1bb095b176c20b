/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time: queue pairs that wait for an acknowledgement are checked every few milliseconds.  A queue pair without progress
 * within its timeout sends again, and waits twice as long the next time.  Owns the list of them; a queue pair that is
 * quiet for a while leaves it, so that idle ones cost nothing.  Runs on the helper, under iw_cm_lock.
 */
#include "qp.h"
#include "util/clock.h"
#include "util/fifo.h"

enum { TICK_NS = 4000000, QUIET_NS = 200000000 };

/* 4.096 us * 2^13; with doubling, and more tries than the verbs can request, the end is after half a minute. */
#define TIMEOUT_NS 33554432ull
enum { MORE_TRIES = 3, DOUBLINGS = 8 };

static struct list ticking;
static uint64_t next_tick;

void ro_tick_start(struct ro_qp *qp)
{
	if (list_has(&qp->ticking) || !atomic_load(&qp->ticks))
		return;
	qp->req.seen_at = qp->req.quiet_since = qp->req.oldest_at = clock_ns();
	iw_lock(&qp->lock);
	qp->req.seen_una = qp->req.una;
	iw_unlock(&qp->lock);
	if (!ticking.head)
		next_tick = clock_ns() + TICK_NS;
	list_push(&ticking, &qp->ticking);
}

void ro_tick_stop(struct ro_qp *qp)
{
	list_remove(&qp->ticking);
}

static void send_again(struct ro_qp *qp)
{
	struct ro_burst b;

	ro_burst_begin(&b, qp);
	ro_send(qp, &b);
	if (ro_qp_up(qp))
		ro_burst_send(&b);
}

/*
 * Whether packets do not arrive because they are too large for a part of the way.  The kernel remembers what routers told,
 * but it may be forged: it is believed only if nothing arrives, and no packet of full size ever did.
 */
static bool way_is_narrow(const struct ro_qp *qp)
{
	enum { TRIES = 2 };

	if (qp->too_large)
		return true;
	return !qp->fits && qp->req.retries >= TRIES && ro_port_path_mtu(qp->port, &qp->peer) < qp->mtu;
}

static const char narrow[] = "a part of the path to the peer has a smaller MTU than its ends: the kernel remembers it, and a "
			     "new connection uses smaller packets";

static void expired(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;

	if (way_is_narrow(qp)) {
		ro_fail_request(qp, r->tail, IBV_WC_RETRY_EXC_ERR, narrow);
		return;
	}
	if (r->retries++ >= qp->retry_limit + MORE_TRIES) {
		ro_fail_request(qp, r->tail, IBV_WC_RETRY_EXC_ERR,
				"the peer acknowledged nothing, and retries are exceeded");
		return;
	}
	qp->acks_unasked = false;	/* its acknowledgements are lost, or it is a different device after all */
	ro_rewind(qp, RO_SILENCE);
	send_again(qp);
}

static uint64_t patience(const struct ro_requester *r)
{
	return TIMEOUT_NS << (r->retries < DOUBLINGS ? r->retries : DOUBLINGS);
}

/* The oldest response must have arrived within a timeout, or those that are expected no longer take room. */
static void look_at_reads(struct ro_qp *qp, uint64_t now)
{
	struct ro_requester *r = &qp->req;

	if (r->reads_tail == r->reads_head || r->reads_tail != r->oldest) {
		r->oldest = r->reads_tail;
		r->oldest_at = now;
	} else if (now - r->oldest_at >= TIMEOUT_NS) {
		ro_reads_late(qp);
	}
}

static void look(struct ro_qp *qp, uint64_t now)
{
	struct ro_requester *r = &qp->req;
	struct iw_epoch *section = iw_section_lock(&qp->lock);
	const bool busy = ro_outstanding(qp) || r->rnr;
	/* what was sent before a rewind counts as outstanding, but is not on its way */
	const bool waits = r->waits && (!busy || r->tx == r->tail);

	look_at_reads(qp, now);

	if (ro_qp_up(qp)) {
		ro_ask_again(qp);
		ro_acknowledge(qp);
	}
	/* nothing else ends it if answers to the peer do not fit: it asks for them again, in packets that do */
	if (ro_qp_up(qp) && qp->too_large && !busy)
		ro_qp_fail(qp, "%s", narrow);
	if (!ro_qp_up(qp)) {
		r->quiet_since = 0;
	} else if (r->rnr) {
		r->rnr = r->rnr_until > now;
		r->seen_at = r->quiet_since = now;
		if (!r->rnr)
			send_again(qp);
	} else if (waits) {
		r->seen_at = r->quiet_since = now;
		send_again(qp);
	} else if (!busy || r->una != r->seen_una) {
		r->seen_una = r->una;
		r->seen_at = now;
		if (busy)
			r->quiet_since = now;
	} else {
		r->quiet_since = now;
		if (now - r->seen_at >= patience(r)) {
			r->seen_at = now;
			expired(qp);
		}
	}
	if (now - r->quiet_since > QUIET_NS) {
		list_remove(&qp->ticking);
		atomic_store(&qp->ticks, false);
	}
	iw_section_unlock(section, &qp->lock);
}

uint64_t ro_tick(uint64_t now)
{
	if (!ticking.head)
		return 0;
	if (next_tick <= now) {
		for (struct list_link *link = ticking.head, *next; link; link = next) {
			next = link->next;
			look(container_of(link, struct ro_qp, ticking), now);
		}
		next_tick = now + TICK_NS;
	}
	return ticking.head ? next_tick : 0;
}
