/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving the segments of a Read Response together.  A segment has less than 64 KiB, and one receive for each costs a
 * fifth of the rate of large transfers.  So the sizes of a response's further segments are predicted: as the present
 * one's, and the rest in the last.  One receive then takes the rest of the present payload and, for each further
 * segment, the bytes between two payloads and its payload, in its destination.  IW_TOGETHER segments, counted from the
 * beginning of the response, are the most that our sender keeps together, so no prediction goes beyond such a group.
 *
 * This places bytes whose header is not known yet, so it is only done in memory that is undefined until a READ of this
 * queue pair is complete: the destination of that READ.  If a prediction was wrong, the bytes are copied to the staging
 * buffer and processed from there, and nothing is predicted for the next UNEVEN_READS READs.  Frames other than those of
 * the response may then come out of that memory: a thread or a peer that can write to it can change them, too.
 *
 * Runs under qp->lock, on the thread that polls.
 */
#include "rx.h"

enum { UNEVEN_READS = 64 };

/* The most bytes that may be predicted: what turns out to be beyond the last receive of a shared queue must be kept. */
static uint64_t ahead_most(const struct iw_stream *s)
{
	return s->srq ? (uint64_t)iw_srq_available(s->srq) * RX_BIG : UINT64_MAX;
}

int iw_rx_ahead_aim(const struct iw_stream *s, struct iw_ahead *a, struct iovec *iov)
{
	const struct iw_rx *rx = &s->rx;
	const struct iw_swr *wr;
	uint32_t payload = rx->ulpdu_len + FPDU_LEN - FPDU_TAGGED, from, at;
	uint64_t most;

	a->n = 0;
	if (rx->opcode != RDMAP_READ_RESP || rx->last || rx->uneven)
		return 0;
	wr = iw_sq(s, s->read_next);
	if (wr->num_sge != 1)
		return 0;
	from = at = wr->placed + rx->remain;
	most = ahead_most(s);
	while (a->n < IW_AHEAD && at < wr->len && at / payload % IW_TOGETHER) {
		struct iw_ahead_segment *next = &a->segment[a->n];
		uint32_t gap = fpdu_pad(rx->ulpdu_len) + FPDU_CRC + FPDU_TAGGED;
		enum iw_access access;

		if (payload > wr->len - at)
			payload = wr->len - at;
		if (payload < RX_BIG || at - from + payload > most ||
		    iw_sge_iov(s->pd, iw_sq_sge(s, s->read_next), 1, at, payload, IBV_ACCESS_LOCAL_WRITE,
			       &iov[2 * a->n + 1], &access) != 1)
			break;
		next->part[0] = iov[2 * a->n] = (struct iovec){ next->gap, gap };
		next->part[1] = iov[2 * a->n + 1];
		at += payload;
		a->n++;
	}
	return 2 * (int)a->n;
}

static bool is_as_predicted(const struct iw_stream *s, const struct iovec *payload)
{
	const struct iw_rx *rx = &s->rx;

	return rx->state == IW_RX_PAYLOAD && rx->opcode == RDMAP_READ_RESP && rx->remain == payload->iov_len;
}

/*
 * Move n bytes that were received and not processed to the staging buffer.  The first is at off of this part of segment
 * i; those behind the last segment are in the staging buffer already.
 */
static void fold(struct iw_ahead *a, uint32_t i, unsigned int part, uint32_t off, struct iw_intake *in, uint32_t n)
{
	uint32_t ahead = 0, k;
	uint8_t *to = in->staging;

	for (uint32_t j = i; j < a->n; j++)
		ahead += (uint32_t)(a->segment[j].part[0].iov_len + a->segment[j].part[1].iov_len);
	ahead -= off + (part ? (uint32_t)a->segment[i].part[0].iov_len : 0);
	if (ahead < n)
		memmove(in->staging + ahead, in->staging, n - ahead);
	else
		ahead = n;
	in->left = in->staging;
	in->left_len = n;
	for (; ahead; ahead -= k) {
		const struct iovec *v = &a->segment[i].part[part];

		k = v->iov_len - off < ahead ? (uint32_t)v->iov_len - off : ahead;
		memcpy(to, (const uint8_t *)v->iov_base + off, k);
		to += k;
		off = 0;
		i += part;
		part ^= 1;
	}
}

enum iw_verdict iw_rx_ahead_take(struct iw_stream *s, struct iw_ahead *a, struct iw_intake *in, uint32_t n,
				 struct iw_out *out)
{
	for (uint32_t i = 0; i < a->n && n; i++) {
		const struct iovec *gap = &a->segment[i].part[0], *payload = &a->segment[i].part[1];
		uint32_t k = gap->iov_len < n ? (uint32_t)gap->iov_len : n, used;
		enum iw_verdict v = iw_rx_bytes(s, gap->iov_base, k, &used, out);

		if (v == IW_END)
			return v;
		n -= used;
		/* Today's gaps are shorter than any message, so none of them ends the processing early. */
		if (v || (n && !is_as_predicted(s, payload))) {
			s->rx.uneven = UNEVEN_READS;
			fold(a, i, used == k, used == k ? 0 : used, in, n);
			return v;
		}
		k = payload->iov_len < n ? (uint32_t)payload->iov_len : n;
		if (k && iw_rx_in_place(s, payload, k, out))
			return IW_END;
		n -= k;
	}
	in->left = in->staging;
	in->left_len = n;
	return IW_GO_ON;
}
