/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies past the caches: whole lines by non-temporal stores, which take half of the time of memcpy if the destination
 * is in no cache.  They become visible to other processors in any order, and all of them with a fence.
 * Owns nothing; any thread.
 */
#include <string.h>

#include "store_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { STREAM_LINE = 64 };

static void stream_lines_sse2(uint8_t *to, const uint8_t *from, size_t length)
{
	for (size_t i = 0; i < length; i += STREAM_LINE)
		for (size_t j = i; j < i + STREAM_LINE; j += 16)
			_mm_stream_si128((__m128i *)(void *)(to + j),
					 _mm_loadu_si128((const __m128i *)(const void *)(from + j)));
}

__attribute__((target("avx2")))
static void stream_lines_avx2(uint8_t *to, const uint8_t *from, size_t length)
{
	for (size_t i = 0; i < length; i += STREAM_LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + i + 32));

		_mm256_stream_si256((__m256i *)(void *)(to + i), a);
		_mm256_stream_si256((__m256i *)(void *)(to + i + 32), b);
	}
}

void store_stream_copy(void *to_void, const void *from_void, size_t length)
{
	uint8_t *to = to_void;
	const uint8_t *from = from_void;
	size_t head = -(uintptr_t)to & (STREAM_LINE - 1), lines;

	if (head > length)
		head = length;
	lines = (length - head) & ~(size_t)(STREAM_LINE - 1);
	memcpy(to, from, head);
	if (__builtin_cpu_supports("avx2"))
		stream_lines_avx2(to + head, from + head, lines);
	else
		stream_lines_sse2(to + head, from + head, lines);
	memcpy(to + head + lines, from + head + lines, length - head - lines);
}

#else

void store_stream_copy(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}

#endif
