/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of latches: waiting latches, per namespace and reactor.  Reactor's thread.
 *
 * A line is tried again when a latch was released, and otherwise once a millisecond, because a release on a different
 * reactor is announced without a fence and may be missed.  Within a line, latches that share an entry are served in
 * order of arrival.
 */
#include "target/latch_entries.h"

enum {
	CHECK_NS = 1000000,
	REST = 4,		/* times as long as a check took, the reactor does other work before the next one */
};

static void note_waiting(struct reactor *reactor, const struct latch *latch, int n)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++) {
		struct latch_readers *r = readers_of(latch->ns, reactor->index, span.entry);

		r->waiting = (uint16_t)(r->waiting + n);
	}
}

bool latch_is_behind(struct reactor *reactor, const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++)
		if (readers_of(latch->ns, reactor->index, span.entry)->waiting)
			return true;
	return false;
}

/* The readers' reactors may be asleep although their responses have been sent: see reactor.c. */
static void wake_readers(struct reactor *reactor, const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (unsigned i = 0; i < latch->ns->reactors; i++)
		if (i != reactor->index &&
		    is_read(readers_of(latch->ns, i, span.entry), span_bits(&span)))
			reactor_wake(reactor->target->reactor[i]);
}

void latch_join_line(struct reactor *reactor, struct latch *latch)
{
	struct target_namespace *ns = latch->ns;
	struct ns_local *local = &ns->local[reactor->index];

	if (latch->state == LATCH_NONE)
		latch->state = LATCH_IN_LINE;
	latch->since = clock_ns();
	note_waiting(reactor, latch, 1);
	if (!local->latch_line.head) {
		local->latch_seen = atomic_load(&ns->latches.released);
		local->latch_checked = latch->since;
		local->latch_cost = 0;
		atomic_fetch_add(&ns->latches.lines, 1);
		fifo_push(&reactor->latching, &local->latch_link);
	}
	fifo_push(&local->latch_line, &latch->link);
	if (latch->state == LATCH_WANTED && ns->latches.shared)
		wake_readers(reactor, latch);
}

static void line_is_empty(struct ns_local *local)
{
	atomic_fetch_sub(&local->ns->latches.lines, 1);
}

bool latch_cancel(struct reactor *reactor, struct latch *latch)
{
	struct ns_local *local;

	if (latch->state != LATCH_IN_LINE && latch->state != LATCH_WANTED)
		return false;
	local = &latch->ns->local[reactor->index];
	fifo_remove(&local->latch_line, &latch->link);
	note_waiting(reactor, latch, -1);
	if (latch->state == LATCH_WANTED)
		latch_release(reactor, latch);
	latch->state = LATCH_NONE;
	if (!local->latch_line.head) {
		fifo_remove(&reactor->latching, &local->latch_link);
		line_is_empty(local);
	}
	return true;
}

/* ---- serving the line ---- */

/* Serve a latch unless an earlier one in this pass shares an entry with it; returns whether it is held now. */
static bool serve_one(struct reactor *reactor, struct latch *latch, uint32_t pass)
{
	struct latch_span span = span_of(latch), mark = span;
	bool passed_over = false;

	for (; span.entry < span.end; span.entry++)
		passed_over |= readers_of(latch->ns, reactor->index, span.entry)->passed_over == pass;
	if (!passed_over && latch_try(reactor, latch))
		return true;
	for (; mark.entry < mark.end; mark.entry++)
		readers_of(latch->ns, reactor->index, mark.entry)->passed_over = pass;
	return false;
}

static void serve_line(struct reactor *reactor, struct ns_local *local, struct fifo *granted,
		       uint64_t now)
{
	uint32_t pass = ++reactor->latch_pass;
	struct fifo_link *link;
	struct fifo kept;

	if (!pass)
		pass = reactor->latch_pass = 1;
	fifo_init(&kept);
	while ((link = fifo_pop(&local->latch_line))) {
		struct latch *latch = container_of(link, struct latch, link);
		const uint8_t before = latch->state;

		if (serve_one(reactor, latch, pass)) {
			note_waiting(reactor, latch, -1);
			fifo_push(granted, link);
			continue;
		}
		fifo_push(&kept, link);
		if (latch->state != LATCH_WANTED)
			continue;
		if (before != LATCH_WANTED)
			latch->since = now;	/* until now it was writers that it waited for */
		latch_press_holders(reactor, latch, now);
	}
	fifo_move(&local->latch_line, &kept);
}

static bool worth_a_look(struct ns_local *local, uint64_t now)
{
	uint32_t released = atomic_load(&local->ns->latches.released);

	if (now < local->latch_checked + REST * local->latch_cost)
		return false;
	if (released == local->latch_seen && now < local->latch_checked + CHECK_NS)
		return false;
	local->latch_seen = released;
	return true;
}

void latch_serve(struct reactor *reactor)
{
	uint64_t now = clock_ns();
	struct fifo all, granted;
	struct fifo_link *link;

	fifo_init(&granted);
	fifo_move(&all, &reactor->latching);
	fifo_init(&reactor->latching);
	while ((link = fifo_pop(&all))) {
		struct ns_local *local = container_of(link, struct ns_local, latch_link);

		if (worth_a_look(local, now)) {
			serve_line(reactor, local, &granted, now);
			local->latch_checked = clock_ns();
			local->latch_cost = latch_cost_after(local->latch_cost, local->latch_checked - now);
			now = local->latch_checked;
		}
		if (local->latch_line.head)
			fifo_push(&reactor->latching, link);
		else
			line_is_empty(local);
	}
	/* Only now, because a callback may wait for a different latch. */
	while ((link = fifo_pop(&granted))) {
		struct latch *latch = container_of(link, struct latch, link);

		latch->granted(latch);
	}
}
