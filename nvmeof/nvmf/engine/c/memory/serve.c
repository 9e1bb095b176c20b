/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of a memory server.  It polls connections that were busy within the last spin_ns, and sleeps in epoll for
 * the others.  On an embedded device, polling also places the peer's WRITEs and serves its READs.
 *
 * A PERSIST may be of a whole namespace: it is done in pieces, between which other connections are served, as are
 * requests of the control thread, such as a fence.
 */
#include "memory/persist.h"
#include "memory/server_internal.h"
#include "util/pause.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	BATCH = 32,
	YIELD_EVERY = 16,	/* rounds: the processor may be shared, even with the peer */
	ASK_EVERY = 16,		/* rounds between two checks of the sleeping connections */
	WR_ANSWER = 1 << 16,	/* wr_id of an answer: this and its slot; receives have only the slot */
};

/* The counts are copied, because the queue pair is destroyed before they are read for the last time. */
static void count_bytes(struct memory_conn *c)
{
	uint64_t written, read;

	if (!c->end.has_qp || !c->end.verbs->bytes)
		return;
	c->end.verbs->bytes(c->end.id->qp, &written, &read);
	stat_add(&c->counts.written_bytes, written - c->counts.written_bytes);
	stat_add(&c->counts.read_bytes, read - c->counts.read_bytes);
}

void memory_conn_end(struct memory_conn *c, const char *reason)
{
	const char *device;

	if (c->ended)
		return;
	device = memory_end_reason(&c->end);
	list_remove(&c->active_link);
	pthread_mutex_lock(&c->grant_lock);
	c->ended = true;
	/*
	 * The fence.  Deregistering comes first, so that the key is invalid for a device that still handles earlier
	 * packets; after the queue pair is destroyed, it handles none.
	 */
	atomic_store(&c->granted, false);
	if (c->mr)
		c->end.verbs->dereg_mr(c->mr);
	c->mr = NULL;
	pthread_mutex_lock(&c->server->lock);
	if (!c->reason[0])
		snprintf(c->reason, sizeof(c->reason), "%s", *device ? device : reason);
	pthread_mutex_unlock(&c->server->lock);
	epoll_ctl(c->server->epfd, EPOLL_CTL_DEL, c->end.channel->fd, NULL);
	count_bytes(c);
	memory_end_break(&c->end);
	pthread_mutex_unlock(&c->grant_lock);
	fifo_push(&c->server->ended, &c->end_link);
}

/* The control thread may free a connection as soon as it is reported: so report it only when it is not in use here. */
static void tell_ended(struct memory_server *s)
{
	struct fifo_link *link;

	while ((link = fifo_pop(&s->ended))) {
		pthread_mutex_lock(&s->lock);
		memory_server_tell(container_of(link, struct memory_conn, end_link), TELL_CLOSED);
		pthread_mutex_unlock(&s->lock);
	}
}

/* ---- messages ---- */

/* The slot's receive is posted again when the answer has been sent. */
static void answer(struct memory_conn *c, unsigned slot, enum memory_type type, uint16_t id,
		   enum memory_status status)
{
	struct memory_answer *out = (void *)memory_end_message(&c->end, slot);

	*out = (struct memory_answer){ .type = (uint8_t)type, .status = (uint8_t)status, .id = id };
	if (status)
		stat_add(&c->counts.errors, 1);
	if (memory_end_send(&c->end, slot, sizeof(*out), WR_ANSWER | slot))
		memory_conn_end(c, "the device refused an answer");
}

/* Do the next piece of a PERSIST, which is answered after the last. */
static void persist(struct memory_conn *c)
{
	struct memory_persisting *p = &c->persisting;
	const uint64_t piece = memory_persist_piece(c->store, p->left);

	if (memory_persist(c->store, p->offset, piece)) {
		p->active = false;
		answer(c, p->slot, MEMORY_PERSISTED, p->id, MEMORY_MEDIA_ERROR);
		return;
	}
	p->offset += piece;
	p->left -= piece;
	p->active = p->left;
	if (p->active)
		return;
	stat_add(&c->counts.persists, 1);
	stat_add(&c->counts.persisted_bytes, p->length);
	answer(c, p->slot, MEMORY_PERSISTED, p->id, MEMORY_OK);
}

static void asked(struct memory_conn *c, unsigned slot)
{
	struct memory_ask in;

	memcpy(&in, memory_end_received(&c->end, slot), sizeof(in));
	if (in.type == MEMORY_ECHO) {
		answer(c, slot, MEMORY_ECHOED, in.id, MEMORY_OK);
	} else if (!atomic_load_explicit(&c->granted, memory_order_acquire)) {
		answer(c, slot, MEMORY_PERSISTED, in.id, MEMORY_NOT_OPEN);
	} else if (in.offset > c->length || in.length > c->length - in.offset) {
		answer(c, slot, MEMORY_PERSISTED, in.id, MEMORY_BAD_RANGE);
	} else {
		c->persisting = (struct memory_persisting){
			.slot = slot, .id = in.id, .offset = in.offset, .length = in.length, .left = in.length,
		};
		persist(c);
	}
}

static bool pass_up(struct memory_conn *c, unsigned slot, uint32_t length)
{
	bool free;

	pthread_mutex_lock(&c->server->lock);
	free = !(c->tells & TELL_MESSAGE);
	if (free) {
		memcpy(c->in, memory_end_received(&c->end, slot), length);
		c->in_length = length;
		memory_server_tell(c, TELL_MESSAGE);
	}
	pthread_mutex_unlock(&c->server->lock);
	return free;
}

static void received(struct memory_conn *c, unsigned slot, uint32_t length)
{
	const uint8_t type = length ? *memory_end_received(&c->end, slot) : 0;

	if ((type == MEMORY_PERSIST || type == MEMORY_ECHO) && length == sizeof(struct memory_ask))
		asked(c, slot);
	else if (type != MEMORY_OPEN && type != MEMORY_AUTH)
		memory_conn_end(c, "protocol error: a message of an unknown type or of a wrong length");
	else if (!pass_up(c, slot, length))
		memory_conn_end(c, "protocol error: a message before the answer to the previous one");
	else if (memory_end_receive(&c->end, slot))
		memory_conn_end(c, "the device refused a receive");
}

static void send_word(struct memory_conn *c, const uint8_t *word, uint32_t length)
{
	if (c->later_length) {
		memory_conn_end(c, "the peer does not take messages");
		return;
	}
	if (c->sending) {	/* its answer may be here before the device has reported that it was sent */
		memcpy(c->later, word, length);
		c->later_length = length;
		return;
	}
	memcpy(memory_end_message(&c->end, c->depth), word, length);
	c->sending = true;
	if (memory_end_send(&c->end, c->depth, length, WR_ANSWER | c->depth))
		memory_conn_end(c, "the device refused a message");
}

static void word_sent(struct memory_conn *c)
{
	const uint32_t length = c->later_length;

	c->sending = false;
	c->later_length = 0;
	if (length)
		send_word(c, c->later, length);
}

static void completed(struct memory_conn *c, const struct ibv_wc *wc)
{
	const unsigned slot = (unsigned)wc->wr_id & (WR_ANSWER - 1);

	if (wc->status)
		memory_conn_end(c, wc->status == IBV_WC_WR_FLUSH_ERR ? "the peer disconnected" :
				verbs_wc_name(wc->status));
	else if (!(wc->wr_id & WR_ANSWER) && (wc->opcode != IBV_WC_RECV || wc->byte_len > MEMORY_MESSAGE))
		/* its length is that of the written data, not of a message */
		memory_conn_end(c, "protocol error: an RDMA WRITE with immediate data");
	else if (!(wc->wr_id & WR_ANSWER))
		received(c, slot, wc->byte_len);
	else if (slot == c->depth)
		word_sent(c);
	else if (memory_end_receive(&c->end, slot))
		memory_conn_end(c, "the device refused a receive");
}

static bool take_completions(struct memory_conn *c)
{
	const int n = ibv_poll_cq(c->end.cq, MEMORY_BATCH, c->wc);

	if (n < 0)
		memory_conn_end(c, "the completion queue failed");
	c->wc_next = 0;
	c->wc_count = n > 0 ? (unsigned)n : 0;
	return n > 0;
}

/* Returns whether there was work.  Messages that follow a long PERSIST wait for it. */
static bool poll_conn(struct memory_conn *c)
{
	bool busy = c->persisting.active || c->wc_next != c->wc_count;

	if (c->persisting.active)
		persist(c);
	else if (!busy)
		busy = take_completions(c);
	while (!c->ended && !c->persisting.active && c->wc_next != c->wc_count)
		completed(c, &c->wc[c->wc_next++]);
	if (!c->ended && c->end.verbs->reads_served) {
		const uint32_t served = c->end.verbs->reads_served(c->end.id->qp);

		busy |= served != c->served;
		c->served = served;
	}
	if (busy && !c->ended)
		count_bytes(c);
	return busy;
}

/* ---- turns ---- */

static void wake(struct memory_conn *c, uint64_t now)
{
	if (c->ended)
		return;
	if (!list_has(&c->active_link))
		list_push(&c->server->active, &c->active_link);
	c->busy_until = now + c->server->spin_ns;
}

static void join(struct memory_conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (epoll_ctl(c->server->epfd, EPOLL_CTL_ADD, c->end.channel->fd, &ev))
		memory_conn_end(c, "the kernel has no memory to watch it");
}

static void handle_words(struct memory_server *s, uint64_t now)
{
	uint8_t word[MEMORY_MESSAGE];

	for (;;) {
		struct memory_conn *c = NULL;
		struct fifo_link *link;
		unsigned asks = 0;
		uint32_t length = 0;

		pthread_mutex_lock(&s->lock);
		link = fifo_pop(&s->asked);
		if (link) {
			c = container_of(link, struct memory_conn, ask_link);
			asks = c->ended ? 0 : c->asks;	/* one that has ended may be freed once the lock is released */
			c->asks = 0;
			if (asks & ASK_SEND) {	/* the control thread may write the next one from here on */
				length = c->out_length;
				memcpy(word, c->out, length);
			}
		}
		pthread_mutex_unlock(&s->lock);
		if (!c)
			return;
		if (!asks)
			continue;
		if (asks & ASK_JOIN)
			join(c);
		if ((asks & ASK_SEND) && !c->ended)
			send_word(c, word, length);
		if (asks & ASK_CLOSE)
			memory_conn_end(c, "closed");
		else
			wake(c, now);
	}
}

/* Put an idle connection to sleep, unless something arrives while its queue is armed. */
static void sleep_conn(struct memory_conn *c, uint64_t now)
{
	ibv_req_notify_cq(c->end.cq, 0);
	if (poll_conn(c))
		wake(c, now);
	else if (!c->ended)
		list_remove(&c->active_link);
}

static void poll_active(struct memory_server *s)
{
	struct list_link *next;
	const uint64_t now = clock_ns();

	for (struct list_link *link = s->active.head; link; link = next) {
		struct memory_conn *c = container_of(link, struct memory_conn, active_link);

		next = link->next;
		if (poll_conn(c))
			wake(c, now);
		else if (!c->ended && now >= c->busy_until)
			sleep_conn(c, now);
	}
}

static void look(struct memory_server *s, bool wait)
{
	struct epoll_event ev[BATCH];
	const int n = epoll_wait(s->epfd, ev, BATCH, wait ? -1 : 0);
	const uint64_t now = clock_ns();
	bool words = false;
	uint64_t count;

	for (int i = 0; i < n; i++) {
		struct memory_conn *c = ev[i].data.ptr;

		if (!c) {
			(void)!read(s->wake_fd, &count, sizeof(count));
			words = true;
			continue;
		}
		memory_end_take_events(&c->end);
		wake(c, now);
	}
	if (words)
		handle_words(s, now);
}

void memory_server_turn(struct memory_server *s, bool wait)
{
	if (!s->active.head || !(++s->round % ASK_EVERY))
		look(s, wait && !s->active.head);
	poll_active(s);
	tell_ended(s);
}

void *memory_serve(void *server)
{
	struct memory_server *s = server;

	while (!atomic_load(&s->stop)) {
		memory_server_turn(s, true);
		if (s->active.head && !(s->round % YIELD_EVERY))
			sched_yield();
		else if (s->active.head)
			cpu_pause();
	}
	return NULL;
}
