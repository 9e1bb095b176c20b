/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: the byte stream cut into FPDUs.  Bytes come into the staging buffer of whoever polls, shared
 * by all its queue pairs and so hot in the cache; what is left of it between two receives is at most a
 * header, kept in the queue pair.  The rest of a large payload is received straight into the memory it
 * is for.  With CRC on, an FPDU is assembled and verified before anything of it is looked at.
 * Runs under qp->lock, on whichever thread polls.
 */
#include "util/crc32c.h"
#include "iwarp.h"

#include <errno.h>
#include <sys/socket.h>

enum {
	BIG = 8192,		/* payloads from here on are worth receiving in place */
	BIG_STAGING = 2048,	/* staging behind them: the next headers, little to copy */
	SMALL_RUN = 8,		/* small FPDUs in a row that end the large ones' time */
	ROUNDS = 8,		/* receives in a row for one queue pair, then the others' turn */
	TURN = 512 * 1024,	/* and bytes: small frames take the longest */
};

static void note_size(struct iw_rx *rx, uint32_t payload)
{
	if (payload >= BIG) {
		rx->big = true;
		rx->small_run = 0;
	} else if (rx->big && ++rx->small_run >= SMALL_RUN) {
		rx->big = false;
	}
}

/* A whole FPDU, where it lies: no state between its bytes. */
static int whole_fpdu(struct iw_qp *qp, const uint8_t *p)
{
	uint32_t len = iw_get16(p) + (uint32_t)FPDU_LEN;
	uint32_t hdr_len = iw_hdr_len(iw_get16(p + OFF_CTRL));

	if (iw_rx_header(qp, p, hdr_len))
		return -1;
	note_size(&qp->rx, len - hdr_len);
	if (len > hdr_len && iw_rx_place_whole(qp, p + hdr_len, len - hdr_len))
		return -1;
	return iw_rx_segment_end(qp);
}

/* The FPDU's header is in rx->hdr: check it, see where the payload goes. */
static int begin(struct iw_qp *qp, uint32_t hdr_len)
{
	struct iw_rx *rx = &qp->rx;

	if (iw_rx_header(qp, rx->hdr, hdr_len))
		return -1;
	rx->remain = rx->ulpdu_len + FPDU_LEN - hdr_len;
	rx->state = IW_RX_PAYLOAD;
	note_size(rx, rx->remain);
	return 0;
}

static void end_payload(struct iw_rx *rx)
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

static int header_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len)
{
	struct iw_rx *rx = &qp->rx;
	uint32_t want = hdr_want(rx);
	uint32_t n = want - rx->hdr_have < len ? want - rx->hdr_have : len;

	memcpy(rx->hdr + rx->hdr_have, p, n);
	rx->hdr_have += n;
	if (rx->hdr_have < OFF_CTRL + 2)
		return (int)n;
	want = hdr_want(rx);
	/* one too short for its header will never be complete: complain now */
	if (rx->hdr_have == want || iw_get16(rx->hdr) + FPDU_LEN < (int)want)
		if (begin(qp, want))
			return -1;
	return (int)n;
}

static int stream_bytes(struct iw_qp *qp, const uint8_t *p, uint32_t len)
{
	struct iw_rx *rx = &qp->rx;

	while (len) {
		uint32_t n;
		int h;

		switch (rx->state) {
		case IW_RX_HEADER:
			if (!rx->hdr_have && len >= FPDU_LEN) {
				n = fpdu_size(iw_get16(p));
				if (len >= n) {
					if (whole_fpdu(qp, p))
						return -1;
					break;
				}
			}
			h = header_bytes(qp, p, len);
			if (h < 0)
				return -1;
			n = (uint32_t)h;
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
		end_payload(rx);
	}
	return 0;
}

static int crc_fpdu(struct iw_qp *qp, uint8_t *p, uint32_t size)
{
	uint32_t sum;

	memcpy(&sum, p + size - FPDU_CRC, FPDU_CRC);
	if (crc32c(0, p, size - FPDU_CRC) != sum) {
		iw_qp_fail(qp, TERM_LLP_CRC, NULL, NULL);
		return -1;
	}
	return whole_fpdu(qp, p);
}

static int crc_bytes(struct iw_qp *qp, uint8_t *p, uint32_t len)
{
	struct iw_rx *rx = &qp->rx;

	while (len) {
		/* whole ones from where they are */
		if (!rx->carry_have && len >= FPDU_LEN) {
			uint32_t size = fpdu_size(iw_get16(p));

			if (len >= size) {
				if (crc_fpdu(qp, p, size))
					return -1;
				p += size;
				len -= size;
				continue;
			}
		}

		uint32_t want = rx->carry_have < FPDU_LEN ? FPDU_LEN :
				fpdu_size(iw_get16(rx->carry));
		uint32_t n = want - rx->carry_have < len ? want - rx->carry_have : len;

		memcpy(rx->carry + rx->carry_have, p, n);
		rx->carry_have += n;
		p += n;
		len -= n;
		if (rx->carry_have > FPDU_LEN && rx->carry_have == want) {
			rx->carry_have = 0;
			if (crc_fpdu(qp, rx->carry, want))
				return -1;
		}
	}
	return 0;
}

int iw_rx_bytes(struct iw_qp *qp, uint8_t *data, uint32_t len)
{
	return qp->crc ? crc_bytes(qp, data, len) : stream_bytes(qp, data, len);
}

/* Where the next bytes are to go: in place as far as that is known, the rest to staging. */
static int aim(struct iw_qp *qp, uint8_t *staging, struct iovec *iov, uint32_t *direct)
{
	struct iw_rx *rx = &qp->rx;
	int n = 0;

	*direct = 0;
	if (!qp->crc && rx->state == IW_RX_PAYLOAD && rx->remain >= BIG / 2) {
		n = iw_rx_place_iov(qp, rx->remain, iov);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			*direct += (uint32_t)iov[i].iov_len;
	} else if (qp->crc && rx->carry_have >= FPDU_LEN) {
		uint32_t left = fpdu_size(iw_get16(rx->carry)) - rx->carry_have;

		if (left >= BIG / 2) {
			iov[n++] = (struct iovec){ rx->carry + rx->carry_have, left };
			*direct = left;
		}
	}
	iov[n++] = (struct iovec){ staging, rx->big && !qp->crc ? BIG_STAGING : IW_STAGING };
	return n;
}

static int took_direct(struct iw_qp *qp, uint32_t n)
{
	struct iw_rx *rx = &qp->rx;

	if (qp->crc) {
		uint32_t size = fpdu_size(iw_get16(rx->carry));

		rx->carry_have += n;
		if (rx->carry_have < size)
			return 0;
		rx->carry_have = 0;
		return crc_fpdu(qp, rx->carry, size);
	}
	iw_rx_placed(qp, n);
	rx->remain -= n;
	end_payload(rx);
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

int iw_rx_run(struct iw_qp *qp, uint8_t *staging)
{
	struct iovec iov[IW_MAX_SGE + 1];
	int total = 0;

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
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			lost(qp, n);
			return -1;
		}
		total += (int)n;

		uint32_t placed = (size_t)n < direct ? (uint32_t)n : direct;

		if (placed && took_direct(qp, placed))
			return -1;
		if ((uint32_t)n > placed && iw_rx_bytes(qp, staging, (uint32_t)n - placed))
			return -1;
		if ((size_t)n < room)
			break;
	}
	if (total)
		atomic_store_explicit(&qp->rx_count,
				      atomic_load_explicit(&qp->rx_count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	return total;
}
