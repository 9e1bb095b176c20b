/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 on x86-64 by carry-less multiplication of four lanes, of 128 bits or of 512.  The constants are computed from
 * the polynomial: x^n mod P for the distances of the folds.  Any thread; computed once, by icrc.c.
 */
#include "crc32_ways.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

enum { VERY_WIDE_MIN = 512 };	/* bytes from which on joining 512-bit lanes is faster */

static uint64_t k2048[2], k512[2], k128[2];	/* fold a lane over this many bits */
static uint64_t k64;			/* fold 32 bits over this many */
static uint64_t barrett[2];		/* P, and x^64 / P, both of 33 bits, reflected */

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

/* The CRC, from a register of 0, of 16 bytes: folded to 64 bits, then Barrett's reduction. */
__attribute__((target("sse4.1,pclmul"))) static inline uint32_t reduce(__m128i x)
{
	const __m128i low = _mm_setr_epi32(-1, 0, 0, 0), pm = _mm_set_epi64x((long long)barrett[1], (long long)barrett[0]);
	__m128i t;

	x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, _mm_cvtsi64_si128((long long)k128[1]), 0x00));
	x = _mm_xor_si128(_mm_srli_si128(x, 4),
			  _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_cvtsi64_si128((long long)k64), 0x00));
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), pm, 0x10);
	t = _mm_clmulepi64_si128(_mm_and_si128(t, low), pm, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* Zero bytes before the first ones change nothing, so these are taken as the end of 16. */
__attribute__((target("sse4.1,pclmul"))) static uint32_t few(uint32_t crc, const uint8_t *p, size_t len)
{
	const __m128i k1 = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
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
		x = fold(x, k1, _mm_loadu_si128((const __m128i *)(const void *)p));
	return reduce(x);
}

__attribute__((target("sse4.1,pclmul"))) static inline __m128i take(uint8_t **to, const uint8_t *p)
{
	const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

	if (*to) {
		_mm_storeu_si128((__m128i *)(void *)*to, v);
		*to += sizeof(v);
	}
	return v;
}

__attribute__((target("sse4.1,pclmul"))) static uint32_t folded(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len,
								size_t ahead)
{
	const __m128i k4 = _mm_set_epi64x((long long)k512[1], (long long)k512[0]);
	const __m128i k1 = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
	__m128i x0 = _mm_xor_si128(take(&to, p), _mm_cvtsi32_si128((int)crc));
	__m128i x1 = take(&to, p + 16), x2 = take(&to, p + 32), x3 = take(&to, p + 48);

	for (p += 64, len -= 64; len >= 64; p += 64, len -= 64) {
		if (ahead)
			_mm_prefetch(p + ahead, _MM_HINT_T1);
		x0 = fold(x0, k4, take(&to, p));
		x1 = fold(x1, k4, take(&to, p + 16));
		x2 = fold(x2, k4, take(&to, p + 32));
		x3 = fold(x3, k4, take(&to, p + 48));
	}
	x0 = fold(fold(fold(x0, k1, x1), k1, x2), k1, x3);
	for (; len >= 16; p += 16, len -= 16)
		x0 = fold(x0, k1, take(&to, p));
	return reduce(x0);
}

#define VERY_WIDE __attribute__((target("avx512f,vpclmulqdq,sse4.1,pclmul")))

VERY_WIDE static inline __m512i very_wide_fold(__m512i x, __m512i k, __m512i y)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00),
					 _mm512_clmulepi64_epi128(x, k, 0x11), y, 0x96);
}

VERY_WIDE static inline __m512i very_wide_constant(const uint64_t k[2])
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)k[1], (long long)k[0]));
}

VERY_WIDE static inline __m512i very_wide_take(uint8_t **to, const uint8_t *p)
{
	const __m512i v = _mm512_loadu_si512(p);

	if (*to) {
		_mm512_storeu_si512(*to, v);
		*to += sizeof(v);
	}
	return v;
}

/*
 * Fetch what is needed when this packet is done; the second level of the cache is near enough.  On EPYC 9004, 128 KiB that
 * are not in the cache take 6.9 us instead of 8.3.  A macro: gcc takes a function for one without effects, and drops it.
 */
#define VERY_WIDE_FETCH(p)                                                \
	do {                                                              \
		_mm_prefetch(p, _MM_HINT_T1);                             \
		_mm_prefetch((p) + 64, _MM_HINT_T1);                      \
		_mm_prefetch((p) + 128, _MM_HINT_T1);                     \
		_mm_prefetch((p) + 192, _MM_HINT_T1);                     \
	} while (0)

VERY_WIDE static uint32_t folded_very_wide(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead)
{
	const __m512i far = very_wide_constant(k2048), near = very_wide_constant(k512);
	const __m128i k1 = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
	__m512i a, b, c, d;
	__m128i x;

	if (len < VERY_WIDE_MIN)
		return folded(crc, to, p, len, ahead);
	if (ahead)
		VERY_WIDE_FETCH(p + ahead);
	a = _mm512_xor_si512(very_wide_take(&to, p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	b = very_wide_take(&to, p + 64);
	c = very_wide_take(&to, p + 128);
	d = very_wide_take(&to, p + 192);
	for (p += 256, len -= 256; len >= 256; p += 256, len -= 256) {
		if (ahead)
			VERY_WIDE_FETCH(p + ahead);
		a = very_wide_fold(a, far, very_wide_take(&to, p));
		b = very_wide_fold(b, far, very_wide_take(&to, p + 64));
		c = very_wide_fold(c, far, very_wide_take(&to, p + 128));
		d = very_wide_fold(d, far, very_wide_take(&to, p + 192));
	}
	d = very_wide_fold(very_wide_fold(very_wide_fold(a, near, b), near, c), near, d);
	for (; len >= 64; p += 64, len -= 64)
		d = very_wide_fold(d, near, very_wide_take(&to, p));
	x = fold(_mm512_castsi512_si128(d), k1, _mm512_extracti32x4_epi32(d, 1));
	x = fold(x, k1, _mm512_extracti32x4_epi32(d, 2));
	x = fold(x, k1, _mm512_extracti32x4_epi32(d, 3));
	for (; len >= 16; p += 16, len -= 16)
		x = fold(x, k1, take(&to, p));
	return reduce(x);
}

/* The product of two reflected numbers is one bit short of 128, therefore 33. */
static void fold_constants(uint64_t k[2], unsigned int bits)
{
	k[0] = xpow(bits + 64 - 33);
	k[1] = xpow(bits - 33);
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
	fold_constants(k2048, 2048);
	fold_constants(k512, 512);
	fold_constants(k128, 128);
	k64 = xpow(64 - 1);
	barrett[0] = (uint64_t)CRC32_POLY << 1 | 1;
	barrett[1] = quotient();
	*short_way = few;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
		ways[n++] = folded_very_wide;
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
