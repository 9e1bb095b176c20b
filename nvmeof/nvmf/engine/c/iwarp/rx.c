/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving from the socket.  Bytes come into the staging buffer of whoever polls, shared
 * by all its queue pairs and so hot in the cache; what is left of it between two receives is at most a
 * header, kept in the queue pair.  The rest of a large payload is received straight into the memory it
 * is for.
 * Runs under qp->lock, on whichever thread polls.
 */
#include "rx.h"

#include <errno.h>
#include <sys/socket.h>

enum {
	BIG_STAGING = 2048,	/* staging behind them: the next headers, little to copy */
	ROUNDS = 8,		/* receives in a row for one queue pair, then the others' turn */
	TURN = 512 * 1024,	/* and bytes: small frames take the longest */
	/*
	 * With a shared receive queue, what is received beyond its receives has to be kept.  So no more than
	 * so much for each receive that there is, a command with a little data, and so much at least.
	 */
	PER_RECEIVE = 1024,
	LEAST_STAGING = 4096,
};

/* How much to receive at once, of what may have to be kept. */
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

/* Where the next bytes are to go: in place as far as that is known, the rest to staging. */
static int aim(struct iw_stream *s, uint8_t *staging, struct iovec *iov, uint32_t *direct, struct iw_out *out)
{
	struct iw_rx *rx = &s->rx;
	int n = 0;

	*direct = 0;
	if (rx->state == IW_RX_PAYLOAD && rx->remain >= RX_BIG / 2) {
		n = iw_rx_place_iov(s, rx->remain, iov, out);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			*direct += (uint32_t)iov[i].iov_len;
	} else if (s->crc && rx->carry_have >= FPDU_TAGGED) {
		uint32_t left = fpdu_size(iw_get16(rx->carry)) - rx->carry_have;

		if (left >= RX_BIG / 2) {
			iov[n++] = (struct iovec){ rx->carry + rx->carry_have, left };
			*direct = left;
		}
	}
	iov[n++] = (struct iovec){ staging, staging_size(s) };
	return n;
}

static enum iw_verdict lost(const struct iw_stream *s, ssize_t n, struct iw_out *out)
{
	bool middle = s->rx.state != IW_RX_HEADER || s->rx.hdr_have || s->rx.carry_have;

	if (n < 0)
		return iw_end(out, TERM_NONE, NULL, "the connection was lost: %s", strerror(errno));
	return iw_end(out, TERM_NONE, NULL, "the peer closed the connection%s", middle ? " in the middle of a frame" : "");
}

/* Once from the socket: what is not in place by then is in->left. */
static enum iw_verdict receive(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	struct iovec iov[IW_MAX_SGE + 1];
	uint32_t direct;
	int niov = aim(s, in->staging, iov, &direct, out);

	if (niov < 0)
		return IW_END;

	size_t room = direct + iov[niov - 1].iov_len;
	ssize_t n;

	do {
		if (niov == 1) {
			n = recv(s->fd, in->staging, room, MSG_DONTWAIT);
		} else {
			struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)niov };

			n = recvmsg(s->fd, &msg, MSG_DONTWAIT);
		}
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		in->drained = true;
		return IW_GO_ON;
	}
	if (n <= 0)
		return lost(s, n, out);
	in->bytes += (int)n;
	in->drained = !in->to_end && (size_t)n < room;

	uint32_t placed = (size_t)n < direct ? (uint32_t)n : direct;

	in->left = in->staging;
	in->left_len = (uint32_t)n - placed;
	return placed ? iw_rx_in_place(s, iov, placed, out) : IW_GO_ON;
}

/* What was received and not looked at yet. */
static enum iw_verdict look(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	uint32_t used;
	enum iw_verdict v = iw_rx_bytes(s, in->left, in->left_len, &used, out);

	in->left += used;
	in->left_len -= used;
	return v;
}

/* For a receive that there was none of when the stream was looked at last. */
static enum iw_verdict waited(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	enum iw_verdict v = IW_WAIT;

	if (in->goes_on || iw_srq_promised(s->srq, &s->place))
		v = iw_rx_end_wait(s, out);
	in->drained = v == IW_WAIT;
	return v;
}

static void count(struct iw_stream *s)
{
	atomic_store_explicit(&s->rx_count, atomic_load_explicit(&s->rx_count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

enum iw_verdict iw_rx_run(struct iw_stream *s, struct iw_intake *in, struct iw_out *out)
{
	enum iw_verdict v = IW_GO_ON;

	if (s->rx.waits) {
		v = waited(s, in, out);
		in->goes_on = v == IW_FULL;
		if (v)
			return v;
	}
	while (v == IW_GO_ON) {
		if (in->left_len)
			v = look(s, in, out);
		else if (in->drained || in->rounds == ROUNDS || in->bytes >= TURN)
			break;
		else if (iw_out_full(out))
			v = IW_FULL;
		else {
			in->rounds++;
			v = receive(s, in, out);
		}
	}
	if (v == IW_WAIT) {
		in->drained = true;
		v = iw_rx_begin_wait(s, in->left, in->left_len, out);
	}
	if (in->bytes && v != IW_FULL && v != IW_END)
		count(s);
	return v;
}
