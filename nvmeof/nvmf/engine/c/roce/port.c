/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: creating and freeing them.  Owns the list of ports.  Control threads and the helper, under iw_cm_lock. */
#include "port.h"
#include "util/fifo.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SOCKET_BUFFER = 8 << 20,	/* requested */
	ROOM_MIN = 1 << 16,		/* bytes */
	LOOPBACK_TRIES = 16,
};

struct list ro_ports;

int ro_port_socket(const union ro_addr *addr, bool grouped)
{
	int fd = socket(addr->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, whole = IP_PMTUDISC_PROBE, size = SOCKET_BUFFER, ecn = RO_ECN_ECT0, e;

	if (fd < 0)
		return -1;
	/* with CAP_NET_ADMIN, the limits of net.core.rmem_max and wmem_max do not apply */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	/* routers may mark what this socket sends rather than drop it; without these they drop it */
	if (addr->sa.sa_family == AF_INET6) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &ecn, sizeof(ecn));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
	} else {
		(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &ecn, sizeof(ecn));
		(void)setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	}
	/*
	 * Not fragmented, whatever a router has told about the way: anybody can forge that, since both UDP ports are known.
	 * timer.c decides whether it is true.
	 */
	if (addr->sa.sa_family == AF_INET6) {
		/* rxe sends no UDP checksum */
		(void)setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &one, sizeof(one));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &whole, sizeof(whole));
	} else if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole))) {
		goto fail;	/* without it the identification is not known, and the ICRC is wrong */
	}
	if (grouped)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (!bind(fd, &addr->sa, ro_addr_len(addr)))
		return fd;
fail:
	e = errno;
	close(fd);
	errno = e;
	return -1;
}

static void port_answer(struct iw_caller *caller)
{
	struct ro_port *port = container_of(caller, struct ro_port, caller);

	port->calls->cm(port);
}

static void port_free(struct ro_port *port)
{
	int e = errno;

	ro_share_close(port);
	free(port->buffer);
	free(port->cm);
	free(port);
	errno = e;
}

/*
 * The bytes of data that the socket can hold while no thread receives.  The kernel counts the memory of packets, which may
 * be a page or two for each that a network card has received.
 */
static uint32_t port_room(const struct ro_port *port)
{
	const int share = ro_addr_loopback(&port->addr) ? 2 : 4;
	socklen_t len = sizeof(int);
	int size = 0;

	(void)getsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	return size / share > ROOM_MIN ? (uint32_t)(size / share) : ROOM_MIN;
}

static struct ro_port *port_new(const union ro_addr *addr, const struct ro_port_calls *calls)
{
	struct ro_port *port = calloc(1, sizeof(*port));
	socklen_t len = sizeof(int);
	int segment;

	if (!port)
		return NULL;
	port->addr = *addr;
	if (addr->sa.sa_family == AF_INET)
		port->addr.in.sin_port = htons(RO_UDP_PORT);
	else
		port->addr.in6.sin6_port = htons(RO_UDP_PORT);
	port->fd = -1;
	port->buffer = malloc((size_t)RO_BATCH * RO_DATAGRAM);
	port->cm = malloc(RO_CM_QUEUE * sizeof(*port->cm));
	port->calls = calls;
	port->caller.answer = port_answer;
	line_init(&port->line);
	if (!port->buffer || !port->cm || ro_share_open(port) || ro_port_watch(port)) {
		port_free(port);
		return NULL;
	}
	ro_inbox_open(port);
	port->mtu = ro_interface_mtu(port->fd, addr);
	port->room = port_room(port);
	atomic_store(&port->gso, !getsockopt(port->fd, IPPROTO_UDP, UDP_SEGMENT, &segment, &len));
	port->users = 1;
	list_push(&ro_ports, &port->link);
	return port;
}

struct ro_port *ro_port_get(const union ro_addr *addr, const struct ro_port_calls *calls)
{
	for (struct list_link *link = ro_ports.head; link; link = link->next) {
		struct ro_port *port = container_of(link, struct ro_port, link);

		if (ro_addr_same(&port->addr, addr)) {
			port->users++;
			return port;
		}
	}
	return port_new(addr, calls);
}

struct ro_port *ro_port_loopback(const struct ro_port_calls *calls)
{
	static union ro_addr own;	/* the process's own address, if it has one */

	for (unsigned int i = 0; i < LOOPBACK_TRIES; i++) {
		struct ro_port *port;

		if (!own.in.sin_family)
			own.in = (struct sockaddr_in){
				.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(0x7f400000u | (iw_random32() & 0x3fffffu)),
			};
		port = ro_port_get(&own, calls);
		if (port || errno != EADDRINUSE)
			return port;
		own.in.sin_family = 0;
	}
	errno = EADDRINUSE;
	return NULL;
}

void ro_port_put(struct ro_port *port)
{
	if (--port->users)
		return;
	list_remove(&port->link);
	ro_port_unwatch(port);
	iw_helper_forget(&port->caller);
	port_free(port);
}

/* A completion queue has few ports, and a port may have thousands of completion queues. */
static struct ro_attached *port_find(const struct ro_port *port, const struct iw_cq *cq)
{
	for (struct list_link *link = cq->steady.head; link; link = link->next) {
		struct ro_attached *a = container_of(link, struct ro_attached, steady.link);

		if (a->port == port)
			return a;
	}
	return NULL;
}

int ro_port_attach(struct ro_port *port, struct iw_cq *cq)
{
	struct ro_attached *a = port_find(port, cq);

	if (a) {
		a->users++;
		return 0;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -1;
	a->port = port;
	a->users = 1;
	a->steady = (struct iw_steady){ .cq = cq, .calls = &ro_watch_calls, .owner = a };
	list_push(&port->attached, &a->link);
	iw_steady_attach(&a->steady);
	return 0;
}

void ro_port_detach(struct ro_port *port, struct iw_cq *cq)
{
	struct ro_attached *a = port_find(port, cq);

	if (!a || --a->users)
		return;
	iw_steady_detach(&a->steady);
	list_remove(&a->link);
	ro_watch_leave(a);
	free(a);
}
