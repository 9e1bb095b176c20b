/* SPDX-License-Identifier: BSD-3-Clause */
/* See bad.h.  Owns a table of fixed size, whose entries are atomic, because a signal handler takes no lock. */
#include "util/bad.h"

enum { RANGES = 256 };

atomic_uint bad_ranges;

static struct {
	atomic_uintptr_t base;	/* 0: free */
	atomic_size_t length;
} table[RANGES];
static atomic_uint lost;	/* ranges for which there was no room */

void bad_add(uintptr_t base, size_t length)
{
	for (size_t i = 0; i < RANGES; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&table[i].base, &none, base))
			continue;
		atomic_store(&table[i].length, length);
		atomic_fetch_add(&bad_ranges, 1);
		return;
	}
	atomic_fetch_add(&lost, 1);
	atomic_fetch_add(&bad_ranges, 1);
}

void bad_forget(uintptr_t base, size_t length)
{
	for (size_t i = 0; i < RANGES; i++) {
		const uintptr_t at = atomic_load(&table[i].base);

		if (!at || at < base || at - base >= length || !atomic_load(&table[i].length))
			continue;
		atomic_store(&table[i].length, 0);
		atomic_store(&table[i].base, 0);
		atomic_fetch_sub(&bad_ranges, 1);
	}
}

bool bad_search(uintptr_t base, size_t length)
{
	if (atomic_load(&lost))
		return true;
	for (size_t i = 0; i < RANGES; i++) {
		const uintptr_t at = atomic_load(&table[i].base);

		if (at && at < base + length && at + atomic_load(&table[i].length) > base)
			return true;
	}
	return false;
}
