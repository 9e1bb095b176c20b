/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue: division of messages into FPDUs, and completion.  Also records the end of a connection.  Runs
 * under the lock of the queue pair, on the thread that posts or polls.
 */
#include "stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
	MSS_MIN = 256,
	MULPDU_LASTS = 256,		/* messages until the MSS is queried again */
};

/*
 * The connection's present effective MSS, and the largest ULPDU that fits into one TCP segment without markers (RFC
 * 5044, section 4.1).  Over loopback that is more than IW_SEGMENT.
 */
void iw_ask_mss(struct iw_stream *s)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	if (getsockopt(s->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) || mss < MSS_MIN)
		mss = 0;	/* not a TCP socket, or the MSS is unknown */
	s->tx.mss = (uint32_t)mss;
	s->tx.mulpdu = mss ? s->tx.mss - FPDU_LEN - FPDU_CRC - s->tx.mss % 4 : UINT32_MAX;
	s->tx.mulpdu_left = MULPDU_LASTS;
}

struct ibv_wc iw_wc_send(const struct iw_stream *s, const struct iw_swr *wr, enum ibv_wc_status status)
{
	return (struct ibv_wc){
		.wr_id = wr->wr_id,
		.status = status,
		.opcode = wr->wc_opcode,
		.byte_len = wr->len,
		.qp_num = s->qp_num,
	};
}

/* An incomplete READ delays the completion of work posted after it. */
void iw_sq_sweep(struct iw_stream *s, struct iw_out *out)
{
	while (s->sq_tail != s->sq_tx && !iw_out_full(out)) {
		const struct iw_swr *wr = iw_sq(s, s->sq_tail);

		if (!wr->done)
			break;
		if (wr->signaled)
			out->wc[out->n++] = iw_wc_send(s, wr, IBV_WC_SUCCESS);
		s->sq_tail++;
	}
}

enum iw_verdict iw_end(struct iw_out *out, uint16_t term, const uint8_t *hdr, const char *format, ...)
{
	struct iw_end *end = &out->end;
	va_list ap;

	end->term = term;
	end->has_hdr = hdr;
	if (hdr)
		memcpy(end->hdr, hdr, iw_hdr_len(iw_get16(hdr + OFF_CTRL)));
	end->why[0] = 0;
	if (format) {
		va_start(ap, format);
		vsnprintf(end->why, sizeof(end->why), format, ap);
		va_end(ap);
	}
	return IW_END;
}
