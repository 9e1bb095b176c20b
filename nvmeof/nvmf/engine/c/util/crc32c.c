/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C: the crc32 instruction of SSE4.2 on three streams joined by carry-less multiplication (from
 * 3 KiB), carry-less multiplication alone (four 128-bit lanes folded at once, from 256 bytes), the
 * plain instruction, or a table.  Owns the tables, written once before use;
 * any thread.
 *
 * The constants are computed at start from the polynomial rather than written down, so that there is
 * nothing to mistype: x^n mod P for the distances folded over.
 */
#include "util/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLY 0x82f63b78u	/* reflected Castagnoli polynomial */

static uint32_t table[8][256];
static uint32_t (*crc_fn)(uint32_t crc, const uint8_t *p, size_t len);
static const char *crc_name;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		v ^= crc;
		crc = table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^ table[5][v >> 16 & 0xff] ^
		      table[4][v >> 24 & 0xff] ^ table[3][v >> 32 & 0xff] ^
		      table[2][v >> 40 & 0xff] ^ table[1][v >> 48 & 0xff] ^ table[0][v >> 56];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* x^n mod P, reflected: bit 31 is x^0. */
static uint32_t xpow(uint64_t n)
{
	uint32_t r = 0x80000000u;

	while (n--)
		r = r >> 1 ^ (r & 1 ? POLY : 0);
	return r;
}

enum { LANE = 1024 };			/* bytes of each of the three streams */
static uint64_t k_lane1, k_lane2;	/* shift a crc over LANE and 2 * LANE bytes */
static uint64_t k512[2], k128[2];	/* fold a 128-bit lane over 512 and 128 bits */

__attribute__((target("sse4.2"))) static uint32_t crc_small(uint32_t crc, const uint8_t *p,
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

/* crc advanced over a run of zero bytes: k is x^(8 * bytes - 33), the rest is crc32's own shift. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_shift(uint32_t crc, uint64_t k)
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

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_pclmul(uint32_t crc, const uint8_t *p,
								    size_t len)
{
	if (len < 256)
		return crc_small(crc, p, len);

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
	/* what is left is a 128-bit message with the same crc: let the instruction reduce it */
	_mm_storeu_si128((__m128i *)(void *)half, d);
	crc = (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, half[0]), half[1]);
	return crc_small(crc, p, len);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_3way(uint32_t crc, const uint8_t *p,
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
		crc = crc_shift((uint32_t)a, k_lane2) ^ crc_shift((uint32_t)b, k_lane1) ^
		      (uint32_t)c;
	}
	return crc_pclmul(crc, p, len);
}

static bool pick_x86(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("sse4.2"))
		return false;
	crc_fn = crc_small;
	crc_name = "sse4.2";
	if (__builtin_cpu_supports("pclmul")) {
		/*
		 * A product of two reflected operands comes out one bit low, and crc32_u64
		 * multiplies by x^32 itself, hence the -33.  In a fold, the low half of a lane is
		 * the more significant 64 bits: it moves 64 further than the high half.
		 */
		k_lane1 = xpow(8 * LANE - 33);
		k_lane2 = xpow(16 * LANE - 33);
		k512[0] = (uint64_t)xpow(512 + 31);
		k512[1] = (uint64_t)xpow(512 - 33);
		k128[0] = (uint64_t)xpow(128 + 31);
		k128[1] = (uint64_t)xpow(128 - 33);
		crc_fn = crc_3way;
		crc_name = "pclmul";
		if (crc_3way(~0u, (const uint8_t *)table, sizeof(table)) !=
		    crc_table(~0u, (const uint8_t *)table, sizeof(table)) ||
		    crc_pclmul(~0u, (const uint8_t *)table, sizeof(table)) !=
		    crc_table(~0u, (const uint8_t *)table, sizeof(table))) {
			crc_fn = crc_small;
			crc_name = "sse4.2";
		}
	}
	return true;
}
#else
static bool pick_x86(void)
{
	return false;
}
#endif

static void pick(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? POLY : 0);
		table[0][i] = c;
	}
	for (int k = 1; k < 8; k++)
		for (int i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
	crc_fn = crc_table;
	crc_name = "table";
	pick_x86();
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&once, pick);
	return ~crc_fn(~crc, data, len);
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&once, pick);
	return ~crc_table(~crc, data, len);
}

const char *crc32c_name(void)
{
	pthread_once(&once, pick);
	return crc_name;
}
