/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports that nobody receives from.  A port's socket is in the helper's epoll one-shot.  When it stirs, the helper
 * receives itself unless a completion queue of the port is polled or armed; then it leaves it to the application, and
 * looks again on a coarse timer until there is no traffic.  Runs on the helper, under iw_cm_lock.
 */
#include "port.h"
#include "util/clock.h"
#include "util/fifo.h"

enum { TICK_NS = 5000000 };

static uint64_t next_tick;

static bool watch_attended(struct ro_port *port)
{
	bool attended = false;

	for (struct list_link *link = port->attached.head; link; link = link->next) {
		struct ro_attached *a = container_of(link, struct ro_attached, link);
		uint32_t polls = atomic_load(&a->turn.cq->polls);

		attended |= polls != a->seen_polls;
		a->seen_polls = polls;
	}
	return attended;
}

static bool watch_armed(struct ro_port *port)
{
	for (struct list_link *link = port->attached.head; link; link = link->next)
		if (iw_cq_armed(container_of(link, struct ro_attached, link)->turn.cq))
			return true;
	return false;
}

static void watch_sleep(struct ro_port *port)
{
	port->ticking = false;
	iw_helper_poll(EPOLL_CTL_MOD, port->fd, EPOLLIN | EPOLLONESHOT, &port->source);
}

/* Receive all there is, within bounds; then sleep, if that was all. */
static void watch_serve(struct ro_port *port)
{
	struct iw_visit v = ro_port_visit(port);

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
	if (watch_attended(port) || watch_armed(port)) {
		watch_tick_on(port);
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
