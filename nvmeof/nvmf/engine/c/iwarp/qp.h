/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs (qp.c, qp_visit.c, qp_end.c), posting to them (post.c), and the list of them (numbers.c). */
#ifndef NVMF_IWARP_QP_H
#define NVMF_IWARP_QP_H

#include "cq.h"
#include "helper.h"
#include "stream.h"

enum { IW_REASON = 256 };

enum iw_watch { IW_WATCH_NONE, IW_WATCH_ASLEEP, IW_WATCH_TICK };

struct iw_qp {
	union {
		struct ibv_qp qp;
		struct verbs_qp_head extended;
	};

	bool sq_sig_all;
	bool initiator;

	/* lock: spin */
	iw_spin lock;
	atomic_int state;		/* enum ibv_qp_state; also read without the lock */
	struct iw_stream stream;

	/* lock: the end, written once */
	char reason[IW_REASON];
	atomic_bool ended;		/* reason is set, and the helper has work to do */
	bool cut;			/* abandoned by this side: nothing more is sent */
	uint8_t *last_words;		/* rest of a cut FPDU and the TERMINATE */
	uint32_t last_len;

	/* cq->progress of either */
	struct iw_turn turns[2];	/* on the receive CQ, and on the send CQ if that is a different one */

	/* iw_cm_lock (watch.c); calling needs no lock */
	struct iw_caller caller;
	struct iw_source source;
	void (*on_end)(struct iw_qp *qp);
	void *owner;			/* of on_end */
	bool reaped;			/* the helper has done its part of the end */
	struct list_link ticking;	/* in the list of queue pairs in TICK */
	uint32_t seen_polls, seen_rx;
	uint64_t seen_ns;		/* time of the last traffic, in TICK */
	atomic_int watch;		/* enum iw_watch; also read without the lock */

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
	struct iw_qp *qps;		/* all queue pairs, by number_next, in the order of their numbers */
	/*
	 * Numbers are given in order, so that a number is reused as late as possible, and never while it is in use.
	 * next_at: the link to the first queue pair whose number is not below next.
	 */
	struct iw_qp **next_at;
	uint32_t next, last;
};
extern struct iw_numbers iw_numbers;
/* Give a queue pair its number and add it to the list; -1 if no number is free (ENOMEM). */
int iw_number_give(struct iw_qp *qp);
void iw_number_take(struct iw_qp *qp);

/* ---- qp.c ---- */

static inline int iw_qp_state(const struct iw_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

static inline void iw_qp_set_state(struct iw_qp *qp, enum ibv_qp_state state)
{
	atomic_store(&qp->state, state);
	__atomic_store_n(&qp->qp.state, state, __ATOMIC_RELAXED);
}

struct iw_qp *iw_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void iw_qp_free(struct iw_qp *qp);
int iw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init);
int iw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/* The handshake is over: from here on fd belongs to the queue pair (also if this fails). */
int iw_qp_start(struct iw_qp *qp, int fd, bool crc, bool initiator, unsigned int ird,
		unsigned int ord);
/* Remove it from the epolls of its CQs. */
void iw_qp_detach(struct iw_qp *qp);
/* ---- qp_end.c ---- */

/*
 * End the connection, with qp->lock held: TERMINATE (unless TERM_NONE) with a copy of the header at fault, flush,
 * error state.  The helper does the rest (closing in order, the CM event).
 */
void iw_qp_fail(struct iw_qp *qp, uint16_t term, const uint8_t *hdr, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void iw_qp_flush(struct iw_qp *qp);
/* Why it ended, or "". */
const char *iw_qp_reason(struct iw_qp *qp);
/* epoll reported the end of the connection, which a queue pair that receives nothing does not notice. */
void iw_qp_hangup(struct iw_qp *qp);

/* ---- qp_visit.c ---- */

extern const struct iw_turn_calls iw_qp_turn_calls;
/*
 * Send as much as possible, and handle the results.  Within a section, with qp->lock held, while the connection is
 * up.
 */
void iw_qp_send(struct iw_qp *qp);
/*
 * Receive and send within bounds that leave time for others, not for a CQ's poll; qp->lock not held.  Returns the
 * bytes received, 0, or -1 if the connection has ended.
 */
int iw_qp_progress(struct iw_qp *qp, uint8_t *staging, bool try_only);
/* From now on the socket reports all data; qp->lock held. */
void iw_qp_loud(struct iw_qp *qp);
/* Make the CQs' epolls report the queue pair again, soon. */
void iw_qp_stir(struct iw_qp *qp);
/* A receive was reserved for a queue pair that waits for one: a polling thread continues it.  Under srq->lock. */
void iw_qp_wake(struct iw_srq_place *place);

/* ---- post.c ---- */

int iw_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int iw_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
