/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels.  Owns the channel's epoll, which contains an eventfd (readable while events are queued that no
 * thread is about to take) and the epoll of each CQ that is armed: a thread that sleeps on the channel is woken
 * directly by the sockets, without the helper, and receives in get_cq_event.  A CQ that is not armed is removed only
 * when one of its sockets is ready (silent): usually it is armed again by then, which saves a system call.  So a
 * channel that does not block can be readable once without an event.
 *
 * Runs on the application's threads; iw_chan_event on the thread that queued the completion.
 */
#include "chan.h"
#include "util/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
	line_init(&chan->queued);
	chan->pid = getpid();
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

/* Under the lock: wake a sleeping thread for events that no awake thread will take. */
static void chan_tell(struct iw_chan *chan)
{
	uint64_t one = 1;

	if (!chan->queued.head || chan->told || chan->taking[0] || chan->taking[1])
		return;
	chan->told = true;
	(void)!write(chan->evfd, &one, sizeof(one));
}

void iw_chan_event(struct iw_chan *chan, struct iw_member *m)
{
	iw_lock(&chan->lock);
	if (!m->left && !m->events++) {
		line_push(&chan->queued, &m->queued);
		chan_tell(chan);
	}
	iw_unlock(&chan->lock);
}

/* Remove a member from the line (the caller holds the lock); the eventfd becomes unreadable with the last one. */
static void chan_unqueue(struct iw_chan *chan, struct iw_member *m)
{
	uint64_t n;

	line_remove(&chan->queued, &m->queued);
	if (!chan->queued.head && chan->told) {
		chan->told = false;
		(void)!read(chan->evfd, &n, sizeof(n));
	}
}

int iw_chan_join(struct iw_chan *chan, struct iw_member *m)
{
	/* present from the start, but silent until armed */
	struct epoll_event ev = { .events = 0, .data.ptr = m };

	if (epoll_ctl(chan->ch.fd, EPOLL_CTL_ADD, m->epfd, &ev))
		return -1;
	m->silent = true;
	iw_lock(&chan->lock);
	chan->only = ++chan->nmembers == 1 ? m : NULL;
	iw_unlock(&chan->lock);
	__atomic_fetch_add(&chan->ch.refcnt, 1, __ATOMIC_RELEASE);
	return 0;
}

static void chan_wait(struct iw_chan *chan)
{
	iw_unlock(&chan->lock);
	sched_yield();
	iw_lock(&chan->lock);
}

/*
 * Under the lock: wait for the threads that receive now.  Those that begin meanwhile are counted apart: on a busy
 * channel there may always be some.
 */
static void chan_outwait(struct iw_chan *chan)
{
	if (chan->pid != getpid())	/* the threads of a parent do not exist in a child */
		return;
	while (chan->leaving)
		chan_wait(chan);
	chan->leaving = true;
	chan->now ^= 1;
	while (chan->taking[chan->now ^ 1])
		chan_wait(chan);
	chan->leaving = false;
}

void iw_chan_leave(struct iw_chan *chan, struct iw_member *m)
{
	epoll_ctl(chan->ch.fd, EPOLL_CTL_DEL, m->epfd, NULL);
	iw_lock(&chan->lock);
	chan->nmembers--;
	chan->only = NULL;
	m->left = true;
	if (m->events)
		chan_unqueue(chan, m);
	m->events = 0;
	chan_outwait(chan);	/* these threads may have found the member before */
	iw_unlock(&chan->lock);
	pthread_mutex_lock(&m->cq->mutex);
	while (m->delivered != m->cq->comp_events_completed)
		pthread_cond_wait(&m->cq->cond, &m->cq->mutex);
	pthread_mutex_unlock(&m->cq->mutex);
	__atomic_fetch_sub(&chan->ch.refcnt, 1, __ATOMIC_RELEASE);
}

/* Under the lock. */
static struct iw_member *chan_pop(struct iw_chan *chan)
{
	struct list_link *first = chan->queued.head;

	if (!first)
		return NULL;

	struct iw_member *m = container_of(first, struct iw_member, queued);

	pthread_mutex_lock(&m->cq->mutex);
	m->delivered++;
	pthread_mutex_unlock(&m->cq->mutex);
	if (!--m->events)
		chan_unqueue(chan, m);
	return m;
}

static void chan_listen(struct iw_chan *chan, struct iw_member *m, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = m };

	epoll_ctl(chan->ch.fd, EPOLL_CTL_MOD, m->epfd, &ev);
}

void iw_chan_armed(struct iw_chan *chan, struct iw_member *m)
{
	if (atomic_exchange(&m->silent, false))
		chan_listen(chan, m, EPOLLIN);
}

static void chan_silence(struct iw_chan *chan, struct iw_member *m)
{
	if (m->calls->armed(m) || atomic_load(&m->silent))
		return;
	chan_listen(chan, m, 0);
	atomic_store(&m->silent, true);
	if (m->calls->armed(m))	/* armed meanwhile by a thread that may not have seen it silent */
		iw_chan_armed(chan, m);
}

/* Receive for a CQ whose sockets may be ready. */
static void chan_stir_one(struct iw_chan *chan, struct iw_member *m)
{
	if (m->calls->armed(m))
		m->calls->receive(m);
	else
		chan_silence(chan, m);
}

static void chan_stir(struct iw_chan *chan, struct iw_member *only)
{
	struct epoll_event evs[16];

	if (only) {
		chan_stir_one(chan, only);
		return;
	}

	int n = epoll_wait(chan->ch.fd, evs, 16, 0);

	for (int i = 0; i < n; i++)
		if (evs[i].data.ptr)	/* otherwise it is the eventfd */
			chan_stir_one(chan, evs[i].data.ptr);
}

/* Take an event; if there is none yet, receive first. */
static struct iw_member *chan_take(struct iw_chan *chan)
{
	iw_lock(&chan->lock);

	struct iw_member *m = chan_pop(chan), *only = chan->only;

	if (!m) {
		const unsigned int now = chan->now;

		chan->taking[now]++;
		iw_unlock(&chan->lock);
		chan_stir(chan, only);
		iw_lock(&chan->lock);
		chan->taking[now]--;
		m = chan_pop(chan);
	}
	chan_tell(chan);
	iw_unlock(&chan->lock);
	return m;
}

/* An application that would be blocked by a wakeup without an event must not see it. */
static void chan_made_patient(struct iw_chan *chan, struct iw_member *m)
{
	bool patient = fcntl(chan->ch.fd, F_GETFL) & O_NONBLOCK;

	atomic_store(&chan->patient, patient);
	if (!patient)
		chan_silence(chan, m);
}

int iw_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cqp, void **cq_context)
{
	struct iw_chan *chan = (struct iw_chan *)ch;

	for (;;) {
		int state;

		/* a thread that ended while it receives would keep locks, and iw_chan_leave() would wait for it */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);

		struct iw_member *m = chan_take(chan);

		pthread_setcancelstate(state, &state);
		if (m) {
			if (!atomic_load(&chan->patient))
				chan_made_patient(chan, m);
			*cqp = m->cq;
			*cq_context = m->cq->cq_context;
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
