/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prefetches of data that is sent from memory.  A processor has room for a few tens of lines on their way: it waits with a
 * further prefetch, or drops it (of 64 for a random block of 4 KiB, more than half, measured on a Zen 5).  So data is
 * fetched in parts, at several places on its way, with other work in between: lines that have arrived cost next to
 * nothing.  Any thread.
 */
#ifndef NVMF_UTIL_FETCH_H
#define NVMF_UTIL_FETCH_H

#include <stdbool.h>
#include <stddef.h>

/* The parts of a payload, in the order in which they are read. */
enum fetch_part { FETCH_FIRST, FETCH_SECOND, FETCH_THIRD };

/*
 * An Intel processor waits with prefetches that it has no room for, and fetches what follows the first lines itself: there
 * the parts are short, and go to all caches.  Set before main.
 */
extern bool fetch_short;

/*
 * The memory need not be readable.  Nothing behind the third part: the processor continues without help.  gcc drops calls
 * of a function that does nothing else, so this and the functions around it are inlined.
 */
static inline __attribute__((always_inline)) void fetch_to_send(const void *at, size_t length, enum fetch_part part)
{
	enum { LINE_SIZE = 64, PART = 16 * LINE_SIZE, SHORT_PART = 4 * LINE_SIZE };
	const size_t size = fetch_short ? SHORT_PART : PART;
	size_t end = (part + 1) * size;

	if (end > length)
		end = length;
	if (fetch_short)
		for (size_t i = part * size; i < end; i += LINE_SIZE)
			__builtin_prefetch((const char *)at + i, 0, 3);
	else	/* non-temporal: it is read once; of the hints, AMD's processors drop the fewest of this one */
		for (size_t i = part * size; i < end; i += LINE_SIZE)
			__builtin_prefetch((const char *)at + i, 0, 0);
}

#endif
