/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iWARP on the wire: all byte offsets, bits and codes of MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC
 * 5040) that this device writes or reads.  Pure functions, any thread.
 */
#ifndef NVMF_IWARP_WIRE_H
#define NVMF_IWARP_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t iw_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t iw_get32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, 4);
	return __builtin_bswap32(value);
}

static inline uint64_t iw_get64(const uint8_t *p)
{
	uint64_t value;

	memcpy(&value, p, 8);
	return __builtin_bswap64(value);
}

static inline void iw_put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void iw_put32(uint8_t *p, uint32_t value)
{
	value = __builtin_bswap32(value);
	memcpy(p, &value, 4);
}

static inline void iw_put64(uint8_t *p, uint64_t value)
{
	value = __builtin_bswap64(value);
	memcpy(p, &value, 8);
}

/* ---- MPA start-up frames ---- */

#define MPA_KEY_REQ "MPA ID Req Frame"
#define MPA_KEY_REP "MPA ID Rep Frame"

enum {
	MPA_KEY_LEN = 16,
	MPA_HDR_LEN = 20,		/* key, bits, pd_len */
	MPA_V2_LEN = 4,			/* ird and ord words, counted in pd_len */
	MPA_PD_MAX = 512,		/* RFC 5044 7.1.1 */
	MPA_PD_SENT = 256,		/* siw does not accept a longer pd_len */
	MPA_FRAME_MAX = MPA_HDR_LEN + MPA_PD_MAX,

	MPA_BIT_MARKERS = 0x8000,
	MPA_BIT_CRC = 0x4000,
	MPA_BIT_REJECT = 0x2000,
	MPA_BIT_ENHANCED = 0x1000,
	MPA_REVISION_MASK = 0x00ff,

	MPA_IRD_PEER_TO_PEER = 0x8000,
	MPA_IRD_SEND_RTR = 0x4000,
	MPA_ORD_WRITE_RTR = 0x8000,
	MPA_ORD_READ_RTR = 0x4000,
	MPA_DEPTH_MASK = 0x3fff,
	MPA_DEPTH_OPEN = 0x3fff,	/* RFC 6581: no automatic negotiation of this depth */
	MPA_RTR_READ_STAG = 1,		/* siw's STag in a zero-length READ used as RTR */
};

/* ---- FPDU: be16 ulpdu_len | DDP and RDMAP header | payload | pad to 4 | CRC ---- */

enum {
	FPDU_LEN = 2,			/* the length field itself, not counted in its value */
	FPDU_CRC = 4,
	FPDU_TAGGED = 16,		/* headers including the length field before them */
	FPDU_UNTAGGED = 20,
	FPDU_READ_REQ = 48,
	FPDU_HDR_MAX = 48,
	FPDU_TERM_CTRL = 4,		/* of a TERMINATE, follows the untagged header */
	FPDU_MAX = FPDU_LEN + 0xffff + 3 + FPDU_CRC,

	/* the control word after the length field */
	DDP_TAGGED = 0x8000,
	DDP_LAST = 0x4000,
	DDP_VERSION_MASK = 0x0300,
	DDP_VERSION = 0x0100,
	RDMAP_VERSION_MASK = 0x00c0,
	RDMAP_VERSION = 0x0040,
	RDMAP_OPCODE_MASK = 0x000f,
};

enum rdmap_opcode {
	RDMAP_WRITE = 0,
	RDMAP_READ_REQ = 1,
	RDMAP_READ_RESP = 2,
	RDMAP_SEND = 3,
	RDMAP_SEND_INV = 4,
	RDMAP_SEND_SE = 5,
	RDMAP_SEND_SE_INV = 6,
	RDMAP_TERMINATE = 7,
};

enum ddp_queue {
	DDP_QN_SEND = 0,
	DDP_QN_READ_REQ = 1,
	DDP_QN_TERMINATE = 2,
};

static inline bool rdmap_is_tagged(unsigned int opcode)
{
	return opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESP;
}

/* Offsets, from the length field. */
enum {
	OFF_CTRL = 2,
	OFF_STAG = 4,		/* tagged: destination STag; untagged: STag to invalidate */
	OFF_TO = 8,
	OFF_QN = 8,
	OFF_MSN = 12,
	OFF_MO = 16,
	OFF_RR_SINK_STAG = 20,
	OFF_RR_SINK_TO = 24,
	OFF_RR_SIZE = 32,
	OFF_RR_SRC_STAG = 36,
	OFF_RR_SRC_TO = 40,
	OFF_TERM = 20,
};

/* Length of the header that belongs to a control word, including the length field. */
static inline uint32_t iw_hdr_len(uint16_t ctrl)
{
	if (ctrl & DDP_TAGGED)
		return FPDU_TAGGED;
	return (ctrl & RDMAP_OPCODE_MASK) == RDMAP_READ_REQ ? FPDU_READ_REQ : FPDU_UNTAGGED;
}

static inline uint32_t fpdu_pad(uint32_t ulpdu_len)
{
	return (0u - (ulpdu_len + FPDU_LEN)) & 3;
}

static inline uint32_t fpdu_size(uint32_t ulpdu_len)
{
	return FPDU_LEN + ulpdu_len + fpdu_pad(ulpdu_len) + FPDU_CRC;
}

static inline void fpdu_put_tagged(uint8_t *h, unsigned int opcode, bool last, uint32_t payload,
				   uint32_t stag, uint64_t to)
{
	iw_put16(h, FPDU_TAGGED - FPDU_LEN + payload);
	iw_put16(h + OFF_CTRL, DDP_TAGGED | (last ? DDP_LAST : 0u) | DDP_VERSION | RDMAP_VERSION |
		 opcode);
	iw_put32(h + OFF_STAG, stag);
	iw_put64(h + OFF_TO, to);
}

static inline void fpdu_put_untagged(uint8_t *h, unsigned int opcode, bool last, uint32_t payload,
				     uint32_t inval, uint32_t qn, uint32_t msn, uint32_t mo)
{
	iw_put16(h, FPDU_UNTAGGED - FPDU_LEN + payload);
	iw_put16(h + OFF_CTRL, (last ? DDP_LAST : 0u) | DDP_VERSION | RDMAP_VERSION | opcode);
	iw_put32(h + OFF_STAG, inval);
	iw_put32(h + OFF_QN, qn);
	iw_put32(h + OFF_MSN, msn);
	iw_put32(h + OFF_MO, mo);
}

static inline void fpdu_put_read_req(uint8_t *h, uint32_t msn, uint32_t sink_stag, uint64_t sink_to,
				     uint32_t size, uint32_t src_stag, uint64_t src_to)
{
	fpdu_put_untagged(h, RDMAP_READ_REQ, true, FPDU_READ_REQ - FPDU_UNTAGGED, 0,
			  DDP_QN_READ_REQ, msn, 0);
	iw_put32(h + OFF_RR_SINK_STAG, sink_stag);
	iw_put64(h + OFF_RR_SINK_TO, sink_to);
	iw_put32(h + OFF_RR_SIZE, size);
	iw_put32(h + OFF_RR_SRC_STAG, src_stag);
	iw_put64(h + OFF_RR_SRC_TO, src_to);
}

/* ---- TERMINATE: layer, error type and code as one number 0xLECC ---- */

#define TERM_CODE(layer, etype, code) ((uint16_t)((layer) << 12 | (etype) << 8 | (code)))

enum term_code {
	TERM_RDMAP_CATASTROPHIC = TERM_CODE(0, 0, 0x00),
	TERM_RDMAP_INVALID_STAG = TERM_CODE(0, 1, 0x00),
	TERM_RDMAP_BOUNDS = TERM_CODE(0, 1, 0x01),
	TERM_RDMAP_ACCESS = TERM_CODE(0, 1, 0x02),
	TERM_RDMAP_NOT_ASSOCIATED = TERM_CODE(0, 1, 0x03),
	TERM_RDMAP_WRAP = TERM_CODE(0, 1, 0x04),
	TERM_RDMAP_CANNOT_INVALIDATE_PROT = TERM_CODE(0, 1, 0x09),
	TERM_RDMAP_VERSION = TERM_CODE(0, 2, 0x05),
	TERM_RDMAP_OPCODE = TERM_CODE(0, 2, 0x06),
	TERM_RDMAP_STREAM = TERM_CODE(0, 2, 0x07),
	TERM_RDMAP_CANNOT_INVALIDATE = TERM_CODE(0, 2, 0x09),
	TERM_DDP_CATASTROPHIC = TERM_CODE(1, 0, 0x00),
	TERM_DDP_T_STAG = TERM_CODE(1, 1, 0x00),
	TERM_DDP_T_BOUNDS = TERM_CODE(1, 1, 0x01),
	TERM_DDP_T_ASSOCIATION = TERM_CODE(1, 1, 0x02),
	TERM_DDP_T_WRAP = TERM_CODE(1, 1, 0x03),
	TERM_DDP_T_VERSION = TERM_CODE(1, 1, 0x04),
	TERM_DDP_U_QN = TERM_CODE(1, 2, 0x01),
	TERM_DDP_U_NO_BUFFER = TERM_CODE(1, 2, 0x02),
	TERM_DDP_U_MSN = TERM_CODE(1, 2, 0x03),
	TERM_DDP_U_MO = TERM_CODE(1, 2, 0x04),
	TERM_DDP_U_TOO_LONG = TERM_CODE(1, 2, 0x05),
	TERM_DDP_U_VERSION = TERM_CODE(1, 2, 0x06),
	TERM_LLP_CRC = TERM_CODE(2, 0, 0x02),
	TERM_LLP_FPDU = TERM_CODE(2, 0, 0x03),
	TERM_LLP_IRD = TERM_CODE(2, 0, 0x06),
	TERM_LLP_RTR = TERM_CODE(2, 0, 0x07),
	TERM_NONE = 0xffff,		/* end without a TERMINATE */
};

enum {
	TERM_FLAG_LENGTH = 0x80,	/* M, D, R in the third byte of the control */
	TERM_FLAG_DDP = 0x40,
	TERM_FLAG_RDMAP = 0x20,
	TERM_FPDU_MAX = FPDU_UNTAGGED + FPDU_TERM_CTRL + FPDU_HDR_MAX + 3 + FPDU_CRC,
};

#endif
