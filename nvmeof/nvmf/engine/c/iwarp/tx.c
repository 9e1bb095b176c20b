/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: batches of FPDUs in one sendmsg each, straight from the application's memory.  What the socket
 * takes is done; what it does not take is built again later.  With CRC on FPDUs are built in a buffer
 * instead, so that the CRC is that of the bytes sent even when the application writes to the memory
 * meanwhile; unless it has said that it does not (IW_SEND_STABLE).
 * Runs under qp->lock, on whichever thread posts or polls.
 */
#include "tx.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* n bytes of the batch have been taken by the socket (or by the bounce buffer). */
static void commit(struct iw_qp *qp, const struct tx_batch *b, size_t n)
{
	n += qp->tx.part;
	qp->tx.part = 0;
	for (int i = 0; i < b->nrec; i++) {
		const struct tx_rec *r = &b->rec[i];

		qp->tx.kind = r->kind;
		if (n < r->bytes) {
			qp->tx.part = (uint32_t)n;
			break;
		}
		n -= r->bytes;
		if (r->kind == IW_TX_READ_RESP) {
			qp->tx.rr_off = r->last ? 0 : qp->tx.rr_off + r->payload;
			qp->irq_head += r->last;
			continue;
		}
		/* what sent nothing was carried out as the batch was built: the record is of what follows it */
		while (iw_sq(qp, qp->sq_tx)->done)
			qp->sq_tx++;
		qp->tx.off = r->last ? 0 : qp->tx.off + r->payload;
		if (!r->last)
			continue;

		struct iw_swr *wr = iw_sq(qp, qp->sq_tx);

		if (wr->rdmap == RDMAP_READ_REQ) {
			if (!qp->reads_out++)
				qp->read_next = qp->sq_tx;
		} else {
			wr->done = true;
		}
		do	/* and past more of that */
			qp->sq_tx++;
		while (qp->sq_tx != qp->sq_head && iw_sq(qp, qp->sq_tx)->done);
	}
}

static void tx_blocked(struct iw_qp *qp)
{
	qp->tx.blocked = true;
	if (!qp->tx.watched) {
		qp->tx.watched = true;
		iw_qp_stir(qp);
	}
	/* nobody may come back to this queue pair: the helper is told, unless it is looking anyway */
	if (atomic_load_explicit(&qp->watch, memory_order_relaxed) == IW_WATCH_ASLEEP)
		iw_helper_attention(qp);
}

/* The socket takes more, but others are to have their turn. */
static void tx_yield(struct iw_qp *qp)
{
	tx_blocked(qp);
	qp->tx.yielded = true;
}

/* Whether the socket takes no more; if so, the epolls will tell when it does. */
static bool tx_full(const struct iw_qp *qp)
{
	struct pollfd pfd = { .fd = qp->fd, .events = POLLOUT };

	return poll(&pfd, 1, 0) == 0;
}

/* sendmsg from iov; the bytes taken, or -1 with the queue pair blocked or ended. */
static ssize_t push(struct iw_qp *qp, struct iovec *iov, int niov)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)niov };
	ssize_t n;

	do
		n = sendmsg(qp->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN)
		tx_blocked(qp);
	else
		iw_qp_fail(qp, TERM_NONE, NULL, "the connection was lost: %s", strerror(errno));
	return -1;
}

static bool flush_bounce(struct iw_qp *qp)
{
	while (qp->tx.bounce_len) {
		struct iovec iov = { qp->tx.bounce + qp->tx.bounce_off, qp->tx.bounce_len };
		ssize_t n = push(qp, &iov, 1);

		if (n < 0)
			return false;
		qp->tx.bounce_off += (uint32_t)n;
		qp->tx.bounce_len -= (uint32_t)n;
	}
	return true;
}

static void build_failed(struct iw_qp *qp, const struct tx_batch *b)
{
	static const uint16_t codes[] = {
		[IW_BAD_STAG] = TERM_RDMAP_INVALID_STAG,
		[IW_BAD_BOUNDS] = TERM_RDMAP_BOUNDS,
		[IW_BAD_ACCESS] = TERM_RDMAP_ACCESS,
		[IW_BAD_PD] = TERM_RDMAP_NOT_ASSOCIATED,
		[IW_BAD_WRAP] = TERM_RDMAP_WRAP,
	};

	if (b->at.kind == IW_TX_READ_RESP) {
		/* the memory went away between the peer's request and the answer */
		iw_qp_fail(qp, codes[b->err], NULL, NULL);
		return;
	}

	bool local = iw_sq(qp, b->at.sq)->rdmap & IW_OP_LOCAL;

	qp->sq_fail_index = b->at.sq;
	qp->sq_fail_status = local ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_PROT_ERR;
	if (local)
		iw_qp_fail(qp, TERM_RDMAP_CATASTROPHIC, NULL,
			   "a bind or invalidation named an STag that it cannot be done to (error %d)",
			   b->err);
	else
		iw_qp_fail(qp, TERM_RDMAP_CATASTROPHIC, NULL,
			   "a work request named memory that is not registered for it (lkey error %d)",
			   b->err);
}

/* Bytes of the cut FPDU out of the front of the iovecs. */
static int skip(struct tx_batch *b, size_t n)
{
	int i = 0;

	while (n >= b->iov[i].iov_len)
		n -= b->iov[i++].iov_len;
	b->iov[i].iov_base = (uint8_t *)b->iov[i].iov_base + n;
	b->iov[i].iov_len -= n;
	return i;
}

bool iw_tx_pending(const struct iw_qp *qp)
{
	return qp->sq_tx != qp->sq_head || qp->irq_head != qp->irq_tail || qp->tx.bounce_len;
}

void iw_tx_run(struct iw_qp *qp)
{
	uint8_t local[TX_SCRATCH];
	struct tx_batch b;
	size_t sent = 0;

	/* after the end nothing may follow but the rest of a cut FPDU and the TERMINATE (last words) */
	if (qp->tx.hold || atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_ERR ||
	    !iw_tx_pending(qp))
		return;
	if (qp->tx.blocked) {
		/* cheaper than building a batch for nothing, and waits for a worthwhile space */
		if (tx_full(qp))
			return;
		qp->tx.blocked = false;
	}
	b.scratch = local;
	b.scratch_size = sizeof(local);
	for (;;) {
		if (!flush_bounce(qp))
			return;
		iw_tx_build(qp, &b);
		if (!b.nrec)
			break;
		if (b.copy) {
			qp->tx.bounce_off = 0;
			qp->tx.bounce_len = b.len;
			commit(qp, &b, b.bytes);
			iw_sq_sweep(qp);
			sent += b.bytes;
			if (sent >= TX_TURN) {
				tx_yield(qp);
				return;
			}
			continue;
		}

		int first = skip(&b, qp->tx.part);
		size_t want = b.bytes - qp->tx.part;
		ssize_t n = push(qp, b.iov + first, b.niov - first);

		if (n < 0)
			return;
		commit(qp, &b, (size_t)n);
		iw_sq_sweep(qp);
		sent += (size_t)n;
		if ((size_t)n < want && tx_full(qp)) {
			tx_blocked(qp);
			return;
		}
		if (sent >= TX_TURN && iw_tx_pending(qp)) {
			tx_yield(qp);
			return;
		}
	}
	iw_sq_sweep(qp);	/* binds and LOCAL_INVs */
	if (b.err != IW_OK)
		build_failed(qp, &b);
}

/* At the end of the connection: the rest of an FPDU that the socket took a part of, into buf. */
uint32_t iw_tx_rest(struct iw_qp *qp, uint8_t *buf)
{
	struct tx_batch b;
	uint8_t local[TX_FPDU_MAX];
	uint32_t n = 0;

	if (qp->tx.bounce_len) {
		/* of several FPDUs there, those that were not begun are not sent */
		while (n < qp->tx.bounce_off)
			n += fpdu_size(iw_get16(qp->tx.bounce + n));
		n -= qp->tx.bounce_off;
		memcpy(buf, qp->tx.bounce + qp->tx.bounce_off, n);
		return n;
	}
	if (!qp->tx.part)
		return 0;
	b.scratch = local;
	b.scratch_size = sizeof(local);		/* room for one */
	iw_tx_build(qp, &b);
	if (b.nrec != 1)
		return UINT32_MAX;
	for (int i = skip(&b, qp->tx.part); i < b.niov; i++) {
		memcpy(buf + n, b.iov[i].iov_base, b.iov[i].iov_len);
		n += (uint32_t)b.iov[i].iov_len;
	}
	return n;
}
