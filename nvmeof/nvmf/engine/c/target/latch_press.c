/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends the connections of hosts that hold a latch for too long: the data of a Read was posted, but the host does not
 * receive it, while another command waits to write those blocks.  The waiting command's reactor sends mail to all
 * reactors; a target has at most one such search at a time.  Reactor's thread.
 */
#include "target/latch_entries.h"

#define PATIENCE_NS 4000000000ull	/* time limit for a host that delays the write of a block, and takes nothing */
#define LIMIT_NS 15000000000ull		/* and for one that takes some data now and then */
#define ONCE_MORE_NS 500000000ull	/* between the first finding and the end: a late reactor polls in the meantime */

/* Whether two ranges have an entry in common. */
static bool meet(const struct latch_span *a, const struct latch_span *b)
{
	return (b->entry - a->entry) % LATCH_ENTRIES < a->end - a->entry ||
	       (a->entry - b->entry) % LATCH_ENTRIES < b->end - b->entry;
}

static bool is_in_the_way(const struct target_request *req, const struct latch_press *press)
{
	struct latch_span span;

	if (req->latch.state != LATCH_HELD || req->latch.exclusive || req->latch.ns != press->ns)
		return false;
	span = span_of(&req->latch);
	return meet(&span, &press->span);
}

static bool press_finds(const struct target_qpair *qp, const struct latch_press *press)
{
	for (uint32_t i = 0; i < qp->request_fresh; i++)
		if (is_in_the_way(&qp->requests[i], press))
			return true;
	return false;
}

static void press_qpair(struct target_qpair *qp, const struct latch_press *press, uint64_t now)
{
	const bool late = now >= press->since + LIMIT_NS;

	if (qp->dead || (!late && now < qp->taken + PATIENCE_NS) || !press_finds(qp, press))
		return;
	if (!qp->suspected || qp->suspected < qp->taken)
		qp->suspected = now;
	if (!late && now < qp->suspected + ONCE_MORE_NS)
		return;
	qpair_fail(qp, "for %u s the host did not take the data of a Read, while others waited to write those blocks",
		   (unsigned)((late ? LIMIT_NS : PATIENCE_NS) / 1000000000));
}

static void press_deliver(struct reactor *reactor, struct mail *mail)
{
	struct latch_press *press = container_of(mail, struct latch_press, mail);
	struct list_link *link = reactor->qpairs.head, *next;

	for (; link; link = next) {
		next = link->next;
		press_qpair(container_of(link, struct target_qpair, reactor_link), press,
			    reactor_now(reactor));
	}
	atomic_fetch_sub(&reactor->target->pressing, 1);
}

void latch_press_holders(struct reactor *reactor, const struct latch *latch, uint64_t now)
{
	struct target *target = reactor->target;
	unsigned nobody = 0;

	if (now < latch->since + PATIENCE_NS ||
	    !atomic_compare_exchange_strong(&target->pressing, &nobody, target->reactors))
		return;
	for (unsigned i = 0; i < target->reactors; i++) {
		struct latch_press *press = &target->reactor[i]->press;

		press->ns = latch->ns;
		press->span = span_of(latch);
		press->since = latch->since;
		reactor_mail(target->reactor[i], &press->mail, press_deliver);
	}
}
