/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs that no thread polls: the peer's WRITEs and READs must be served even if the application neither polls
 * nor sleeps on a channel.
 *
 * A queue pair that is polled costs almost nothing here.  Its socket is in the helper's epoll, one-shot (ASLEEP).
 * When the socket is ready, the helper checks whether the CQ is polled or armed; if so it leaves the queue pair to
 * the application and checks again on a coarse timer (TICK) until there has been no traffic for a while, otherwise it
 * receives itself.  When there is no traffic, all queue pairs are ASLEEP, and so is the thread.
 *
 * Owns the list of queue pairs in TICK: those that are asleep do not add to the cost of a tick. Runs on the helper,
 * under iw_cm_lock.
 */
#include "watch.h"
#include "stats.h"
#include "util/clock.h"
#include "util/fifo.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum {
	TICK_MIN_MS = 5,
	TICK_MAX_MS = 20,
	/*
	 * Without traffic, for a queue pair that is polled.  Falling asleep and being called again takes three system
	 * calls and a switch of threads, and where hundreds are busy each has a command only every few ticks.
	 */
	REST_NS = 200000000,
};

static struct list ticking;		/* queue pairs in TICK */
static unsigned int tick_ms;
static uint64_t next_tick;
static uint8_t *staging;

static uint32_t watch_polls(const struct iw_qp *qp)
{
	return atomic_load(&iw_cq(qp->qp.send_cq)->polls) +
	       atomic_load(&iw_cq(qp->qp.recv_cq)->polls);
}

static void watch_to_tick(struct iw_qp *qp)
{
	if (atomic_load(&qp->watch) == IW_WATCH_TICK)
		return;
	atomic_store(&qp->watch, IW_WATCH_TICK);
	qp->seen_polls = watch_polls(qp);
	qp->seen_rx = atomic_load(&qp->stream.rx_count);
	qp->seen_ns = clock_ns();
	tick_ms = TICK_MIN_MS;
	if (!ticking.head)
		next_tick = qp->seen_ns + TICK_MIN_MS * 1000000u;
	list_push(&ticking, &qp->ticking);
}

static void watch_to_sleep(struct iw_qp *qp)
{
	uint32_t events = EPOLLONESHOT;

	list_remove(&qp->ticking);
	atomic_store(&qp->watch, IW_WATCH_ASLEEP);
	qp->seen_polls = watch_polls(qp);
	iw_lock(&qp->lock);
	iw_qp_loud(qp);
	/* after the store above: a queue pair that gets stuck from here on calls for attention */
	if (!qp->stream.rx.waits)
		events |= EPOLLIN | EPOLLRDHUP;
	if (qp->stream.tx.blocked)
		events |= EPOLLOUT;
	if (qp->stream.fd >= 0)
		iw_helper_poll(EPOLL_CTL_MOD, qp->stream.fd, events, &qp->source);
	iw_unlock(&qp->lock);
}

static void watch_end(struct iw_qp *qp)
{
	list_remove(&qp->ticking);
	atomic_store(&qp->watch, IW_WATCH_NONE);
	iw_helper_poll(EPOLL_CTL_DEL, qp->stream.fd, 0, NULL);
}

int iw_watch_start(struct iw_qp *qp)
{
	if (iw_helper_poll(EPOLL_CTL_ADD, qp->stream.fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, &qp->source))
		return -1;
	qp->seen_polls = watch_polls(qp);
	atomic_store(&qp->watch, IW_WATCH_ASLEEP);
	return 0;
}

void iw_reap(struct iw_qp *qp)
{
	if (qp->reaped || qp->stream.fd < 0)
		return;
	qp->reaped = true;
	iw_qp_detach(qp);
	watch_end(qp);
	iw_lock(&qp->lock);

	int fd = qp->stream.fd;
	uint8_t *words = qp->last_words;
	bool cut = qp->cut;

	iw_qp_loud(qp);		/* what the peer still sends is dropped: unread, it would make close() send a reset */
	qp->stream.fd = -1;
	qp->last_words = NULL;
	iw_unlock(&qp->lock);
	if (cut)
		iw_cut(fd);
	else
		iw_linger(fd, words, qp->last_len);
}

static void watch_ended(struct iw_qp *qp)
{
	iw_reap(qp);
	qp->on_end(qp);
}

static void watch_serve(struct iw_qp *qp)
{
	iw_stats.helper_served++;
	if (iw_qp_progress(qp, staging, true) < 0)
		watch_ended(qp);
	else
		watch_to_sleep(qp);
}

static void watch_stirred(struct iw_source *source, uint32_t events)
{
	struct iw_qp *qp = container_of(source, struct iw_qp, source);

	if (events & (EPOLLHUP | EPOLLERR))
		iw_qp_hangup(qp);
	if (watch_polls(qp) != qp->seen_polls || iw_cq_armed(iw_cq(qp->qp.recv_cq)) ||
	    iw_cq_armed(iw_cq(qp->qp.send_cq)))
		watch_to_tick(qp);
	else
		watch_serve(qp);
}

static void watch_tick(uint64_t now)
{
	for (struct list_link *link = ticking.head, *next; link; link = next) {
		struct iw_qp *qp = container_of(link, struct iw_qp, ticking);

		next = link->next;
		iw_stats.helper_looks++;

		uint32_t p = watch_polls(qp), rx = atomic_load(&qp->stream.rx_count);

		if (p == qp->seen_polls)
			watch_serve(qp);
		else if (rx != qp->seen_rx || qp->stream.tx.blocked)
			qp->seen_ns = now;
		else if (now - qp->seen_ns >= REST_NS)
			watch_to_sleep(qp);
		qp->seen_polls = p;
		qp->seen_rx = rx;
	}
	next_tick = clock_ns() + tick_ms * 1000000ull;
	if (tick_ms < TICK_MAX_MS)
		tick_ms += TICK_MIN_MS;
}

static void watch_called(struct iw_caller *caller)
{
	struct iw_qp *qp = container_of(caller, struct iw_qp, caller);

	iw_stats.helper_looks++;
	if (atomic_load(&qp->watch) == IW_WATCH_NONE)
		return;
	if (atomic_load(&qp->ended))
		watch_ended(qp);
	else
		watch_to_tick(qp);
}

void iw_watch_init(struct iw_qp *qp, void (*ended)(struct iw_qp *qp))
{
	qp->on_end = ended;
	qp->source.ready = watch_stirred;
	qp->caller.answer = watch_called;
}

uint64_t iw_watch_expire(uint64_t now)
{
	if (ticking.head && next_tick <= now)
		watch_tick(now);
	return ticking.head ? next_tick : 0;
}

int iw_watch_memory(void)
{
	if (!staging)
		staging = malloc(IW_STAGING);
	return staging ? 0 : ENOMEM;
}

void iw_watch_no_memory(void)
{
	free(staging);
	staging = NULL;
}

void iw_watch_forked(void)
{
	ticking.head = NULL;
}
