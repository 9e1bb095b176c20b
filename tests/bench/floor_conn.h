/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor's connections: frames in and out of a polled TCP socket, with data directly to its destination.
 *
 * One thread to a connection.
 */
#ifndef NVMF_FLOOR_CONN_H
#define NVMF_FLOOR_CONN_H

#include "floor_common.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
	REQUEST = 88,		/* SEND frame: 20 + SQE 64 + CRC 4 */
	RESPONSE = 40,		/* SEND frame: 20 + CQE 16 + CRC 4 */
	READ_REQUEST = 52,	/* READ request frame: 48 + CRC 4 */
	TAGGED = 16,		/* header of WRITE and READ response frames */
	CRC = 4,
	SEGMENT = 61440,	/* most data in a frame */
	STORE = 1 << 28,
	STAGING = 256 << 10,
	DIRECT = 8 << 10,	/* this much data and more is received in place */
	BEHIND = 2 << 10,	/* and this much is staged behind it: the next headers, little to copy */
	BATCH = 1 << 20,	/* most bytes to gather for one send: large ones are a third faster */
	IOVS = 512,
	ROUNDS = 4,		/* receives in a row before what they led to is sent */
	ROOM = 16,		/* vectors that one answer may need */
};

static struct {
	bool write, random, capsule, whole;
	size_t block, store;
	unsigned depth;
	double seconds;
} opt;

static atomic_bool stop;

/* The first byte of a frame is its kind, if the receiver cannot know it. */
enum { DATA_FRAME = 0, REQUEST_FRAME = 1, READ_FRAME = 2, RESPONSE_FRAME = 3 };

static const uint8_t request[REQUEST] = { REQUEST_FRAME };
static const uint8_t read_request[READ_REQUEST] = { READ_FRAME };
static const uint8_t response[RESPONSE] = { RESPONSE_FRAME };
static const uint8_t between[CRC + TAGGED];	/* two data frames */
static const uint8_t crc_response[CRC + RESPONSE] = { [CRC] = RESPONSE_FRAME };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- data on its way to where it belongs ---- */

struct landing {
	uint8_t *at;
	size_t left;		/* data still to come */
	size_t segment;		/* of it, in this frame */
	size_t skip;		/* framing before it, or after the last of it */
	size_t trailer;		/* framing after the last of it */
};

static void land_begin(struct landing *l, uint8_t *at, size_t header, size_t trailer)
{
	*l = (struct landing){
		.at = at,
		.left = opt.block,
		.segment = least(opt.block, SEGMENT),
		.skip = header,
		.trailer = trailer,
	};
}

/* Account for n received bytes, at src or already in place; return how many belonged to this. */
static size_t land(struct landing *l, const uint8_t *src, size_t n)
{
	size_t used = 0;

	while (used < n && (l->skip || l->left)) {
		size_t k = least(l->skip, n - used);

		if (k) {
			l->skip -= k;
			used += k;
			continue;
		}
		k = least(l->segment, n - used);
		if (src)
			memcpy(l->at, src + used, k);
		used += k;
		l->at += k;
		l->left -= k;
		l->segment -= k;
		if (!l->segment) {
			l->segment = least(l->left, SEGMENT);
			l->skip = l->left ? CRC + TAGGED : l->trailer;
		}
	}
	return used;
}

/* Return the destination of the rest of the data. */
static int land_iov(struct landing l, struct iovec *v, int max)
{
	static uint8_t framing[64];
	int n = 0;

	while (n < max && (l.skip || l.left)) {
		v[n].iov_base = l.skip ? framing : l.at;
		v[n].iov_len = l.skip ? l.skip : l.segment;
		land(&l, NULL, v[n++].iov_len);
	}
	return n;
}

/* ---- a connection: bytes in, bytes out in batches ---- */

struct conn {
	int fd;
	uint8_t *staging;
	size_t head, tail;
	struct landing landing;
	struct iovec iov[IOVS];
	int niov;
	size_t queued;
};

static void conn_init(struct conn *c, int fd)
{
	memset(c, 0, sizeof(*c));
	c->fd = fd;
	c->staging = aligned_alloc(4096, STAGING);
	if (!c->staging)
		die("memory");
}

static bool lasting(ssize_t n)
{
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (atomic_load(&stop))
		return false;
	if (n == 0)
		errno = ECONNRESET;
	return true;
}

/* Wait until a good part of the socket's buffer is free: small pieces cost bandwidth. */
static void wait_for_room(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };

	while (poll(&p, 1, 0) == 0 && !atomic_load_explicit(&stop, memory_order_relaxed))
		;
}

static void flush(struct conn *c)
{
	struct iovec *v = c->iov;
	int n = c->niov;

	while (n && !atomic_load_explicit(&stop, memory_order_relaxed)) {
		const struct msghdr msg = { .msg_iov = v, .msg_iovlen = (size_t)n };
		ssize_t sent = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0) {
			if (lasting(sent))
				die("send");
			wait_for_room(c);
			continue;
		}
		for (; n && (size_t)sent >= v->iov_len; n--)
			sent -= (ssize_t)v++->iov_len;
		if (n) {
			v->iov_base = (uint8_t *)v->iov_base + sent;
			v->iov_len -= (size_t)sent;
		}
	}
	c->niov = 0;
	c->queued = 0;
}

/* Bytes to send, which stay where they are until the flush. */
static void put(struct conn *c, const void *p, size_t n)
{
	c->iov[c->niov++] = (struct iovec){ .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	c->queued += n;
}

static void put_frames(struct conn *c, const uint8_t *data)
{
	put(c, between, TAGGED);
	for (size_t left = opt.block; left;) {
		const size_t n = least(left, SEGMENT);

		put(c, data, n);
		data += n;
		left -= n;
		if (left)
			put(c, between, CRC + TAGGED);
	}
}

static void make_room(struct conn *c)
{
	if (c->niov > IOVS - ROOM || c->queued >= BATCH)
		flush(c);
}

/*
 * Receive available data: large data into its destination, the rest into the staging buffer; false if there is none.
 */
static bool receive(struct conn *c)
{
	struct iovec v[ROOM + 1];
	int nv = 0;
	size_t direct = 0;

	if (c->head == c->tail)
		c->head = c->tail = 0;
	if (c->head == c->tail && c->landing.left >= BEHIND) {
		nv = land_iov(c->landing, v, ROOM);
		for (int i = 0; i < nv; i++)
			direct += v[i].iov_len;
	} else if (STAGING - c->tail < STAGING / 2) {
		memmove(c->staging, c->staging + c->head, c->tail - c->head);
		c->tail -= c->head;
		c->head = 0;
	}
	v[nv++] = (struct iovec){
		.iov_base = c->staging + c->tail,
		.iov_len = opt.block >= DIRECT ? BEHIND : STAGING - c->tail,
	};

	struct msghdr msg = { .msg_iov = v, .msg_iovlen = (size_t)nv };
	const ssize_t n = recvmsg(c->fd, &msg, MSG_DONTWAIT);

	if (n <= 0) {
		if (lasting(n))
			die("receive");
		return false;
	}
	direct = least(direct, (size_t)n);
	land(&c->landing, NULL, direct);
	c->tail += (size_t)n - direct;
	return true;
}

/* Return whether all outstanding data has arrived. */
static bool landed(struct conn *c)
{
	c->head += land(&c->landing, c->staging + c->head, c->tail - c->head);
	return !c->landing.left && !c->landing.skip;
}

static size_t staged(const struct conn *c)
{
	return c->tail - c->head;
}

#endif
