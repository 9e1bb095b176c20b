/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of memory that have failed: a page was bad, or its file was truncated, and something else is in its place.
 * A device must not answer that data there is persistent.  The handler of SIGBUS adds ranges; any thread reads them.
 */
#ifndef NVMF_UTIL_BAD_H
#define NVMF_UTIL_BAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern atomic_uint bad_ranges;	/* their number */

/* Record a range.  Safe in a signal handler.  If there is no room for it, all memory counts as bad. */
void bad_add(uintptr_t base, size_t length);
/* Forget the ranges in this one: it was mapped again, or unmapped.  One thread at a time. */
void bad_forget(uintptr_t base, size_t length);

bool bad_search(uintptr_t base, size_t length);
/* Whether there is a failed range in this one. */
static inline bool bad_within(uintptr_t base, size_t length)
{
	return __builtin_expect(atomic_load_explicit(&bad_ranges, memory_order_acquire) != 0, 0) &&
	       bad_search(base, length);
}

#endif
