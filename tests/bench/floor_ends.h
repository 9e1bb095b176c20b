/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor's target and host: what each does with the bytes that have arrived.  The bytes of an exchange:
 *
 *   read      88 B request, answered by the data in WRITE frames and a 40 B response
 *   write     88 B request, 52 B READ request, the data in READ response frames, 40 B response;
 *             or, where the data fits a capsule, 88 B and the data, and a 40 B response
 */
#ifndef NVMF_FLOOR_ENDS_H
#define NVMF_FLOOR_ENDS_H

#include "floor_conn.h"
#include "host/histogram.h"
#include "store/store_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

/* ---- the target's side ---- */

struct server {
	struct conn c;
	uint8_t *store;
	uint8_t *part;		/* where a write's data arrives, if it is copied as a whole */
	uint64_t random, next;
	bool landing;		/* a write's data is under way */
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint8_t *place(struct server *s)
{
	const uint64_t slots = opt.store / opt.block;

	return s->store + (opt.random ? next_random(&s->random) : s->next++) % slots * opt.block;
}

static void serve_landing(struct server *s, size_t header, size_t trailer)
{
	land_begin(&s->c.landing, s->part ? s->part : place(s), header, trailer);
	s->landing = true;
}

/* Handle a frame of the client, or its data; false if more must arrive first. */
static bool serve_one(struct server *s)
{
	struct conn *c = &s->c;

	make_room(c);
	if (s->landing) {
		if (!landed(c))
			return false;
		s->landing = false;
		if (s->part)
			store_persist_copy(place(s), s->part, opt.block);
		put(c, response, RESPONSE);
	} else if (!staged(c)) {
		return false;
	} else if (c->staging[c->head] == DATA_FRAME) {
		serve_landing(s, TAGGED, CRC);
	} else if (staged(c) < REQUEST) {
		return false;
	} else {
		c->head += REQUEST;
		if (opt.capsule) {
			serve_landing(s, 0, 0);
		} else if (opt.write) {
			put(c, read_request, READ_REQUEST);
		} else {
			put_frames(c, place(s));
			put(c, crc_response, sizeof(crc_response));
		}
	}
	return true;
}

/* ---- the host's side ---- */

struct client {
	struct conn c;
	uint8_t *buffers;
	uint64_t *started;		/* ticks, by slot */
	uint64_t sent, read, finished;	/* commands; the target serves them in order */
	bool landing;
	struct histogram *histogram;
};

static uint8_t *slot(const struct client *c, uint64_t command)
{
	return c->buffers + command % opt.depth * opt.block;
}

static void submit(struct client *cl)
{
	cl->started[cl->sent % opt.depth] = ticks_now();
	put(&cl->c, request, REQUEST);
	if (opt.capsule)
		put(&cl->c, slot(cl, cl->sent), opt.block);
	cl->sent++;
}

static void finish(struct client *cl)
{
	histogram_add(cl->histogram, ticks_now() - cl->started[cl->finished % opt.depth]);
	cl->finished++;
	submit(cl);
}

static bool take_one(struct client *cl)
{
	struct conn *c = &cl->c;

	make_room(c);
	if (cl->landing) {
		if (!landed(c))
			return false;
		cl->landing = false;
		return true;
	}
	if (!staged(c))
		return false;
	switch (c->staging[c->head]) {
	case DATA_FRAME:
		land_begin(&c->landing, slot(cl, cl->read++), TAGGED, CRC);
		cl->landing = true;
		return true;
	case READ_FRAME:
		if (staged(c) < READ_REQUEST)
			return false;
		c->head += READ_REQUEST;
		put_frames(c, slot(cl, cl->read++));
		put(c, between, CRC);
		return true;
	default:
		if (staged(c) < RESPONSE)
			return false;
		c->head += RESPONSE;
		finish(cl);
		return true;
	}
}

/* ---- connections ---- */

static int tcp(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int one = 1;

	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	return fd;
}

static void connect_both(int *client, int *server)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	const int listener = tcp();

	if (bind(listener, (struct sockaddr *)&a, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		die("listen");
	*client = tcp();
	if (connect(*client, (struct sockaddr *)&a, len))
		die("connect");
	*server = accept(listener, NULL, NULL);
	if (*server < 0)
		die("accept");
	close(listener);
}

#endif
