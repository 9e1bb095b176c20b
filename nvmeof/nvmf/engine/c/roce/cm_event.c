/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM event channels: a queue of events under iw_cm_lock, and an eventfd whose count is its length.
 * Events are queued by the helper or by the call that causes them, and taken on the application's threads.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ro_event {
	struct rdma_cm_event ev;
	struct fifo_link link;
	struct ro_id *id;		/* whose destroy waits for the acknowledgement */
	uint8_t data[RO_REP_DATA];
};

struct rdma_event_channel *ro_create_event_channel(void)
{
	struct ro_event_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	fifo_init(&c->queued);
	c->ch.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (c->ch.fd < 0) {
		free(c);
		return NULL;
	}
	return &c->ch;
}

void ro_destroy_event_channel(struct rdma_event_channel *ch)
{
	struct ro_event_channel *c = (struct ro_event_channel *)ch;
	struct fifo_link *link;

	pthread_mutex_lock(&iw_cm_lock);
	while ((link = fifo_pop(&c->queued)))
		free(container_of(link, struct ro_event, link));
	pthread_mutex_unlock(&iw_cm_lock);
	close(c->ch.fd);
	free(c);
}

static void event_fill(struct ro_event *e, const struct ro_cm_fields *f)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	p->private_data_len = (uint8_t)f->data_len;
	memcpy(e->data, f->data, f->data_len);
	p->private_data = f->data_len ? e->data : NULL;
	if (f->kind == RO_CM_REJ)
		return;
	/* as the kernel has it: the peer's words, seen from here */
	p->initiator_depth = f->responder_resources;
	p->responder_resources = f->initiator_depth;
	p->retry_count = f->retry_count;
	p->rnr_retry_count = f->rnr_retry_count;
	p->qp_num = f->qpn;
}

void ro_event_post(struct ro_id *id, enum rdma_cm_event_type type, int status, const struct ro_cm_fields *f)
{
	struct ro_event_channel *c = (struct ro_event_channel *)id->id.channel;
	struct ro_event *e = calloc(1, sizeof(*e));
	uint64_t one = 1;

	if (!e)
		return;		/* nothing better is possible; the connection's end will be told by flushes */
	e->id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : id;
	e->ev.id = &id->id;
	e->ev.listen_id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? &id->listener->id : NULL;
	e->ev.event = type;
	e->ev.status = status;
	if (f)
		event_fill(e, f);
	e->id->events++;
	fifo_push(&c->queued, &e->link);
	(void)!write(c->ch.fd, &one, sizeof(one));
}

static struct ro_event *event_take(struct ro_event_channel *c)
{
	struct fifo_link *link = fifo_pop(&c->queued);
	uint64_t one;

	if (!link)
		return NULL;
	/* never blocks: the count is the queue's length, and both change under the lock */
	(void)!read(c->ch.fd, &one, sizeof(one));
	return container_of(link, struct ro_event, link);
}

/* Events of an id that is going away; a request not yet seen takes its new id with it. */
void ro_event_purge(struct ro_id *id)
{
	struct ro_event_channel *c = (struct ro_event_channel *)id->id.channel;
	struct fifo all;
	struct fifo_link *link;

	fifo_move(&all, &c->queued);
	while ((link = fifo_pop(&all))) {
		struct ro_event *e = container_of(link, struct ro_event, link);
		uint64_t one;

		if (e->id != id) {
			fifo_push(&c->queued, link);
			continue;
		}
		(void)!read(c->ch.fd, &one, sizeof(one));
		id->events--;
		if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			ro_id_free((struct ro_id *)e->ev.id);
			ro_cm_use(-1);	/* not the last: id is one too */
		}
		free(e);
	}
}

int ro_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
	struct ro_event_channel *c = (struct ro_event_channel *)ch;

	for (;;) {
		pthread_mutex_lock(&iw_cm_lock);

		struct ro_event *e = event_take(c);

		pthread_mutex_unlock(&iw_cm_lock);
		if (e) {
			*event = &e->ev;
			return 0;
		}
		if (fcntl(ch->fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}

		struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };

		if (poll(&pfd, 1, -1) < 0)
			return -1;
	}
}

int ro_ack_cm_event(struct rdma_cm_event *event)
{
	struct ro_event *e = (struct ro_event *)event;

	pthread_mutex_lock(&iw_cm_lock);
	e->id->events--;
	pthread_cond_broadcast(&iw_cm_cond);
	pthread_mutex_unlock(&iw_cm_lock);
	free(e);
	return 0;
}
