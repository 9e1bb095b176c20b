/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ICRC: its computation, and the search for the identification of an IPv4 packet with which it is correct.  Owns the
 * tables, which are computed once.
 */
#include "icrc.h"
#include "crc32_ways.h"
#include "wire.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

enum {
	V4 = 20, V6 = 40, UDP = 8,
	MASKED_BTH = 4,			/* the byte of FECN, BECN and reserved bits */
	SHIFTS = 16,			/* of 2^k bytes */
};

/* The fields before the BTH that differ between the packets of a flow, by the number of bytes after them. */
enum { FIELDS = 4 };
static const uint8_t after[FIELDS] = { 2, UDP + V4 - 4, UDP + V4 - 6, UDP + V6 - 6 };
enum { UDP_LENGTH, V4_LENGTH, V4_ID, V6_LENGTH };

static uint32_t table[8][256];
static uint32_t back[SHIFTS][32];	/* the value of each bit of a register before 2^k zero bytes */
static uint32_t field[FIELDS][2][256];	/* the register after each value of their two bytes, from an empty one */
static uint32_t lengths[2][RO_PACKET_MAX / 4 + 1];	/* field of the lengths of a packet, by IP version and words */
static crc32_fold *crc32_wide;
static crc32_short *crc32_few;
static uint32_t seed;			/* after the 8 bytes of ones in place of an InfiniBand header */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t apply(const uint32_t matrix[32], uint32_t v)
{
	uint32_t r = 0;

	for (; v; v &= v - 1)
		r ^= matrix[__builtin_ctz(v)];
	return r;
}

static uint32_t plain(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		v ^= crc;
		crc = 0;
		for (int i = 0; i < 8; i++)
			crc ^= table[7 - i][v >> 8 * i & 0xff];
	}
	if (len >= 4) {
		uint32_t v;

		memcpy(&v, p, 4);
		v ^= crc;
		crc = table[3][v & 0xff] ^ table[2][v >> 8 & 0xff] ^ table[1][v >> 16 & 0xff] ^ table[0][v >> 24];
		p += 4;
		len -= 4;
	}
	while (len--)
		crc = table[0][(crc ^ *p++) & 0xff] ^ crc >> 8;
	return crc;
}

/* The register before a zero byte: the highest byte determines the table entry that was used. */
static uint32_t before(uint32_t crc)
{
	uint32_t i = 0;

	while (table[0][i] >> 24 != crc >> 24)
		i++;
	return (crc ^ table[0][i]) << 8 | i;
}

static uint32_t short_sum(uint32_t crc, const uint8_t *p, size_t len)
{
	const size_t words = len & ~(size_t)3;

	if (!crc32_few || !words)
		return plain(crc, p, len);
	return plain(crc32_few(crc, p, words), p + words, len - words);
}

/* to: a copy of the bytes, or NULL. */
static uint32_t sum(crc32_fold *way, uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead)
{
	if (way && len >= CRC32_WIDE_MIN) {
		size_t wide = len & ~(size_t)15;

		crc = way(crc, to, p, wide, ahead);
		p += wide;
		len -= wide;
		to = to ? to + wide : NULL;
	}
	if (!to)
		return short_sum(crc, p, len);
	memcpy(to, p, len);
	return short_sum(crc, to, len);	/* of the copy: the bytes may change */
}

static uint32_t past_zeroes(uint32_t crc, uint32_t n)
{
	while (n--)
		crc = table[0][crc & 0xff] ^ crc >> 8;
	return crc;
}

/* Choose the fastest way of those that give the same result as the table. */
static void choose(void)
{
	const uint8_t *text = (const uint8_t *)table + 1;
	const size_t len = sizeof(table) / 2 + 5;
	crc32_fold *ways[CRC32_WAYS];
	crc32_short *short_way;
	unsigned int n = crc32_native(ways, &short_way);

	for (unsigned int i = 0; i < n && !crc32_wide; i++)
		if (sum(ways[i], 7, NULL, text, len, 0) == plain(7, text, len))
			crc32_wide = ways[i];
	if (short_way && short_way(7, text, RO_BTH) == plain(7, text, RO_BTH))
		crc32_few = short_way;
}

static inline uint32_t of_field(int f, uint32_t value)
{
	return field[f][0][value >> 8 & 0xff] ^ field[f][1][value & 0xff];
}

/* The CRC of the fields with the length of a packet that has len bytes up to its ICRC. */
static uint32_t of_lengths(bool six, uint32_t len)
{
	const uint32_t udp_len = UDP + len + RO_ICRC;

	return of_field(UDP_LENGTH, udp_len) ^ (six ? of_field(V6_LENGTH, udp_len) : of_field(V4_LENGTH, V4 + udp_len));
}

static void make(void)
{
	static const uint8_t ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };

	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? CRC32_POLY : 0);
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			table[t][i] = table[0][table[t - 1][i] & 0xff] ^ table[t - 1][i] >> 8;
	for (int f = 0; f < FIELDS; f++)
		for (uint32_t i = 0; i < 256; i++) {
			field[f][1][i] = past_zeroes(table[0][i], after[f]);
			field[f][0][i] = past_zeroes(field[f][1][i], 1);
		}
	for (uint32_t words = 0; words <= RO_PACKET_MAX / 4; words++)
		for (int six = 0; six < 2; six++)
			lengths[six][words] = of_lengths(six, 4 * words);
	for (uint32_t bit = 0; bit < 32; bit++)
		back[0][bit] = before(1u << bit);
	for (int k = 1; k < SHIFTS; k++)
		for (uint32_t bit = 0; bit < 32; bit++)
			back[k][bit] = apply(back[k - 1], back[k - 1][bit]);
	choose();
	seed = plain(UINT32_MAX, ones, sizeof(ones));
}

uint32_t ro_crc32(uint32_t crc, const void *buf, size_t len)
{
	pthread_once(&once, make);
	return sum(crc32_wide, crc, NULL, buf, len, 0);
}

uint32_t ro_crc32_copy(uint32_t crc, void *to, const void *from, size_t len, size_t ahead)
{
	pthread_once(&once, make);
	return sum(crc32_wide, crc, to, from, len, ahead);
}

static void v4_put(uint8_t p[V4], const struct sockaddr_in *src, const struct sockaddr_in *dst)
{
	p[0] = 0x45;
	p[1] = 0xff;
	ro_put16(p + 6, 0x4000);	/* don't fragment */
	p[8] = 0xff;
	p[9] = IPPROTO_UDP;
	ro_put16(p + 10, 0xffff);
	memcpy(p + 12, &src->sin_addr, 4);
	memcpy(p + 16, &dst->sin_addr, 4);
}

static void v6_put(uint8_t p[V6], const struct sockaddr_in6 *src, const struct sockaddr_in6 *dst)
{
	ro_put32(p, 0x6fffffff);	/* traffic class and flow label */
	p[6] = IPPROTO_UDP;
	p[7] = 0xff;
	memcpy(p + 8, &src->sin6_addr, 16);
	memcpy(p + 24, &dst->sin6_addr, 16);
}

void ro_flow_set(struct ro_flow *flow, const struct sockaddr *src, const struct sockaddr *dst)
{
	uint8_t buf[V6 + UDP] = { 0 }, *udp;
	/* the UDP port is at the same place in both */
	const uint16_t ports[] = {
		((const struct sockaddr_in *)(const void *)src)->sin_port,
		((const struct sockaddr_in *)(const void *)dst)->sin_port,
	};

	pthread_once(&once, make);
	flow->six = src->sa_family == AF_INET6;
	udp = buf + (flow->six ? V6 : V4);
	if (flow->six)
		v6_put(buf, (const void *)src, (const void *)dst);
	else
		v4_put(buf, (const void *)src, (const void *)dst);
	memcpy(udp, ports, sizeof(ports));
	ro_put16(udp + 6, 0xffff);
	flow->head = plain(seed, buf, (size_t)(udp - buf) + UDP);
}

uint32_t ro_icrc_begin(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len)
{
	const bool known = len % 4 == 0 && len <= RO_PACKET_MAX;
	uint32_t crc = flow->head ^ (known ? lengths[flow->six][len / 4] : of_lengths(flow->six, len));
	uint8_t bth[RO_BTH];

	if (!flow->six)
		crc ^= of_field(V4_ID, ip_id);
	memcpy(bth, packet, RO_BTH);
	bth[MASKED_BTH] = 0xff;
	return short_sum(crc, bth, RO_BTH);
}

uint32_t ro_icrc_end(uint32_t crc)
{
	crc = ~crc;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	crc = __builtin_bswap32(crc);
#endif
	return crc;
}

/* again: the number of bytes of the packet that count a second time. */
static uint32_t compute(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len, uint32_t again)
{
	uint32_t crc = ro_icrc_begin(flow, ip_id, packet, len);

	crc = sum(crc32_wide, crc, NULL, packet + RO_BTH, len - RO_BTH, 0);
	return ro_icrc_end(sum(crc32_wide, crc, NULL, packet, again, 0));
}

uint32_t ro_icrc(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len)
{
	return compute(flow, ip_id, packet, len, 0);
}

uint32_t ro_icrc_rxe_flush(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len)
{
	return compute(flow, ip_id, packet, len, len);
}

static bool matches(const struct ro_flow *flow, const uint8_t *packet, uint32_t len, uint32_t again, uint16_t *ip_id)
{
	uint32_t there, diff, zeros = V4 - 4 + UDP + len + again;	/* from the identification on */

	memcpy(&there, packet + len, sizeof(there));
	diff = there ^ compute(flow, *ip_id, packet, len, again);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	diff = __builtin_bswap32(diff);
#endif
	if (!diff || flow->six)
		return !diff;
	/* feeding two bytes to an empty register equals starting with them in its lower half */
	for (int k = 0; zeros; k++, zeros >>= 1)
		if (zeros & 1)
			diff = apply(back[k], diff);
	if (diff > 0xffff)
		return false;
	*ip_id ^= (uint16_t)(diff << 8 | (diff >> 8 & 0xff));
	return true;
}

bool ro_icrc_ok(const struct ro_flow *flow, const uint8_t *packet, uint32_t len, uint16_t *ip_id)
{
	return matches(flow, packet, len, 0, ip_id) ||
	       (packet[0] == RO_OP_FLUSH && matches(flow, packet, len, len, ip_id));
}
