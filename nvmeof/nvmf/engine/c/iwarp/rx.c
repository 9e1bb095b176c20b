/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving from the socket.  Bytes are received into the staging buffer of the polling thread, shared by all its
 * queue pairs and therefore in the cache; at most one header remains between two receives, and is kept in the queue
 * pair.  The rest of a large payload is received directly into its destination, with the segments after it (rx_ahead.c).
 *
 * Runs under qp->lock, on the thread that polls.
 */
#include "rx.h"
#include "capture/capture.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

enum {
	BIG_STAGING = 2048,	/* staging after large payloads: room for the next headers, to keep copies short */
	ROUNDS = 8,		/* consecutive receives for one queue pair before others are served */
	TURN = 512 * 1024,	/* and bytes, because small frames take the longest time */
	/*
	 * With a shared receive queue, data received beyond its receives must be kept.  So at most
	 * PER_RECEIVE bytes (a command with a little data) are received per available receive, and at least
	 * LEAST_STAGING bytes; and some of what is still to come of a READ (rx_ahead.c).
	 */
	PER_RECEIVE = 1024,
	LEAST_STAGING = 4096,
};

static_assert(IW_AHEAD * (AHEAD_GAP + 0xffff) + BIG_STAGING <= IW_STAGING, "see iw_rx_ahead_take()");

/* Returns the number of bytes to receive at once, some of which may have to be kept. */
static uint32_t staging_size(const struct iw_stream *s)
{
	uint32_t size = s->rx.big ? BIG_STAGING : IW_STAGING;

	if (s->srq) {
		uint64_t most = (uint64_t)iw_srq_available(s->srq) * PER_RECEIVE;

		if (most < LEAST_STAGING)
			most = LEAST_STAGING;
		if (size > most)
			size = (uint32_t)most;
	}
	return size;
}

struct aim {
	struct iovec iov[IW_MAX_SGE + 2 * IW_AHEAD + 1];	/* in place, predicted segments, staging */
	int n;
	uint32_t direct;		/* bytes in place */
	size_t room;
	struct iw_ahead ahead;
};

/* Set the destination of the next bytes: in place as far as that is known or predicted, the rest to staging. */
static enum iw_verdict aim(struct iw_stream *s, struct aim *a, uint8_t *staging, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;

	a->n = 0;
	a->direct = 0;
	a->room = 0;
	a->ahead.n = 0;
	if (rx->state == IW_RX_PAYLOAD && rx->remain >= RX_BIG / 2) {
		a->n = iw_rx_place_iov(s, rx->remain, a->iov, out);
		if (a->n < 0)
			return IW_END;
		for (int i = 0; i < a->n; i++)
			a->direct += (uint32_t)a->iov[i].iov_len;
		a->n += iw_rx_ahead_aim(s, &a->ahead, a->iov + a->n);
	} else if (s->crc && rx->carry_have >= FPDU_TAGGED) {
		uint32_t left = fpdu_size(iw_get16(rx->carry)) - rx->carry_have;

		if (left >= RX_BIG / 2) {
			a->iov[a->n++] = (struct iovec){ rx->carry + rx->carry_have, left };
			a->direct = left;
		}
	}
	a->iov[a->n++] = (struct iovec){ staging, a->ahead.n ? BIG_STAGING : staging_size(s) };
	for (int i = 0; i < a->n; i++)
		a->room += a->iov[i].iov_len;
	return IW_GO_ON;
}

static enum iw_verdict rx_lost(const struct iw_stream *s, ssize_t n, struct iw_out *out)
{
	bool middle = s->rx.state != IW_RX_HEADER || s->rx.hdr_have || s->rx.carry_have;

	if (n < 0)
		return iw_end(out, TERM_NONE, NULL, "the connection was lost: %s", strerror(errno));
	return iw_end(out, TERM_NONE, NULL, "the peer closed the connection%s",
		      middle ? " in the middle of a frame" : "");
}

/* Receive once from the socket; data that is not in place afterwards is in in->left. */
static enum iw_verdict rx_receive(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	struct aim to;

	if (aim(s, &to, in->staging, out))
		return IW_END;

	ssize_t n;

	do {
		if (to.n == 1) {
			n = recv(s->fd, in->staging, to.room, MSG_DONTWAIT);
		} else {
			struct msghdr msg = { .msg_iov = to.iov, .msg_iovlen = (size_t)to.n };

			n = recvmsg(s->fd, &msg, MSG_DONTWAIT);
		}
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		in->drained = true;
		return IW_GO_ON;
	}
	if (n <= 0) {
		if (capture_on() && !n)
			capture_end(s->fd, false);
		return rx_lost(s, n, out);
	}
	if (capture_on()) {
		if (to.n == 1)
			capture_bytes(s->fd, false, in->staging, (size_t)n);
		else
			capture_iov(s->fd, false, to.iov, to.n, (size_t)n);
	}
	in->bytes += (int)n;
	in->drained = !in->to_end && (size_t)n < to.room;

	uint32_t placed = (size_t)n < to.direct ? (uint32_t)n : to.direct, rest = (uint32_t)n - placed;

	in->left = in->staging;
	in->left_len = to.ahead.n ? 0 : rest;
	if (placed) {
		enum iw_verdict v = iw_rx_in_place(s, to.iov, placed, out);

		if (v)
			return v;
	}
	return to.ahead.n ? iw_rx_ahead_take(s, &to.ahead, in, rest, out) : IW_GO_ON;
}

/* Process data that was received earlier. */
static enum iw_verdict rx_look(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	uint32_t used;
	enum iw_verdict v = iw_rx_bytes(s, in->left, in->left_len, &used, out);

	in->left += used;
	in->left_len -= used;
	return v;
}

/* Continue if the last call ended for lack of a receive. */
static enum iw_verdict rx_waited(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	enum iw_verdict v = IW_WAIT;

	if (in->goes_on || iw_srq_promised(s->srq, &s->place))
		v = iw_rx_end_wait(s, out);
	in->drained = v == IW_WAIT;
	return v;
}

static void rx_traffic(struct iw_stream *s)
{
	atomic_store_explicit(&s->rx_count, atomic_load_explicit(&s->rx_count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

enum iw_verdict iw_rx_run(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	enum iw_verdict v = IW_GO_ON;

	if (s->rx.waits) {
		v = rx_waited(s, in, out);
		in->goes_on = v == IW_FULL;
		if (v)
			return v;
	}
	while (v == IW_GO_ON) {
		if (in->left_len) {
			v = rx_look(s, in, out);
		} else if (in->drained || in->rounds == ROUNDS || in->bytes >= TURN) {
			break;
		} else if (iw_out_full(out)) {
			v = IW_FULL;
		} else {
			in->rounds++;
			v = rx_receive(s, in, out);
		}
	}
	if (v == IW_WAIT) {
		in->drained = true;
		v = iw_rx_begin_wait(s, in->left, in->left_len, out);
	}
	if (in->bytes && v != IW_FULL && v != IW_END)
		rx_traffic(s);
	return v;
}
