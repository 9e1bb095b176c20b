/* SPDX-License-Identifier: BSD-3-Clause */
/* TERMINATE: the frame, and a description of its code.  Pure functions, any thread. */
#include "terminate.h"
#include "util/crc32c.h"

#include <stdio.h>

uint32_t iw_term_build(uint8_t *buf, uint16_t code, const uint8_t *hdr, bool crc)
{
	uint32_t copied = hdr ? iw_hdr_len(iw_get16(hdr + OFF_CTRL)) : 0;
	uint32_t payload = FPDU_TERM_CTRL + copied;
	uint32_t len = FPDU_UNTAGGED + payload;
	uint32_t pad = fpdu_pad(len - FPDU_LEN);
	uint32_t sum = 0;

	fpdu_put_untagged(buf, RDMAP_TERMINATE, true, payload, 0, DDP_QN_TERMINATE, 1, 0);
	iw_put16(buf + OFF_TERM, code);
	buf[OFF_TERM + 2] = copied ? TERM_FLAG_LENGTH | TERM_FLAG_DDP : 0;
	if (copied == FPDU_READ_REQ)
		buf[OFF_TERM + 2] |= TERM_FLAG_RDMAP;
	buf[OFF_TERM + 3] = 0;
	if (copied)
		memcpy(buf + OFF_TERM + FPDU_TERM_CTRL, hdr, copied);
	memset(buf + len, 0, pad);
	len += pad;
	if (crc)
		sum = crc32c(0, buf, len);
	memcpy(buf + len, &sum, FPDU_CRC);
	return len + FPDU_CRC;
}

static const struct {
	uint16_t code;
	const char *text;
} texts[] = {
	{ TERM_RDMAP_CATASTROPHIC, "RDMAP local catastrophic error" },
	{ TERM_RDMAP_INVALID_STAG, "RDMAP remote protection, invalid STag" },
	{ TERM_RDMAP_BOUNDS, "RDMAP remote protection, bounds" },
	{ TERM_RDMAP_ACCESS, "RDMAP remote protection, access rights" },
	{ TERM_RDMAP_NOT_ASSOCIATED, "RDMAP remote protection, STag of another domain" },
	{ TERM_RDMAP_WRAP, "RDMAP remote protection, address wrap" },
	{ TERM_RDMAP_CANNOT_INVALIDATE_PROT, "RDMAP remote protection, STag cannot be invalidated" },
	{ TERM_RDMAP_VERSION, "RDMAP remote operation, invalid version" },
	{ TERM_RDMAP_OPCODE, "RDMAP remote operation, unexpected opcode" },
	{ TERM_RDMAP_STREAM, "RDMAP remote operation, stream catastrophic error" },
	{ TERM_RDMAP_CANNOT_INVALIDATE, "RDMAP remote operation, STag cannot be invalidated" },
	{ TERM_DDP_CATASTROPHIC, "DDP local catastrophic error" },
	{ TERM_DDP_T_STAG, "DDP tagged, invalid STag" },
	{ TERM_DDP_T_BOUNDS, "DDP tagged, bounds" },
	{ TERM_DDP_T_ASSOCIATION, "DDP tagged, STag of another domain" },
	{ TERM_DDP_T_WRAP, "DDP tagged, address wrap" },
	{ TERM_DDP_T_VERSION, "DDP tagged, invalid version" },
	{ TERM_DDP_U_QN, "DDP untagged, invalid queue number" },
	{ TERM_DDP_U_NO_BUFFER, "DDP untagged, no buffer" },
	{ TERM_DDP_U_MSN, "DDP untagged, MSN out of range" },
	{ TERM_DDP_U_MO, "DDP untagged, invalid message offset" },
	{ TERM_DDP_U_TOO_LONG, "DDP untagged, message too long for its buffer" },
	{ TERM_DDP_U_VERSION, "DDP untagged, invalid version" },
	{ TERM_LLP_CRC, "MPA CRC error" },
	{ TERM_LLP_FPDU, "MPA malformed FPDU" },
	{ TERM_LLP_IRD, "MPA insufficient IRD" },
	{ TERM_LLP_RTR, "MPA no matching RTR" },
};

void iw_term_text(uint16_t code, char *buf, size_t len)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == code) {
			snprintf(buf, len, "%s (0x%04x)", texts[i].text, code);
			return;
		}
	}
	snprintf(buf, len, "layer %u type %u code 0x%02x", code >> 12, code >> 8 & 15, code & 0xff);
}
