/* SPDX-License-Identifier: BSD-3-Clause */
/* An idle application is served, uses no processor, and can fork. */
#include "iwarp_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* b's side never polls: its memory can still be read and written. */
static void one_sided(void)
{
	struct pair p;
	int ok = 1;

	check(!pair_open(&p, NULL), "one-sided: connects");
	memset(p.b.mem, 0x33, 2000000);
	memset(p.a.mem + 2000000, 0x44, 2000000);
	for (uint64_t i = 0; i < 20; i++) {
		struct ibv_wc wc = { 0 };

		post_send(&p.a, i, IBV_WR_RDMA_WRITE, 0, 2000000, 2000000, (uintptr_t)p.b.mem + 2000000,
			  p.b.mr->rkey);
		post_send(&p.a, i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 2000000, (uintptr_t)p.b.mem,
			  p.b.mr->rkey);
		ok &= next_wc(&p.a, NULL, &wc) && !wc.status && wc.wr_id == i;
	}
	check(ok, "one-sided: 20 writes and reads of 2 MB");
	check(p.a.mem[0] == 0x33 && p.a.mem[1999999] == 0x33 && !memcmp(p.a.mem + 2000000, p.b.mem + 2000000,
	      2000000), "one-sided: the bytes");

	/* the opposite direction: sends are completed without a poll */
	post_recv(&p.b, 1, 0, 64);
	post_send(&p.a, 2, IBV_WR_RDMA_WRITE, 0, 0, SIDE_MEM, (uintptr_t)p.b.mem, p.b.mr->rkey);
	post_send(&p.a, 3, IBV_WR_SEND, 0, 0, 64, 0, 0);
	struct ibv_wc wc = { 0 };

	check(next_wc(&p.b, NULL, &wc) && !wc.status, "one-sided: a backlog drains unpolled");
	pair_close(&p);
}

/* One polling thread sends messages; returns how often the helper woke meanwhile. */
static uint64_t wakes_while_busy(struct pair *p, uint64_t messages)
{
	uint64_t wakes = iwarp_get_stats()->helper_wakeups;

	for (uint64_t i = 0; i < messages; i++) {
		struct ibv_wc wc;

		post_recv(&p->b, i, 0, 64);
		post_send(&p->a, i, IBV_WR_SEND, 0, 0, 64, 0, 0);
		while (ibv_poll_cq(p->b.cq, 1, &wc) != 1)
			ibv_poll_cq(p->a.cq, 1, &wc);
	}
	return iwarp_get_stats()->helper_wakeups - wakes;
}

static void idle(void)
{
	enum { MESSAGES = 20000, FEW = MESSAGES / 50 };
	struct pair p;
	uint64_t wakes = UINT64_MAX;

	check(!pair_open(&p, NULL), "idle: connects");
	/* half a frame, and an armed CQ */
	ibv_req_notify_cq(p.b.cq, 0);
	post_send(&p.a, 1, IBV_WR_RDMA_WRITE, 0, 0, 100, (uintptr_t)p.b.mem, p.b.mr->rkey);
	check(check_threads_sleep(""), "idle: the helper sleeps");

	/* busy: the helper only checks occasionally; it serves a stalled thread more often */
	for (int i = 0; i < 20 && wakes >= FEW; i++)
		wakes = wakes_while_busy(&p, MESSAGES);
	check(wakes < FEW, "idle: %llu wake-ups of the helper in %d messages", (unsigned long long)wakes,
	      MESSAGES);
	pair_close(&p);
}

/* Connections that are asleep do not add to the helper's ticks: it checks the busy one's two ends. */
static void idle_others(void)
{
	enum { OTHERS = 40, MESSAGES = 20000, TICKS = 20 };
	struct pair_options few = { .depth = 4 };
	struct pair p[OTHERS + 1];
	uint64_t wakes = 0, looks;
	int open = 0;

	for (int i = 0; i <= OTHERS; i++)
		open += !pair_open(&p[i], &few);
	check(open == OTHERS + 1 && check_threads_sleep(""), "idle others: connected, and asleep");
	looks = iwarp_get_stats()->helper_looks;
	while (wakes < TICKS)
		wakes += wakes_while_busy(&p[0], MESSAGES);
	looks = iwarp_get_stats()->helper_looks - looks;
	check(looks && looks <= 2 * wakes + 2, "idle others: %llu looks in %llu wake-ups", (unsigned long long)looks,
	      (unsigned long long)wakes);
	/* and one that becomes active is checked as well */
	post_send(&p[OTHERS].a, 1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 100000, (uintptr_t)p[OTHERS].b.mem,
		  p[OTHERS].b.mr->rkey);
	expect_wc(&p[OTHERS].a, NULL, 1, IBV_WC_SUCCESS, "idle others: one stirs");
	for (int i = 0; i <= OTHERS; i++)
		pair_close(&p[i]);
}

/* Whether a side that has armed its CQ may sleep: checks repeatedly, until there is nothing to do. */
static int sleeps(struct side *s)
{
	enum { LOOKS = 64 };
	struct pollfd pfd = { .fd = s->channel->fd, .events = POLLIN };

	for (int i = 0; i < LOOKS; i++) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;

		while (!v->get_cq_event(s->channel, &cq, &context))
			v->ack_cq_events(cq, 1);
		while (ibv_poll_cq(s->cq, 1, &wc) == 1)
			;
		ibv_req_notify_cq(s->cq, 0);
		if (poll(&pfd, 1, 0) == 0)
			return 1;
	}
	return 0;
}

/*
 * A sender that has sent much at once gives up its turn, and must not be woken without reason: for any amount, when
 * all is sent and answered both sides sleep.
 */
static void sent_all(void)
{
	enum { ROUNDS = 100, PIECE = 128 << 10 };
	struct pair p;
	int quiet = 0;

	check(!pair_open(&p, NULL), "sent all: connects");
	fcntl(p.a.channel->fd, F_SETFL, O_NONBLOCK);
	fcntl(p.b.channel->fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < ROUNDS; i++) {
		const uint32_t pieces = 15 + (uint32_t)i % 3;
		struct ibv_wc wc = { 0 };
		int done = 0;

		for (uint32_t k = 0; k < pieces; k++)
			post_send(&p.a, k, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, k * PIECE, PIECE,
				  (uintptr_t)p.b.mem + k * PIECE, p.b.mr->rkey);
		while (done < (int)pieces && next_wc(&p.a, &p.b, &wc) && !wc.status)
			done++;
		quiet += done == (int)pieces && sleeps(&p.a) && sleeps(&p.b);
	}
	check(quiet == ROUNDS, "sent all: nothing left to wake up for, %d times of %d", quiet, ROUNDS);
	check(check_threads_sleep(""), "sent all: the helper sleeps");
	pair_close(&p);
}

static void forks(void)
{
	struct pair p;
	int status = -1, threads = 0;
	pid_t pid;

	check(!pair_open(&p, NULL), "fork: connects");
	pid = fork();
	if (!pid) {
		/* the parent's connections do not belong to the child; make new ones */
		struct pair q;

		if (pair_open(&q, NULL))
			_exit(1);
		pair_close(&q);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	check(!status, "fork: a child of a connected parent connects by itself (%x)", status);
	post_recv(&p.b, 1, 0, 64);
	post_send(&p.a, 2, IBV_WR_SEND, 0, 0, 64, 0, 0);
	expect_wc(&p.b, &p.a, 1, IBV_WC_SUCCESS, "fork: and the parent's connection is unharmed");
	pair_close(&p);

	/* after the last id the helper ends, at the latest when lingering sockets have had their time */
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;) {
		char line[128];
		FILE *f = fopen("/proc/self/status", "r");

		while (f && fgets(line, sizeof(line), f))
			sscanf(line, "Threads: %d", &threads);
		if (f)
			fclose(f);
		if (threads == 1)
			break;
		usleep(50000);
	}
	check(threads == 1 || getenv("IWARP_THREADS"), "fork: one thread is left (%d)", threads);
}

void test_idle(void)
{
	one_sided();
	idle();
	idle_others();
	sent_all();
	forks();
}
