/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 on x86-64 by carry-less multiplication (util/crc_lanes.h).  The constants are computed from the polynomial.  Any
 * thread; computed once, by icrc.c.
 */
#include "crc32_ways.h"
#include "util/crc_lanes.h"

#if defined(__x86_64__)
#include <string.h>

static struct crc_lanes lanes;
static uint64_t k64;			/* fold 32 bits over this many */
static uint64_t barrett[2];		/* P, and x^64 / P, both of 33 bits, reflected */

#define CLMUL __attribute__((target("sse4.1,pclmul")))

/* The CRC, from a register of 0, of 16 bytes: folded to 64 bits, then Barrett's reduction. */
CLMUL static inline uint32_t reduce(__m128i x)
{
	const __m128i low = _mm_setr_epi32(-1, 0, 0, 0), pm = crc_lanes_constant(barrett);
	__m128i t;

	x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, _mm_cvtsi64_si128((long long)lanes.k128[1]), 0x00));
	x = _mm_xor_si128(_mm_srli_si128(x, 4),
			  _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_cvtsi64_si128((long long)k64), 0x00));
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), pm, 0x10);
	t = _mm_clmulepi64_si128(_mm_and_si128(t, low), pm, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* Zero bytes before the first ones change nothing, so these are taken as the end of 16. */
CLMUL static uint32_t few(uint32_t crc, const uint8_t *p, size_t len)
{
	const __m128i k1 = crc_lanes_constant(lanes.k128);
	const size_t first = len & 15 ? len & 15 : 16;
	__m128i x = _mm_cvtsi32_si128((int)crc);
	uint32_t word;

	switch (first) {
	case 4:
		memcpy(&word, p, sizeof(word));
		x = _mm_slli_si128(_mm_cvtsi32_si128((int)(word ^ crc)), 12);
		break;
	case 8:
		x = _mm_slli_si128(_mm_xor_si128(x, _mm_loadl_epi64((const __m128i *)(const void *)p)), 8);
		break;
	case 12:
		memcpy(&word, p + 8, sizeof(word));
		x = _mm_xor_si128(x, _mm_loadl_epi64((const __m128i *)(const void *)p));
		x = _mm_slli_si128(_mm_insert_epi32(x, (int)word, 2), 4);
		break;
	default:
		x = _mm_xor_si128(x, _mm_loadu_si128((const __m128i *)(const void *)p));
		break;
	}
	for (p += first, len -= first; len; p += 16, len -= 16)
		x = crc_lanes_fold(x, k1, _mm_loadu_si128((const __m128i *)(const void *)p));
	return reduce(x);
}

CLMUL static uint32_t folded(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead)
{
	return reduce(crc_lanes(&lanes, crc, to, p, len, ahead));
}

CLMUL static uint32_t folded_wide(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead)
{
	if (len < CRC_LANES_WIDE_MIN)
		return folded(crc, to, p, len, ahead);
	return reduce(crc_lanes_wide(&lanes, crc, to, p, len, ahead));
}

CLMUL static uint32_t folded_very_wide(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead)
{
	if (len < CRC_LANES_VERY_WIDE_MIN)
		return folded(crc, to, p, len, ahead);
	return reduce(crc_lanes_very_wide(&lanes, crc, to, p, len, ahead));
}

/* x^64 / P, reflected, by long division. */
static uint64_t quotient(void)
{
	uint32_t r = 0x80000000u;
	uint64_t q = 0;

	for (int n = 1; n <= 64; n++) {	/* r becomes x^n mod P */
		if (r & 1)
			q |= 1ull << (n - 32);
		r = r >> 1 ^ (r & 1 ? CRC32_POLY : 0);
	}
	return q;
}

unsigned int crc32_native(crc32_fold *ways[CRC32_WAYS], crc32_short **short_way)
{
	unsigned int n = 0;

	*short_way = NULL;
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
		return 0;
	crc_lanes_set(&lanes, CRC32_POLY);
	k64 = crc_lanes_power(CRC32_POLY, 64 - 1);
	barrett[0] = (uint64_t)CRC32_POLY << 1 | 1;
	barrett[1] = quotient();
	*short_way = few;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
		ways[n++] = folded_very_wide;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq"))
		ways[n++] = folded_wide;
	ways[n++] = folded;
	return n;
}
#else
unsigned int crc32_native(crc32_fold *ways[CRC32_WAYS], crc32_short **short_way)
{
	(void)ways;
	*short_way = NULL;
	return 0;
}
#endif
