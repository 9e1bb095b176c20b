/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records which pages of a mapped file are known to be mapped.
 *
 * The first write to a page of a file on a DAX filesystem waits for the filesystem, which marks the extent as written
 * and, with MAP_SYNC, commits that to its journal.  A reactor must not wait for that.  So a call of the ring
 * (STORE_STEP_FAULT) maps pages before they are used in place, and their bits are set here.  If a filesystem
 * write-protects a page later, because of a sync, the next write causes a fault without a commit.
 *
 * Owns store->touched: any thread sets bits; a control thread clears them all when the file is mapped again.
 */
#include <stdlib.h>

#include "store_internal.h"

enum { PAGE_SHIFT = 12, WORD_SHIFT = 6 };

static size_t touch_words(const struct store *store)
{
	return (store->map_length >> PAGE_SHIFT >> WORD_SHIFT) + 1;
}

int store_touch_init(struct store *store)
{
	store->touched = calloc(touch_words(store), sizeof(*store->touched));
	return store->touched ? 0 : -1;
}

void store_touch_forget(struct store *store)
{
	for (size_t i = 0; store->touched && i < touch_words(store); i++)
		__atomic_store_n(&store->touched[i], 0, __ATOMIC_RELAXED);
}

/* The bits of [*first, last] in the word of *first, which is advanced past them. */
static uint64_t touch_mask(uint64_t *first, uint64_t last)
{
	unsigned from = *first & 63;
	uint64_t left = last - *first + 1;
	uint64_t mask = left < 64 ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);

	*first += 64 - from;
	return mask << from;
}

bool store_touched(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t page = offset >> PAGE_SHIFT, last = (offset + length - 1) >> PAGE_SHIFT;

	while (length && page <= last) {
		const uint64_t *word = &store->touched[page >> WORD_SHIFT];
		uint64_t mask = touch_mask(&page, last);

		if ((__atomic_load_n(word, __ATOMIC_RELAXED) & mask) != mask)
			return false;
	}
	return true;
}

void store_touch(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t page = offset >> PAGE_SHIFT, last = (offset + length - 1) >> PAGE_SHIFT;

	while (length && page <= last) {
		uint64_t *word = &store->touched[page >> WORD_SHIFT];

		__atomic_fetch_or(word, touch_mask(&page, last), __ATOMIC_RELAXED);
	}
}
