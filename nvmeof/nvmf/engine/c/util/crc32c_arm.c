/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C by the instructions of Armv8, if the processor has them. */
#include "util/crc32c_ways.h"

#if defined(__aarch64__)
#include <arm_acle.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

__attribute__((target("+crc"))) static uint32_t arm_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		crc = __crc32cd(crc, v);
	}
	while (len--)
		crc = __crc32cb(crc, *p++);
	return crc;
}

static uint32_t arm_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	memcpy(to, p, len);
	return arm_sum(crc, to, len);
}

unsigned crc32c_native(struct crc32c_way *ways)
{
	if (!(getauxval(AT_HWCAP) & HWCAP_CRC32))
		return 0;
	ways[0] = (struct crc32c_way){ "armv8", arm_sum, arm_copy };
	return 1;
}
#elif !defined(__x86_64__)
unsigned crc32c_native(struct crc32c_way *ways)
{
	(void)ways;
	return 0;
}
#endif
