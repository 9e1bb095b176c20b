/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues (cq.c), and the owners for which they receive (turn.c): a turn is the place of a socket's owner
 * among those of a completion queue.  The queue does not depend on the owner: it visits it through the functions in
 * the turn.
 *
 * A socket that many completion queues share (steady) has no turn, because it would wake every thread that sleeps on
 * one of them: each of the queues visits its owner at every poll, and the owner decides whose epoll has the socket.
 *
 * Locks, in nesting order: progress, then the owner's own, then ring_lock and the channel's.
 */
#ifndef NVMF_IWARP_CQ_H
#define NVMF_IWARP_CQ_H

#include "chan.h"
#include "sizes.h"
#include "verbs.h"

#include <sys/epoll.h>

enum {
	/* EPOLLOUT events are added when the socket was full for the first time */
	IW_TURN_EVENTS = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (int)EPOLLET,
};

/* The result of receiving and sending for an owner. */
struct iw_visit {
	int bytes;			/* received */
	bool more;			/* there is more to receive, or another thread is receiving */
	bool quiet;			/* the socket reports data only if there is a lot */
	bool ended;
};

struct iw_turn_calls {
	/*
	 * Receive and send within bounds that leave time for the others.  to_end: continue after a short receive.
	 * quiet: until loud() is called, the CQ visits the owner often, so that its socket need not report a little data.
	 */
	struct iw_visit (*visit)(void *owner, uint8_t *staging, bool to_end, bool quiet);
	/* From now on the socket must report all data, also what has arrived already. */
	void (*loud)(void *owner);
	/* epoll reported the end of the connection, which an owner that receives nothing does not notice. */
	void (*hangup)(void *owner);
};

struct iw_turn {
	struct iw_cq *cq;
	const struct iw_turn_calls *calls;
	void *owner;

	/* cq->progress */
	int fd;				/* -1: not attached */
	struct list_link link;		/* in the line of owners to receive for */
	bool more;			/* there is work; if false, there may be some */
	bool end;			/* epoll reported the stream's end: receive until it is reached */
	bool hup;
	bool quiet;			/* the last visit left it so; the helper may have ended that since */
	uint8_t full;			/* visits with a result, since nap */
	unsigned int misses;		/* consecutive visits without a result */
	uint32_t nap;			/* cq->naps at that time */
};

struct iw_steady_calls {
	/* Receive and send; polled: because the application polls, not because the socket was ready. */
	struct iw_visit (*visit)(void *owner, bool polled);
	/* The CQ was armed, and a thread may sleep on its epoll; more: the last visit left something to do. */
	void (*nap)(void *owner, bool more);
};

/* A completion queue's part in a socket that it shares. */
struct iw_steady {
	struct iw_cq *cq;
	const struct iw_steady_calls *calls;
	void *owner;

	/* cq->progress, and the helper */
	struct list_link link;
	bool more;
};

enum iw_armed { IW_DISARMED, IW_ARMED, IW_ARMED_SOLICITED };

struct iw_cq {
	union {
		struct ibv_cq cq;
		struct verbs_cq_head extended;
	};
	struct iw_member member;	/* of the channel, if any */
	int epfd;			/* the sockets of the attached turns, edge-triggered; a shared one with NULL */
	atomic_uint polls;		/* tells the helper that a thread polls */
	atomic_uint users;		/* queue pairs created with it */

	/* ring_lock */
	iw_spin ring_lock;
	atomic_uint head, tail;		/* free running, 0 when empty; also read without the lock */
	uint32_t mask;
	struct ibv_wc *ring;
	_Atomic(enum iw_armed) armed;	/* also read without the lock */

	/* progress: spin, usually tried (turn.c) */
	iw_spin progress;
	struct line ready;		/* the turns to receive for */
	unsigned int nready, nmore;	/* of them, those certain to have work */
	unsigned int nlive, skipped, patience, crowd;
	struct list steady;		/* also read by the helper, which alone changes it */
	uint32_t naps;			/* times that it was armed */
	bool rests;			/* armed, and not polled since: the line is empty */
	uint8_t *staging;
	atomic_uint attached_hint;	/* turns and shared sockets, for reading without the lock */
};

static inline struct iw_cq *iw_cq(struct ibv_cq *cq)
{
	return (struct iw_cq *)cq;
}

struct ibv_cq *iw_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);
int iw_resize_cq(struct ibv_cq *cq, int cqe);
int iw_destroy_cq(struct ibv_cq *cq);
int iw_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc);
int iw_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Add n completions; a failed one is always passed alone. */
void iw_cq_push(struct iw_cq *cq, const struct ibv_wc *wc, unsigned int n, bool solicited);
/* A queue pair is destroyed: remove its completions, which can no longer be attributed. */
void iw_cq_forget(struct iw_cq *cq, uint32_t qp_num);
bool iw_cq_armed(struct iw_cq *cq);
/*
 * The same without the lock: a different thread may have disarmed it just now.  For the thread that arms it, and under
 * progress, which iw_cq_nap() takes after it was armed.
 */
static inline bool iw_cq_left_armed(const struct iw_cq *cq)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed) != IW_DISARMED;
}

/* Receive for the turns that are ready; ask: also query epoll, no matter how much other work there is. */
void iw_cq_progress(struct iw_cq *cq, bool ask);
/* The CQ was armed: all remaining work must trigger its epoll, on which a thread may sleep. */
void iw_cq_nap(struct iw_cq *cq);
/* From now on visit the turn's owner when its socket is ready; -1 on failure. */
int iw_turn_attach(struct iw_turn *turn, int fd);
void iw_turn_detach(struct iw_turn *turn);
/* Make the CQ's epoll report the turn's socket again, soon. */
void iw_turn_stir(struct iw_turn *turn, int fd);
/* From now on visit the owner of a shared socket at every poll; on the helper, as its end. */
void iw_steady_attach(struct iw_steady *steady);
void iw_steady_detach(struct iw_steady *steady);

#endif
