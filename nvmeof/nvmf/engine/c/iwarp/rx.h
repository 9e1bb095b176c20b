/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the parts of the receiver: the socket (rx.c), FPDUs (rx_fpdu.c, rx_ahead.c, rx_crc.c), messages
 * (rx_message.c).  Under qp->lock.  Each function with an out argument writes the results for the receiver's caller to
 * it; it has room for at least one completion.
 */
#ifndef NVMF_IWARP_RX_H
#define NVMF_IWARP_RX_H

#include "stream.h"

/* ---- rx_fpdu.c ---- */

enum { RX_BIG = 8192 };		/* payloads of at least this size are received in place */

/* Process received bytes.  *used: their number, of which the last may have to wait (IW_WAIT). */
enum iw_verdict iw_rx_bytes(struct iw_stream *s, uint8_t *data, uint32_t len, uint32_t *used, struct iw_out *out);
/* n bytes of the open payload or, with CRC on, of the FPDU in carry were received into iov, their destination. */
enum iw_verdict iw_rx_in_place(struct iw_stream *s, const struct iovec *iov, uint32_t n, struct iw_out *out);
/* There is no receive: keep the data received beyond the message that waits.  IW_WAIT, or IW_END. */
enum iw_verdict iw_rx_begin_wait(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out);
/* Continue after a receive was posted.  IW_WAIT if there is no receive for the next Send. */
enum iw_verdict iw_rx_end_wait(struct iw_stream *s, struct iw_out *out);

enum iw_verdict iw_rx_whole_fpdu(struct iw_stream *s, const uint8_t *p, struct iw_out *out);	/* its CRC is correct */
void iw_rx_note_size(struct iw_rx *rx, uint32_t payload);
void iw_rx_end_payload(struct iw_rx *rx);

/* ---- rx_ahead.c ---- */

enum {
	IW_AHEAD = IW_TOGETHER - 1,	/* segments predicted at most */
	AHEAD_GAP = 3 + FPDU_CRC + FPDU_TAGGED,
};

struct iw_ahead {
	uint32_t n;
	struct iw_ahead_segment {
		struct iovec part[2];	/* gap, and the payload's destination */
		uint8_t gap[AHEAD_GAP];
	} segment[IW_AHEAD];
};

/* Predict the segments after the open one: the number of vectors set, up to 2 * IW_AHEAD. */
int iw_rx_ahead_aim(const struct iw_stream *s, struct iw_ahead *a, struct iovec *iov);
/* n bytes were received into these vectors and, behind them, staging.  What is left is in staging: in->left. */
enum iw_verdict iw_rx_ahead_take(struct iw_stream *s, struct iw_ahead *a, struct iw_intake *in, uint32_t n,
				 struct iw_out *out);

/* ---- rx_crc.c ---- */

/* As iw_rx_bytes. */
enum iw_verdict iw_rx_crc_bytes(struct iw_stream *s, uint8_t *p, uint32_t len, uint32_t *used, struct iw_out *out);
enum iw_verdict iw_rx_crc_carried(struct iw_stream *s, uint32_t size, struct iw_out *out);	/* carry is complete */
/* Account for bytes that were received directly into their destination. */
void iw_rx_crc_placed(struct iw_rx *rx, const struct iovec *iov, uint32_t n);

/* ---- rx_message.c ---- */

/* Whether the tagged FPDU of this header may be placed before its CRC is verified. */
bool iw_rx_may_place(const struct iw_stream *s, const uint8_t *hdr);

/* IW_WAIT if there is no receive for it yet: then call it again later. */
enum iw_verdict iw_rx_header(struct iw_stream *s, const uint8_t *hdr, uint32_t hdr_len, struct iw_out *out);
/* Memory for up to max bytes of the current payload; the vectors used, or IW_END. */
int iw_rx_place_iov(struct iw_stream *s, uint32_t max, struct iovec *iov, struct iw_out *out);
void iw_rx_placed(struct iw_stream *s, uint32_t n);
enum iw_verdict iw_rx_place(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out);
/*
 * Place the whole payload right after the check of its header; for a WRITE the check is still valid, since the lock
 * was held.
 */
enum iw_verdict iw_rx_place_whole(struct iw_stream *s, const uint8_t *data, uint32_t len, struct iw_out *out);
enum iw_verdict iw_rx_segment_end(struct iw_stream *s, struct iw_out *out);

#endif
