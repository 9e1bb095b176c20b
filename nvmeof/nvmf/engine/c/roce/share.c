/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sharing an address among processes: see share.h.  A joining process waits for a member's helper, and meanwhile
 * answers processes that join its own addresses: otherwise two processes could wait for each other.  Under iw_cm_lock.
 */
#include "port.h"
#include "steer.h"
#include "util/clock.h"
#include "util/fifo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

enum { TRIES = 1000, NAP_MS = 1, STALE = 100000, GIVEN = RO_TAGS + 2 };
#define PATIENCE_NS 5000000000ull
#define MAGIC 0x4e52530100000000ull	/* with the founder's tag added; a different layout gets a different number */

/* ---- giving ---- */

static void share_shut(struct ro_share *s)
{
	for (uint32_t i = RO_TAGS; i-- > 0;) {	/* the last first, because closing one moves the last into its place */
		if (s->fds[i] >= 0 && s->fds[i] != s->port->fd)
			close(s->fds[i]);
		s->fds[i] = -1;
	}
	if (s->shared)
		munmap(s->table, sizeof(*s->table));
	else
		free(s->table);
	s->table = NULL;
	if (s->memory >= 0)
		close(s->memory);
	s->memory = -1;
	s->shared = false;
}

static struct ro_services *table_map(int memory)
{
	void *at = mmap(NULL, sizeof(struct ro_services), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Open a socket for each tag. */
static bool share_grow(struct ro_share *s)
{
	struct ro_services *table = NULL;
	int one = 1;
	uint32_t i = 1;

	s->memory = memfd_create("nvmf-roce", MFD_CLOEXEC);
	if (s->memory >= 0 && !ftruncate(s->memory, sizeof(*table)))
		table = table_map(s->memory);
	s->fds[0] = s->port->fd;
	if (setsockopt(s->port->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		goto fail;
	for (; table && i < RO_TAGS; i++) {
		s->fds[i] = ro_port_socket(&s->port->addr, true);
		if (s->fds[i] < 0)
			goto fail;
	}
	if (!table)
		goto fail;
	*table = *s->table;
	free(s->table);
	s->table = table;
	s->shared = true;
	s->port->tag = ro_tag();
	atomic_store(&s->port->shared, true);
	ro_services_join(s, true);
	return true;
fail:
	while (i-- > 1) {
		close(s->fds[i]);
		s->fds[i] = -1;
	}
	if (table)
		munmap(table, sizeof(*table));
	if (s->memory >= 0)
		close(s->memory);
	s->memory = -1;
	return false;
}

static bool same_user(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid();
}

/* Pass a joining process the descriptors that it needs, or none if that fails. */
static void share_give(struct ro_share *s, int to)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(GIVEN * sizeof(int))] = { 0 };
	uint64_t hello = MAGIC | s->founder;
	struct iovec iov = { &hello, sizeof(hello) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	int fds[GIVEN];

	if (s->shared || share_grow(s)) {
		memcpy(fds, s->fds, sizeof(s->fds));
		fds[RO_TAGS] = s->listener;
		fds[RO_TAGS + 1] = s->memory;
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
	}
	(void)sendmsg(to, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void share_answer(struct ro_share *s)
{
	const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;		/* another member was faster */
	if (same_user(fd))
		share_give(s, fd);
	close(fd);
}

static void share_stirred(struct iw_source *source, uint32_t events)
{
	(void)events;
	share_answer(container_of(source, struct ro_share, source));
}

/* ---- founding and joining ---- */

static uint32_t share_name(struct sockaddr_un *un, const union ro_addr *a)
{
	char what[INET6_ADDRSTRLEN + 16], text[INET6_ADDRSTRLEN];
	const bool six = a->sa.sa_family == AF_INET6;

	inet_ntop(a->sa.sa_family, six ? (const void *)&a->in6.sin6_addr : &a->in.sin_addr, text, sizeof(text));
	if (six && a->in6.sin6_scope_id)
		snprintf(what, sizeof(what), "%s%%%u", text, (unsigned int)a->in6.sin6_scope_id);
	else
		snprintf(what, sizeof(what), "%s", text);
	return ro_name(un, what);
}

static int share_alone(struct ro_port *port)
{
	port->fd = ro_port_socket(&port->addr, false);
	return port->fd < 0 ? -1 : 0;
}

static int share_watch(struct ro_share *s)
{
	s->source.ready = share_stirred;
	if (iw_helper_poll(EPOLL_CTL_ADD, s->listener, EPOLLIN, &s->source))
		return -1;
	s->polled = true;
	return 0;
}

/* Returns 0: the port is open; -1 with errno; 1: there is a founder. */
static int share_found(struct ro_port *port, struct ro_share *s)
{
	struct sockaddr_un un;
	const uint32_t len = share_name(&un, &port->addr);

	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listener < 0)
		return -1;
	if (bind(s->listener, (struct sockaddr *)&un, len))
		return errno == EADDRINUSE ? 1 : -1;
	s->founder = ro_tag();
	s->table = calloc(1, sizeof(*s->table));
	if (!s->table)
		return -1;
	s->table->others = ro_tag();
	if (share_alone(port) || listen(s->listener, SOMAXCONN) || share_watch(s))
		return -1;
	return 0;
}

static bool share_await(int fd)
{
	const uint64_t end = clock_ns() + PATIENCE_NS;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	while (poll(&pfd, 1, NAP_MS) <= 0) {
		for (struct list_link *link = ro_ports.head; link; link = link->next) {
			struct ro_share *other = container_of(link, struct ro_port, link)->share;

			if (other)
				share_answer(other);
		}
		if (clock_ns() > end)
			return false;
	}
	return true;
}

/* Receive the descriptors from a member: their number, or -1. */
static int share_receive(int fd, uint64_t *hello, int fds[GIVEN])
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(GIVEN * sizeof(int))];
	struct iovec iov = { hello, sizeof(*hello) };
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	const ssize_t n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	int given = 0;

	if (n != (ssize_t)sizeof(*hello))
		return -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		given = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), (size_t)given * sizeof(int));
	}
	return given;
}

static void share_drain(int fd)
{
	uint8_t byte;

	for (int i = 0; i < STALE && recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0; i++)
		;
}

/* Returns 0: the port is open; -1 with errno; 1: the founder has just ended. */
static int share_take(struct ro_port *port, struct ro_share *s, int fd)
{
	uint64_t hello = 0;
	int fds[GIVEN] = { 0 }, n;

	if (!share_await(fd)) {
		errno = EADDRINUSE;
		return -1;
	}
	n = share_receive(fd, &hello, fds);
	if (n < 0)
		return 1;
	if (n == GIVEN && hello / RO_TAGS == MAGIC / RO_TAGS)
		s->table = table_map(fds[RO_TAGS + 1]);
	if (!s->table) {
		while (n > 0)
			close(fds[--n]);
		errno = EADDRINUSE;
		return -1;
	}
	s->founder = (uint32_t)hello % RO_TAGS;
	memcpy(s->fds, fds, sizeof(s->fds));
	close(s->listener);
	s->listener = fds[RO_TAGS];
	s->memory = fds[RO_TAGS + 1];
	s->shared = true;
	port->tag = ro_tag();
	port->fd = s->fds[port->tag ^ s->founder];
	atomic_store(&port->shared, true);
	share_drain(port->fd);
	ro_services_join(s, false);
	return share_watch(s);
}

static int share_join(struct ro_port *port, struct ro_share *s)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un;
	const uint32_t len = share_name(&un, &port->addr);
	int rc = 1;

	if (fd < 0)
		return -1;
	if (!connect(fd, (struct sockaddr *)&un, len)) {
		if (same_user(fd)) {
			rc = share_take(port, s, fd);
		} else {	/* it has the name, but perhaps not the address */
			close(s->listener);
			s->listener = -1;
			rc = share_alone(port);
		}
	}
	close(fd);
	return rc;
}

int ro_share_open(struct ro_port *port)
{
	int rc = 1;

	port->fd = -1;
	if (!ro_tag_owned())
		return share_alone(port);
	for (int i = 0; rc > 0 && i < TRIES; i++) {
		port->share = calloc(1, sizeof(*port->share));
		if (!port->share)
			return -1;
		*port->share = (struct ro_share){ .port = port, .listener = -1, .memory = -1 };
		for (int k = 0; k < RO_TAGS; k++)
			port->share->fds[k] = -1;
		rc = share_found(port, port->share);
		if (rc > 0)
			rc = share_join(port, port->share);
		if (rc || port->share->listener < 0)
			ro_share_close(port);
		if (rc > 0)
			poll(NULL, 0, NAP_MS);	/* the founder is just starting, or ending */
	}
	if (rc > 0)
		errno = EADDRINUSE;
	return rc ? -1 : 0;
}

void ro_share_close(struct ro_port *port)
{
	struct ro_share *s = port->share;
	const int e = errno;

	if (s) {
		if (s->polled)
			iw_helper_poll(EPOLL_CTL_DEL, s->listener, 0, NULL);
		ro_services_leave(s);
		share_shut(s);
	}
	if (port->fd >= 0 && (!s || s->listener >= 0)) {
		close(port->fd);
		port->fd = -1;
	}
	if (s && s->listener >= 0)
		close(s->listener);	/* after the sockets: a process that finds the name free finds the address free */
	free(s);
	port->share = NULL;
	errno = e;
}

void ro_share_forked(struct ro_port *port)
{
	struct ro_share *s = port->share;

	if (s) {
		share_shut(s);
		close(s->listener);
	}
	free(s);
	port->share = NULL;
	if (port->fd >= 0)
		close(port->fd);
	port->fd = -1;
}

void ro_share_strayed(struct ro_port *port)
{
	int none = 0;

	for (uint32_t i = 0; i < RO_TAGS; i++)
		(void)setsockopt(port->share->fds[i], IPPROTO_UDP, UDP_GRO, &none, sizeof(none));
}
