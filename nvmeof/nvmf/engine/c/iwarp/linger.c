/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets whose connection is over: what is still to be said is sent, the sending side is closed, and
 * what the peer still sends is read and dropped until it closes too, since closing with unread data
 * would send a reset that destroys the last words on their way.  Bounded in time and number.
 * Runs on the helper, under iw_cm_lock.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { LINGER_MS = 1000, LINGER_MAX = 1024, READS = 16 };

struct parting {
	struct parting *next, *prev;
	int fd;
	uint8_t *words;
	uint32_t len, off;
	uint64_t deadline;
};
static struct parting *lingers, *newest;	/* all are given as long: the oldest is the first to be over */
static unsigned int count;

static void linger_done(struct parting *l)
{
	*(l->prev ? &l->prev->next : &lingers) = l->next;
	*(l->next ? &l->next->prev : &newest) = l->prev;
	count--;
	/* not left to close(): a forked child may hold the socket too, and the epoll would keep it */
	iw_helper_poll(EPOLL_CTL_DEL, l->fd, 0, NULL, IW_SRC_LINGER);
	close(l->fd);
	free(l->words);
	free(l);
}

/* false when it is over */
static bool linger_step(struct parting *l)
{
	uint8_t sink[16384];

	while (l->off < l->len) {
		ssize_t n = send(l->fd, l->words + l->off, l->len - l->off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		l->off += (uint32_t)n;
		if (l->off == l->len) {
			shutdown(l->fd, SHUT_WR);
			iw_helper_poll(EPOLL_CTL_MOD, l->fd, EPOLLIN, l, IW_SRC_LINGER);
		}
	}
	for (int i = 0; i < READS; i++) {
		ssize_t n = recv(l->fd, sink, sizeof(sink), MSG_DONTWAIT);

		if (n == 0)
			return false;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
	}
	return true;
}

void iw_linger(int fd, uint8_t *words, uint32_t len)
{
	struct parting *l = count < LINGER_MAX ? calloc(1, sizeof(*l)) : NULL;

	if (!len)
		shutdown(fd, SHUT_WR);
	if (!l || iw_helper_poll(EPOLL_CTL_ADD, fd, len ? EPOLLOUT : EPOLLIN, l,
				 IW_SRC_LINGER)) {
		if (len)
			(void)!send(fd, words, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		free(words);
		free(l);
		return;
	}
	l->fd = fd;
	l->words = words;
	l->len = len;
	l->deadline = clock_ns() + LINGER_MS * 1000000ull;
	l->prev = newest;
	*(newest ? &newest->next : &lingers) = l;
	newest = l;
	count++;
	if (!linger_step(l))
		linger_done(l);
	else
		iw_helper_kick();	/* there is a deadline to mind */
}

bool iw_lingering(void)
{
	return lingers;
}

void iw_linger_ready(void *linger)
{
	if (!linger_step(linger))
		linger_done(linger);
}

uint64_t iw_linger_expire(uint64_t now)
{
	while (lingers && lingers->deadline <= now)
		linger_done(lingers);
	return lingers ? lingers->deadline : 0;
}

/* In a child: these are the parent's to finish. */
void iw_linger_forked(void)
{
	for (struct parting *l = lingers, *next; l; l = next) {
		next = l->next;
		close(l->fd);
		free(l->words);
		free(l);
	}
	lingers = newest = NULL;
	count = 0;
}
