/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving with CRC on.  An FPDU is assembled and verified before anything of it is looked at.  For large
 * payloads that would be a copy more, which is as dear as all the rest.  So those go to their place at once
 * where that takes no faith in their header (iw_rx_may_place): to the sink of the READ that they answer, or to a window, and both
 * belong to this queue pair, whose last FPDU it is if the CRC is wrong.
 * Runs under qp->lock, on whichever thread polls.
 */
#include "util/crc32c.h"
#include "rx.h"

static int crc_failed(struct iw_qp *qp)
{
	iw_qp_fail(qp, TERM_LLP_CRC, NULL, NULL);
	return RX_END;
}

static int crc_fpdu(struct iw_qp *qp, const uint8_t *p, uint32_t size)
{
	uint32_t sum;

	memcpy(&sum, p + size - FPDU_CRC, FPDU_CRC);
	return crc32c(0, p, size - FPDU_CRC) == sum ? iw_rx_whole_fpdu(qp, p) : crc_failed(qp);
}

int iw_rx_crc_carried(struct iw_qp *qp, uint32_t size)
{
	int r = crc_fpdu(qp, qp->rx.carry, size);

	if (r != RX_WAIT)
		qp->rx.carry_have = 0;
	return r;
}

/* ---- placed before it is verified ---- */

/* The header is in carry, and nothing else is. */
static int early_begin(struct iw_qp *qp)
{
	struct iw_rx *rx = &qp->rx;

	memcpy(rx->hdr, rx->carry, FPDU_TAGGED);
	rx->carry_have = 0;
	if (iw_rx_header(qp, rx->hdr, FPDU_TAGGED))
		return RX_END;
	rx->crc = crc32c(0, rx->hdr, FPDU_TAGGED);
	rx->remain = rx->ulpdu_len + FPDU_LEN - FPDU_TAGGED;
	rx->state = IW_RX_PAYLOAD;
	rx->hdr_have = 0;		/* hdr takes the trailer from here on */
	iw_rx_note_size(rx, rx->remain);
	return RX_OK;
}

static int early_end(struct iw_qp *qp)
{
	struct iw_rx *rx = &qp->rx;
	uint32_t pad = rx->hdr_have - FPDU_CRC, sum;

	memcpy(&sum, rx->hdr + pad, FPDU_CRC);
	if (crc32c(rx->crc, rx->hdr, pad) != sum)
		return crc_failed(qp);
	rx->state = IW_RX_HEADER;
	rx->hdr_have = 0;
	return iw_rx_segment_end(qp) ? RX_END : RX_OK;
}

static int early_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len, uint32_t *n)
{
	struct iw_rx *rx = &qp->rx;

	*n = rx->remain < len ? rx->remain : len;
	if (rx->state == IW_RX_PAYLOAD) {
		rx->crc = crc32c(rx->crc, p, *n);
		if (iw_rx_place(qp, p, *n))
			return RX_END;
		rx->remain -= *n;
		iw_rx_end_payload(rx);
		return RX_OK;
	}
	memcpy(rx->hdr + rx->hdr_have, p, *n);
	rx->hdr_have += *n;
	rx->remain -= *n;
	return rx->remain ? RX_OK : early_end(qp);
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

/* Bytes of the FPDU in carry until something can be said: its length, for a large one its header, all. */
static uint32_t carry_want(const struct iw_rx *rx)
{
	uint32_t size;

	if (rx->carry_have < FPDU_LEN)
		return FPDU_LEN;
	size = fpdu_size(iw_get16(rx->carry));
	return rx->carry_have < FPDU_TAGGED && size >= RX_BIG ? (uint32_t)FPDU_TAGGED : size;
}

static int carry_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len, uint32_t *n)
{
	struct iw_rx *rx = &qp->rx;
	uint32_t want = carry_want(rx);

	*n = want - rx->carry_have < len ? want - rx->carry_have : len;
	memcpy(rx->carry + rx->carry_have, p, *n);
	rx->carry_have += *n;
	if (rx->carry_have < want || want == FPDU_LEN)
		return RX_OK;
	if (want == fpdu_size(iw_get16(rx->carry)))
		return iw_rx_crc_carried(qp, want);
	return iw_rx_may_place(qp, rx->carry) ? early_begin(qp) : RX_OK;
}

/* *used: the bytes taken, of which the last may have to wait (RX_WAIT). */
int iw_rx_crc_bytes(struct iw_qp *qp, uint8_t *p, uint32_t len, uint32_t *used)
{
	struct iw_rx *rx = &qp->rx;
	const uint8_t *from = p;

	*used = 0;
	while (len) {
		uint32_t n = 0;
		int r;

		if (rx->state != IW_RX_HEADER) {
			r = early_bytes(qp, p, len, &n);
		} else if (!rx->carry_have && len >= FPDU_LEN && len >= fpdu_size(iw_get16(p))) {
			/* whole, where it is; if it waits, it stays there */
			r = crc_fpdu(qp, p, fpdu_size(iw_get16(p)));
			if (r == RX_OK)
				n = fpdu_size(iw_get16(p));
		} else {
			r = carry_bytes(qp, p, len, &n);
		}
		p += n;
		len -= n;
		*used = (uint32_t)(p - from);
		if (r)
			return r;
	}
	return RX_OK;
}
