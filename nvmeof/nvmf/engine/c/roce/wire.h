/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2 on the wire: every byte offset of a packet (InfiniBand Architecture Specification, volume 1, chapter 9,
 * and annexes 17 and 19).  Constant, any thread.
 */
#ifndef NVMF_ROCE_WIRE_H
#define NVMF_ROCE_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	RO_UDP_PORT = 4791,
	RO_BTH = 12,
	RO_RETH = 16,
	RO_FETH = 4,
	RO_AETH = 4,
	RO_ATOMIC_ETH = 28,
	RO_ATOMIC_ACK_ETH = 8,
	RO_ATOMIC_SIZE = 8,
	RO_IMM = 4,
	RO_DETH = 8,
	RO_ICRC = 4,
	RO_MTU_MIN = 256,
	RO_MTU_MAX = 4096,
	RO_HDR_MAX = RO_BTH + RO_ATOMIC_ETH,
	RO_PACKET_MAX = RO_HDR_MAX + RO_MTU_MAX + RO_ICRC,
	RO_QP1 = 1,
	RO_MASK24 = 0xffffff,
	RO_PKEY = 0xffff,
	RO_PKEY_PARTITION = 0x7fff,	/* without the membership bit */
};

/* Opcodes: of RC, and the one of UD that is used. */
enum {
	RO_OP_SEND_FIRST, RO_OP_SEND_MIDDLE, RO_OP_SEND_LAST, RO_OP_SEND_LAST_IMM, RO_OP_SEND_ONLY,
	RO_OP_SEND_ONLY_IMM, RO_OP_WRITE_FIRST, RO_OP_WRITE_MIDDLE, RO_OP_WRITE_LAST, RO_OP_WRITE_LAST_IMM,
	RO_OP_WRITE_ONLY, RO_OP_WRITE_ONLY_IMM, RO_OP_READ_REQ, RO_OP_READ_FIRST, RO_OP_READ_MIDDLE,
	RO_OP_READ_LAST, RO_OP_READ_ONLY, RO_OP_ACK, RO_OP_ATOMIC_ACK, RO_OP_CMP_SWAP, RO_OP_FETCH_ADD,
	RO_OP_SEND_LAST_INV = 0x16, RO_OP_SEND_ONLY_INV = 0x17,
	RO_OP_FLUSH = 0x1c, RO_OP_ATOMIC_WRITE = 0x1d,
	RO_OP_RC_END,
	RO_OP_UD_SEND_ONLY = 0x64,
	RO_OP_CNP = 0x81,		/* congestion notification (annex 17.9) */
};

/* The second byte of a BTH. */
enum { RO_BTH_SE = 0x80, RO_BTH_PAD_SHIFT = 4, RO_BTH_PAD = 3, RO_BTH_VERSION = 0x0f };
enum { RO_BTH_BECN = 0x40 };	/* of the byte before the QPN, which the ICRC does not cover */
enum { RO_BTH_ACK_REQ = 0x80 };	/* of the byte before the PSN */
enum { RO_CNP = RO_BTH + 16 };	/* a CNP without its ICRC: a BTH, and zeroes */
/* The two bits of congestion in the IP header (RFC 3168). */
enum { RO_ECN = 3, RO_ECN_ECT0 = 2, RO_ECN_CE = 3 };

/* The first byte of an AETH. */
enum {
	RO_AETH_KIND = 0xe0,
	RO_AETH_ACK = 0x00,
	RO_AETH_RNR = 0x20,
	RO_AETH_NAK = 0x60,
	RO_AETH_VALUE = 0x1f,
	RO_CREDITS_UNLIMITED = 0x1f,
	RO_NAK_SEQUENCE = RO_AETH_NAK,
	RO_NAK_INVALID_REQUEST,
	RO_NAK_REMOTE_ACCESS,
	RO_NAK_REMOTE_OPERATION,
};

/* A FETH: placement type, and selectivity level. */
enum {
	RO_FETH_PLT = 0x0f,
	RO_FETH_SEL_SHIFT = 4,
	RO_FETH_SEL = 0x03,
	RO_PLT_GLOBAL = 1,
	RO_PLT_PERSISTENT = 2,
	RO_SEL_RANGE = 0,
	RO_SEL_MR = 1,
};

enum ro_kind {
	RO_NONE, RO_SEND, RO_WRITE, RO_READ, RO_ATOMIC, RO_FLUSH, RO_ATOMIC_WRITE, RO_READ_RESPONSE, RO_ACK,
	RO_ATOMIC_RESPONSE,
};

/* Whether a request completes with its own response, not with an acknowledgement. */
static inline bool ro_has_response(uint8_t kind)
{
	return kind >= RO_READ && kind <= RO_ATOMIC_WRITE;
}

enum { RO_F_FIRST = 1, RO_F_LAST = 2, RO_F_IMM = 4, RO_F_INV = 8, RO_F_RETH = 16, RO_F_AETH = 32 };

/* Properties of an opcode.  hdr: bytes of the BTH and the headers after it; 0 for an unknown opcode. */
struct ro_op {
	uint8_t kind, flags, hdr;
};
extern const struct ro_op ro_ops[RO_OP_RC_END];

static inline uint16_t ro_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t ro_get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t ro_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t ro_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline void ro_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void ro_put24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	ro_put16(p + 1, v);
}

static inline void ro_put32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void ro_put64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

/* The distance from one PSN to another, negative if the other comes first. */
static inline int32_t ro_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t ro_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & RO_MASK24;
}

/* The number of packets of a message of len bytes. */
static inline uint32_t ro_packets(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

struct ro_bth {
	uint8_t opcode;
	bool solicited, ack_req;
	uint8_t pad;
	uint32_t qpn, psn;
};

static inline void ro_bth_put(uint8_t *p, const struct ro_bth *b)
{
	p[0] = b->opcode;
	p[1] = (uint8_t)((b->solicited ? RO_BTH_SE : 0) | b->pad << RO_BTH_PAD_SHIFT);
	ro_put16(p + 2, RO_PKEY);
	ro_put32(p + 4, b->qpn);
	ro_put32(p + 8, b->psn);
	p[8] = b->ack_req ? RO_BTH_ACK_REQ : 0;
}

/* A packet, checked: its headers are there, and its payload is as long as its opcode allows at all. */
struct ro_packet {
	struct ro_bth bth;
	const struct ro_op *op;
	const uint8_t *ext;		/* headers and payload after the BTH */
	const uint8_t *payload;
	uint32_t len;			/* of the payload, without its pad */
	bool congested;			/* a router marked it (CE) */
};

/*
 * Read an RC packet of len bytes, including its ICRC, which is not checked; false if its length, opcode, version or
 * partition is invalid.
 */
bool ro_packet_get(const uint8_t *buf, uint32_t len, struct ro_packet *p);

#endif
