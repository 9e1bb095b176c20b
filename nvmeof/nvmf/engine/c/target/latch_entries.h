/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entries of a latch: the blocks of its range in each entry, and the entries' places.  For the files of latches
 * only: latch.c, latch_line.c, latch_press.c.
 */
#ifndef NVMF_TARGET_LATCH_ENTRIES_H
#define NVMF_TARGET_LATCH_ENTRIES_H

#include "target/calls.h"

static inline struct latch_span span_of(const struct latch *latch)
{
	uint8_t shift = latch->ns->block_shift;
	uint64_t first = latch->offset >> shift;
	uint64_t last = (latch->offset + latch->length - 1) >> shift;

	return (struct latch_span){ first, last, first / LATCH_BLOCKS, last / LATCH_BLOCKS + 1 };
}

/* The blocks of the span in its next entry, as bits. */
static inline uint32_t span_bits(const struct latch_span *span)
{
	uint64_t base = span->entry * LATCH_BLOCKS;
	unsigned from = span->first > base ? (unsigned)(span->first - base) : 0;
	unsigned to = span->last - base < LATCH_BLOCKS ? (unsigned)(span->last - base)
						       : LATCH_BLOCKS - 1;

	return (2u << to) - (1u << from);
}

static inline struct latch_readers *readers_of(const struct target_namespace *ns, unsigned reactor,
					       uint64_t entry)
{
	return &ns->local[reactor].readers[entry % LATCH_ENTRIES];
}

static inline _Atomic uint32_t *held_of(const struct target_namespace *ns, uint64_t entry)
{
	return &ns->latches.held[entry % LATCH_ENTRIES << ns->latches.held_shift];
}

/*
 * Whether a reactor with these counts reads any of the blocks.  Sequentially consistent, as the bits that the caller has
 * set: an acquire load may be executed before those are visible (Armv8.3's LDAPR).
 */
static inline bool is_read(const struct latch_readers *r, uint32_t bits)
{
	if (atomic_load_explicit(&r->all, memory_order_seq_cst))
		return true;
	for (; bits; bits &= bits - 1)
		if (atomic_load_explicit(&r->block[__builtin_ctz(bits)], memory_order_seq_cst))
			return true;
	return false;
}

/* ---- latch.c ---- */
bool latch_try(struct reactor *reactor, struct latch *latch);	/* returns whether it is held now */
void latch_release(struct reactor *reactor, struct latch *latch);	/* held, or wanted */

/* ---- latch_line.c ---- */
/* Whether an earlier latch on this reactor waits for one of its entries. */
bool latch_is_behind(struct reactor *reactor, const struct latch *latch);
void latch_join_line(struct reactor *reactor, struct latch *latch);

/* ---- latch_press.c ---- */
/* End the connections of hosts that have delayed this write for too long.  Its state is LATCH_WANTED. */
void latch_press_holders(struct reactor *reactor, const struct latch *latch, uint64_t now);

/*
 * The time that a check of a line is taken to need, in ns, if it took this long.  It at most doubles from check to check:
 * if the system stopped the thread for a second in the middle of one, the next one must not be four seconds later.
 */
static inline uint64_t latch_cost_after(uint64_t before, uint64_t took)
{
	enum { STEP_NS = 100000 };

	return took < 2 * before + STEP_NS ? took : 2 * before + STEP_NS;
}

#endif
