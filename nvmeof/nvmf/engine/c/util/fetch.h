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

/* The parts of a payload, in the order in which they are read; the first one while earlier commands run. */
enum fetch_part { FETCH_FIRST, FETCH_SECOND, FETCH_THIRD, FETCH_FOURTH };

/*
 * Whether the processor waits with prefetches that it has no room for, as Intel's do.  There data goes to the second cache:
 * in the first one it would displace, long before it is sent, what commands use.  Set before main.
 */
extern bool fetch_waits;

/*
 * The memory need not be readable.  Nothing behind the fourth part: the processor continues without help.  gcc drops calls
 * of a function that does nothing else, so this and the functions around it are inlined.
 */
static inline __attribute__((always_inline)) void fetch_to_send(const void *at, size_t length, enum fetch_part part)
{
	enum { LINE_SIZE = 64 };
	static const unsigned char bounds[2][5] = { { 0, 0, 16, 32, 48 }, { 0, 12, 24, 36, 56 } };	/* in lines, measured */
	const size_t begin = (size_t)bounds[fetch_waits][part] * LINE_SIZE;
	size_t end = (size_t)bounds[fetch_waits][part + 1] * LINE_SIZE;

	if (end > length)
		end = length;
	if (fetch_waits)
		for (size_t i = begin; i < end; i += LINE_SIZE)
			__builtin_prefetch((const char *)at + i, 0, 2);
	else	/* non-temporal: it is read once; of the hints, AMD's processors drop the fewest of this one */
		for (size_t i = begin; i < end; i += LINE_SIZE)
			__builtin_prefetch((const char *)at + i, 0, 0);
}

#endif
