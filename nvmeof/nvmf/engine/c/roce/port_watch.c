/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects the thread that receives from a port.
 *
 * Completion queues visit the port when they are polled.  The watcher is an armed queue: a queue that is armed becomes
 * the watcher if there is none, or if the present one is not armed.  A thread that polls, and receives several times, ends
 * the watch of a different thread, which each packet would wake; when it arms a queue, that becomes the watcher.  If
 * the queue is destroyed instead, or is not polled again, a different watcher is chosen.
 *
 * A thread may leave one queue armed while it polls another, as that of its sends, and sleep again without arming any.
 * So it never ends the watch of a queue that it has armed itself, nor any while it polls one that is armed; and one
 * that is polled while it is armed becomes the watcher, unless the present one is armed.
 *
 * The port's socket is also in the helper's epoll, one-shot.  When the socket is ready, the helper receives itself
 * unless the port is visited or the watcher is armed; then it leaves the port to the application, and checks again on
 * a coarse timer until there is no traffic.  So packets wait for a tick or two if the thread that polls or watches
 * does something else.
 *
 * Each packet notifies every epoll that contains the socket, and those in which these are nested, on the processor of the
 * sender: over loopback that took a sixth of each send.  So while a thread polls and receives, no epoll contains it: the
 * helper removes it from its own when it leaves the port to the application, and a watcher that is not armed ends its watch
 * after some polls.
 *
 * Visits and arming run on the application's threads, the rest on the helper, under iw_cm_lock.
 */
#include "port.h"
#include "util/clock.h"
#include "util/fifo.h"

enum {
	TICK_NS = 5000000,
	POLLS = 64,		/* that receive, until a watch costs more than to begin it again */
	RECEIPTS = 8,		/* of a thread that polls, until it ends the watch of another */
};

/* A thread; its address also tells it from others. */
static _Thread_local struct {
	unsigned int receipts;	/* since it armed a queue, or polled one that was armed */
} self;

static uint64_t next_tick;

/* ---- the watcher; under watch_lock ---- */

static void watch_epoll(struct ro_port *port, int op)
{
	struct ro_attached *watcher = atomic_load_explicit(&port->watcher, memory_order_relaxed);
	struct epoll_event ev = { .events = EPOLLIN | (int)EPOLLET };

	if (port->loud)
		ev.events |= EPOLLOUT;
	if (watcher && epoll_ctl(watcher->steady.cq->epfd, op, port->fd, &ev) && op != EPOLL_CTL_DEL)
		atomic_store(&port->watcher, NULL);	/* no memory: the helper receives */
}

static void watch_move(struct ro_port *port, struct ro_attached *to)
{
	watch_epoll(port, EPOLL_CTL_DEL);
	atomic_store(&port->watcher, to);
	port->loud = false;
	watch_epoll(port, EPOLL_CTL_ADD);
}

static bool watch_armed(const struct ro_port *port)
{
	const struct ro_attached *watcher = atomic_load_explicit(&port->watcher, memory_order_relaxed);

	return watcher && iw_cq_armed(watcher->steady.cq);
}

/* On the helper, which alone changes the list: make an armed queue the watcher, unless there is a watcher. */
static void watch_appoint(struct ro_port *port)
{
	struct list_link *link = port->attached.head;

	if (atomic_load_explicit(&port->watcher, memory_order_relaxed))
		return;
	while (link && !iw_cq_armed(container_of(link, struct ro_attached, link)->steady.cq))
		link = link->next;
	if (link)
		watch_move(port, container_of(link, struct ro_attached, link));
}

/* A queue was polled, and received: end the watch if that is worth while. */
static void watch_received(struct ro_port *port, struct ro_attached *a)
{
	const struct ro_attached *watcher;
	bool end;

	self.receipts++;
	watcher = atomic_load_explicit(&port->watcher, memory_order_relaxed);
	if (!watcher || (watcher == a && ++a->polls < POLLS))
		return;
	iw_lock(&port->watch_lock);
	watcher = atomic_load_explicit(&port->watcher, memory_order_relaxed);
	end = !watch_armed(port) ||
	      (watcher != a && watcher->thread != &self && self.receipts >= RECEIPTS);
	if (end)
		watch_move(port, NULL);
	iw_unlock(&port->watch_lock);
}

/* A queue is polled although it is armed: its thread may sleep next. */
static void watch_waits(struct ro_port *port, struct ro_attached *a)
{
	self.receipts = 0;
	if (atomic_load_explicit(&port->watcher, memory_order_relaxed) == a)
		return;
	iw_lock(&port->watch_lock);
	if (!watch_armed(port)) {
		a->thread = &self;
		watch_move(port, a);
	}
	iw_unlock(&port->watch_lock);
}

static struct iw_visit watch_visit(void *owner, bool polled)
{
	struct ro_attached *a = owner;
	struct ro_port *port = a->port;
	const bool armed = iw_cq_left_armed(a->steady.cq);
	uint32_t visits;
	struct iw_visit v;

	if (polled && armed)
		watch_waits(port, a);
	/*
	 * A different queue received for this one since its last turn.  So a thread that polls several, as one for sends and
	 * one for receives, asks the socket once, and posts its answers before it asks again.
	 */
	visits = atomic_load_explicit(&port->visits, memory_order_relaxed);
	if (polled && visits != a->seen) {
		a->seen = visits;
		return (struct iw_visit){ .more = atomic_load_explicit(&port->left, memory_order_relaxed) };
	}
	/* an armed queue may be the last to visit for a while */
	v = ro_port_visit(port, polled && !armed);
	atomic_store_explicit(&port->left, v.more, memory_order_relaxed);
	a->seen = atomic_fetch_add_explicit(&port->visits, 1, memory_order_relaxed) + 1;
	if (polled && v.bytes)
		watch_received(port, a);
	return v;
}

static void watch_nap(void *owner, bool more)
{
	struct ro_attached *a = owner;
	struct ro_port *port = a->port;

	ro_port_release(port);
	a->polls = self.receipts = 0;
	iw_lock(&port->watch_lock);
	a->thread = &self;
	if (atomic_load_explicit(&port->watcher, memory_order_relaxed) != a && !watch_armed(port))
		watch_move(port, a);
	if (more || port->loud) {	/* setting the events again reports a socket that is ready already */
		port->loud = more && atomic_load_explicit(&port->unsent, memory_order_relaxed);
		watch_epoll(port, EPOLL_CTL_MOD);
	}
	iw_unlock(&port->watch_lock);
}

const struct iw_steady_calls ro_watch_calls = { watch_visit, watch_nap };

void ro_watch_leave(struct ro_attached *a)
{
	struct ro_port *port = a->port;

	iw_lock(&port->watch_lock);
	if (atomic_load_explicit(&port->watcher, memory_order_relaxed) == a)
		watch_move(port, NULL);
	watch_appoint(port);
	iw_unlock(&port->watch_lock);
}

/* ---- the helper ---- */

static bool watch_attended(struct ro_port *port)
{
	const uint32_t visits = atomic_load(&port->visits);
	const bool attended = visits != port->seen_visits;

	port->seen_visits = visits;
	return attended;
}

static bool watch_awaited(struct ro_port *port)
{
	bool armed;

	iw_lock(&port->watch_lock);
	armed = watch_armed(port);
	iw_unlock(&port->watch_lock);
	return armed;
}

/* Have the helper called when the socket is ready; without memory for that it keeps checking on the timer. */
static void watch_sleep(struct ro_port *port)
{
	const int op = port->polled ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	port->polled = !iw_helper_poll(op, port->fd, EPOLLIN | EPOLLONESHOT, &port->source);
	port->ticking = !port->polled;
}

/* The port is left to the application until it is quiet for a tick, or nobody visits it. */
static void watch_hush(struct ro_port *port)
{
	if (port->polled)
		iw_helper_poll(EPOLL_CTL_DEL, port->fd, 0, NULL);
	port->polled = false;
}

/* Receive all there is, within bounds; then sleep, if that was all. */
static void watch_serve(struct ro_port *port)
{
	struct iw_visit v;

	iw_lock(&port->watch_lock);
	watch_appoint(port);
	iw_unlock(&port->watch_lock);
	v = ro_port_visit(port, false);
	if (!v.more)
		watch_sleep(port);
}

static void watch_tick_on(struct ro_port *port)
{
	if (!port->ticking)
		next_tick = clock_ns() + TICK_NS;
	port->ticking = true;
	port->seen_rx = atomic_load(&port->rx_count);
}

static void watch_stirred(struct iw_source *source, uint32_t events)
{
	struct ro_port *port = container_of(source, struct ro_port, source);

	(void)events;
	if (watch_attended(port) || watch_awaited(port)) {
		watch_tick_on(port);
		watch_hush(port);
		return;
	}
	watch_tick_on(port);
	watch_serve(port);
}

int ro_port_watch(struct ro_port *port)
{
	port->source.ready = watch_stirred;
	if (iw_helper_poll(EPOLL_CTL_ADD, port->fd, EPOLLIN | EPOLLONESHOT, &port->source))
		return -1;
	port->polled = true;
	return 0;
}

void ro_port_unwatch(struct ro_port *port)
{
	if (port->polled)
		iw_helper_poll(EPOLL_CTL_DEL, port->fd, 0, NULL);
	port->polled = port->ticking = false;
}

uint64_t ro_ports_expire(uint64_t now)
{
	bool ticking = false;

	if (next_tick && next_tick <= now) {
		for (struct list_link *link = ro_ports.head; link; link = link->next) {
			struct ro_port *port = container_of(link, struct ro_port, link);
			uint32_t rx = atomic_load(&port->rx_count);

			if (!port->ticking)
				continue;
			if (!watch_attended(port))
				watch_serve(port);
			else if (rx == port->seen_rx)
				watch_sleep(port);
			else
				watch_hush(port);
			port->seen_rx = rx;
		}
		next_tick = now + TICK_NS;
	}
	for (struct list_link *link = ro_ports.head; link; link = link->next)
		ticking |= container_of(link, struct ro_port, link)->ticking;
	if (!ticking)
		next_tick = 0;
	return next_tick;
}
