/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues (cq.c), and whom they receive for (turn.c): a turn is the place of a socket's owner among those
 * of a completion queue.  The queue does not know who the owner is: it is visited by the calls that the turn has.
 *
 * Locks, in the order in which they nest: progress, then the owner's own, then ring_lock and the channel's.
 */
#ifndef NVMF_IWARP_CQ_H
#define NVMF_IWARP_CQ_H

#include "chan.h"
#include "sizes.h"

#include <sys/epoll.h>

enum {
	/* that the socket can be written to is added when it was full for the first time */
	IW_TURN_EVENTS = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (int)EPOLLET,
};

/* What came of receiving and sending for an owner. */
struct iw_visit {
	int bytes;			/* received */
	bool more;			/* not all that there was, or somebody else is at it */
	bool ended;
};

struct iw_turn_calls {
	/*
	 * Receive and send what can be, within bounds that leave time for the others.  to_end: a short receive is
	 * not the last.
	 */
	struct iw_visit (*visit)(void *owner, uint8_t *staging, bool to_end);
	/* epoll said that the connection is gone, which an owner that receives nothing does not notice. */
	void (*hangup)(void *owner);
};

struct iw_turn {
	struct iw_cq *cq;
	const struct iw_turn_calls *calls;
	void *owner;

	/* cq->progress */
	int fd;				/* -1: not attached */
	struct list_link link;		/* of the line of those to receive for */
	bool more;			/* there is something to be done; else it may be */
	bool end;			/* epoll spoke of the stream's end: receive until it comes */
	bool hup;
	uint8_t full;			/* visits that brought something, since nap */
	unsigned int misses;		/* visits in a row that brought nothing */
	uint32_t nap;			/* cq->naps then */
};

struct iw_cq {
	struct ibv_cq cq;
	struct iw_member member;	/* of the channel, if there is one */
	int epfd;			/* sockets of the turns attached, edge-triggered */
	atomic_uint polls;		/* tells the helper that somebody is at it */
	atomic_uint users;		/* queue pairs made with it */

	/* ring_lock */
	iw_spin ring_lock;
	atomic_uint head, tail;		/* free running, 0 where empty; looked at without the lock, too */
	uint32_t mask;
	struct ibv_wc *ring;
	enum { IW_DISARMED, IW_ARMED, IW_ARMED_SOLICITED } armed;

	/* progress: spin, usually tried (turn.c) */
	iw_spin progress;
	struct line ready;		/* the turns to receive for */
	unsigned int nready, nmore;	/* of them, surely with something to be done */
	unsigned int nlive, skipped, patience, crowd;
	uint32_t naps;			/* times that it was armed */
	bool rests;			/* armed, and not polled since: the line is empty */
	uint8_t *staging;
	atomic_uint nlive_hint;		/* nlive, for a look without the lock */
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
/* n completions, of which one that failed is alone. */
void iw_cq_push(struct iw_cq *cq, const struct ibv_wc *wc, unsigned int n, bool solicited);
/* A queue pair goes: out with what nobody can make sense of any more. */
void iw_cq_forget(struct iw_cq *cq, uint32_t qp_num);
bool iw_cq_armed(struct iw_cq *cq);

/* Receive for the turns that are ready; ask: also ask epoll, whatever else there is to do. */
void iw_cq_progress(struct iw_cq *cq, bool ask);
/* The CQ was armed: all that is left to do has to stir its epoll, on which somebody may sleep. */
void iw_cq_nap(struct iw_cq *cq);
/* The turn's owner is visited from here on, when there is something on its socket; -1 if it cannot be. */
int iw_turn_attach(struct iw_turn *turn, int fd);
void iw_turn_detach(struct iw_turn *turn);
/* The CQ's epoll is to tell of the turn's socket once more, soon. */
void iw_turn_stir(struct iw_turn *turn, int fd);

#endif
