/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of a connection: its work queues, and the state of its receiver (rx.c) and sender (tx.c) between calls.
 * Everything is under the lock of the stream's queue pair, unless stated otherwise.
 *
 * The engine does not depend on the queue pair.  It writes completions, and the reason for which a connection has to
 * end, to its caller's struct iw_out, and the caller passes them on when the call returns.
 */
#ifndef NVMF_IWARP_STREAM_H
#define NVMF_IWARP_STREAM_H

#include "sizes.h"
#include "util/stat.h"
#include "srq.h"
#include "wire.h"
#include "work.h"

/* The result of a call to the receiver or the sender. */
enum iw_verdict {
	IW_END = -1,		/* the connection has to end: out->end */
	IW_GO_ON = 0,
	IW_WAIT = 1,		/* the receiver waits for a receive, the sender for the socket */
	IW_FULL = 2,		/* the receiver: out is full; call again after passing it on */
};

/* Why a connection has to end. */
struct iw_end {
	uint16_t term;			/* the TERMINATE to be sent, or TERM_NONE */
	bool has_hdr;
	uint8_t hdr[FPDU_HDR_MAX];	/* the header at fault */
	char why[112];			/* "" if the TERMINATE explains it */
};

enum {
	IW_OUT_WCS = 32,
	IW_SEGMENT = 61440,		/* largest payload of a sent FPDU if the MSS allows it: 15 pages */
	IW_TOGETHER = 4,		/* segments of a message that are sent, and can be received, together */
};

/* The results of a call for its caller; wc[n] and end are not initialised. */
struct iw_out {
	unsigned int n;
	bool solicited;			/* at least one of them is */
	struct ibv_wc wc[IW_OUT_WCS];	/* in the order of completion */
	struct iw_end end;
};

static inline bool iw_out_full(const struct iw_out *out)
{
	return out->n == IW_OUT_WCS;
}

enum iw_rx_state { IW_RX_HEADER, IW_RX_PAYLOAD, IW_RX_TRAILER };

struct iw_rx {
	enum iw_rx_state state;
	uint8_t hdr[FPDU_HDR_MAX];	/* of the FPDU being received, as far as it has arrived */
	uint32_t hdr_have;
	uint32_t ulpdu_len;
	uint32_t remain;		/* payload or trailer still to come */
	uint8_t opcode;
	bool last;
	bool big;			/* recent payloads were large: receive in place */
	bool wide;			/* the socket's receive buffer was enlarged for them */
	uint8_t uneven;			/* READs for which nothing is predicted: see rx_ahead.c */
	bool quiet;			/* the socket reports data only if there is a lot */
	uint8_t small_run;
	uint32_t stag;			/* tagged: destination of the next byte */
	uint64_t to, start;		/* start: of a WRITE's segment */
	uint32_t send_msn, read_msn;	/* expected */
	uint64_t written, read;		/* bytes of the peer's WRITEs and READs */
	uint32_t mo;			/* bytes of the open Send received */
	uint32_t term_have;
	uint8_t term[FPDU_TERM_CTRL + FPDU_HDR_MAX];
	/* CRC on: an FPDU is complete before a byte of it is used, except large ones: see rx_crc.c */
	uint32_t crc;			/* of a large one, so far */
	uint8_t *carry;
	uint32_t carry_have;
	/*
	 * There was no receive for a Send: its header (in hdr) or FPDU (in carry) waits, unless it is complete in the
	 * stash, which holds the data received after it.
	 */
	bool waits, header_waits;
	uint8_t *stash;
	uint32_t stash_off, stash_len;
};

/* A turn of the receiver, which may take several calls.  Initial values: staging, to_end; the rest is 0. */
struct iw_intake {
	uint8_t *staging;
	bool to_end;			/* continue after a short receive */
	bool drained;			/* nothing is left to receive */
	bool goes_on;			/* out was full */
	int rounds;
	int bytes;			/* received */
	uint8_t *left;			/* in staging, received and not processed yet */
	uint32_t left_len;
};

enum iw_kind { IW_TX_SQ, IW_TX_READ_RESP };

struct iw_tx {
	uint32_t off;			/* payload bytes of sq[tx] already in sent FPDUs */
	uint32_t rr_off;		/* the same for irq[irq_head] */
	uint32_t part;			/* bytes of the current FPDU that the socket has taken */
	enum iw_kind kind;		/* of the current FPDU */
	uint32_t send_msn, read_msn;	/* next */
	uint32_t mulpdu, mulpdu_left;	/* largest ULPDU, and messages until it is computed again */
	uint32_t mss;			/* of the connection, at that time; 0: unknown */
	uint32_t seg;			/* bytes since the start of the last segment that ended within a sendmsg */
	bool hold;			/* responder: silent until the first FPDU has come */
	atomic_bool blocked;		/* the socket is full (the helper reads it without the lock) */
	bool watched;			/* the CQs' epolls report when the socket is no longer full */
	bool yielded;			/* blocked although the socket is not full: there will be no edge event */
	/* CRC on: FPDUs are built here, so that the CRC matches the bytes that are sent */
	uint8_t *bounce;
	uint32_t bounce_off, bounce_len;
};

struct iw_stream {
	int fd;
	bool crc;
	uint16_t ird, ord;
	uint32_t qp_num;
	struct ibv_qp_cap cap;
	const struct ibv_pd *pd;

	struct iw_swr *sq;
	struct ibv_sge *sq_sge;
	uint8_t *sq_inline;
	uint32_t sq_size, sq_head, sq_tx, sq_tail;	/* free running */
	struct iw_srq *srq;		/* if set, rq has a single place, filled from it */
	struct iw_srq_place place;	/* under the lock of the SRQ */
	const struct ibv_pd *recv_pd;
	struct iw_rwr *rq;
	struct ibv_sge *rq_sge;
	uint32_t rq_size, rq_head, rq_tail;
	struct iw_irq *irq;
	uint32_t irq_head, irq_tail;	/* free running, modulo IW_MAX_IRD */
	uint32_t reads_out;
	uint32_t read_next;		/* sq index of the oldest READ not answered */
	uint32_t sink_stag;		/* identifies the destinations of our READs; no memory region has it */
	struct iw_windows windows;

	struct iw_rx rx;
	struct iw_tx tx;
	uint32_t sq_fail_index, rq_fail_index;	/* completes with *_fail_status, not flushed */
	enum ibv_wc_status sq_fail_status, rq_fail_status;
	bool tx_due;			/* receiving has produced something to send */
	atomic_uint rx_count;		/* incremented with each receive: shows traffic to the helper */
};

static inline struct iw_swr *iw_sq(const struct iw_stream *s, uint32_t i)
{
	return &s->sq[i & (s->sq_size - 1)];
}

static inline struct ibv_sge *iw_sq_sge(const struct iw_stream *s, uint32_t i)
{
	return s->sq_sge + (size_t)(i & (s->sq_size - 1)) * s->cap.max_send_sge;
}

/* The connection has to end: returns IW_END, with the reason in out. */
enum iw_verdict iw_end(struct iw_out *out, uint16_t term, const uint8_t *hdr, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- the send queue (work.c) ---- */

/* Whether there is completed work to sweep. */
static inline bool iw_sq_done(const struct iw_stream *s)
{
	return s->sq_tail != s->sq_tx && iw_sq(s, s->sq_tail)->done;
}

void iw_ask_mss(struct iw_stream *s);

/* Payload of each FPDU except the last, for a message of len bytes whose headers have hdr_len. */
static inline uint32_t iw_segment(struct iw_stream *s, uint32_t len, uint32_t hdr_len)
{
	if (!s->tx.mulpdu_left)		/* the path may change */
		iw_ask_mss(s);
	else
		s->tx.mulpdu_left--;
	hdr_len -= FPDU_LEN;
	if (s->tx.mulpdu < IW_SEGMENT + hdr_len)
		return s->tx.mulpdu - hdr_len;
	if (len <= IW_SEGMENT)
		return IW_SEGMENT;

	/* equal parts, in whole pages: a last segment of a few bytes would cost as much as a full one */
	uint32_t n = (len + IW_SEGMENT - 1) / IW_SEGMENT;

	return ((len + n - 1) / n + 4095) & ~4095u;
}

struct ibv_wc iw_wc_send(const struct iw_stream *s, const struct iw_swr *wr, enum ibv_wc_status status);
/* Complete finished work, in order, as far as out has room. */
void iw_sq_sweep(struct iw_stream *s, struct iw_out *out);

/* ---- the receiver (rx.c); not for a connection that has ended ---- */

/* Receive for a turn, or continue one that was IW_FULL. */
enum iw_verdict iw_rx_run(struct iw_stream *s, struct iw_intake *in, struct iw_out *out);

/* ---- the sender (tx.c); not for a connection that has ended ---- */

/*
 * Send as much as possible.  The caller sweeps completed work.  IW_WAIT: the socket is full, or it is the turn of
 * others (tx.yielded).
 */
enum iw_verdict iw_tx_run(struct iw_stream *s, struct iw_out *out);
bool iw_tx_pending(const struct iw_stream *s);
/*
 * At the end of the connection: write the rest of an FPDU that the socket has taken in part to buf (FPDU_MAX bytes).
 * Returns its length; UINT32_MAX if it cannot be completed.
 */
uint32_t iw_tx_rest(struct iw_stream *s, uint8_t *buf);

#endif
