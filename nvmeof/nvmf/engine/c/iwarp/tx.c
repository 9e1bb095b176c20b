/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: batches of FPDUs in one sendmsg each, directly from the application's memory.  Data taken by the socket is
 * done; the rest is built again later.  With CRC on, FPDUs are built in a buffer instead, so that the CRC matches the
 * bytes sent even if the application writes to the memory in the meantime, unless it has promised not to
 * (IW_SEND_STABLE).
 *
 * Runs under qp->lock, on the thread that posts or polls.
 */
#include "tx.h"
#include "capture/capture.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* The socket (or the bounce buffer) has taken n bytes of the batch. */
static void commit(struct iw_stream *s, const struct tx_batch *b, size_t n)
{
	n += s->tx.part;
	s->tx.part = 0;
	for (int i = 0; i < b->nrec; i++) {
		const struct tx_rec *r = &b->rec[i];

		s->tx.kind = r->kind;
		if (n < r->bytes) {
			s->tx.part = (uint32_t)n;
			break;
		}
		n -= r->bytes;
		if (r->kind == IW_TX_READ_RESP) {
			s->tx.rr_off = r->last ? 0 : s->tx.rr_off + r->payload;
			s->irq_head += r->last;
			continue;
		}
		/*
		 * requests that send nothing were executed when the batch was built: the record is of the request
		 * after them
		 */
		while (iw_sq(s, s->sq_tx)->done)
			s->sq_tx++;
		s->tx.off = r->last ? 0 : s->tx.off + r->payload;
		if (!r->last)
			continue;

		struct iw_swr *wr = iw_sq(s, s->sq_tx);

		if (wr->rdmap == RDMAP_READ_REQ) {
			if (!s->reads_out++)
				s->read_next = s->sq_tx;
		} else {
			wr->done = true;
		}
		do	/* and past further completed ones */
			s->sq_tx++;
		while (s->sq_tx != s->sq_head && iw_sq(s, s->sq_tx)->done);
	}
}

/* The socket is full, or (yielded) it is not full, but it is the turn of others. */
static enum iw_verdict tx_blocked(struct iw_stream *s, bool yielded)
{
	s->tx.blocked = true;
	s->tx.yielded |= yielded;
	return IW_WAIT;
}

/* Whether the socket is full; if so, the epolls will report when it no longer is. */
static bool tx_full(const struct iw_stream *s)
{
	struct pollfd pfd = { .fd = s->fd, .events = POLLOUT };

	return poll(&pfd, 1, 0) == 0;
}

/*
 * sendmsg of want bytes from iov; *n: the bytes taken.  MSG_EOR: the next data begins a TCP segment, so that segments
 * end as the batch was built.
 */
static enum iw_verdict push(struct iw_stream *s, struct iovec *iov, int niov, size_t want, size_t *n,
			    struct iw_out *out)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)niov };
	ssize_t sent;

	do
		sent = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0) {
		*n = (size_t)sent;
		if (capture_on())
			capture_iov(s->fd, true, iov, niov, *n);
		s->tx.seg = *n < want && s->tx.mss ? (uint32_t)((s->tx.seg + *n) % s->tx.mss) : 0;
		return IW_GO_ON;
	}
	if (errno == EAGAIN)
		return tx_blocked(s, false);
	return iw_end(out, TERM_NONE, NULL, "the connection was lost: %s", strerror(errno));
}

static enum iw_verdict flush_bounce(struct iw_stream *s, struct iw_out *out)
{
	while (s->tx.bounce_len) {
		struct iovec iov = { s->tx.bounce + s->tx.bounce_off, s->tx.bounce_len };
		size_t n;
		enum iw_verdict v = push(s, &iov, 1, iov.iov_len, &n, out);

		if (v)
			return v;
		s->tx.bounce_off += (uint32_t)n;
		s->tx.bounce_len -= (uint32_t)n;
	}
	return IW_GO_ON;
}

static enum iw_verdict build_failed(struct iw_stream *s, const struct tx_batch *b, struct iw_out *out)
{
	static const uint16_t codes[] = {
		[IW_BAD_STAG] = TERM_RDMAP_INVALID_STAG,
		[IW_BAD_BOUNDS] = TERM_RDMAP_BOUNDS,
		[IW_BAD_ACCESS] = TERM_RDMAP_ACCESS,
		[IW_BAD_PD] = TERM_RDMAP_NOT_ASSOCIATED,
		[IW_BAD_WRAP] = TERM_RDMAP_WRAP,
	};

	/* the memory was deregistered between the peer's request and the answer */
	if (b->at.kind == IW_TX_READ_RESP)
		return iw_end(out, codes[b->err], NULL, NULL);

	bool local = iw_sq(s, b->at.sq)->rdmap & IW_OP_LOCAL;

	s->sq_fail_index = b->at.sq;
	if (!s->ord && iw_sq(s, b->at.sq)->rdmap == RDMAP_READ_REQ) {
		s->sq_fail_status = IBV_WC_LOC_QP_OP_ERR;
		return iw_end(out, TERM_RDMAP_CATASTROPHIC, NULL,
			      "a READ was posted, but this connection allows none: one of its ends gave 0 as "
			      "the number of READs that may be open");
	}
	s->sq_fail_status = local ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_PROT_ERR;
	if (local)
		return iw_end(out, TERM_RDMAP_CATASTROPHIC, NULL,
			      "a bind or invalidation refers to an STag that does not permit it (error %d)", b->err);
	return iw_end(out, TERM_RDMAP_CATASTROPHIC, NULL,
		      "a work request refers to memory that is not registered for it (lkey error %d)", b->err);
}

/* Remove the sent bytes of the cut FPDU from the front of the iovecs. */
static int skip(struct tx_batch *b, size_t n)
{
	int i = 0;

	while (n >= b->iov[i].iov_len)
		n -= b->iov[i++].iov_len;
	b->iov[i].iov_base = (uint8_t *)b->iov[i].iov_base + n;
	b->iov[i].iov_len -= n;
	return i;
}

bool iw_tx_pending(const struct iw_stream *s)
{
	return s->sq_tx != s->sq_head || s->irq_head != s->irq_tail || s->tx.bounce_len;
}

enum iw_verdict iw_tx_run(struct iw_stream *s, struct iw_out *out)
{
	uint8_t local[TX_SCRATCH];
	struct tx_batch b;
	size_t sent = 0;

	if (s->tx.hold || !iw_tx_pending(s))
		return IW_GO_ON;
	if (s->tx.blocked) {
		/* cheaper than building an unused batch, and waits until enough space is free */
		if (tx_full(s))
			return IW_GO_ON;
		s->tx.blocked = false;
	}
	b.scratch = local;
	b.scratch_size = sizeof(local);
	for (;;) {
		enum iw_verdict v = flush_bounce(s, out);

		if (v)
			return v;
		iw_tx_build(s, &b);
		if (!b.nrec)
			break;
		if (b.copy) {
			s->tx.bounce_off = 0;
			s->tx.bounce_len = b.len;
			commit(s, &b, b.bytes);
			sent += b.bytes;
			if (sent >= TX_TURN)
				return tx_blocked(s, true);
			continue;
		}

		int first = skip(&b, s->tx.part);
		size_t want = b.bytes - s->tx.part;
		size_t n;

		v = push(s, b.iov + first, b.niov - first, want, &n, out);
		if (v)
			return v;
		commit(s, &b, n);
		sent += n;
		if (n < want && tx_full(s))
			return tx_blocked(s, false);
		if (sent >= TX_TURN && iw_tx_pending(s))
			return tx_blocked(s, true);
	}
	return b.err == IW_OK ? IW_GO_ON : build_failed(s, &b, out);
}

uint32_t iw_tx_rest(struct iw_stream *s, uint8_t *buf)
{
	struct tx_batch b;
	uint8_t local[TX_FPDU_MAX];
	uint32_t n = 0;

	if (s->tx.bounce_len) {
		/* FPDUs in the buffer that were not begun are not sent */
		while (n < s->tx.bounce_off)
			n += fpdu_size(iw_get16(s->tx.bounce + n));
		n -= s->tx.bounce_off;
		memcpy(buf, s->tx.bounce + s->tx.bounce_off, n);
		return n;
	}
	if (!s->tx.part)
		return 0;
	b.scratch = local;
	b.scratch_size = sizeof(local);		/* room for one */
	iw_tx_build(s, &b);
	if (b.nrec != 1)
		return UINT32_MAX;
	for (int i = skip(&b, s->tx.part); i < b.niov; i++) {
		memcpy(buf + n, b.iov[i].iov_base, b.iov[i].iov_len);
		n += (uint32_t)b.iov[i].iov_len;
	}
	return n;
}
