/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A latency histogram in ticks of the time stamp counter: 128 buckets per octave, so that the error of a percentile
 * is at most 0.4 %.  Used by one thread; merged when the threads have ended.
 */
#ifndef NVMF_HISTOGRAM_H
#define NVMF_HISTOGRAM_H

#include "util/clock.h"

#include <stddef.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum {
	HISTOGRAM_BITS = 7,
	HISTOGRAM_SUB = 1 << HISTOGRAM_BITS,
	HISTOGRAM_OCTAVES = 40,
	HISTOGRAM_BUCKETS = HISTOGRAM_SUB * (HISTOGRAM_OCTAVES + 1),
};

struct histogram {
	uint64_t count;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return clock_ns();
#endif
}

/* Values below 128 have a bucket each; above, octave k holds [128 << k, 256 << k). */
static inline unsigned histogram_index(uint64_t v)
{
	if (v < HISTOGRAM_SUB)
		return (unsigned)v;

	const unsigned octave = 63u - (unsigned)__builtin_clzll(v) - HISTOGRAM_BITS;

	if (octave >= HISTOGRAM_OCTAVES)
		return HISTOGRAM_BUCKETS - 1;
	return (octave + 1) * HISTOGRAM_SUB + (unsigned)(v >> octave) - HISTOGRAM_SUB;
}

static inline void histogram_add(struct histogram *h, uint64_t v)
{
	h->bucket[histogram_index(v)]++;
	h->count++;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
	into->count += from->count;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

/* The middle of the bucket that holds the value at percent. */
static inline double histogram_percentile(const struct histogram *h, double percent)
{
	const double rank = (double)h->count * percent / 100;
	uint64_t seen = 0;
	unsigned i = 0;

	for (; i < HISTOGRAM_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen && (double)seen >= rank)
			break;
	}
	if (i < HISTOGRAM_SUB)
		return i;

	const unsigned octave = i / HISTOGRAM_SUB - 1;
	const double low = (double)((uint64_t)(i % HISTOGRAM_SUB + HISTOGRAM_SUB) << octave);

	return low + (double)(1ull << octave) / 2;
}

#endif
