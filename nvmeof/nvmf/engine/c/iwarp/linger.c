/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets whose connection has ended: remaining data is sent, the sending side is closed, and incoming data is read
 * and dropped until the peer closes as well, because closing with unread data would send a reset, which destroys the
 * last data in transit.  Bounded in time and number. Under iw_cm_lock; later work runs on the helper.
 *
 * An orderly end has one danger.  TCP retransmits unacknowledged data without a limit, and a host abandons a
 * connection to send its commands on a different one: a late write of the old connection would replace newer data of
 * the new one.  Therefore nothing is retransmitted after the time limit, nor after a connection was abandoned with
 * outstanding work (iw_cut), nor after the process has died.
 */
#include "helper.h"
#include "util/clock.h"
#include "util/fifo.h"
#include "util/line.h"
#include "capture/capture.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_MS = 1000, LINGER_MAX = 1024, READS = 16 };

struct parting {
	struct iw_source source;
	struct list_link link;
	int fd;
	uint8_t *words;
	uint32_t len, off;
	uint64_t deadline;
};
static struct line lingers = { .tail = &lingers.head };	/* all have the same time limit: the first one expires first */
static unsigned int count;

static struct parting *linger_first(void)
{
	return lingers.head ? container_of(lingers.head, struct parting, link) : NULL;
}

static void linger_done(struct parting *l)
{
	line_remove(&lingers, &l->link);
	count--;
	/* close() is not enough: if a forked child holds the socket as well, the epoll would keep it */
	iw_helper_poll(EPOLL_CTL_DEL, l->fd, 0, NULL);
	close(l->fd);
	free(l->words);
	free(l);
}

/* Returns false when it has ended. */
static bool linger_step(struct parting *l)
{
	uint8_t sink[16384];

	while (l->off < l->len) {
		ssize_t n = send(l->fd, l->words + l->off, l->len - l->off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (capture_on())
			capture_bytes(l->fd, true, l->words + l->off, (size_t)n);
		l->off += (uint32_t)n;
		if (l->off == l->len) {
			if (capture_on())
				capture_end(l->fd, true);
			shutdown(l->fd, SHUT_WR);
			iw_helper_poll(EPOLL_CTL_MOD, l->fd, EPOLLIN, &l->source);
		}
	}
	for (int i = 0; i < READS; i++) {
		ssize_t n = recv(l->fd, sink, sizeof(sink), MSG_DONTWAIT);

		if (capture_on() && n > 0)
			capture_bytes(l->fd, false, sink, (size_t)n);
		if (capture_on() && !n)
			capture_end(l->fd, false);
		if (n == 0)
			return false;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
	}
	return true;
}

static void linger_ready(struct iw_source *source, uint32_t events)
{
	struct parting *l = container_of(source, struct parting, source);

	(void)events;
	if (!linger_step(l))
		linger_done(l);
}

/* Select what close() sends: a reset, or an orderly end. */
static void linger_close_by_reset(int fd, bool reset)
{
	const struct linger how = { .l_onoff = reset };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how));
}

static bool linger_unacknowledged(int fd)
{
	int left = 0;

	return !ioctl(fd, SIOCOUTQ, &left) && left;
}

/* Close the socket, and limit the time for which the kernel retransmits what remains. */
static void linger_leave(int fd)
{
	const int ms = LINGER_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	close(fd);
}

void iw_linger(int fd, uint8_t *words, uint32_t len)
{
	struct parting *l = count < LINGER_MAX ? calloc(1, sizeof(*l)) : NULL;

	linger_close_by_reset(fd, false);
	if (!len) {
		if (capture_on())
			capture_end(fd, true);
		shutdown(fd, SHUT_WR);
	}
	if (l)
		l->source.ready = linger_ready;
	if (!l || iw_helper_poll(EPOLL_CTL_ADD, fd, len ? EPOLLOUT : EPOLLIN, &l->source)) {
		if (len)
			(void)!send(fd, words, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		linger_leave(fd);
		free(words);
		free(l);
		return;
	}
	l->fd = fd;
	l->words = words;
	l->len = len;
	l->deadline = clock_ns() + LINGER_MS * 1000000ull;
	line_push(&lingers, &l->link);
	count++;
	if (!linger_step(l))
		linger_done(l);
	else
		iw_helper_kick();	/* there is a new deadline */
}

void iw_cut(int fd)
{
	if (!linger_unacknowledged(fd)) {
		iw_linger(fd, NULL, 0);
		return;
	}
	linger_close_by_reset(fd, true);
	close(fd);
}

void iw_reset_unless_lingering(int fd)
{
	linger_close_by_reset(fd, true);
}

bool iw_lingering(void)
{
	return lingers.head;
}

uint64_t iw_linger_expire(uint64_t now)
{
	struct parting *l;

	while ((l = linger_first()) && l->deadline <= now) {
		linger_close_by_reset(l->fd, linger_unacknowledged(l->fd));
		linger_done(l);
	}
	return l ? l->deadline : 0;
}

/* In a child: these belong to the parent. */
void iw_linger_forked(void)
{
	for (struct parting *l; (l = linger_first());) {
		line_remove(&lingers, &l->link);
		close(l->fd);
		free(l->words);
		free(l);
	}
	count = 0;
}
