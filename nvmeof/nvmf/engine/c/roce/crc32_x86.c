/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 on x86-64 by carry-less multiplication of four 128-bit lanes.  The constants are computed from the polynomial:
 * x^n mod P for the distances folded over.  Any thread; made under the once of icrc.c.
 */
#include "crc32_ways.h"

#if defined(__x86_64__)
#include <immintrin.h>

static uint64_t k512[2], k128[2];

/* x^n mod P, reflected: bit 31 is x^0. */
static uint64_t xpow(unsigned int n)
{
	uint32_t r = 0x80000000u;

	while (n--)
		r = r >> 1 ^ (r & 1 ? CRC32_POLY : 0);
	return r;
}

__attribute__((target("sse4.1,pclmul"))) static inline __m128i fold(__m128i x, __m128i k, __m128i y)
{
	return _mm_xor_si128(y, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00),
					      _mm_clmulepi64_si128(x, k, 0x11)));
}

__attribute__((target("sse4.1,pclmul"))) static void folded(uint32_t crc, const uint8_t *p, size_t len,
							    uint8_t left[16])
{
	const __m128i k4 = _mm_set_epi64x((long long)k512[1], (long long)k512[0]);
	const __m128i k1 = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
	const __m128i *v = (const __m128i *)(const void *)p;
	__m128i x0 = _mm_xor_si128(_mm_loadu_si128(v), _mm_cvtsi32_si128((int)crc));
	__m128i x1 = _mm_loadu_si128(v + 1), x2 = _mm_loadu_si128(v + 2), x3 = _mm_loadu_si128(v + 3);

	for (v += 4, len -= 64; len >= 64; v += 4, len -= 64) {
		x0 = fold(x0, k4, _mm_loadu_si128(v));
		x1 = fold(x1, k4, _mm_loadu_si128(v + 1));
		x2 = fold(x2, k4, _mm_loadu_si128(v + 2));
		x3 = fold(x3, k4, _mm_loadu_si128(v + 3));
	}
	x0 = fold(fold(fold(x0, k1, x1), k1, x2), k1, x3);
	for (; len >= 16; v++, len -= 16)
		x0 = fold(x0, k1, _mm_loadu_si128(v));
	_mm_storeu_si128((__m128i *)(void *)left, x0);
}

crc32_fold *crc32_pclmul(void)
{
	if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
		return NULL;
	/* the product of two reflected numbers is one bit short of 128, hence the 33 */
	k512[0] = xpow(512 + 64 - 33);
	k512[1] = xpow(512 - 33);
	k128[0] = xpow(128 + 64 - 33);
	k128[1] = xpow(128 - 33);
	return folded;
}
#else
crc32_fold *crc32_pclmul(void)
{
	return NULL;
}
#endif
