/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: divides the byte stream into FPDUs.  With CRC on: see rx_crc.c.  If a Send has no receive, it is kept,
 * with the data after it.
 *
 * Runs under qp->lock, on the thread that polls.
 */
#include "rx.h"

#include <stdlib.h>

enum { SMALL_RUN = 8 };		/* consecutive small FPDUs after which large ones are no longer expected */

void iw_rx_note_size(struct iw_rx *rx, uint32_t payload)
{
	if (payload >= RX_BIG) {
		rx->big = true;
		rx->small_run = 0;
	} else if (rx->big && ++rx->small_run >= SMALL_RUN) {
		rx->big = false;
	}
}

/* Keeps no state between bytes. */
enum iw_verdict iw_rx_whole_fpdu(struct iw_stream *s, const uint8_t *p, struct iw_out *out)
{
	uint32_t len = iw_get16(p) + (uint32_t)FPDU_LEN;
	uint32_t hdr_len = iw_hdr_len(iw_get16(p + OFF_CTRL));
	enum iw_verdict v = iw_rx_header(s, p, hdr_len, out);

	if (v)
		return v;
	iw_rx_note_size(&s->rx, len - hdr_len);
	if (len > hdr_len && iw_rx_place_whole(s, p + hdr_len, len - hdr_len, out))
		return IW_END;
	return iw_rx_segment_end(s, out);
}

/* The FPDU's header is in rx->hdr: check it, find the destination of the payload. */
static enum iw_verdict begin(struct iw_stream *s, uint32_t hdr_len, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	enum iw_verdict v = iw_rx_header(s, rx->hdr, hdr_len, out);

	rx->header_waits = v == IW_WAIT;
	if (v)
		return v;
	rx->remain = rx->ulpdu_len + FPDU_LEN - hdr_len;
	rx->state = IW_RX_PAYLOAD;
	iw_rx_note_size(rx, rx->remain);
	return IW_GO_ON;
}

void iw_rx_end_payload(struct iw_rx *rx)
{
	if (rx->state == IW_RX_PAYLOAD && !rx->remain) {
		rx->remain = fpdu_pad(rx->ulpdu_len) + FPDU_CRC;
		rx->state = IW_RX_TRAILER;
	}
}

/* Header bytes required for the next step: the control word, then the whole header. */
static uint32_t hdr_want(const struct iw_rx *rx)
{
	if (rx->hdr_have < OFF_CTRL + 2)
		return OFF_CTRL + 2;
	return iw_hdr_len(iw_get16(rx->hdr + OFF_CTRL));
}

/* *n: the bytes used, even if the header then has to wait */
static enum iw_verdict header_bytes(struct iw_stream *s, const uint8_t *p, uint32_t len, uint32_t *n,
				    struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	uint32_t want = hdr_want(rx);

	*n = want - rx->hdr_have < len ? want - rx->hdr_have : len;
	memcpy(rx->hdr + rx->hdr_have, p, *n);
	rx->hdr_have += *n;
	if (rx->hdr_have < OFF_CTRL + 2)
		return IW_GO_ON;
	want = hdr_want(rx);
	/* an FPDU too short for its header will never be complete: report it now */
	if (rx->hdr_have == want || iw_get16(rx->hdr) + FPDU_LEN < (int)want)
		return begin(s, want, out);
	return IW_GO_ON;
}

static enum iw_verdict stream_bytes(struct iw_stream *s, const uint8_t *p, uint32_t len, uint32_t *used,
				    struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	const uint8_t *from = p;

	*used = 0;
	while (len) {
		enum iw_verdict v;
		uint32_t n;

		if (iw_out_full(out))
			return IW_FULL;
		switch (rx->state) {
		case IW_RX_HEADER:
			if (!rx->hdr_have && len >= FPDU_LEN) {
				n = fpdu_size(iw_get16(p));
				if (len >= n) {
					v = iw_rx_whole_fpdu(s, p, out);
					if (v)
						return v;
					break;
				}
			}
			v = header_bytes(s, p, len, &n, out);
			if (v == IW_WAIT)
				*used += n;
			if (v)
				return v;
			break;
		case IW_RX_PAYLOAD:
			n = rx->remain < len ? rx->remain : len;
			if (n && iw_rx_place(s, p, n, out))
				return IW_END;
			rx->remain -= n;
			break;
		default:
			n = rx->remain < len ? rx->remain : len;
			rx->remain -= n;
			if (!rx->remain) {
				rx->state = IW_RX_HEADER;
				rx->hdr_have = 0;
				if (iw_rx_segment_end(s, out))
					return IW_END;
			}
			break;
		}
		p += n;
		len -= n;
		*used = (uint32_t)(p - from);
		iw_rx_end_payload(rx);
	}
	return IW_GO_ON;
}

enum iw_verdict iw_rx_bytes(struct iw_stream *s, uint8_t *data, uint32_t len, uint32_t *used, struct iw_out *out)
{
	return s->crc ? iw_rx_crc_bytes(s, data, len, used, out) : stream_bytes(s, data, len, used, out);
}

enum iw_verdict iw_rx_in_place(struct iw_stream *s, const struct iovec *iov, uint32_t n, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	if (s->crc && rx->state == IW_RX_HEADER) {
		uint32_t size = fpdu_size(iw_get16(rx->carry));

		rx->carry_have += n;
		return rx->carry_have < size ? IW_GO_ON : iw_rx_crc_carried(s, size, out);
	}
	if (s->crc)
		iw_rx_crc_placed(rx, iov, n);
	iw_rx_placed(s, n);
	rx->remain -= n;
	iw_rx_end_payload(rx);
	return IW_GO_ON;
}

/* ---- without a receive: nothing is taken from the socket until there is one ---- */

enum iw_verdict iw_rx_begin_wait(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	if (len) {
		rx->stash = malloc(len);
		if (!rx->stash)
			return iw_end(out, TERM_DDP_CATASTROPHIC, NULL, "no memory for data without a receive");
		memcpy(rx->stash, data, len);
	}
	rx->stash_off = 0;
	rx->stash_len = len;
	rx->waits = true;
	return IW_WAIT;
}

enum iw_verdict iw_rx_end_wait(struct iw_stream *s, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	enum iw_verdict v = IW_GO_ON;

	if (rx->header_waits) {
		v = begin(s, rx->hdr_have, out);
		if (v == IW_GO_ON)
			iw_rx_end_payload(rx);
	} else if (rx->carry_have > FPDU_LEN && rx->carry_have == fpdu_size(iw_get16(rx->carry))) {
		v = iw_rx_crc_carried(s, rx->carry_have, out);
	}
	while (v == IW_GO_ON && rx->stash_off < rx->stash_len) {
		uint32_t used;

		v = iw_rx_bytes(s, rx->stash + rx->stash_off, rx->stash_len - rx->stash_off, &used, out);
		rx->stash_off += used;
	}
	if (v)
		return v;
	free(rx->stash);
	rx->stash = NULL;
	rx->stash_off = rx->stash_len = 0;
	rx->waits = false;
	return IW_GO_ON;
}
