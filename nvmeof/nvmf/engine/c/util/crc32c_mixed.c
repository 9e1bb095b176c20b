/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C by two parts of an x86-64 processor at the same time: carry-less multiplication of four lanes of 256 bits
 * (util/crc_lanes.h), and the crc32 instruction on three streams.  On EPYC 7003, where both are about equally fast, a sum
 * of bytes in the cache takes 0.7 of the time of the lanes alone, and a sum with a copy the same.
 *
 * A block is divided into the bytes of the lanes, followed by those of each stream; the four CRCs are joined at its end.
 * The processor's own prefetchers do not follow this order.  So the next block is fetched into the cache meanwhile: without
 * that, bytes that are not in the cache take 1.6 times as long as with the lanes alone, and with it 0.8 times.
 *
 * Owns the constants, written once before use; any thread.
 */
#include "util/crc32c_ways.h"
#include "util/crc_lanes.h"

#if defined(__x86_64__)
#include <string.h>

#define MIXED __attribute__((target("avx2,vpclmulqdq,sse4.2,pclmul")))

enum {
	VECTOR = 32,
	LANES = 4 * VECTOR,	/* bytes of a round for the lanes; each stream has one vector */
	ROUND = LANES + 3 * VECTOR,
	ROUNDS = CRC32C_MIXED_BLOCK / ROUND,
	STREAM = ROUNDS * VECTOR,
};
_Static_assert(ROUNDS * ROUND == CRC32C_MIXED_BLOCK, "a block has whole rounds");

static const struct crc_lanes *lanes;
static uint64_t k_stream[3];	/* shift a crc over one, two and three streams */

void crc32c_mixed_set(const struct crc_lanes *constants)
{
	lanes = constants;
	for (unsigned i = 0; i < 3; i++)
		k_stream[i] = crc_lanes_power(CRC32C_POLY, (i + 1) * 8 * STREAM - 33);
}

/* Load 32 bytes at an offset, and copy them to "to" unless it is NULL. */
MIXED static inline __m256i mixed_take(uint8_t *to, const uint8_t *p, size_t at)
{
	const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + at));

	if (to)
		_mm256_storeu_si256((__m256i *)(void *)(to + at), v);
	return v;
}

MIXED static inline uint64_t mixed_word(uint64_t crc, const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return _mm_crc32_u64(crc, word);
}

/* Continue a stream by the 32 bytes at an offset, and copy them as mixed_take does: the sum is of what is copied. */
MIXED static inline uint64_t mixed_stream(uint64_t crc, uint8_t *to, const uint8_t *p, size_t at)
{
	__m128i low, high;
	__m256i v;

	if (!to) {
		p += at;
		return mixed_word(mixed_word(mixed_word(mixed_word(crc, p), p + 8), p + 16), p + 24);
	}
	v = mixed_take(to, p, at);
	low = _mm256_castsi256_si128(v);
	high = _mm256_extracti128_si256(v, 1);
	crc = _mm_crc32_u64(crc, (uint64_t)_mm_cvtsi128_si64(low));
	crc = _mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(low, 1));
	crc = _mm_crc32_u64(crc, (uint64_t)_mm_cvtsi128_si64(high));
	return _mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(high, 1));
}

/* Fetch the lines of a round.  Always inline: gcc takes a function for one without effects, and drops it. */
static inline __attribute__((always_inline)) void mixed_fetch(const uint8_t *block, size_t round)
{
	const uint8_t *p = block + round * ROUND;

	_mm_prefetch(p, _MM_HINT_T0);
	_mm_prefetch(p + 64, _MM_HINT_T0);
	_mm_prefetch(p + 128, _MM_HINT_T0);
	if (round % 2)
		_mm_prefetch(p + 192, _MM_HINT_T0);
}

MIXED static inline __attribute__((always_inline)) uint32_t mixed_block(uint32_t crc, uint8_t *to, const uint8_t *p)
{
	const __m256i far = _mm256_broadcastsi128_si256(crc_lanes_constant(lanes->k1024));
	const __m256i near = _mm256_broadcastsi128_si256(crc_lanes_constant(lanes->k256));
	const __m128i nearest = crc_lanes_constant(lanes->k128);
	__m256i a = _mm256_xor_si256(mixed_take(to, p, 0), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc)));
	__m256i b = mixed_take(to, p, VECTOR), c = mixed_take(to, p, 2 * VECTOR), d = mixed_take(to, p, 3 * VECTOR);
	uint64_t stream[3] = { 0 }, joined;
	__m128i x;

	for (size_t i = 0;;) {
		const size_t at = ROUNDS * LANES + i * VECTOR;

		mixed_fetch(p + CRC32C_MIXED_BLOCK, i);
		stream[0] = mixed_stream(stream[0], to, p, at);
		stream[1] = mixed_stream(stream[1], to, p, at + STREAM);
		stream[2] = mixed_stream(stream[2], to, p, at + 2 * STREAM);
		if (++i == ROUNDS)
			break;
		a = crc_lanes_wide_fold(a, far, mixed_take(to, p, i * LANES));
		b = crc_lanes_wide_fold(b, far, mixed_take(to, p, i * LANES + VECTOR));
		c = crc_lanes_wide_fold(c, far, mixed_take(to, p, i * LANES + 2 * VECTOR));
		d = crc_lanes_wide_fold(d, far, mixed_take(to, p, i * LANES + 3 * VECTOR));
	}
	d = crc_lanes_wide_fold(crc_lanes_wide_fold(crc_lanes_wide_fold(a, near, b), near, c), near, d);
	x = crc_lanes_fold(_mm256_castsi256_si128(d), nearest, _mm256_extracti128_si256(d, 1));
	joined = _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x)), (uint64_t)_mm_extract_epi64(x, 1));
	return crc32c_shift((uint32_t)joined, k_stream[2]) ^ crc32c_shift((uint32_t)stream[0], k_stream[1]) ^
	       crc32c_shift((uint32_t)stream[1], k_stream[0]) ^ (uint32_t)stream[2];
}

MIXED uint32_t crc32c_mixed_sum(uint32_t crc, const uint8_t *p, size_t blocks)
{
	for (; blocks; blocks--, p += CRC32C_MIXED_BLOCK)
		crc = mixed_block(crc, NULL, p);
	return crc;
}

MIXED uint32_t crc32c_mixed_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t blocks)
{
	for (; blocks; blocks--, p += CRC32C_MIXED_BLOCK, to += CRC32C_MIXED_BLOCK)
		crc = mixed_block(crc, to, p);
	return crc;
}
#endif
