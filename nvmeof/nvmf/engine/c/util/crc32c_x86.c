/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C on x86-64: carry-less multiplication of four 512-bit lanes at once, which can also copy; the crc32
 * instruction of SSE4.2 on three streams joined by carry-less multiplication (from 3 KiB); carry-less multiplication
 * alone (four 128-bit lanes, from 256 bytes); the plain instruction.
 *
 * The constants are computed at start from the polynomial, which avoids typing errors: x^n mod P for the distances of
 * the folds.
 */
#include "util/crc32c_ways.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

enum {
	LANE = 1024,			/* bytes of each of three streams */
	WIDE_MIN = 512,			/* from this length on, joining 512-bit lanes is faster */
};
static uint64_t k_lane1, k_lane2;	/* shift a crc over LANE and 2 * LANE bytes */
static uint64_t k2048[2], k512[2], k128[2];	/* fold a lane over this many bits */

/* x^n mod P, reflected: bit 31 is x^0. */
static uint32_t xpow(uint64_t n)
{
	uint32_t r = 0x80000000u;

	while (n--)
		r = r >> 1 ^ (r & 1 ? CRC32C_POLY : 0);
	return r;
}

__attribute__((target("sse4.2"))) static uint32_t sse_sum(uint32_t crc, const uint8_t *p,
							    size_t len)
{
	uint64_t c = crc;

	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		c = _mm_crc32_u64(c, v);
	}
	crc = (uint32_t)c;
	while (len--)
		crc = _mm_crc32_u8(crc, *p++);
	return crc;
}

/* Advance crc over a run of zero bytes: k is x^(8 * bytes - 33), the rest is crc32's own shift. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t three_shift(uint32_t crc, uint64_t k)
{
	__m128i x = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc),
					 _mm_cvtsi64_si128((long long)k), 0);

	return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
}

__attribute__((target("sse4.2,pclmul"))) static inline __m128i fold(__m128i x, __m128i k, __m128i y)
{
	return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00),
					   _mm_clmulepi64_si128(x, k, 0x11)), y);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t clmul_sum(uint32_t crc, const uint8_t *p,
								    size_t len)
{
	if (len < 256)
		return sse_sum(crc, p, len);

	const __m128i k4 = _mm_set_epi64x((long long)k512[1], (long long)k512[0]);
	const __m128i k1 = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
	const __m128i *q = (const __m128i *)(const void *)p;
	__m128i a = _mm_xor_si128(_mm_loadu_si128(q), _mm_cvtsi32_si128((int)crc));
	__m128i b = _mm_loadu_si128(q + 1), c = _mm_loadu_si128(q + 2), d = _mm_loadu_si128(q + 3);
	uint64_t half[2];

	for (p += 64, len -= 64; len >= 64; p += 64, len -= 64) {
		q = (const __m128i *)(const void *)p;
		a = fold(a, k4, _mm_loadu_si128(q));
		b = fold(b, k4, _mm_loadu_si128(q + 1));
		c = fold(c, k4, _mm_loadu_si128(q + 2));
		d = fold(d, k4, _mm_loadu_si128(q + 3));
	}
	b = fold(a, k1, b);
	c = fold(b, k1, c);
	d = fold(c, k1, d);
	for (; len >= 16; p += 16, len -= 16)
		d = fold(d, k1, _mm_loadu_si128((const __m128i *)(const void *)p));
	/* a 128-bit message with the same crc is left: use the instruction for it */
	_mm_storeu_si128((__m128i *)(void *)half, d);
	crc = (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, half[0]), half[1]);
	return sse_sum(crc, p, len);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t three_sum(uint32_t crc, const uint8_t *p,
								  size_t len)
{
	for (; len >= 3 * LANE; p += 3 * LANE, len -= 3 * LANE) {
		uint64_t a = crc, b = 0, c = 0, v;

		for (size_t i = 0; i < LANE; i += 8) {
			memcpy(&v, p + i, 8);
			a = _mm_crc32_u64(a, v);
			memcpy(&v, p + LANE + i, 8);
			b = _mm_crc32_u64(b, v);
			memcpy(&v, p + 2 * LANE + i, 8);
			c = _mm_crc32_u64(c, v);
		}
		crc = three_shift((uint32_t)a, k_lane2) ^ three_shift((uint32_t)b, k_lane1) ^
		      (uint32_t)c;
	}
	return clmul_sum(crc, p, len);
}

static uint32_t sse_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	memcpy(to, p, len);
	return sse_sum(crc, to, len);
}

static uint32_t three_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	memcpy(to, p, len);
	return three_sum(crc, to, len);
}

/* ---- 512 bits at a time, with an optional copy ---- */

#define WIDE __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

WIDE static inline __m512i wide_fold(__m512i x, __m512i k, __m512i y)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00),
					 _mm512_clmulepi64_epi128(x, k, 0x11), y, 0x96);
}

/* Load the 64 bytes at p + at, and copy them to to + at if to is set. */
WIDE static inline __m512i wide_load(const uint8_t *p, uint8_t *to, size_t at)
{
	__m512i v = _mm512_loadu_si512(p + at);

	if (to)
		_mm512_storeu_si512(to + at, v);
	return v;
}

WIDE static inline __m512i wide_constant(const uint64_t k[2])
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)k[1], (long long)k[0]));
}

WIDE static inline uint32_t wide_run(uint32_t crc, const uint8_t *p, size_t len, uint8_t *to)
{
	const __m512i far = wide_constant(k2048), near = wide_constant(k512);
	const __m128i k = _mm_set_epi64x((long long)k128[1], (long long)k128[0]);
	__m512i a, b, c, d;
	__m128i x;
	uint64_t half[2];
	size_t at;

	a = _mm512_xor_si512(wide_load(p, to, 0), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	b = wide_load(p, to, 64);
	c = wide_load(p, to, 128);
	d = wide_load(p, to, 192);
	for (at = 256; len - at >= 256; at += 256) {
		a = wide_fold(a, far, wide_load(p, to, at));
		b = wide_fold(b, far, wide_load(p, to, at + 64));
		c = wide_fold(c, far, wide_load(p, to, at + 128));
		d = wide_fold(d, far, wide_load(p, to, at + 192));
	}
	d = wide_fold(wide_fold(wide_fold(a, near, b), near, c), near, d);
	for (; len - at >= 64; at += 64)
		d = wide_fold(d, near, wide_load(p, to, at));
	x = fold(_mm512_castsi512_si128(d), k, _mm512_extracti32x4_epi32(d, 1));
	x = fold(x, k, _mm512_extracti32x4_epi32(d, 2));
	x = fold(x, k, _mm512_extracti32x4_epi32(d, 3));
	/* a 128-bit message with the same crc is left: use the instruction for it */
	_mm_storeu_si128((__m128i *)(void *)half, x);
	crc = (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, half[0]), half[1]);
	if (to)
		memcpy(to + at, p + at, len - at);
	return sse_sum(crc, to ? to + at : p + at, len - at);
}

WIDE static uint32_t wide_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	return len < WIDE_MIN ? clmul_sum(crc, p, len) : wide_run(crc, p, len, NULL);
}

WIDE static uint32_t wide_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	return len < WIDE_MIN ? three_copy(crc, to, p, len) : wide_run(crc, p, len, to);
}

/*
 * A product of two reflected operands is one bit low, and crc32_u64 multiplies by x^32 itself, hence the -33.  In a
 * fold, the low half of a lane has the more significant 64 bits: it moves 64 bits further than the high half.
 */
static void constants_fold(uint64_t k[2], uint64_t bits)
{
	k[0] = xpow(bits + 31);
	k[1] = xpow(bits - 33);
}

unsigned crc32c_native(struct crc32c_way *ways)
{
	unsigned n = 0;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("sse4.2"))
		return 0;
	if (__builtin_cpu_supports("pclmul")) {
		k_lane1 = xpow(8 * LANE - 33);
		k_lane2 = xpow(16 * LANE - 33);
		constants_fold(k2048, 2048);
		constants_fold(k512, 512);
		constants_fold(k128, 128);
		if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
			ways[n++] = (struct crc32c_way){ "vpclmul", wide_sum, wide_copy };
		ways[n++] = (struct crc32c_way){ "pclmul", three_sum, three_copy };
	}
	ways[n++] = (struct crc32c_way){ "sse4.2", sse_sum, sse_copy };
	return n;
}
#endif
