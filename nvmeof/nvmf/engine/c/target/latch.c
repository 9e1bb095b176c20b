/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latches, described in latch.h.  Reactor's thread, except for creating and freeing.
 *
 * Owns, per namespace, a word of exclusive bits for each entry, which all reactors write, and for each
 * reactor counts of its readers, which only that reactor writes.  A reader counts itself and then looks at
 * the bits; a writer sets its bits and then looks at the counts of every reactor.  Both orders are
 * sequentially consistent, so that one of the two sees the other.  A namespace on one reactor needs
 * neither fences nor locked instructions; a reader of a namespace on several reactors needs one fence.
 *
 * If a latch conflicts with others, it releases all of its entries and waits in the line of its reactor (latch_line.c).
 * Only a writer that has all of its bits and finds readers keeps them: no reader begins after that, and the present
 * readers wait only for their hosts.  So a latch that waits for another latch holds none, and there is no deadlock.
 */
#include "target/latch_entries.h"

#include <errno.h>
#include <sys/mman.h>

enum { FEW = 4, ALL_BLOCKS = (1 << LATCH_BLOCKS) - 1, COUNT_MAX = 0xffff };

static_assert((LATCH_PIECE >> 9) / LATCH_BLOCKS < LATCH_ENTRIES, "no range meets itself");

void latch_expect(struct reactor *reactor, const struct target_namespace *ns, uint64_t slba)
{
	__builtin_prefetch(readers_of(ns, reactor->index, slba / LATCH_BLOCKS), 1);
	__builtin_prefetch(held_of(ns, slba / LATCH_BLOCKS), 0);
}

/* ---- readers ---- */

static bool are_few(uint32_t bits)
{
	return bits >> __builtin_ctz(bits) < 1 << FEW;	/* they are adjacent */
}

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

/* Release the entries of a latch before end. */
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

bool latch_try(struct reactor *reactor, struct latch *latch)
{
	if (!(latch->exclusive ? try_exclusive(latch) : try_shared(reactor, latch)))
		return false;
	latch->state = LATCH_HELD;
	return true;
}

/* ---- taking and dropping ---- */

bool latch_take(struct reactor *reactor, struct latch *latch, struct target_namespace *ns,
		uint64_t offset, uint64_t length, bool exclusive, void (*granted)(struct latch *))
{
	latch->ns = ns;
	latch->offset = offset;
	latch->length = length;
	latch->exclusive = exclusive;
	latch->granted = granted;
	latch->state = LATCH_NONE;
	if (!(ns->local[reactor->index].latch_line.head && latch_is_behind(reactor, latch)) &&
	    latch_try(reactor, latch))
		return true;
	latch_join_line(reactor, latch);
	return false;
}

void latch_release(struct reactor *reactor, struct latch *latch)
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
	/* Only used pages become resident. */
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
