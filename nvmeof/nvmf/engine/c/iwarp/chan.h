/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels (chan.c), and the membership of a completion queue in one.  The channel does not depend on
 * completion queues: it uses the functions that the queue passed in, to check whether it is armed and to let it
 * receive.
 */
#ifndef NVMF_IWARP_CHAN_H
#define NVMF_IWARP_CHAN_H

#include "lock.h"
#include "util/line.h"

#include <infiniband/verbs.h>

struct iw_member;

struct iw_member_calls {
	bool (*armed)(struct iw_member *member);
	void (*receive)(struct iw_member *member);	/* for its sockets that are ready */
};

struct iw_chan {
	struct ibv_comp_channel ch;	/* ch.fd is an epoll of evfd and the CQs' epolls */
	int evfd;
	pid_t pid;			/* of the process that created it */
	atomic_bool patient;		/* the application has made it non-blocking */

	/* lock */
	iw_spin lock;
	struct line queued;		/* members with events not yet taken */
	bool told;			/* evfd is readable */
	unsigned int taking[2];		/* threads that receive now, and will check for events afterwards */
	unsigned int now;		/* of taking: where threads that begin are counted */
	bool leaving;			/* a thread waits for the other count to be 0 */
	unsigned int nmembers;
	struct iw_member *only;		/* the member, if there has never been a second one */
};

/* The membership of a completion queue in its channel. */
struct iw_member {
	struct ibv_cq *cq;
	int epfd;			/* of the CQ's sockets */
	const struct iw_member_calls *calls;
	atomic_bool silent;		/* the channel's epoll does not report this member */

	/* chan->lock */
	struct list_link queued;
	unsigned int events;		/* queued on the channel */
	bool left;			/* the CQ is being destroyed: it has no further events */

	/* cq->mutex */
	unsigned int delivered;
};

struct ibv_comp_channel *iw_create_comp_channel(struct ibv_context *context);
int iw_destroy_comp_channel(struct ibv_comp_channel *channel);
int iw_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void iw_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* Add a CQ, silent until it is armed; its cq, epfd and calls are set.  -1 with errno. */
int iw_chan_join(struct iw_chan *chan, struct iw_member *member);
/* Remove a CQ; waits until no thread receives for it, and the events that were taken are acknowledged. */
void iw_chan_leave(struct iw_chan *chan, struct iw_member *member);
void iw_chan_event(struct iw_chan *chan, struct iw_member *member);
void iw_chan_armed(struct iw_chan *chan, struct iw_member *member);

#endif
