/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes bytes of a map persistent; see persist.h.  Owns nothing. */
#include "memory/persist.h"

enum { PIECE = 256 << 10 };

uint64_t memory_persist_piece(const struct store *store, uint64_t length)
{
	/* a file is synced as a whole, and RAM not at all */
	return store->fd >= 0 && store->memory_is_stable && length > PIECE ? PIECE : length;
}

uint16_t memory_persist(struct store *store, uint64_t offset, uint64_t length)
{
	if (store->fd < 0)	/* RAM */
		return 0;
	/* if the memory is stable, only the processor's caches are outside the persistence domain */
	if (store->memory_is_stable)
		lines_write_back(store->map + offset, length);
	return store_memory_flush(store);
}
