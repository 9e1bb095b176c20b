/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving with CRC on.  An FPDU is assembled and verified before any of it is used.  For large payloads that would
 * be an additional copy, which costs as much as all other work.  So a large payload is placed at once if its header
 * need not be trusted (iw_rx_may_place): in the destination of the READ that it answers, or in a window.  Both belong
 * to this queue pair, and if the CRC is wrong, this is its last FPDU.
 *
 * Runs under qp->lock, on the thread that polls.
 */
#include "rx.h"
#include "util/crc32c.h"

static enum iw_verdict crc_failed(struct iw_out *out)
{
	return iw_end(out, TERM_LLP_CRC, NULL, NULL);
}

static enum iw_verdict crc_fpdu(struct iw_stream *s, const uint8_t *p, uint32_t size, struct iw_out *out)
{
	uint32_t sum;

	memcpy(&sum, p + size - FPDU_CRC, FPDU_CRC);
	return crc32c(0, p, size - FPDU_CRC) == sum ? iw_rx_whole_fpdu(s, p, out) : crc_failed(out);
}

enum iw_verdict iw_rx_crc_carried(struct iw_stream *s, uint32_t size, struct iw_out *out)
{
	enum iw_verdict v = crc_fpdu(s, s->rx.carry, size, out);

	if (v != IW_WAIT)
		s->rx.carry_have = 0;
	return v;
}

/* ---- placed before verification ---- */

/* The header is in carry, and no payload yet. */
static enum iw_verdict early_begin(struct iw_stream *s, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	memcpy(rx->hdr, rx->carry, FPDU_TAGGED);
	rx->carry_have = 0;
	if (iw_rx_header(s, rx->hdr, FPDU_TAGGED, out))
		return IW_END;
	rx->crc = crc32c(0, rx->hdr, FPDU_TAGGED);
	rx->remain = rx->ulpdu_len + FPDU_LEN - FPDU_TAGGED;
	rx->state = IW_RX_PAYLOAD;
	rx->hdr_have = 0;		/* from here on hdr holds the trailer */
	iw_rx_note_size(rx, rx->remain);
	return IW_GO_ON;
}

static enum iw_verdict early_end(struct iw_stream *s, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	uint32_t pad = rx->hdr_have - FPDU_CRC, sum;

	memcpy(&sum, rx->hdr + pad, FPDU_CRC);
	if (crc32c(rx->crc, rx->hdr, pad) != sum)
		return crc_failed(out);
	rx->state = IW_RX_HEADER;
	rx->hdr_have = 0;
	return iw_rx_segment_end(s, out);
}

static enum iw_verdict early_bytes(struct iw_stream *s, const uint8_t *p, uint32_t len, uint32_t *n,
				   struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	*n = rx->remain < len ? rx->remain : len;
	if (rx->state == IW_RX_PAYLOAD) {
		rx->crc = crc32c(rx->crc, p, *n);
		if (iw_rx_place(s, p, *n, out))
			return IW_END;
		rx->remain -= *n;
		iw_rx_end_payload(rx);
		return IW_GO_ON;
	}
	memcpy(rx->hdr + rx->hdr_have, p, *n);
	rx->hdr_have += *n;
	rx->remain -= *n;
	return rx->remain ? IW_GO_ON : early_end(s, out);
}

void iw_rx_crc_placed(struct iw_rx *rx, const struct iovec *iov, uint32_t n)
{
	for (; n; iov++) {
		uint32_t part = iov->iov_len < n ? (uint32_t)iov->iov_len : n;

		rx->crc = crc32c(rx->crc, iov->iov_base, part);
		n -= part;
	}
}

/* ---- the stream ---- */

/* Bytes of the FPDU required in carry for the next step: its length, then its header if it is large, otherwise all. */
static uint32_t carry_want(const struct iw_rx *rx)
{
	uint32_t size;

	if (rx->carry_have < FPDU_LEN)
		return FPDU_LEN;
	size = fpdu_size(iw_get16(rx->carry));
	return rx->carry_have < FPDU_TAGGED && size >= RX_BIG ? (uint32_t)FPDU_TAGGED : size;
}

static enum iw_verdict carry_bytes(struct iw_stream *s, const uint8_t *p, uint32_t len, uint32_t *n,
				   struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	uint32_t want = carry_want(rx);

	*n = want - rx->carry_have < len ? want - rx->carry_have : len;
	memcpy(rx->carry + rx->carry_have, p, *n);
	rx->carry_have += *n;
	if (rx->carry_have < want || want == FPDU_LEN)
		return IW_GO_ON;
	if (want == fpdu_size(iw_get16(rx->carry)))
		return iw_rx_crc_carried(s, want, out);
	return iw_rx_may_place(s, rx->carry) ? early_begin(s, out) : IW_GO_ON;
}

enum iw_verdict iw_rx_crc_bytes(struct iw_stream *s, uint8_t *p, uint32_t len, uint32_t *used,
				struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	const uint8_t *from = p;

	*used = 0;
	while (len) {
		enum iw_verdict v;
		uint32_t n = 0;

		if (iw_out_full(out))
			return IW_FULL;
		if (rx->state != IW_RX_HEADER) {
			v = early_bytes(s, p, len, &n, out);
		} else if (!rx->carry_have && len >= FPDU_LEN && len >= fpdu_size(iw_get16(p))) {
			/* complete in its place; if it waits, it stays there */
			v = crc_fpdu(s, p, fpdu_size(iw_get16(p)), out);
			if (v == IW_GO_ON)
				n = fpdu_size(iw_get16(p));
		} else {
			v = carry_bytes(s, p, len, &n, out);
		}
		p += n;
		len -= n;
		*used = (uint32_t)(p - from);
		if (v)
			return v;
	}
	return IW_GO_ON;
}
