/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latches: see latch.h for what they are.  Reactor's thread, but for making and freeing.
 *
 * Owns, per namespace, a word of exclusive bits for each entry, which all reactors write, and for each
 * reactor counts of its readers, which only that reactor writes.  A reader counts itself and then looks at
 * the bits; a writer sets its bits and then looks at the counts of every reactor.  Both orders are
 * sequentially consistent, so that one of the two sees the other.  A namespace on one reactor needs
 * neither fences nor locked instructions, and a reader on several needs one fence.
 *
 * Who finds somebody else gives back all that he has taken, and waits in his reactor's line.  Only a writer that
 * has all of its bits and finds readers keeps them: no reader begins after that, and those that hold
 * wait for nothing but their hosts.  So nobody waits for a latch while he holds another one.
 *
 * A line is tried again when something was released, or else once a millisecond, since a release on another
 * reactor is told without a fence and may be missed.  Within a line, who came first is served first as
 * far as entries are the same.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { FEW = 4, CHECK_NS = 1000000, ALL_BLOCKS = (1 << LATCH_BLOCKS) - 1, COUNT_MAX = 0xffff };
#define PATIENCE_NS 4000000000ull	/* for a host that keeps a block from being written */

static_assert((LATCH_PIECE >> 9) / LATCH_BLOCKS < LATCH_ENTRIES, "no range meets itself");

/* ---- entries of a range ---- */

static struct latch_span span_of(const struct latch *latch)
{
	uint8_t shift = latch->ns->block_shift;
	uint64_t first = latch->offset >> shift;
	uint64_t last = (latch->offset + latch->length - 1) >> shift;

	return (struct latch_span){ first, last, first / LATCH_BLOCKS, last / LATCH_BLOCKS + 1 };
}

/* The blocks of the span in its next entry. */
static uint32_t span_bits(const struct latch_span *span)
{
	uint64_t base = span->entry * LATCH_BLOCKS;
	unsigned from = span->first > base ? (unsigned)(span->first - base) : 0;
	unsigned to = span->last - base < LATCH_BLOCKS ? (unsigned)(span->last - base)
						       : LATCH_BLOCKS - 1;

	return (2u << to) - (1u << from);
}

static bool are_few(uint32_t bits)
{
	return bits >> __builtin_ctz(bits) < 1 << FEW;	/* they are neighbours */
}

static struct latch_readers *readers_of(const struct target_namespace *ns, unsigned reactor,
					uint64_t entry)
{
	return &ns->local[reactor].readers[entry % LATCH_ENTRIES];
}

static _Atomic uint32_t *held_of(const struct target_namespace *ns, uint64_t entry)
{
	return &ns->latches.held[entry % LATCH_ENTRIES << ns->latches.held_shift];
}

void latch_expect(struct reactor *reactor, const struct target_namespace *ns, uint64_t slba)
{
	__builtin_prefetch(readers_of(ns, reactor->index, slba / LATCH_BLOCKS), 1);
	__builtin_prefetch(held_of(ns, slba / LATCH_BLOCKS), 0);
}

/* ---- readers ---- */

static bool count_up(_Atomic uint16_t *count)
{
	uint16_t n = atomic_load_explicit(count, memory_order_relaxed);

	if (n == COUNT_MAX)
		return false;
	atomic_store_explicit(count, (uint16_t)(n + 1), memory_order_relaxed);
	return true;
}

static void count_down(_Atomic uint16_t *count)
{
	atomic_store_explicit(count,
			      (uint16_t)(atomic_load_explicit(count, memory_order_relaxed) - 1),
			      memory_order_release);
}

static void leave_blocks(struct latch_readers *r, uint32_t bits)
{
	for (; bits; bits &= bits - 1)
		count_down(&r->block[__builtin_ctz(bits)]);
}

static bool enter(struct latch_readers *r, uint32_t bits)
{
	uint32_t left = bits;

	if (!are_few(bits))
		return count_up(&r->all);
	for (; left; left &= left - 1) {
		if (count_up(&r->block[__builtin_ctz(left)]))
			continue;
		leave_blocks(r, bits & ~left);
		return false;
	}
	return true;
}

static void leave(struct latch_readers *r, uint32_t bits)
{
	if (are_few(bits))
		leave_blocks(r, bits);
	else
		count_down(&r->all);
}

/* Out of the entries of a latch before end. */
static void leave_until(struct reactor *reactor, const struct latch *latch, uint64_t end)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < end; span.entry++)
		leave(readers_of(latch->ns, reactor->index, span.entry), span_bits(&span));
}

static bool try_shared(struct reactor *reactor, struct latch *latch)
{
	const struct target_namespace *ns = latch->ns;
	struct latch_span span = span_of(latch), look = span;

	for (; span.entry < span.end; span.entry++)
		if (!enter(readers_of(ns, reactor->index, span.entry), span_bits(&span))) {
			leave_until(reactor, latch, span.entry);
			return false;
		}
	if (ns->latches.shared)
		atomic_thread_fence(memory_order_seq_cst);
	for (; look.entry < look.end; look.entry++) {
		uint32_t bits = span_bits(&look);

		if (!are_few(bits))
			bits = ALL_BLOCKS;
		if (atomic_load_explicit(held_of(ns, look.entry), memory_order_acquire) & bits) {
			leave_until(reactor, latch, look.end);
			return false;
		}
	}
	return true;
}

/* ---- writers ---- */

static uint32_t set_bits(const struct target_namespace *ns, uint64_t entry, uint32_t bits)
{
	_Atomic uint32_t *held = held_of(ns, entry);
	uint32_t old;

	if (ns->latches.shared)
		return atomic_fetch_or(held, bits);
	old = atomic_load_explicit(held, memory_order_relaxed);
	atomic_store_explicit(held, old | bits, memory_order_relaxed);
	return old;
}

static void clear_bits(const struct target_namespace *ns, uint64_t entry, uint32_t bits)
{
	_Atomic uint32_t *held = held_of(ns, entry);

	if (ns->latches.shared)
		atomic_fetch_and_explicit(held, ~bits, memory_order_release);
	else
		atomic_store_explicit(held, atomic_load_explicit(held, memory_order_relaxed) & ~bits,
				      memory_order_relaxed);
}

static void clear_until(const struct latch *latch, uint64_t end)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < end; span.entry++)
		clear_bits(latch->ns, span.entry, span_bits(&span));
}

static bool set_all(const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++) {
		uint32_t bits = span_bits(&span), old = set_bits(latch->ns, span.entry, bits);

		if (old & bits) {
			clear_bits(latch->ns, span.entry, bits & ~old);
			clear_until(latch, span.entry);
			return false;
		}
	}
	return true;
}

static bool is_read(const struct latch_readers *r, uint32_t bits)
{
	if (atomic_load_explicit(&r->all, memory_order_acquire))
		return true;
	for (; bits; bits &= bits - 1)
		if (atomic_load_explicit(&r->block[__builtin_ctz(bits)], memory_order_acquire))
			return true;
	return false;
}

static bool any_readers(const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++)
		for (unsigned i = 0; i < latch->ns->reactors; i++)
			if (is_read(readers_of(latch->ns, i, span.entry), span_bits(&span)))
				return true;
	return false;
}

static bool try_exclusive(struct latch *latch)
{
	if (latch->state != LATCH_WANTED) {
		if (!set_all(latch))
			return false;
		latch->state = LATCH_WANTED;
	}
	return !any_readers(latch);
}

static bool latch_try(struct reactor *reactor, struct latch *latch)
{
	if (!(latch->exclusive ? try_exclusive(latch) : try_shared(reactor, latch)))
		return false;
	latch->state = LATCH_HELD;
	return true;
}

/* ---- the line ---- */

static void note_waiting(struct reactor *reactor, const struct latch *latch, int n)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++) {
		struct latch_readers *r = readers_of(latch->ns, reactor->index, span.entry);

		r->waiting = (uint16_t)(r->waiting + n);
	}
}

/* Whether somebody waits on this reactor for one of its entries: he came first. */
static bool is_behind(struct reactor *reactor, const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (; span.entry < span.end; span.entry++)
		if (readers_of(latch->ns, reactor->index, span.entry)->waiting)
			return true;
	return false;
}

/* They may sleep although responses of theirs have left: see reactor.c. */
static void wake_readers(struct reactor *reactor, const struct latch *latch)
{
	struct latch_span span = span_of(latch);

	for (unsigned i = 0; i < latch->ns->reactors; i++)
		if (i != reactor->index &&
		    is_read(readers_of(latch->ns, i, span.entry), span_bits(&span)))
			reactor_wake(reactor->target->reactor[i]);
}

static void join_line(struct reactor *reactor, struct latch *latch)
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
		atomic_fetch_add(&ns->latches.lines, 1);
		fifo_push(&reactor->latching, &local->latch_link);
	}
	fifo_push(&local->latch_line, &latch->link);
	if (latch->state == LATCH_WANTED && ns->latches.shared)
		wake_readers(reactor, latch);
}

bool latch_take(struct reactor *reactor, struct latch *latch, struct target_namespace *ns,
		uint64_t offset, uint64_t length, bool exclusive, void (*granted)(struct latch *))
{
	latch->ns = ns;
	latch->offset = offset;
	latch->length = length;
	latch->exclusive = exclusive;
	latch->granted = granted;
	latch->state = LATCH_NONE;
	if (!(ns->local[reactor->index].latch_line.head && is_behind(reactor, latch)) &&
	    latch_try(reactor, latch))
		return true;
	join_line(reactor, latch);
	return false;
}

static void latch_release(struct reactor *reactor, struct latch *latch)
{
	struct latch_span span = span_of(latch);
	struct ns_latches *latches = &latch->ns->latches;

	if (latch->exclusive)
		clear_until(latch, span.end);
	else
		leave_until(reactor, latch, span.end);
	latch->state = LATCH_NONE;
	if (atomic_load_explicit(&latches->lines, memory_order_relaxed))
		atomic_fetch_add(&latches->released, 1);
}

void latch_drop(struct reactor *reactor, struct latch *latch)
{
	if (latch->state == LATCH_HELD)
		latch_release(reactor, latch);
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

/* ---- hosts that hold a latch for too long ---- */

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

static void press_qpair(struct target_qpair *qp, const struct latch_press *press, uint64_t now)
{
	if (qp->dead || now < qp->moved + PATIENCE_NS)
		return;
	for (uint32_t i = 0; i < qp->request_fresh; i++) {
		if (!is_in_the_way(&qp->requests[i], press))
			continue;
		qpair_fail(qp, "for %u s the host did not take the data of a Read, while others waited "
			   "to write those blocks", (unsigned)(PATIENCE_NS / 1000000000));
		return;
	}
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

/* It has all of its bits, and only readers are in its way. */
static void press_holders(struct reactor *reactor, const struct latch *latch, uint64_t now)
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
		reactor_mail(target->reactor[i], &press->mail, press_deliver);
	}
}

/* ---- serving the line ---- */

/* Whether one before it in this pass has an entry of it; if not, whether it is held now. */
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

		if (serve_one(reactor, latch, pass)) {
			note_waiting(reactor, latch, -1);
			fifo_push(granted, link);
		} else {
			if (latch->state == LATCH_WANTED)
				press_holders(reactor, latch, now);
			fifo_push(&kept, link);
		}
	}
	fifo_move(&local->latch_line, &kept);
}

static bool worth_a_look(struct ns_local *local, uint64_t now)
{
	uint32_t released = atomic_load(&local->ns->latches.released);

	if (released == local->latch_seen && now < local->latch_checked + CHECK_NS)
		return false;
	local->latch_seen = released;
	local->latch_checked = now;
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

		if (worth_a_look(local, now))
			serve_line(reactor, local, &granted, now);
		if (local->latch_line.head)
			fifo_push(&reactor->latching, link);
		else
			line_is_empty(local);
	}
	/* Only now, since they may come back and wait for another one. */
	while ((link = fifo_pop(&granted))) {
		struct latch *latch = container_of(link, struct latch, link);

		latch->granted(latch);
	}
}

/* ---- control ---- */

int latches_create(struct target_namespace *ns)
{
	struct ns_latches *latches = &ns->latches;
	size_t readers = sizeof(struct latch_readers) * LATCH_ENTRIES, held;
	uint8_t *at;

	latches->shared = ns->reactors > 1;
	latches->held_shift = latches->shared ? 4 : 0;
	held = sizeof(uint32_t) * LATCH_ENTRIES << latches->held_shift;
	latches->bytes = held + readers * ns->reactors;
	/* Only what is used becomes resident. */
	at = mmap(NULL, latches->bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	latches->memory = at;
	latches->held = (void *)at;
	for (unsigned i = 0; i < ns->reactors; i++) {
		fifo_init(&ns->local[i].latch_line);
		ns->local[i].readers = (void *)(at + held + readers * i);
	}
	return 0;
}

void latches_free(struct target_namespace *ns)
{
	if (ns->latches.memory)
		munmap(ns->latches.memory, ns->latches.bytes);
}
