/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of crc32c: see crc32c.c. */
#ifndef NVMF_UTIL_CRC32C_WAYS_H
#define NVMF_UTIL_CRC32C_WAYS_H

#include "util/crc32c.h"

#define CRC32C_POLY 0x82f63b78u	/* reflected Castagnoli polynomial */

enum { CRC32C_WAYS = 6 };

/* The implementations for this processor, the fastest first, without the table; returns their number. */
unsigned crc32c_native(struct crc32c_way *ways);

#if defined(__x86_64__)
#include <immintrin.h>

struct crc_lanes;

/* Advance crc over a run of zero bytes: k is x^(8 * bytes - 33), the rest is crc32's own shift. */
__attribute__((target("sse4.2,pclmul"))) static inline uint32_t crc32c_shift(uint32_t crc, uint64_t k)
{
	__m128i x = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc),
					 _mm_cvtsi64_si128((long long)k), 0);

	return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
}

/* crc32c_mixed.c, which needs AVX2, VPCLMULQDQ and SSE4.2: continue the register crc over whole blocks. */
enum { CRC32C_MIXED_BLOCK = 4032 };	/* bytes */

void crc32c_mixed_set(const struct crc_lanes *constants);	/* which are kept */
uint32_t crc32c_mixed_sum(uint32_t crc, const uint8_t *p, size_t blocks);
uint32_t crc32c_mixed_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t blocks);
#endif

#endif
