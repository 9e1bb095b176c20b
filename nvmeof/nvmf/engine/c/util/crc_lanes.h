/* SPDX-License-Identifier: BSD-3-Clause */
/* Reflected CRCs of 32 bits on x86-64 by carry-less multiplication: the part that crc32c and the CRC-32 of RoCE share. */
#ifndef NVMF_UTIL_CRC_LANES_H
#define NVMF_UTIL_CRC_LANES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum {
	CRC_LANES_MIN = 64,		/* bytes from which on crc_lanes is faster than anything else */
	CRC_LANES_WIDE_MIN = 256,	/* the same of crc_lanes_wide */
	CRC_LANES_VERY_WIDE_MIN = 512,	/* the same of crc_lanes_very_wide */
};

/* The constants of a polynomial: they fold a lane over this many bits. */
struct crc_lanes {
	uint64_t k2048[2], k1024[2], k512[2], k256[2], k128[2];
};

/* Return y, and x moved by the distance of k. */
__attribute__((target("sse4.1,pclmul"))) static inline __m128i crc_lanes_fold(__m128i x, __m128i k, __m128i y)
{
	return _mm_xor_si128(y, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00),
					      _mm_clmulepi64_si128(x, k, 0x11)));
}

/* The same of two lanes in one register. */
__attribute__((target("avx2,vpclmulqdq"))) static inline __m256i crc_lanes_wide_fold(__m256i x, __m256i k, __m256i y)
{
	return _mm256_xor_si256(y, _mm256_xor_si256(_mm256_clmulepi64_epi128(x, k, 0x00),
						    _mm256_clmulepi64_epi128(x, k, 0x11)));
}

static inline __m128i crc_lanes_constant(const uint64_t k[2])
{
	return _mm_set_epi64x((long long)k[1], (long long)k[0]);
}

/* Return x^n modulo a polynomial, reflected: bit 31 is x^0. */
uint32_t crc_lanes_power(uint32_t polynomial, unsigned int n);

void crc_lanes_set(struct crc_lanes *k, uint32_t polynomial);

/*
 * Return 16 bytes that have the CRC, from a register of 0, that len bytes have from the register crc.  len is a multiple of
 * 16, and the minimum of its function at least.  The bytes are also copied to "to", unless it is NULL: each is read once
 * then, which counts if they are not in the cache.  Unless ahead is 0, as many bytes are fetched into the cache, of those
 * that follow this far behind.
 */
typedef __m128i crc_lanes_run(const struct crc_lanes *k, uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead);

crc_lanes_run crc_lanes;		/* needs SSE4.1 and PCLMULQDQ: four lanes of 128 bits */
crc_lanes_run crc_lanes_wide;		/* needs AVX2 and VPCLMULQDQ: of 256 bits */
crc_lanes_run crc_lanes_very_wide;	/* needs AVX-512 and VPCLMULQDQ: of 512 bits */

#endif
#endif
