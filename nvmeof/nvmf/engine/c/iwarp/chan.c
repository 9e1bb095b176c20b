/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels.  Owns the channel's epoll, which holds an eventfd (readable while events are
 * queued that nobody is about to take) and the epoll of each CQ that is armed: a thread that sleeps on the
 * channel is woken by the very sockets, with no helper in between, and receives for itself in
 * get_cq_event.  A CQ that is not armed is taken out when it stirs (silent), not before: mostly it is
 * armed again by then, and that costs no system call.  So a channel that does not block can be readable
 * once without an event.
 * Runs on the application's threads; iw_chan_event on whichever thread queued the completion.
 */
#include "iwarp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ibv_comp_channel *iw_create_comp_channel(struct ibv_context *context)
{
	struct iw_chan *chan = calloc(1, sizeof(*chan));
	struct epoll_event ev = { .events = EPOLLIN };

	if (!chan)
		return NULL;
	chan->ch.context = context;
	chan->ch.fd = epoll_create1(EPOLL_CLOEXEC);
	chan->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (chan->ch.fd < 0 || chan->evfd < 0 ||
	    epoll_ctl(chan->ch.fd, EPOLL_CTL_ADD, chan->evfd, &ev)) {
		int e = errno;

		if (chan->ch.fd >= 0)
			close(chan->ch.fd);
		if (chan->evfd >= 0)
			close(chan->evfd);
		free(chan);
		errno = e;
		return NULL;
	}
	return &chan->ch;
}

int iw_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	struct iw_chan *chan = (struct iw_chan *)ch;

	if (__atomic_load_n(&chan->ch.refcnt, __ATOMIC_ACQUIRE))
		return EBUSY;
	close(chan->evfd);
	close(chan->ch.fd);
	free(chan);
	return 0;
}

void iw_chan_add(struct iw_chan *chan, struct iw_cq *cq, int n)
{
	iw_lock(&chan->lock);
	chan->ncq += (unsigned int)n;
	chan->only = chan->ncq == 1 && n > 0 ? cq : NULL;
	iw_unlock(&chan->lock);
}

/* Under the lock: whoever sleeps is told of events that nobody who is awake will take. */
static void chan_tell(struct iw_chan *chan)
{
	uint64_t one = 1;

	if (!chan->head || chan->told || chan->taking)
		return;
	chan->told = true;
	(void)!write(chan->evfd, &one, sizeof(one));
}

void iw_chan_event(struct iw_chan *chan, struct iw_cq *cq)
{
	iw_lock(&chan->lock);
	if (!cq->events++) {
		cq->next_event = NULL;
		if (chan->tail)
			chan->tail->next_event = cq;
		else
			chan->head = cq;
		chan->tail = cq;
		chan_tell(chan);
	}
	iw_unlock(&chan->lock);
}

/* Take a CQ off the list (the caller holds the lock); the eventfd goes quiet with the last. */
static void unlink_cq(struct iw_chan *chan, struct iw_cq *cq, struct iw_cq *prev)
{
	uint64_t n;

	if (prev)
		prev->next_event = cq->next_event;
	else
		chan->head = cq->next_event;
	if (chan->tail == cq)
		chan->tail = prev;
	if (!chan->head && chan->told) {
		chan->told = false;
		(void)!read(chan->evfd, &n, sizeof(n));
	}
}

void iw_chan_forget(struct iw_chan *chan, struct iw_cq *cq)
{
	iw_lock(&chan->lock);
	if (cq->events) {
		struct iw_cq *prev = NULL;

		for (struct iw_cq *c = chan->head; c != cq; c = c->next_event)
			prev = c;
		unlink_cq(chan, cq, prev);
		cq->events = 0;
	}
	iw_unlock(&chan->lock);
}

/* Under the lock. */
static struct iw_cq *chan_pop(struct iw_chan *chan)
{
	struct iw_cq *cq = chan->head;

	if (cq) {
		pthread_mutex_lock(&cq->cq.mutex);
		cq->delivered++;
		pthread_mutex_unlock(&cq->cq.mutex);
		if (!--cq->events)
			unlink_cq(chan, cq, NULL);
	}
	return cq;
}

static void chan_listen(struct iw_chan *chan, struct iw_cq *cq, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = cq };

	epoll_ctl(chan->ch.fd, EPOLL_CTL_MOD, cq->epfd, &ev);
}

void iw_chan_armed(struct iw_chan *chan, struct iw_cq *cq)
{
	if (atomic_exchange(&cq->silent, false))
		chan_listen(chan, cq, EPOLLIN);
}

static void chan_silence(struct iw_chan *chan, struct iw_cq *cq)
{
	if (iw_cq_armed(cq) || atomic_load(&cq->silent))
		return;
	chan_listen(chan, cq, 0);
	atomic_store(&cq->silent, true);
	if (iw_cq_armed(cq))	/* meanwhile, by somebody who may not have seen it silent */
		iw_chan_armed(chan, cq);
}

/* Receive for a CQ whose sockets may have stirred. */
static void stir_cq(struct iw_chan *chan, struct iw_cq *cq)
{
	if (iw_cq_armed(cq))
		iw_cq_progress(cq, true);
	else
		chan_silence(chan, cq);
}

static void stir(struct iw_chan *chan, struct iw_cq *only)
{
	struct epoll_event evs[16];

	if (only) {
		stir_cq(chan, only);
		return;
	}

	int n = epoll_wait(chan->ch.fd, evs, 16, 0);

	for (int i = 0; i < n; i++)
		if (evs[i].data.ptr)	/* else the eventfd */
			stir_cq(chan, evs[i].data.ptr);
}

/* An event, received for if there is none yet. */
static struct iw_cq *chan_take(struct iw_chan *chan)
{
	iw_lock(&chan->lock);

	struct iw_cq *cq = chan_pop(chan), *only = chan->only;

	if (!cq) {
		chan->taking++;
		iw_unlock(&chan->lock);
		stir(chan, only);
		iw_lock(&chan->lock);
		chan->taking--;
		cq = chan_pop(chan);
	}
	chan_tell(chan);
	iw_unlock(&chan->lock);
	return cq;
}

/* Who would be blocked by a channel that stirs for nothing, is not to see that. */
static void chan_made_patient(struct iw_chan *chan, struct iw_cq *cq)
{
	bool patient = fcntl(chan->ch.fd, F_GETFL) & O_NONBLOCK;

	atomic_store(&chan->patient, patient);
	if (!patient)
		chan_silence(chan, cq);
}

int iw_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cqp, void **cq_context)
{
	struct iw_chan *chan = (struct iw_chan *)ch;

	for (;;) {
		struct iw_cq *cq = chan_take(chan);

		if (cq) {
			if (!atomic_load(&chan->patient))
				chan_made_patient(chan, cq);
			*cqp = &cq->cq;
			*cq_context = cq->cq.cq_context;
			return 0;
		}
		if (fcntl(ch->fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}

		struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };

		if (poll(&pfd, 1, -1) < 0)
			return -1;
	}
}

void iw_ack_cq_events(struct ibv_cq *ibcq, unsigned int nevents)
{
	pthread_mutex_lock(&ibcq->mutex);
	ibcq->comp_events_completed += nevents;
	pthread_cond_broadcast(&ibcq->cond);
	pthread_mutex_unlock(&ibcq->mutex);
}
