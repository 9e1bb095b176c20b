/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: what happens while one is empty, and when a receive comes. */
#include "iwarp_shared.h"

#include "iwarp.h"

#include <poll.h>

/* The wakeups of a thread that polls or sleeps while nothing can be received. */
static uint64_t turns_awake(struct shared *s, int ms)
{
	struct pollfd pfd = { .fd = s->channel->fd, .events = POLLIN };
	double end = now_s() + ms * 1e-3;
	uint64_t turns = 0;

	while (now_s() < end) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;

		ibv_req_notify_cq(s->cq, 0);
		while (ibv_poll_cq(s->cq, 1, &wc) == 1)
			check(0, "srq: a completion (%d) without a receive", wc.status);
		if (poll(&pfd, 1, ms) == 1) {
			turns++;
			if (!v->get_cq_event(s->channel, &cq, &context))
				v->ack_cq_events(cq, 1);
		}
	}
	return turns;
}

void srq_empty(bool crc)
{
	enum { EACH = 8, SPREAD = 60 };
	static struct shared s;
	struct iwarp_options saved, o;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	uint64_t turns = UINT64_MAX;
	unsigned int total = 0, receives = 0;
	int ok = 1;

	iwarp_get_options(&saved);
	o = saved;
	o.crc = crc;
	iwarp_set_options(&o);
	shared_open(&s, PEERS, PEERS * EACH + 1);
	for (unsigned int i = 0; i < PEERS; i++)
		for (uint32_t k = 0; k < EACH; k++)
			ok &= !shared_say(&s, i, k, 8 + k * 30);
	check(ok, "empty: everybody speaks");
	for (int i = 0; i < 1000; i++) {
		shared_drain(&s);
		ok &= ibv_poll_cq(s.cq, 1, &wc) == 0;
	}
	check(ok, "empty: nothing is received, no connection ends");
	for (int i = 0; i < 20 && turns > 5; i++)
		turns = turns_awake(&s, 100);
	check(turns <= 5, "empty: asleep meanwhile (%llu turns in 100 ms)", (unsigned long long)turns);
	check(check_threads_sleep(""), "empty: so is the helper");

	/* one receive at a time: each is used at once, and in order */
	for (; receives < SPREAD && ok; receives++) {
		ok &= !shared_post(&s, receives);
		for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
			if (ibv_poll_cq(s.cq, 1, &wc) == 1)
				break;
		ok &= wc.wr_id == receives && shared_heard(&s, &wc, next);
	}
	check(ok, "empty: %u receives, one by one (last status %d)", receives, wc.status);
	for (unsigned int i = 0; i < PEERS; i++)
		ok &= next[i] >= SPREAD / PEERS && next[i] <= SPREAD / PEERS + 1;
	check(ok, "empty: dealt out in turn");
	/* connections that wait for their next receive wake no thread either */
	turns = UINT64_MAX;
	for (int i = 0; i < 20 && turns > 5; i++)
		turns = turns_awake(&s, 100);
	check(turns <= 5, "empty: asleep again (%llu turns in 100 ms)", (unsigned long long)turns);

	/* a consumer that sleeps on the channel is woken by completions, not by the socket alone */
	struct pollfd pfd = { .fd = s.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	ok = !shared_post(&s, receives);
	ibv_req_notify_cq(s.cq, 0);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;) {
		if (poll(&pfd, 1, 1000) == 1 && !v->get_cq_event(s.channel, &cq, &context))
			break;
	}
	ok &= ibv_poll_cq(s.cq, 1, &wc) == 1 && shared_heard(&s, &wc, next);
	check(ok, "empty: posted to a consumer that sleeps");
	v->ack_cq_events(s.cq, 1);

	/* the rest at once; one has disconnected meanwhile, and takes no receive with it */
	v->disconnect(s.ids[3]);
	while (ibv_poll_cq(s.cq, 1, &wc) == 1)
		check(0, "empty: one that waited has no receive to be flushed");
	for (receives++; receives < PEERS * EACH; receives++)
		ok &= !shared_post(&s, receives);
	for (unsigned int i = 0; i < PEERS; i++)
		total += i == 3 ? EACH - next[3] : EACH - next[i];
	total -= EACH - next[3];
	for (double end = now_s() + CHECK_PATIENCE_S; total && now_s() < end && ok;) {
		shared_drain(&s);
		if (ibv_poll_cq(s.cq, 1, &wc) != 1)
			continue;
		ok &= shared_heard(&s, &wc, next);
		total--;
	}
	check(ok && !total, "empty: the others go on (%u missing)", total);
	shared_close(&s);
	iwarp_set_options(&saved);
}
