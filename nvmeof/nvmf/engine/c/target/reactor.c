/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread that polls the completion queues, the store ring and the mailbox given to it.
 *
 * It spins while there is work and for spin_us afterwards (longer if that saves wakeups), then arms the completion
 * channels, checks once more and sleeps in one epoll: an idle reactor uses no processor.  Other threads reach it only
 * through its mailbox, and write to the eventfd only while it sleeps.
 *
 * No work waits for the completion of a response, and with most devices it arrives after the reactor has gone to sleep:
 * it would cause one more wakeup per command.  So on these devices sends have completion queues of their own, which are
 * armed only if something needs their completions, or if nothing else has woken the reactor for SENDS_CHECK_MS.
 */
#include "target/calls.h"
#include "target/expect.h"
#include "util/pause.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define STORES_FINISH_NS (3 * NS_PER_S)	/* time for stores after the reactor was told to stop */
#define WAKEUP_NS 100000ull	/* a sleep may take this much longer than requested */

enum { EVENTS = 32, LINGER_CHECK_MS = 5, LINES_CHECK_MS = 1, SLOW_CHECK_MS = 250, SENDS_CHECK_MS = 2,
       LONG_SPIN = 20, SHORT_WAITS_MAX = 16 };

/* ---- mailbox ---- */

void reactor_wake(struct reactor *r)
{
	uint64_t one = 1;

	if (atomic_load(&r->sleeping) && atomic_exchange(&r->sleeping, 0))
		(void)!write(r->event_fd, &one, sizeof(one));
}

void reactor_mail(struct reactor *r, struct mail *mail,
		  void (*deliver)(struct reactor *, struct mail *))
{
	mail->deliver = deliver;
	mail->next = atomic_load_explicit(&r->mailbox, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&r->mailbox, &mail->next, mail))
		;
	/*
	 * Both sides are sequentially consistent: the reactor announces that it sleeps and then checks the mailbox;
	 * this function adds mail and then checks whether the reactor sleeps.
	 */
	reactor_wake(r);
}

bool reactor_deliver(struct reactor *r)
{
	struct mail *mail, *next, *oldest = NULL;

	if (!atomic_load_explicit(&r->mailbox, memory_order_relaxed))
		return false;
	for (mail = atomic_exchange(&r->mailbox, NULL); mail; mail = next) {
		next = mail->next;
		mail->next = oldest;
		oldest = mail;
	}
	for (mail = oldest; mail; mail = next) {
		next = mail->next;	/* the function may free the object that contains the mail */
		mail->deliver(r, mail);
	}
	return true;
}

/* ---- one iteration ---- */

static void flush(struct reactor *r)
{
	r->now = 0;
	do {
		struct target_qpair *qp;

		while ((qp = r->marked)) {
			r->marked = qp->mark_next;
			qp->marked = false;
			qpair_flush(qp);
		}
		pool_serve(r);
	} while (r->marked);
}

/* Begin to translate the addresses of a group of completions. */
static void translate(struct reactor *r, int from, int n)
{
	for (int i = from; i < n && i < from + EXPECT_GROUP; i++)
		expect_translation(r, &r->wc[i]);
}

/*
 * Returns whether there were other completions than those of responses, which cause no further work.  If the device has
 * trains, a turn takes what fills one: it is sent while the host and the next turn work, and what is left over for a
 * second one may become more until then.
 */
static bool poll_cq(struct reactor *r, struct reactor_cq *rcq)
{
	const uint32_t train = rcq->device->verbs->train;
	const int most = train ? (int)train : CQ_BATCH;
	int n = ibv_poll_cq(rcq->cq, most, r->wc);
	int news = n;

	translate(r, 0, n);
	for (int i = 0; i < n && i < EXPECT_AHEAD; i++)
		expect_completion(r, &r->wc[i]);
	for (int i = 0; i < n; i++) {
		if (i % EXPECT_GROUP == 0)
			translate(r, i + EXPECT_GROUP, n);
		if (i + EXPECT_AHEAD < n)
			expect_completion(r, &r->wc[i + EXPECT_AHEAD]);
		news -= completion_take(r, &r->wc[i]);
	}
	return news > 0 || n == most;
}

void reactor_drain_cq(struct reactor *r, struct reactor_cq *rcq)
{
	int n;

	do {
		n = ibv_poll_cq(rcq->cq, CQ_BATCH, r->wc);
		for (int i = 0; i < n; i++)
			completion_take(r, &r->wc[i]);
	} while (n == CQ_BATCH);
}

bool reactor_poll(struct reactor *r)
{
	bool work;

	r->now = 0;
	work = reactor_deliver(r);
	for (struct reactor_cq *rcq = r->cqs; rcq; rcq = rcq->next)
		work |= poll_cq(r, rcq);
	if (pool_has_line(r))
		pool_press(r);
	if (r->latching.head)
		latch_serve(r);
	if (r->injected)
		work |= inject_serve(r);
	if (r->limited.head)
		limits_serve(r);
	if (r->halves.head)
		fused_serve(r);
	if (r->lingering.head)
		qpair_linger(r);
	flush(r);
	/* Also submits the operations begun above to the kernel: none is begun after this. */
	if (store_ring_inflight(r->ring) && store_ring_poll(r->ring) > 0) {
		flush(r);
		work = true;
		store_ring_poll(r->ring);
	}
	return work;
}

/* ---- sleeping ---- */

static bool sends_can_wait(const struct reactor *r)
{
	return !r->awaited && !r->waited && !pool_has_line(r) && !r->lingering.head &&
	       !r->latching.head;
}

static void arm(struct reactor *r, bool receives_only)
{
	for (struct reactor_cq *rcq = r->cqs; rcq; rcq = rcq->next) {
		if (rcq->armed || (rcq->sends && receives_only))
			continue;
		rcq->armed = true;
		ibv_req_notify_cq(rcq->cq, 0);
	}
}

static void take_cq_event(struct reactor_cq *rcq)
{
	const struct verbs *verbs = rcq->device->verbs;
	struct ibv_cq *cq;
	void *context;

	/* one event only, because a queue reports one event each time it is armed */
	if (!verbs->get_cq_event(rcq->channel, &cq, &context)) {
		verbs->ack_cq_events(cq, 1);
		rcq->armed = false;
	}
}

/* The longest time it may sleep, given its timed work; -1: without limit. */
static int wait_ms(const struct reactor *r)
{
	if (r->limited.head || r->latching.head)
		return LINES_CHECK_MS;
	if (r->lingering.head)
		return LINGER_CHECK_MS;
	if (r->responses && sends_can_wait(r))
		return SENDS_CHECK_MS;
	return pool_has_line(r) || r->halves.head ? SLOW_CHECK_MS : -1;
}

/* Wait, at most until the next injected delay ends: that may be a few microseconds. */
static int wait_for_events(struct reactor *r, struct epoll_event *events, int timeout)
{
	uint64_t left = r->injected ? inject_left(r) : UINT64_MAX;
	struct timespec until;
	int n;

	if (left == UINT64_MAX || (timeout >= 0 && left >= (uint64_t)timeout * NS_PER_MS))
		return epoll_wait(r->epoll_fd, events, EVENTS, timeout);
	if (left < WAKEUP_NS) {
		sched_yield();
		return 0;
	}
	left -= WAKEUP_NS;
	until.tv_sec = (time_t)(left / NS_PER_S);
	until.tv_nsec = (long)(left % NS_PER_S);
	n = epoll_pwait2(r->epoll_fd, events, EVENTS, &until, NULL);
	return n < 0 && errno != EINTR ? epoll_wait(r->epoll_fd, events, EVENTS, LINES_CHECK_MS) : n;
}

static void sleep_now(struct reactor *r)
{
	struct epoll_event events[EVENTS];
	uint64_t count;
	int timeout = wait_ms(r);
	int n = wait_for_events(r, events, timeout);

	r->now = 0;	/* it may have slept for a long time */
	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr == r)
			(void)!read(r->event_fd, &count, sizeof(count));
		else if (events[i].data.ptr == r->ring)
			store_ring_poll(r->ring);
		else
			take_cq_event(events[i].data.ptr);
	}
	r->waited = !n && timeout == SENDS_CHECK_MS;
}

/* Sleep unless there is work; returns whether there was any. */
static bool doze(struct reactor *r)
{
	bool work = true;

	atomic_store(&r->sleeping, 1);
	if (!atomic_load(&r->mailbox)) {
		bool receives_only = sends_can_wait(r);

		arm(r, receives_only);
		/* a command over a limit may have been begun, and its completion is needed */
		work = reactor_poll(r);
		if (!work && !r->stop && (!receives_only || sends_can_wait(r)))
			sleep_now(r);
	}
	atomic_store(&r->sleeping, 0);
	return work;
}

/*
 * Falling asleep and waking takes longer than a short wait.  So if work has recently arrived mostly a little after
 * spin_ns, as it does from hosts with one command at a time, the reactor spins longer. Meanwhile it yields the
 * processor: the work that it waits for may need this one.
 */
static void note_wait(struct reactor *r, uint64_t waited)
{
	if (waited > r->spin_ns && waited < LONG_SPIN * r->spin_ns)
		r->short_waits += r->short_waits < SHORT_WAITS_MAX;
	else
		r->short_waits -= r->short_waits < 2 ? r->short_waits : 2;
}

static uint64_t patience(const struct reactor *r)
{
	return r->short_waits < SHORT_WAITS_MAX / 2 ? r->spin_ns : LONG_SPIN * r->spin_ns;
}

/*
 * The store operations that have begun are completed here, because only this thread may use its io_uring, and they have
 * buffers of the pool.
 */
static void finish_stores(struct reactor *r)
{
	const uint64_t deadline = clock_ns() + STORES_FINISH_NS;
	struct pollfd fd = { .fd = store_ring_fd(r->ring), .events = POLLIN };

	for (struct list_link *link = r->qpairs.head; link; link = link->next) {
		struct target_qpair *qp = container_of(link, struct target_qpair, reactor_link);

		qp->dead = qp->disconnected = true;
	}
	while (store_ring_inflight(r->ring) && clock_ns() < deadline)
		if (!store_ring_poll(r->ring))
			poll(&fd, 1, 10);
	store_ring_forget_all(r->ring);
}

void *reactor_main(void *arg)
{
	struct reactor *r = arg;
	uint64_t last = clock_ns(), now;	/* last: the time of the last work */
	bool work, waiting = true;

	while (!r->stop) {
		work = reactor_poll(r);
		if (!work && waiting) {
			now = clock_ns();
			if (now - last >= patience(r))
				work = doze(r);
			else if (now - last >= r->spin_ns)
				sched_yield();
			else
				cpu_pause();
		} else if (!work) {
			last = clock_ns();
			waiting = true;
		}
		if (work && waiting) {
			note_wait(r, clock_ns() - last);
			waiting = false;
		}
	}
	finish_stores(r);
	atomic_store(&r->ended, true);
	return NULL;
}

void reactor_add_cq(struct reactor *r, struct reactor_cq *rcq)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = rcq };

	rcq->next = r->cqs;
	r->cqs = rcq;
	epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, rcq->channel->fd, &event);
}

void reactor_remove_cq(struct reactor *r, struct reactor_cq *rcq)
{
	struct reactor_cq **p = &r->cqs;

	while (*p && *p != rcq)
		p = &(*p)->next;
	if (*p)
		*p = rcq->next;
	epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, rcq->channel->fd, NULL);
	take_cq_event(rcq);	/* the event is acknowledged before the queue can be destroyed */
}
