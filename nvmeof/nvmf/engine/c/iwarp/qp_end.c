/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair's end, in two parts: iw_qp_fail, on the thread that found the reason, stops all work and flushes; then
 * the helper closes the socket in order and informs the CM id's owner.
 */
#include "qp.h"
#include "stats.h"
#include "terminate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* All outstanding work completes; its memory is not used again. */
void iw_qp_flush(struct iw_qp *qp)
{
	struct iw_stream *s = &qp->stream;

	for (; s->sq_tail != s->sq_head; s->sq_tail++) {
		bool failed = s->sq_fail_status && s->sq_tail == s->sq_fail_index;
		struct ibv_wc wc = iw_wc_send(s, iw_sq(s, s->sq_tail),
					      failed ? s->sq_fail_status : IBV_WC_WR_FLUSH_ERR);

		iw_cq_push(iw_cq(qp->qp.send_cq), &wc, 1, false);
	}
	s->sq_tx = s->sq_head;
	for (; s->rq_tail != s->rq_head; s->rq_tail++) {
		bool failed = s->rq_fail_status && s->rq_tail == s->rq_fail_index;
		struct ibv_wc wc = {
			.wr_id = s->rq[s->rq_tail & (s->rq_size - 1)].wr_id,
			.status = failed ? s->rq_fail_status : IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.qp_num = s->qp_num,
		};

		iw_cq_push(iw_cq(qp->qp.recv_cq), &wc, 1, true);
	}
}

/*
 * The TERMINATE, after the rest of an FPDU that the socket has taken only in part: RDMAP sends nothing else after an
 * error (RFC 5040, section 5.4.5), but MPA can delimit the TERMINATE only after a whole FPDU (RFC 5044, section 4).
 */
static void last_words(struct iw_qp *qp, uint16_t term, const uint8_t *hdr)
{
	size_t room = TERM_FPDU_MAX + (qp->stream.tx.part || qp->stream.tx.bounce_len ? (size_t)FPDU_MAX : 0);
	uint8_t *buf = malloc(room);

	if (!buf)
		return;

	uint32_t rest = iw_tx_rest(&qp->stream, buf);

	if (rest == UINT32_MAX) {	/* cannot be completed, so nothing can follow */
		free(buf);
		return;
	}
	qp->last_words = buf;
	qp->last_len = rest + iw_term_build(buf + rest, term, hdr, qp->stream.crc);
	iw_stats.terminates_sent++;
}

void iw_qp_fail(struct iw_qp *qp, uint16_t term, const uint8_t *hdr, const char *format, ...)
{
	char text[96], why[112] = "";

	if (atomic_load(&qp->state) == IBV_QPS_ERR)
		return;
	if (format) {
		va_list ap;

		va_start(ap, format);
		vsnprintf(why, sizeof(why), format, ap);
		va_end(ap);
	}
	if (term == TERM_NONE) {
		snprintf(qp->reason, sizeof(qp->reason), "%s", why);
	} else {
		iw_term_text(term, text, sizeof(text));
		snprintf(qp->reason, sizeof(qp->reason), "sent TERMINATE %.90s%s%s", text,
			 *why ? ": " : "", why);
		if (qp->stream.fd >= 0)
			last_words(qp, term, hdr);
	}
	iw_qp_set_state(qp, IBV_QPS_ERR);
	if (qp->stream.srq)
		iw_srq_leave(qp->stream.srq, &qp->stream.place);
	iw_qp_flush(qp);
	atomic_store_explicit(&qp->ended, true, memory_order_release);
	if (qp->stream.fd >= 0)
		iw_helper_call(&qp->caller);
}

const char *iw_qp_reason(struct iw_qp *qp)
{
	return atomic_load_explicit(&qp->ended, memory_order_acquire) ? qp->reason : "";
}

void iw_qp_hangup(struct iw_qp *qp)
{
	iw_lock(&qp->lock);
	if (qp->stream.rx.waits && atomic_load(&qp->state) == IBV_QPS_RTS)
		iw_qp_fail(qp, TERM_NONE, NULL, "the connection was lost while it waited for a receive");
	iw_unlock(&qp->lock);
}
