/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 of every length by each implementation for this processor, and ICRCs whose identification is guessed correctly
 * or incorrectly.
 */
#include "check.h"
#include "roce/crc32_ways.h"
#include "roce/icrc.h"
#include "roce/wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>

enum { LONGEST = 1400 };

static uint32_t by_bits(uint32_t crc, const uint8_t *p, size_t len)
{
	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32_POLY : 0);
	}
	return crc;
}

static void lengths(const uint8_t *bytes)
{
	crc32_fold *ways[CRC32_WAYS];
	crc32_short *short_way;
	const unsigned int n = crc32_native(ways, &short_way);
	static uint8_t copy[LONGEST + 1];

	check_section("every length");
	for (size_t len = 0; len < LONGEST; len++) {
		const uint8_t *p = bytes + len % 7;
		const uint32_t crc = 0xffffffffu - (uint32_t)len, sum = by_bits(crc, p, len);

		if (ro_crc32(crc, p, len) != sum)
			CHECK(false, "(%zu bytes)", len);
		memset(copy, 0x55, sizeof(copy));
		if (ro_crc32_copy(crc, copy, p, len, len) != sum || memcmp(copy, p, len) || copy[len] != 0x55)
			CHECK(false, "(%zu bytes, copied)", len);
		for (unsigned int i = 0; i < n && len >= CRC32_WIDE_MIN && len % 16 == 0; i++) {
			memset(copy, 0x55, sizeof(copy));
			CHECK(ways[i](crc, copy, p, len, len) == sum, "(%zu bytes, way %u of %u)", len, i + 1, n);
			CHECK(!memcmp(copy, p, len) && copy[len] == 0x55, "(%zu bytes copied, way %u)", len, i + 1);
			CHECK(ways[i](crc, NULL, p, len, len) == sum, "(%zu bytes, not copied, way %u)", len, i + 1);
		}
		if (short_way && len && len % 4 == 0 && short_way(crc, p, len) != sum)
			CHECK(false, "(%zu bytes, the short way)", len);
	}
	CHECK(ro_crc32(0xffffffffu, "123456789", 9) == (0xcbf43926u ^ 0xffffffffu), "(the check value)");
}

/* The ICRC by its definition: over the headers as annex 17.2 masks them, bit by bit. */
static uint32_t defined(bool six, uint16_t ip_id, const uint8_t *packet, uint32_t len)
{
	static const uint8_t ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };
	const uint32_t udp = 8 + len + RO_ICRC;
	uint8_t h[48] = { 0 }, bth[RO_BTH], *p = h;
	uint32_t crc;

	if (six) {
		memcpy(p, (uint8_t[]){ 0x6f, 255, 255, 255, (uint8_t)(udp >> 8), (uint8_t)udp, 17, 255 }, 8);
		memset(p + 8, 1, 16);
		memset(p + 24, 2, 16);
		p += 40;
	} else {
		memcpy(p, (uint8_t[]){ 0x45, 255, (uint8_t)((20 + udp) >> 8), (uint8_t)(20 + udp), (uint8_t)(ip_id >> 8),
				       (uint8_t)ip_id, 0x40, 0, 255, 17, 255, 255, 127, 0, 0, 1, 127, 0, 0, 2 }, 20);
		p += 20;
	}
	memcpy(p, (uint8_t[]){ 0xc0, 0x00, 0x12, 0xb7, (uint8_t)(udp >> 8), (uint8_t)udp, 255, 255 }, 8);
	memcpy(bth, packet, RO_BTH);
	bth[4] = 255;
	crc = by_bits(0xffffffffu, ones, sizeof(ones));
	crc = by_bits(crc, h, (size_t)(p - h) + 8);
	crc = by_bits(crc, bth, RO_BTH);
	return ~by_bits(crc, packet + RO_BTH, len - RO_BTH);
}

static void definition(const uint8_t *packet)
{
	static const uint16_t ids[] = { 0, 1, 15, 256, 0x1234, 0xffff };
	const struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_port = htons(49152), .sin_addr.s_addr = htonl(0x7f000001),
	};
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT), .sin_addr.s_addr = htonl(0x7f000002),
	};
	struct sockaddr_in6 from6 = { .sin6_family = AF_INET6, .sin6_port = htons(49152) }, to6 = from6;
	struct ro_flow flow, flow6;

	check_section("the definition");
	memset(&from6.sin6_addr, 1, 16);
	memset(&to6.sin6_addr, 2, 16);
	to6.sin6_port = htons(RO_UDP_PORT);
	ro_flow_set(&flow, (const struct sockaddr *)&from, (const struct sockaddr *)&to);
	ro_flow_set(&flow6, (const struct sockaddr *)&from6, (const struct sockaddr *)&to6);
	for (uint32_t len = RO_BTH; len < LONGEST; len += 4) {
		const uint16_t id = ids[len / 4 % (sizeof(ids) / sizeof(ids[0]))];

		if (ro_icrc(&flow, id, packet, len) != htole32(defined(false, id, packet, len)))
			CHECK(false, "(IPv4, %u bytes, identification %u)", len, id);
		if (ro_icrc(&flow6, 0, packet, len) != htole32(defined(true, 0, packet, len)))
			CHECK(false, "(IPv6, %u bytes)", len);
	}
	CHECK(true);
}

static void identifications(uint8_t *packet)
{
	static const uint16_t ids[] = { 0, 1, 14, 255, 256, 0x8001, 0xffff };
	const struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_port = htons(49152), .sin_addr.s_addr = htonl(0x7f000001),
	};
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT), .sin_addr.s_addr = htonl(0x7f000002),
	};
	const uint32_t len = RO_BTH + 300;
	struct ro_flow flow;

	check_section("identifications");
	ro_flow_set(&flow, (const struct sockaddr *)&from, (const struct sockaddr *)&to);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const uint32_t icrc = ro_icrc(&flow, ids[i], packet, len);

		memcpy(packet + len, &icrc, RO_ICRC);
		for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) {
			uint16_t id = ids[k];

			CHECK(ro_icrc_ok(&flow, packet, len, &id) && id == ids[i], "(%u guessed, %u sent)", ids[k], ids[i]);
		}
		packet[len] ^= 1;
		for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) {
			uint16_t id = ids[k];

			CHECK(!ro_icrc_ok(&flow, packet, len, &id), "(a wrong ICRC, %u guessed)", ids[k]);
		}
	}
}

int main(int argc, char **argv)
{
	static uint8_t bytes[LONGEST + 16];

	check_begin(&argc, argv);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 167 + (i >> 3));
	lengths(bytes);
	bytes[0] = RO_OP_SEND_ONLY;
	definition(bytes);
	identifications(bytes);
	return check_report();
}
