/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of opcodes, and the decoding of packets.  Constant, any thread. */
#include "wire.h"

#define OP(kind, flags, more) { kind, flags, (uint8_t)(RO_BTH + (more)) }

const struct ro_op ro_ops[RO_OP_RC_END] = {
	[RO_OP_SEND_FIRST] = OP(RO_SEND, RO_F_FIRST, 0),
	[RO_OP_SEND_MIDDLE] = OP(RO_SEND, 0, 0),
	[RO_OP_SEND_LAST] = OP(RO_SEND, RO_F_LAST, 0),
	[RO_OP_SEND_LAST_IMM] = OP(RO_SEND, RO_F_LAST | RO_F_IMM, RO_IMM),
	[RO_OP_SEND_ONLY] = OP(RO_SEND, RO_F_FIRST | RO_F_LAST, 0),
	[RO_OP_SEND_ONLY_IMM] = OP(RO_SEND, RO_F_FIRST | RO_F_LAST | RO_F_IMM, RO_IMM),
	[RO_OP_SEND_LAST_INV] = OP(RO_SEND, RO_F_LAST | RO_F_INV, RO_IMM),
	[RO_OP_SEND_ONLY_INV] = OP(RO_SEND, RO_F_FIRST | RO_F_LAST | RO_F_INV, RO_IMM),
	[RO_OP_WRITE_FIRST] = OP(RO_WRITE, RO_F_FIRST | RO_F_RETH, RO_RETH),
	[RO_OP_WRITE_MIDDLE] = OP(RO_WRITE, 0, 0),
	[RO_OP_WRITE_LAST] = OP(RO_WRITE, RO_F_LAST, 0),
	[RO_OP_WRITE_LAST_IMM] = OP(RO_WRITE, RO_F_LAST | RO_F_IMM, RO_IMM),
	[RO_OP_WRITE_ONLY] = OP(RO_WRITE, RO_F_FIRST | RO_F_LAST | RO_F_RETH, RO_RETH),
	[RO_OP_WRITE_ONLY_IMM] = OP(RO_WRITE, RO_F_FIRST | RO_F_LAST | RO_F_RETH | RO_F_IMM,
				    RO_RETH + RO_IMM),
	[RO_OP_READ_REQ] = OP(RO_READ, RO_F_FIRST | RO_F_LAST | RO_F_RETH, RO_RETH),
	[RO_OP_READ_FIRST] = OP(RO_READ_RESPONSE, RO_F_FIRST | RO_F_AETH, RO_AETH),
	[RO_OP_READ_MIDDLE] = OP(RO_READ_RESPONSE, 0, 0),
	[RO_OP_READ_LAST] = OP(RO_READ_RESPONSE, RO_F_LAST | RO_F_AETH, RO_AETH),
	[RO_OP_READ_ONLY] = OP(RO_READ_RESPONSE, RO_F_FIRST | RO_F_LAST | RO_F_AETH, RO_AETH),
	[RO_OP_ACK] = OP(RO_ACK, RO_F_FIRST | RO_F_LAST | RO_F_AETH, RO_AETH),
	[RO_OP_ATOMIC_ACK] = OP(RO_ATOMIC_RESPONSE, RO_F_FIRST | RO_F_LAST | RO_F_AETH,
				RO_AETH + RO_ATOMIC_ACK_ETH),
	[RO_OP_CMP_SWAP] = OP(RO_ATOMIC, RO_F_FIRST | RO_F_LAST, RO_ATOMIC_ETH),
	[RO_OP_FETCH_ADD] = OP(RO_ATOMIC, RO_F_FIRST | RO_F_LAST, RO_ATOMIC_ETH),
	[RO_OP_FLUSH] = OP(RO_FLUSH, RO_F_FIRST | RO_F_LAST, RO_FETH + RO_RETH),
	[RO_OP_ATOMIC_WRITE] = OP(RO_ATOMIC_WRITE, RO_F_FIRST | RO_F_LAST | RO_F_RETH, RO_RETH),
};

bool ro_packet_get(const uint8_t *buf, uint32_t len, struct ro_packet *p)
{
	if (len < RO_BTH + RO_ICRC || buf[0] >= RO_OP_RC_END || !ro_ops[buf[0]].hdr)
		return false;
	p->op = &ro_ops[buf[0]];
	if ((buf[1] & RO_BTH_VERSION) || (ro_get16(buf + 2) & RO_PKEY_PARTITION) != RO_PKEY_PARTITION)
		return false;
	p->bth = (struct ro_bth){
		.opcode = buf[0],
		.solicited = buf[1] & RO_BTH_SE,
		.ack_req = buf[8] & RO_BTH_ACK_REQ,
		.pad = buf[1] >> RO_BTH_PAD_SHIFT & RO_BTH_PAD,
		.qpn = ro_get24(buf + 5),
		.psn = ro_get24(buf + 9),
	};
	if (len < (uint32_t)p->op->hdr + p->bth.pad + RO_ICRC)
		return false;
	p->ext = buf + RO_BTH;
	p->payload = buf + p->op->hdr;
	p->len = len - p->op->hdr - p->bth.pad - RO_ICRC;
	if (p->len > RO_MTU_MAX)
		return false;

	bool carries = p->op->kind == RO_SEND || p->op->kind == RO_WRITE || p->op->kind == RO_ATOMIC_WRITE ||
		       p->op->kind == RO_READ_RESPONSE;

	return carries || !p->len;
}
