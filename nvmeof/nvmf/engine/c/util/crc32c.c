/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C: the selection of an implementation, and the portable one, which uses a table.  An implementation for the
 * processor (crc32c_x86.c, crc32c_arm.c) is only selected if its results equal those of the table.  Owns the table
 * and the list of implementations, written once before use; any thread.
 */
#include "util/crc32c_ways.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static uint32_t table[8][256];
static struct crc32c_way ways[CRC32C_WAYS];
static unsigned way_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t table_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		const uint32_t v = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
					  (uint32_t)p[3] << 24);

		crc = table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^ table[5][v >> 16 & 0xff] ^
		      table[4][v >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

static uint32_t table_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len)
{
	memcpy(to, p, len);
	return table_sum(crc, to, len);
}

static bool agrees(const struct crc32c_way *way)
{
	const uint8_t *text = (const uint8_t *)table;
	uint8_t copy[1 << 13];
	uint32_t sum = table_sum(~0u, text, sizeof(table)), part = table_sum(~0u, text + 1, sizeof(copy) - 5);

	return way->sum(~0u, text, sizeof(table)) == sum &&
	       way->copy(~0u, copy, text + 1, sizeof(copy) - 5) == part &&
	       !memcmp(copy, text + 1, sizeof(copy) - 5);
}

static void ways_init(void)
{
	struct crc32c_way native[CRC32C_WAYS];
	unsigned n;

	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? CRC32C_POLY : 0);
		table[0][i] = c;
	}
	for (int k = 1; k < 8; k++)
		for (int i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
	n = crc32c_native(native);
	for (unsigned i = 0; i < n; i++)
		if (agrees(&native[i]))
			ways[way_count++] = native[i];
	ways[way_count++] = (struct crc32c_way){ "table", table_sum, table_copy };
}

const struct crc32c_way *crc32c_ways(unsigned *count)
{
	pthread_once(&once, ways_init);
	*count = way_count;
	return ways;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&once, ways_init);
	return ~ways[0].sum(~crc, data, len);
}

uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t len)
{
	pthread_once(&once, ways_init);
	return ~ways[0].copy(~crc, to, from, len);
}
