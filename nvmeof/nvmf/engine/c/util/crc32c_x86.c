/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C on x86-64: carry-less multiplication of wide lanes (util/crc_lanes.h), which can also copy, alone or beside the
 * crc32 instruction (util/crc32c_mixed.c); the crc32 instruction of SSE4.2 on three streams joined by carry-less
 * multiplication (from 3 KiB); carry-less multiplication alone (four 128-bit lanes, from 256 bytes); the plain instruction.
 */
#include "util/crc32c_ways.h"
#include "util/crc_lanes.h"

#if defined(__x86_64__)
#include <string.h>

enum {
	LANE = 1024,			/* bytes of each of three streams */
	LANES_MIN = 256,		/* from this length on, crc_lanes is faster than the instruction */
};
static struct crc_lanes lanes;
static uint64_t k_lane1, k_lane2;	/* shift a crc over LANE and 2 * LANE bytes */

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

/* The CRC of len bytes, which are copied to "to" unless it is NULL. */
__attribute__((target("sse4.2"))) static uint32_t lanes_sum(crc_lanes_run *run, uint32_t crc, uint8_t *to, const uint8_t *p,
							    size_t len)
{
	const size_t whole = len & ~(size_t)15;
	uint64_t half[2];

	/* 128 bits with the same crc are left: use the instruction for them */
	_mm_storeu_si128((__m128i *)(void *)half, run(&lanes, crc, to, p, whole, 0));
	crc = (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, half[0]), half[1]);
	if (to)
		p = memcpy(to + whole, p + whole, len - whole);
	else
		p += whole;
	return sse_sum(crc, p, len - whole);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t clmul_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	return len < LANES_MIN ? sse_sum(crc, p, len) : lanes_sum(crc_lanes, crc, NULL, p, len);
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
		crc = crc32c_shift((uint32_t)a, k_lane2) ^ crc32c_shift((uint32_t)b, k_lane1) ^
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

static uint32_t wide_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	return len < CRC_LANES_WIDE_MIN ? sse_sum(crc, p, len) : lanes_sum(crc_lanes_wide, crc, NULL, p, len);
}

static uint32_t wide_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	return len < CRC_LANES_WIDE_MIN ? sse_copy(crc, to, p, len) : lanes_sum(crc_lanes_wide, crc, to, p, len);
}

/* The first block is fetched by nobody, so with one block the lanes alone are as fast. */
static size_t mixed_blocks(size_t len)
{
	return len < 2 * CRC32C_MIXED_BLOCK ? 0 : len / CRC32C_MIXED_BLOCK;
}

static uint32_t mixed_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	const size_t blocks = mixed_blocks(len), whole = blocks * CRC32C_MIXED_BLOCK;

	if (blocks)
		crc = crc32c_mixed_sum(crc, p, blocks);
	return wide_sum(crc, p + whole, len - whole);
}

static uint32_t mixed_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	const size_t blocks = mixed_blocks(len), whole = blocks * CRC32C_MIXED_BLOCK;

	if (blocks)
		crc = crc32c_mixed_copy(crc, to, p, blocks);
	return wide_copy(crc, to + whole, p + whole, len - whole);
}

static uint32_t very_wide_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	return len < CRC_LANES_VERY_WIDE_MIN ? clmul_sum(crc, p, len) : lanes_sum(crc_lanes_very_wide, crc, NULL, p, len);
}

static uint32_t very_wide_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	return len < CRC_LANES_VERY_WIDE_MIN ? three_copy(crc, to, p, len) : lanes_sum(crc_lanes_very_wide, crc, to, p, len);
}

unsigned crc32c_native(struct crc32c_way *ways)
{
	unsigned n = 0;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("sse4.2"))
		return 0;
	if (__builtin_cpu_supports("pclmul")) {
		k_lane1 = crc_lanes_power(CRC32C_POLY, 8 * LANE - 33);
		k_lane2 = crc_lanes_power(CRC32C_POLY, 16 * LANE - 33);
		crc_lanes_set(&lanes, CRC32C_POLY);
		if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
			ways[n++] = (struct crc32c_way){ "vpclmul of 512 bits", very_wide_sum, very_wide_copy };
		if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq")) {
			crc32c_mixed_set(&lanes);
			ways[n++] = (struct crc32c_way){ "vpclmul of 256 bits and crc32", mixed_sum, mixed_copy };
			ways[n++] = (struct crc32c_way){ "vpclmul of 256 bits", wide_sum, wide_copy };
		}
		ways[n++] = (struct crc32c_way){ "pclmul", three_sum, three_copy };
	}
	ways[n++] = (struct crc32c_way){ "sse4.2", sse_sum, sse_copy };
	return n;
}
#endif
