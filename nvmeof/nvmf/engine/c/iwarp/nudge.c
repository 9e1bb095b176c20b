/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A nudge for responders that wait for the first FPDU, or miss it.
 *
 * A responder sends nothing until the initiator's first FPDU has arrived (RFC 5044, section 7.1).  If the responder's
 * application is to send first, the initiator's waits for it, and nothing would ever be sent; with the option
 * first_fpdu, the device sends an FPDU.
 *
 * As a responder, siw takes over its socket a moment after it has sent its MPA reply.  Data that arrives before that
 * remains unread until more data arrives.  The pause before ESTABLISHED makes that rare, but no pause is long enough
 * for a slow peer (seen with a 6.12 kernel under emulation: 3 connections of 45 with 2 ms).
 *
 * So if we have sent data and nothing has come back, another FPDU follows.  It is a zero-length RDMA WRITE, which
 * carries no data, refers to no memory, and needs no STag (RFC 5040, section 5.3: the STag of a zero-length WRITE is
 * not validated).
 *
 * Runs on the helper, under iw_cm_lock; reads a queue pair under its lock.
 */
#include "cm.h"
#include "util/crc32c.h"
#include "capture/capture.h"

#include <sys/socket.h>

enum { FIRST_MS = 25, TRIES = 6 };

/* Whether nothing has come back.  After TRIES nudges, the responder certainly has the first FPDU. */
static bool nudge_is_silent(const struct iw_qp *qp)
{
	return qp->initiator && !atomic_load(&qp->stream.rx_count) &&
	       atomic_load(&qp->state) == IBV_QPS_RTS;
}

static bool nudge_is_due(const struct iw_qp *qp, bool first)
{
	struct iwarp_options o;

	iwarp_get_options(&o);
	return o.first_fpdu || (!first && qp->stream.tx.send_msn);
}

/* Whether the sending side is between two FPDUs, with nothing waiting. */
static bool nudge_fits(const struct iw_qp *qp)
{
	return !qp->stream.tx.blocked && !qp->stream.tx.part && !iw_tx_pending(&qp->stream);
}

static void nudge_send(struct iw_qp *qp)
{
	uint8_t fpdu[FPDU_TAGGED + FPDU_CRC] = { 0 };

	fpdu_put_tagged(fpdu, RDMAP_WRITE, true, 0, 0, 0);
	if (qp->stream.crc) {
		uint32_t crc = crc32c(0, fpdu, FPDU_TAGGED);

		memcpy(fpdu + FPDU_TAGGED, &crc, FPDU_CRC);
	}

	ssize_t n = send(qp->stream.fd, fpdu, sizeof(fpdu), MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR);

	if (capture_on() && n > 0)
		capture_bytes(qp->stream.fd, true, fpdu, (size_t)n);
	if (n > 0 && (size_t)n < sizeof(fpdu))
		iw_qp_fail(qp, TERM_NONE, NULL, "a frame could not be sent completely");
}

/* Begin, or continue after a while: with twice the delay each time, a limited number of times. */
void iw_nudge(struct iw_id *id, bool first)
{
	struct iw_qp *qp = iw_qp(id->id.qp);
	bool more = false;

	id->nudges = first ? 0 : id->nudges + 1;
	if (qp && id->nudges <= TRIES) {
		iw_lock(&qp->lock);
		more = qp->stream.fd >= 0 && nudge_is_silent(qp);
		if (more && nudge_is_due(qp, first) && nudge_fits(qp))
			nudge_send(qp);
		iw_unlock(&qp->lock);
	}
	iw_id_deadline(id, more ? ((uint64_t)FIRST_MS << id->nudges) * 1000000u : 0);
}
