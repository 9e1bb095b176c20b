/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket that is visited all the time reports nothing, until somebody waits for its reports. */
#include "iwarp_pair.h"

#include "qp.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct iw_qp *b_qp(struct pair *p)
{
	return iw_qp(p->b.qp);
}

static bool is_quiet(struct pair *p)
{
	iw_lock(&b_qp(p)->lock);

	bool quiet = b_qp(p)->stream.rx.quiet;

	iw_unlock(&b_qp(p)->lock);
	return quiet;
}

/* Returns whether b has received a message. */
static bool message(struct pair *p)
{
	struct ibv_wc wc = { 0 };

	post_recv(&p->b, 7, 0, 64);
	post_send(&p->a, 1, IBV_WR_SEND, 0, 0, 64, 0, 0);
	return next_wc(&p->b, &p->a, &wc) && !wc.status && wc.wr_id == 7;
}

static bool become_quiet(struct pair *p)
{
	double end = now_s() + CHECK_PATIENCE_S;

	while (!is_quiet(p) && now_s() < end)
		if (!message(p))
			return false;
	return is_quiet(p);
}

/* A thread that sleeps is woken by its socket, not by the helper, which takes over only if the machine is slow. */
static void sleeps(struct pair *p)
{
	enum { TRIES = 20 };
	struct pollfd pfd = { .fd = p->b.channel->fd, .events = POLLIN };
	int ok = 1, helped = 0;

	for (int i = 0; i < TRIES && ok; i++) {
		uint64_t before;
		struct ibv_wc wc = { 0 };
		struct ibv_cq *cq;
		void *context;

		ok &= become_quiet(p) && !ibv_req_notify_cq(p->b.cq, 0);
		ok &= !is_quiet(p) && !ibv_poll_cq(p->b.cq, 1, &wc);
		before = iwarp_get_stats()->helper_served;
		post_recv(&p->b, 7, 0, 64);
		post_send(&p->a, 1, IBV_WR_SEND, 0, 0, 64, 0, 0);
		ok &= poll(&pfd, 1, CHECK_PATIENCE_S * 1000) == 1 &&
		      !v->get_cq_event(p->b.channel, &cq, &context);
		helped += iwarp_get_stats()->helper_served != before;
		if (ok)
			v->ack_cq_events(cq, 1);
		ok &= next_wc(&p->b, &p->a, &wc) && !wc.status;
	}
	check(ok && helped < TRIES / 2, "quiet: who sleeps is woken by the socket (%d times by the helper)", helped);
}

/* WRITEs complete nothing here: the CQ remains armed, however often it is polled, and a thread may sleep any time. */
static void armed(struct pair *p)
{
	enum { WRITES = 1000 };
	struct ibv_wc wc;
	int quiet = 0;

	ibv_req_notify_cq(p->b.cq, 0);
	for (int i = 0; i < WRITES; i++) {
		p->b.mem[64] = 0;
		p->a.mem[0] = 1;
		post_send(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 0, 1, (uintptr_t)p->b.mem + 64, p->b.mr->rkey);
		for (double end = now_s() + CHECK_PATIENCE_S; !*(volatile uint8_t *)&p->b.mem[64] && now_s() < end;) {
			ibv_poll_cq(p->a.cq, 1, &wc);
			ibv_poll_cq(p->b.cq, 1, &wc);
		}
		quiet += is_quiet(p);
	}
	check(!quiet && p->b.mem[64], "quiet: not while the CQ is armed (%d times)", quiet);
}

/* An application that no longer polls leaves the peer's READs to the helper, which sleeps between them. */
static void unpolled(struct pair *p)
{
	double end = now_s() + CHECK_PATIENCE_S;
	int ok = become_quiet(p);

	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc = { 0 };

		while (atomic_load(&b_qp(p)->watch) != IW_WATCH_ASLEEP && now_s() < end)
			usleep(1000);
		ok &= atomic_load(&b_qp(p)->watch) == IW_WATCH_ASLEEP && !is_quiet(p);
		post_send(&p->a, 9, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 64, (uintptr_t)p->b.mem, p->b.mr->rkey);
		ok &= next_wc(&p->a, NULL, &wc) && !wc.status && wc.wr_id == 9;
	}
	check(ok, "quiet: who no longer polls is served by the helper");
}

/* Without traffic it leaves the line, and its messages are found by the reports again. */
static void grows_cold(struct pair *p)
{
	enum { POLLS = 5000 };
	int ok = become_quiet(p);
	struct ibv_wc wc;

	for (int i = 0; i < POLLS; i++)
		ibv_poll_cq(p->b.cq, 1, &wc);
	check(ok && !is_quiet(p) && message(p), "quiet: a cold one reports again");
}

/* Poll b for so long; returns the longest time between two polls. */
static double poll_for(struct pair *p, double seconds)
{
	double start = now_s(), last = start, longest = 0;
	struct ibv_wc wc;

	while (last < start + seconds) {
		ibv_poll_cq(p->b.cq, 1, &wc);

		double now = now_s();

		longest = now - last > longest ? now - last : longest;
		last = now;
	}
	return longest;
}

/*
 * A polled queue pair with a command now and then, one of hundreds: the helper is not called for each of them.  Where
 * the thread was not running for the time of a tick, the helper was right to serve the queue pair.
 */
static void seldom_busy(struct pair *p)
{
	enum { TRIES = 100, COUNTED = 12 };
	const double gap = 40e-3, pause = 3e-3;		/* a tick is 5 to 20 ms */
	int ok = 1, counted = 0, asleep = 0;

	for (int i = 0; i < TRIES && counted < COUNTED && ok; i++) {
		double start = now_s();

		ok = message(p);

		double longest = now_s() - start, polling = poll_for(p, gap);

		if (longest > pause || polling > pause)
			continue;
		counted++;
		asleep += atomic_load(&b_qp(p)->watch) == IW_WATCH_ASLEEP;
	}
	/* a message may be received before the helper has seen its report */
	check(ok && asleep <= 1 + counted / 4, "quiet: asleep after %d of %d messages of one that is seldom busy", asleep,
	      counted);
}

static int socket_option(struct side *s, int name)
{
	int value = 0;
	socklen_t size = sizeof(value);

	getsockopt(iw_qp(s->qp)->stream.fd, SOL_SOCKET, name, &value, &size);
	return value;
}

/* The size to which a buffer may grow: the last of tcp_rmem. */
static int largest_buffer(void)
{
	int least, usual, most = 0;
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_rmem", "re");

	if (f) {
		if (fscanf(f, "%d %d %d", &least, &usual, &most) != 3)
			most = 0;
		fclose(f);
	}
	return most;
}

/* The first large data enlarges the receive buffer of its receiver, which may be quiet, and not that of its sender. */
static void wide(struct pair *p)
{
	enum { LARGE = 128 << 10, WINDOW = 1 << 20 };
	int ok = become_quiet(p);

	post_send(&p->a, 9, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, LARGE, (uintptr_t)p->b.mem, p->b.mr->rkey);
	post_recv(&p->b, 7, 0, 64);
	post_send(&p->a, 1, IBV_WR_SEND, 0, 0, 64, 0, 0);

	struct ibv_wc wc = { 0 };

	ok &= next_wc(&p->b, &p->a, &wc) && !wc.status && wc.wr_id == 7;
	ok &= next_wc(&p->a, &p->b, &wc) && !wc.status && wc.wr_id == 9;
	check(ok && become_quiet(p), "wide: data, and quiet again");
	if (largest_buffer() >= 2 * WINDOW)
		check(socket_option(&p->b, SO_RCVBUF) >= WINDOW && socket_option(&p->a, SO_RCVBUF) < WINDOW,
		      "wide: buffer of the receiver (%d) and the sender (%d)", socket_option(&p->b, SO_RCVBUF),
		      socket_option(&p->a, SO_RCVBUF));
	check(socket_option(&p->b, SO_RCVLOWAT) <= socket_option(&p->b, SO_RCVBUF) / 8, "wide: the mark is that of the quiet");
}

void test_quiet(void)
{
	struct pair p;

	check(!pair_open(&p, NULL), "quiet: connects");
	fcntl(p.b.channel->fd, F_SETFL, O_NONBLOCK);
	armed(&p);
	sleeps(&p);
	unpolled(&p);
	grows_cold(&p);
	seldom_busy(&p);
	check(become_quiet(&p), "quiet: a busy one does not report");
	wide(&p);
	pair_close(&p);
}
