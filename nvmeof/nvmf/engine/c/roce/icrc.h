/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCEv2 (annex 17.2): the CRC-32 of Ethernet over the IP and UDP headers, of which what changes
 * on the way counts as ones, and the packet behind them.  Any thread.
 *
 * An unprivileged socket sees neither the identification of the IPv4 packets that it receives nor sets that of those
 * that it sends.  Sent: the socket is not connected and does not fragment, so Linux sends 0, and counts up from it in
 * what it cuts by UDP_SEGMENT.  Received: the CRC is linear, so the identification that makes it right is computed,
 * and a packet is taken if there is one.  A damaged packet is taken for a good one with a chance of 2^-16, if the UDP
 * checksum also holds.
 *
 * Linux's rxe has an ICRC of its own for FLUSH: its table of opcodes does not say where the payload of a FLUSH begins,
 * which has none, so the whole packet counts a second time.  It drops a FLUSH with the right ICRC.
 */
#ifndef NVMF_ROCE_ICRC_H
#define NVMF_ROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The addresses and UDP ports of packets, for their ICRC. */
struct ro_flow {
	bool six;
	uint8_t src[16], dst[16];	/* the first 4 of IPv4 */
	uint16_t sport, dport;
};

void ro_flow_set(struct ro_flow *flow, const struct sockaddr *src, const struct sockaddr *dst);

/* Register len bytes more in a CRC; no inversion at either end. */
uint32_t ro_crc32(uint32_t crc, const void *buf, size_t len);

/*
 * The ICRC, as it is to be stored with memcpy, of a packet of len bytes from its BTH up to where the ICRC is, in an
 * IPv4 packet with this identification.
 */
uint32_t ro_icrc(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);

/* The ICRC that Linux's rxe gives a FLUSH, and expects of one. */
uint32_t ro_icrc_rxe_flush(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);

/*
 * Whether the ICRC behind len bytes of a packet is right, or that of rxe if it is a FLUSH.  *ip_id: the identification
 * that is likely, and then the one with which it is right; 0 of IPv6.
 */
bool ro_icrc_ok(const struct ro_flow *flow, const uint8_t *packet, uint32_t len, uint16_t *ip_id);

#endif
