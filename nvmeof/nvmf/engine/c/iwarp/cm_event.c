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

struct rdma_event_channel *iw_create_event_channel(void)
{
	struct iw_event_channel *c = calloc(1, sizeof(*c));

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

void iw_destroy_event_channel(struct rdma_event_channel *ch)
{
	struct iw_event_channel *c = (struct iw_event_channel *)ch;
	struct fifo_link *link;

	pthread_mutex_lock(&iw_cm_lock);
	while ((link = fifo_pop(&c->queued)))
		free(container_of(link, struct iw_event, link));
	pthread_mutex_unlock(&iw_cm_lock);
	close(c->ch.fd);
	free(c);
}

static void event_fill(struct iw_event *e, const struct iw_id *id, enum rdma_cm_event_type type,
		       const struct iw_mpa *mpa)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	if (mpa) {
		/* a peer may send 512 bytes, but the event's field allows 255: the others are lost */
		p->private_data_len = (uint8_t)(mpa->pd_len > IW_EVENT_PD_MAX ? IW_EVENT_PD_MAX : mpa->pd_len);
		memcpy(e->pd, mpa->pd, p->private_data_len);
		p->private_data = p->private_data_len ? e->pd : NULL;
	}
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED) {
		/* as in the kernel's iw_cm: the words of the frame, ird first */
		p->initiator_depth = (uint8_t)(id->ird > 255 ? 255 : id->ird);
		p->responder_resources = (uint8_t)(id->ord > 255 ? 255 : id->ord);
	}
}

void iw_event_post(struct iw_id *id, enum rdma_cm_event_type type, int status,
		   const struct iw_mpa *mpa)
{
	struct iw_event_channel *c = (struct iw_event_channel *)id->id.channel;
	struct iw_event *e = calloc(1, sizeof(*e));
	uint64_t one = 1;

	if (!e)
		return;		/* nothing better is possible; flushed work will report the connection's end */
	e->id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : id;
	e->ev.id = &id->id;
	e->ev.listen_id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? &id->listener->id : NULL;
	e->ev.event = type;
	e->ev.status = status;
	event_fill(e, id, type, mpa);
	e->id->events++;
	fifo_push(&c->queued, &e->link);
	(void)!write(c->ch.fd, &one, sizeof(one));
}

static struct iw_event *event_take(struct iw_event_channel *c)
{
	struct fifo_link *link = fifo_pop(&c->queued);
	uint64_t one;

	if (!link)
		return NULL;
	/* never blocks: the count is the queue's length, and both change under the lock */
	(void)!read(c->ch.fd, &one, sizeof(one));
	return container_of(link, struct iw_event, link);
}

/* Remove the events of an id that is being destroyed; an unseen request is freed with its new id. */
void iw_event_purge(struct iw_id *id)
{
	struct iw_event_channel *c = (struct iw_event_channel *)id->id.channel;
	struct fifo all;
	struct fifo_link *link;

	fifo_move(&all, &c->queued);
	while ((link = fifo_pop(&all))) {
		struct iw_event *e = container_of(link, struct iw_event, link);
		uint64_t one;

		if (e->id != id) {
			fifo_push(&c->queued, link);
			continue;
		}
		(void)!read(c->ch.fd, &one, sizeof(one));
		id->events--;
		if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			iw_id_free((struct iw_id *)e->ev.id);
			iw_cm_use(-1);	/* not the last one: id counts as well */
		}
		free(e);
	}
}

int iw_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
	struct iw_event_channel *c = (struct iw_event_channel *)ch;

	for (;;) {
		pthread_mutex_lock(&iw_cm_lock);

		struct iw_event *e = event_take(c);

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

int iw_ack_cm_event(struct rdma_cm_event *event)
{
	struct iw_event *e = (struct iw_event *)event;

	pthread_mutex_lock(&iw_cm_lock);
	e->id->events--;
	pthread_cond_broadcast(&iw_cm_cond);
	pthread_mutex_unlock(&iw_cm_lock);
	free(e);
	return 0;
}
