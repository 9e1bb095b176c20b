/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCEv2 (annex 17.2): the CRC-32 of Ethernet over the IP and UDP headers, with ones in the fields
 * that change on the way, and the packet after them.  Any thread.
 *
 * An unprivileged socket can neither read the identification of the IPv4 packets that it receives nor set that of the
 * packets that it sends.  Sent: the socket is not connected and does not fragment, so Linux sends 0, and counts up from
 * it in the segments of UDP_SEGMENT.  Received: the CRC is linear, so the identification that makes it correct is
 * computed, and a packet is accepted if there is one.  A damaged packet is accepted with a probability of 2^-16, if its
 * UDP checksum is also correct.
 *
 * Linux's rxe computes a different ICRC for FLUSH: its table of opcodes has no payload offset for FLUSH, which has no
 * payload, so the whole packet counts a second time.  It drops a FLUSH with the correct ICRC.
 */
#ifndef NVMF_ROCE_ICRC_H
#define NVMF_ROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Packets with the same addresses and UDP ports, for their ICRC. */
struct ro_flow {
	bool six;
	uint32_t head;			/* the register before the BTH, if the lengths and the identification were zero */
};

void ro_flow_set(struct ro_flow *flow, const struct sockaddr *src, const struct sockaddr *dst);

/* Continue a CRC over len bytes, without inversion at either end. */
uint32_t ro_crc32(uint32_t crc, const void *buf, size_t len);

/* The same of a copy that it makes.  ahead: where more bytes follow that are copied next, from the first one on, or 0. */
uint32_t ro_crc32_copy(uint32_t crc, void *to, const void *from, size_t len, size_t ahead);

/*
 * The ICRC in parts: the register after the headers up to the BTH of a packet whose ICRC follows len bytes; the rest goes
 * through ro_crc32() or ro_crc32_copy(); and the ICRC, as it is to be stored with memcpy.
 */
uint32_t ro_icrc_begin(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);
uint32_t ro_icrc_end(uint32_t crc);

/*
 * The ICRC, to be stored with memcpy, of a packet that has len bytes from its BTH to its ICRC, in an IPv4 packet with
 * this identification.
 */
uint32_t ro_icrc(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);

/* The ICRC that Linux's rxe gives a FLUSH, and expects of one. */
uint32_t ro_icrc_rxe_flush(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);

/*
 * Whether the ICRC after len bytes of a packet is correct, or that of rxe if it is a FLUSH.  *ip_id: the likely
 * identification, then the one with which the ICRC is correct; 0 for IPv6.
 */
bool ro_icrc_ok(const struct ro_flow *flow, const uint8_t *packet, uint32_t len, uint16_t *ip_id);

#endif
