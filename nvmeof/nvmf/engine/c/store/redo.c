/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redo slots: after a power failure, a block of persistent memory has its old or its new content.
 *
 * Identify cannot report that a block may be torn: AWUPF and NAWUPF of 0 mean one block (Base 2.0, figure 275; NVM
 * Command Set 1.0, 2.1.4.2).  Memory guarantees only 8 bytes.  So a write of at most STORE_REDO_DATA bytes takes four
 * steps, each of which is persistent before the next one begins:
 *
 *	its data is copied to a slot		a crash from here on finds the slot empty: old blocks
 *	the slot's word names the place		a crash from here on copies the data again: new blocks
 *	its data is copied to its place
 *	the word is cleared			a crash from here on finds the slot empty: new blocks
 *
 * The word is cleared before the write completes, because a later write of the same block may use a different slot.
 * Longer writes go to their place directly: they may be torn.
 *
 * The slots are the last STORE_REDO_BYTES of the file or device, after the namespace:
 *
 *	page 0		line 0: magic, which is written last, and the layout; line 1 + n: the word of slot n
 *	page 1 + n	the data of slot n
 *
 * A file that was not closed properly must not be extended before it is opened again.
 *
 * Owns the slots.  Opening and closing run on a control thread, writing on any thread; while a thread writes, it alone
 * uses its slot, usually the same one each time.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store_internal.h"

enum { PAGE = 4096, LINE = 64, SLOTS = STORE_REDO_BYTES / PAGE - 1, LAYOUT = 1, UNIT = 512 };

static_assert(SLOTS < PAGE / LINE, "a line for each word");

#define REDO_MAGIC 0x314f444552464d4eull	/* "NMFREDO1" */

struct redo_header {
	uint64_t magic;
	uint32_t layout, slots, data;
};

struct redo_busy {
	_Alignas(LINE) _Atomic bool busy;
};

struct store_redo {
	uint8_t *pages;
	struct redo_busy slot[SLOTS];
};

static uint64_t *redo_word(uint8_t *pages, unsigned slot)
{
	return (uint64_t *)(void *)(pages + (1 + slot) * LINE);
}

static uint8_t *redo_data(uint8_t *pages, unsigned slot)
{
	return pages + (size_t)(1 + slot) * PAGE;
}

/* Position and length, in units; 0: empty. */
static uint64_t redo_pack(uint64_t offset, size_t length)
{
	return offset / UNIT << 8 | length / UNIT;
}

/* ---- writing ---- */

static unsigned redo_take(struct store_redo *redo)
{
	static _Atomic unsigned threads;
	static __thread unsigned mine = UINT32_MAX;

	if (mine == UINT32_MAX)
		mine = atomic_fetch_add(&threads, 1) % SLOTS;
	/* Only if there are more than SLOTS threads can the slot be in use, for the time of a copy. */
	while (atomic_exchange_explicit(&redo->slot[mine].busy, true, memory_order_acquire))
		mine = (mine + 1) % SLOTS;
	return mine;
}

void store_redo_write(struct store *store, uint64_t offset, const void *from, size_t length)
{
	struct store_redo *redo = store->redo;
	unsigned slot = redo_take(redo);
	uint64_t *word = redo_word(redo->pages, slot);

	store_persist_copy(redo_data(redo->pages, slot), from, length);
	store_persist_word(word, redo_pack(offset, length));
	store_persist_copy(store->map + offset, from, length);
	store_persist_word(word, 0);
	atomic_store_explicit(&redo->slot[slot].busy, false, memory_order_release);
}

/* ---- opening ---- */

bool store_redo_there(const uint8_t *pages)
{
	return ((const struct redo_header *)(const void *)pages)->magic == REDO_MAGIC;
}

/* Except the first line: a failure may have left it without its magic. */
static bool redo_is_blank(const uint8_t *pages)
{
	const uint8_t *rest = pages + LINE;

	return !rest[0] && !memcmp(rest, rest + 1, STORE_REDO_BYTES - LINE - 1);
}

unsigned store_redo_pending(uint8_t *pages)
{
	unsigned count = 0;

	for (unsigned slot = 0; slot < SLOTS; slot++)
		count += *redo_word(pages, slot) != 0;
	return count;
}

/* A slot's next write must not begin while it is read; at opening there is none. */
static void redo_hold(struct store_redo *redo, unsigned slot)
{
	while (redo && atomic_exchange_explicit(&redo->slot[slot].busy, true, memory_order_acquire))
		sched_yield();
}

static void redo_release(struct store_redo *redo, unsigned slot)
{
	if (redo)
		atomic_store_explicit(&redo->slot[slot].busy, false, memory_order_release);
}

static int redo_repeat(struct store *store, uint8_t *pages, unsigned slot, char *err, size_t len)
{
	uint64_t word = *redo_word(pages, slot);
	uint64_t offset = (word >> 8) * UNIT, length = (word & 0xff) * UNIT;

	if (!word)
		return 0;
	if (!length || length > STORE_REDO_DATA || offset > store->map_length ||
	    length > store->map_length - offset)
		return store_refuse(err, len, EUCLEAN, "a power failure interrupted a write to "
				    "%s at byte %llu, past the end of the %zu bytes that are "
				    "mapped: open it with the size that it had then",
				    store->path, (unsigned long long)offset,
				    store->map_length);
	store_persist_copy(store->map + offset, redo_data(pages, slot), length);
	store_persist_word(redo_word(pages, slot), 0);
	return 0;
}

/* Repeat the writes that a crash has interrupted; this may itself be interrupted and repeated. */
static int redo_recover(struct store *store, uint8_t *pages, char *err, size_t len)
{
	int rc = 0;

	for (unsigned slot = 0; !rc && slot < SLOTS; slot++) {
		redo_hold(store->redo, slot);
		rc = redo_repeat(store, pages, slot, err, len);
		redo_release(store->redo, slot);
	}
	return rc;
}

static int redo_format(const struct store *store, uint8_t *pages, char *err, size_t len)
{
	struct redo_header header = { .layout = LAYOUT, .slots = SLOTS, .data = STORE_REDO_DATA };

	if (!redo_is_blank(pages))
		return store_refuse(err, len, EEXIST, "the last %u bytes of %s are needed by "
				    "power_fail_atomic, but are not zero: zero them, make it longer by "
				    "as many bytes, or set power_fail_atomic to false",
				    (unsigned)STORE_REDO_BYTES, store->path);
	store_persist_copy(pages, &header, sizeof(header));
	store_persist_word((uint64_t *)(void *)pages, REDO_MAGIC);
	return 0;
}

int store_redo_open(struct store *store, uint8_t *pages, bool wanted, char *err, size_t len)
{
	struct redo_header header;
	int rc;

	if (store_redo_there(pages)) {
		memcpy(&header, pages, sizeof(header));
		if (header.layout != LAYOUT || header.slots != SLOTS || header.data != STORE_REDO_DATA)
			return store_refuse(err, len, EPROTO, "%s was written by a version with a different "
					    "layout of redo slots (%u): use that version",
					    store->path, header.layout);
		rc = redo_recover(store, pages, err, len);
		/* Remove the magic: old slots must not be repeated after writes that do not use them. */
		if (!rc && !wanted)
			store_persist_word((uint64_t *)(void *)pages, 0);
	} else {
		rc = wanted ? redo_format(store, pages, err, len) : 0;
	}
	if (rc || !wanted || store->redo)
		return rc;
	store->redo = aligned_alloc(LINE, sizeof(*store->redo));
	if (!store->redo)
		return store_refuse(err, len, ENOMEM, "out of memory for %s", store->path);
	memset(store->redo, 0, sizeof(*store->redo));
	store->redo->pages = pages;
	return 0;
}
