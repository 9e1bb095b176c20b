/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs (qp.c), what is posted to them (post.c), and the list of them (numbers.c).
 */
#ifndef NVMF_IWARP_QP_H
#define NVMF_IWARP_QP_H

#include "cq.h"
#include "helper.h"
#include "srq.h"
#include "stream.h"

enum {
	IW_SEGMENT = 61440,		/* largest payload sent in an FPDU where the MSS allows it: 15 pages */
	IW_REASON = 256,
};

enum iw_watch { IW_WATCH_NONE, IW_WATCH_ASLEEP, IW_WATCH_TICK };

struct iw_qp {
	struct ibv_qp qp;

	/* lock: spin */
	iw_spin lock;
	atomic_int state;		/* enum ibv_qp_state; looked at without the lock, too */
	int fd;
	bool crc;
	bool sq_sig_all;
	bool initiator;
	struct ibv_qp_cap cap;
	uint16_t ird, ord;

	struct iw_swr *sq;
	struct ibv_sge *sq_sge;
	uint8_t *sq_inline;
	uint32_t sq_size, sq_head, sq_tx, sq_tail;	/* free running */
	struct iw_srq *srq;		/* if there is one, rq has a single place, filled from it */
	const struct ibv_pd *recv_pd;
	struct iw_rwr *rq;
	struct ibv_sge *rq_sge;
	uint32_t rq_size, rq_head, rq_tail;
	struct iw_irq *irq;
	uint32_t irq_head, irq_tail;	/* free running, modulo IW_MAX_IRD */
	uint32_t reads_out;
	uint32_t read_next;		/* sq index of the oldest READ not answered */
	uint32_t sink_stag;		/* names the sinks of our READs; no memory region has it */
	struct iw_windows windows;

	struct iw_rx rx;
	struct iw_tx tx;
	uint32_t sq_fail_index, rq_fail_index;	/* completes with *_fail_status, not flushed */
	enum ibv_wc_status sq_fail_status, rq_fail_status;
	bool tx_due;			/* receiving made something sendable */
	atomic_uint rx_count;		/* bumped with each receive: tells the helper of traffic */

	/* lock: the end, written once */
	char reason[IW_REASON];
	atomic_bool ended;		/* reason stands, the helper has work to do */
	uint8_t *last_words;		/* rest of a cut FPDU and the TERMINATE */
	uint32_t last_len;

	/* the lock of the SRQ */
	struct iw_srq_place place;

	/* cq->progress of either */
	struct iw_turn turns[2];	/* on the receive CQ, and the send CQ if that is another */

	/* iw_cm_lock (watch.c) */
	struct iw_caller caller;
	struct iw_source source;
	void (*on_end)(struct iw_qp *qp);
	void *owner;			/* of on_end */
	bool reaped;			/* the helper has done what the end leaves to it */
	struct list_link ticking;	/* of the list of those in TICK */
	uint32_t seen_polls, seen_rx;
	atomic_int watch;		/* enum iw_watch; looked at without the lock, too */

	/* iw_numbers.lock */
	struct iw_qp *number_next, **number_prev;
};

static inline struct iw_qp *iw_qp(struct ibv_qp *qp)
{
	return (struct iw_qp *)qp;
}

/* ---- numbers.c ---- */

struct iw_numbers {
	pthread_mutex_t lock;
	struct iw_qp *qps;		/* every queue pair, by number_next, in the order of their numbers */
	/*
	 * Numbers are given in turn, so that one comes back as late as it can, and never while it is
	 * live.  next_at: the link to the first queue pair whose number is not below next.
	 */
	struct iw_qp **next_at;
	uint32_t next, last;
};
extern struct iw_numbers iw_numbers;
/* Give a queue pair its number and enter it; -1 if none is free (ENOMEM). */
int iw_number_give(struct iw_qp *qp);
void iw_number_take(struct iw_qp *qp);

/* ---- qp.c ---- */

struct iw_qp *iw_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void iw_qp_free(struct iw_qp *qp);
int iw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init);
int iw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/* The handshake is over: fd belongs to the queue pair from here on (also if this fails). */
int iw_qp_start(struct iw_qp *qp, int fd, bool crc, bool initiator, unsigned int ird,
		unsigned int ord);
/* Off the epolls of its CQs. */
void iw_qp_detach(struct iw_qp *qp);
/*
 * End the connection, qp->lock held: TERMINATE (unless TERM_NONE) with the offending header copied,
 * flush, error state.  The rest of it (closing in order, the CM event) is the helper's.
 */
void iw_qp_fail(struct iw_qp *qp, uint16_t term, const uint8_t *hdr, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void iw_qp_flush(struct iw_qp *qp);
/* Why it ended, or "". */
const char *iw_qp_reason(struct iw_qp *qp);
/*
 * Receive and send what can be, within bounds that leave time for the others, on behalf of nobody's CQ; qp->lock
 * not held.  Bytes received, 0, or -1 for an ended one.
 */
int iw_qp_progress(struct iw_qp *qp, uint8_t *staging, bool try_only);
/* The CQs' epolls are to tell of the queue pair once more, soon. */
void iw_qp_stir(struct iw_qp *qp);
/* A queue pair that waits for a receive is promised one: whoever polls comes round.  Under srq->lock. */
void iw_qp_wake(struct iw_qp *qp);
/* epoll said that the connection is gone, which a queue pair that receives nothing does not notice. */
void iw_qp_hangup(struct iw_qp *qp);
/* Have the helper look: it ended and is to be reaped, or is stuck with something to send and is to be watched. */
void iw_helper_attention(struct iw_qp *qp);

/* ---- post.c ---- */

int iw_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int iw_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- what is of a lower layer, but has the queue pair for its argument still ---- */

void iw_tx_run(struct iw_qp *qp);
bool iw_tx_pending(const struct iw_qp *qp);
void iw_sq_sweep(struct iw_qp *qp);
uint32_t iw_tx_rest(struct iw_qp *qp, uint8_t *buf);
void iw_wc_send(struct iw_qp *qp, const struct iw_swr *wr, enum ibv_wc_status status);
/* Payload of each FPDU but the last of a message of len bytes, whose headers have hdr_len. */
uint32_t iw_segment(struct iw_qp *qp, uint32_t len, uint32_t hdr_len);

static inline struct iw_swr *iw_sq(const struct iw_qp *qp, uint32_t i)
{
	return &qp->sq[i & (qp->sq_size - 1)];
}

/* Bytes received, -1 for an ended one; more: not all that there was. */
int iw_rx_run(struct iw_qp *qp, uint8_t *staging, bool to_end, bool *more);
/* Feed received bytes; -1 when the connection ended. */
int iw_rx_bytes(struct iw_qp *qp, uint8_t *data, uint32_t len);
/* -1 if the connection ended over it, 1 if there is no receive for it yet: then once more, later. */
int iw_rx_header(struct iw_qp *qp, const uint8_t *hdr, uint32_t hdr_len);
int iw_rx_place_iov(struct iw_qp *qp, uint32_t max, struct iovec *iov);
void iw_rx_placed(struct iw_qp *qp, uint32_t n);
int iw_rx_place(struct iw_qp *qp, const uint8_t *data, uint32_t len);
int iw_rx_place_whole(struct iw_qp *qp, const uint8_t *data, uint32_t len);
int iw_rx_segment_end(struct iw_qp *qp);

#endif
