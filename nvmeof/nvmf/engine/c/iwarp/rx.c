/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: the byte stream cut into FPDUs.  Bytes come into the staging buffer of whoever polls, shared
 * by all its queue pairs and so hot in the cache; what is left of it between two receives is at most a
 * header, kept in the queue pair.  The rest of a large payload is received straight into the memory it
 * is for.  With CRC on: see rx_crc.c.
 * Runs under qp->lock, on whichever thread polls.
 */
#include "rx.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
	BIG_STAGING = 2048,	/* staging behind them: the next headers, little to copy */
	SMALL_RUN = 8,		/* small FPDUs in a row that end the large ones' time */
	ROUNDS = 8,		/* receives in a row for one queue pair, then the others' turn */
	TURN = 512 * 1024,	/* and bytes: small frames take the longest */
	/*
	 * With a shared receive queue, what is received beyond its receives has to be kept: so much for each
	 * receive that there is, which is less than a Send of NVMe takes, and so much at least.
	 */
	PER_RECEIVE = 64,
	LEAST_STAGING = 4096,
};

void iw_rx_note_size(struct iw_rx *rx, uint32_t payload)
{
	if (payload >= RX_BIG) {
		rx->big = true;
		rx->small_run = 0;
	} else if (rx->big && ++rx->small_run >= SMALL_RUN) {
		rx->big = false;
	}
}

/* No state between its bytes. */
int iw_rx_whole_fpdu(struct iw_qp *qp, const uint8_t *p)
{
	uint32_t len = iw_get16(p) + (uint32_t)FPDU_LEN;
	uint32_t hdr_len = iw_hdr_len(iw_get16(p + OFF_CTRL));
	int r = iw_rx_header(qp, p, hdr_len);

	if (r)
		return r;
	iw_rx_note_size(&qp->rx, len - hdr_len);
	if (len > hdr_len && iw_rx_place_whole(qp, p + hdr_len, len - hdr_len))
		return -1;
	return iw_rx_segment_end(qp);
}

/* The FPDU's header is in rx->hdr: check it, see where the payload goes. */
static int begin(struct iw_qp *qp, uint32_t hdr_len)
{
	struct iw_rx *rx = &qp->rx;
	int r = iw_rx_header(qp, rx->hdr, hdr_len);

	rx->header_waits = r == RX_WAIT;
	if (r)
		return r;
	rx->remain = rx->ulpdu_len + FPDU_LEN - hdr_len;
	rx->state = IW_RX_PAYLOAD;
	iw_rx_note_size(rx, rx->remain);
	return 0;
}

void iw_rx_end_payload(struct iw_rx *rx)
{
	if (rx->state == IW_RX_PAYLOAD && !rx->remain) {
		rx->remain = fpdu_pad(rx->ulpdu_len) + FPDU_CRC;
		rx->state = IW_RX_TRAILER;
	}
}

/* Header bytes wanted before anything can be said: the control word, then all that it calls for. */
static uint32_t hdr_want(const struct iw_rx *rx)
{
	if (rx->hdr_have < OFF_CTRL + 2)
		return OFF_CTRL + 2;
	return iw_hdr_len(iw_get16(rx->hdr + OFF_CTRL));
}

/* *n: the bytes taken, also if the header then has to wait */
static int header_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len, uint32_t *n)
{
	struct iw_rx *rx = &qp->rx;
	uint32_t want = hdr_want(rx);

	*n = want - rx->hdr_have < len ? want - rx->hdr_have : len;
	memcpy(rx->hdr + rx->hdr_have, p, *n);
	rx->hdr_have += *n;
	if (rx->hdr_have < OFF_CTRL + 2)
		return RX_OK;
	want = hdr_want(rx);
	/* one too short for its header will never be complete: complain now */
	if (rx->hdr_have == want || iw_get16(rx->hdr) + FPDU_LEN < (int)want)
		return begin(qp, want);
	return RX_OK;
}

/* *used: the bytes taken, of which the last may have to wait (RX_WAIT). */
static int stream_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len, uint32_t *used)
{
	struct iw_rx *rx = &qp->rx;
	const uint8_t *from = p;

	*used = 0;
	while (len) {
		uint32_t n;
		int r;

		switch (rx->state) {
		case IW_RX_HEADER:
			if (!rx->hdr_have && len >= FPDU_LEN) {
				n = fpdu_size(iw_get16(p));
				if (len >= n) {
					r = iw_rx_whole_fpdu(qp, p);
					if (r)
						return r;
					break;
				}
			}
			r = header_bytes(qp, p, len, &n);
			if (r == RX_WAIT)
				*used += n;
			if (r)
				return r;
			break;
		case IW_RX_PAYLOAD:
			n = rx->remain < len ? rx->remain : len;
			if (n && iw_rx_place(qp, p, n))
				return -1;
			rx->remain -= n;
			break;
		default:
			n = rx->remain < len ? rx->remain : len;
			rx->remain -= n;
			if (!rx->remain) {
				rx->state = IW_RX_HEADER;
				rx->hdr_have = 0;
				if (iw_rx_segment_end(qp))
					return -1;
			}
			break;
		}
		p += n;
		len -= n;
		*used = (uint32_t)(p - from);
		iw_rx_end_payload(rx);
	}
	return RX_OK;
}

static int take_bytes(struct iw_qp *qp, uint8_t *data, uint32_t len, uint32_t *used)
{
	return qp->crc ? iw_rx_crc_bytes(qp, data, len, used) : stream_bytes(qp, data, len, used);
}

/* ---- without a receive: nothing is taken from the socket until there is one ---- */

/* data: what was received and has to be kept. */
static int begin_wait(struct iw_qp *qp, const uint8_t *data, uint32_t len)
{
	struct iw_rx *rx = &qp->rx;

	if (len) {
		rx->stash = malloc(len);
		if (!rx->stash) {
			iw_qp_fail(qp, TERM_DDP_CATASTROPHIC, NULL, "no memory for what a receive is not there for");
			return RX_END;
		}
		memcpy(rx->stash, data, len);
	}
	rx->stash_off = 0;
	rx->stash_len = len;
	rx->waits = true;
	return RX_WAIT;
}

/* There is a receive: on from where it was missing.  RX_WAIT if there is none for the next Send. */
static int end_wait(struct iw_qp *qp)
{
	struct iw_rx *rx = &qp->rx;
	int r = RX_OK;

	if (rx->header_waits) {
		r = begin(qp, rx->hdr_have);
		if (r == RX_OK)
			iw_rx_end_payload(rx);
	} else if (rx->carry_have > FPDU_LEN && rx->carry_have == fpdu_size(iw_get16(rx->carry))) {
		r = iw_rx_crc_carried(qp, rx->carry_have);
	}
	while (r == RX_OK && rx->stash_off < rx->stash_len) {
		uint32_t used;

		r = take_bytes(qp, rx->stash + rx->stash_off, rx->stash_len - rx->stash_off, &used);
		rx->stash_off += used;
	}
	if (r)
		return r;
	free(rx->stash);
	rx->stash = NULL;
	rx->stash_off = rx->stash_len = 0;
	rx->waits = false;
	return RX_OK;
}

int iw_rx_bytes(struct iw_qp *qp, uint8_t *data, uint32_t len)
{
	uint32_t used;
	int r = take_bytes(qp, data, len, &used);

	return r == RX_WAIT ? begin_wait(qp, data + used, len - used) : r;
}

/* How much to receive at once, of what may have to be kept. */
static uint32_t staging_size(const struct iw_qp *qp)
{
	uint32_t size = qp->rx.big ? BIG_STAGING : IW_STAGING;

	if (qp->srq) {
		uint64_t most = (uint64_t)iw_srq_available(qp->srq) * PER_RECEIVE;

		if (most < LEAST_STAGING)
			most = LEAST_STAGING;
		if (size > most)
			size = (uint32_t)most;
	}
	return size;
}

/* Where the next bytes are to go: in place as far as that is known, the rest to staging. */
static int aim(struct iw_qp *qp, uint8_t *staging, struct iovec *iov, uint32_t *direct)
{
	struct iw_rx *rx = &qp->rx;
	int n = 0;

	*direct = 0;
	if (rx->state == IW_RX_PAYLOAD && rx->remain >= RX_BIG / 2) {
		n = iw_rx_place_iov(qp, rx->remain, iov);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			*direct += (uint32_t)iov[i].iov_len;
	} else if (qp->crc && rx->carry_have >= FPDU_TAGGED) {
		uint32_t left = fpdu_size(iw_get16(rx->carry)) - rx->carry_have;

		if (left >= RX_BIG / 2) {
			iov[n++] = (struct iovec){ rx->carry + rx->carry_have, left };
			*direct = left;
		}
	}
	iov[n++] = (struct iovec){ staging, staging_size(qp) };
	return n;
}

static int took_direct(struct iw_qp *qp, const struct iovec *iov, uint32_t n)
{
	struct iw_rx *rx = &qp->rx;

	if (qp->crc && rx->state == IW_RX_HEADER) {
		uint32_t size = fpdu_size(iw_get16(rx->carry));

		rx->carry_have += n;
		return rx->carry_have < size ? RX_OK : iw_rx_crc_carried(qp, size);
	}
	if (qp->crc)
		iw_rx_crc_placed(rx, iov, n);
	iw_rx_placed(qp, n);
	rx->remain -= n;
	iw_rx_end_payload(rx);
	return 0;
}

static void lost(struct iw_qp *qp, ssize_t n)
{
	bool middle = qp->rx.state != IW_RX_HEADER || qp->rx.hdr_have || qp->rx.carry_have;

	if (n < 0)
		iw_qp_fail(qp, TERM_NONE, NULL, "the connection was lost: %s", strerror(errno));
	else
		iw_qp_fail(qp, TERM_NONE, NULL, "the peer closed the connection%s",
			   middle ? " in the middle of a frame" : "");
}

int iw_rx_run(struct iw_qp *qp, uint8_t *staging, bool to_end, bool *more)
{
	struct iovec iov[IW_MAX_SGE + 1];
	int total = 0;

	*more = false;
	if (qp->rx.waits) {
		int r = iw_srq_promised(qp) ? end_wait(qp) : RX_WAIT;

		if (r)
			return r < 0 ? -1 : 0;
	}
	*more = true;
	for (int round = 0; round < ROUNDS && total < TURN; round++) {
		uint32_t direct;
		int niov = aim(qp, staging, iov, &direct);

		if (niov < 0)
			return -1;

		size_t room = direct + iov[niov - 1].iov_len;
		ssize_t n;

		do {
			if (niov == 1) {
				n = recv(qp->fd, staging, room, MSG_DONTWAIT);
			} else {
				struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)niov };

				n = recvmsg(qp->fd, &msg, MSG_DONTWAIT);
			}
		} while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN) {
			*more = false;
			break;
		}
		if (n <= 0) {
			lost(qp, n);
			return -1;
		}
		total += (int)n;

		uint32_t placed = (size_t)n < direct ? (uint32_t)n : direct;

		int r = placed ? took_direct(qp, iov, placed) : RX_OK;

		if (r == RX_WAIT)
			r = begin_wait(qp, staging, (uint32_t)n - placed);
		else if (r == RX_OK && (uint32_t)n > placed)
			r = iw_rx_bytes(qp, staging, (uint32_t)n - placed);
		if (r == RX_END)
			return -1;
		if (r == RX_WAIT || (!to_end && (size_t)n < room)) {
			*more = false;
			break;
		}
	}
	if (total)
		atomic_store_explicit(&qp->rx_count,
				      atomic_load_explicit(&qp->rx_count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	return total;
}
