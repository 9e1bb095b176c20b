/* SPDX-License-Identifier: BSD-3-Clause */
/* CM event channels; see events.h. */
#include "events.h"
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct channel {
	struct rdma_event_channel ch;	/* fd: an eventfd that counts the queued events */
	struct fifo queued;		/* by link */
};

struct rdma_event_channel *iw_create_event_channel(void)
{
	struct channel *c = calloc(1, sizeof(*c));

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
	struct channel *c = (struct channel *)ch;
	struct fifo_link *link;

	pthread_mutex_lock(&iw_cm_lock);
	while ((link = fifo_pop(&c->queued)))
		free(container_of(link, struct iw_event, link));
	pthread_mutex_unlock(&iw_cm_lock);
	close(c->ch.fd);
	free(c);
}

struct iw_event *iw_event_new(struct rdma_cm_id *id, struct rdma_cm_id *listener, unsigned int *pending,
			      enum rdma_cm_event_type type, int status)
{
	struct iw_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->ev.id = id;
	e->ev.listen_id = listener;
	e->ev.event = type;
	e->ev.status = status;
	e->pending = pending;
	return e;
}

void iw_event_data(struct iw_event *e, const void *data, size_t len)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	p->private_data_len = (uint8_t)(len > IW_EVENT_DATA ? IW_EVENT_DATA : len);
	if (!p->private_data_len)
		return;
	memcpy(e->data, data, p->private_data_len);
	p->private_data = e->data;
}

void iw_event_queue(struct iw_event *e)
{
	struct channel *c = (struct channel *)e->ev.id->channel;
	uint64_t one = 1;

	++*e->pending;
	fifo_push(&c->queued, &e->link);
	(void)!write(c->ch.fd, &one, sizeof(one));
}

/* Subtract one from the eventfd.  Never blocks: its count is the queue's length, and both change under the lock. */
static void uncount(const struct channel *c)
{
	uint64_t one;

	(void)!read(c->ch.fd, &one, sizeof(one));
}

static struct iw_event *take(struct channel *c)
{
	struct fifo_link *link = fifo_pop(&c->queued);

	if (!link)
		return NULL;
	uncount(c);
	return container_of(link, struct iw_event, link);
}

/* Move the queued events of the id with this count to another list; both lists keep their order. */
static void take_of(struct channel *c, const unsigned int *pending, struct fifo *taken)
{
	struct fifo all;
	struct fifo_link *link;

	fifo_init(taken);
	fifo_move(&all, &c->queued);
	while ((link = fifo_pop(&all))) {
		struct iw_event *e = container_of(link, struct iw_event, link);

		if (e->pending != pending) {
			fifo_push(&c->queued, link);
			continue;
		}
		uncount(c);
		--*e->pending;
		fifo_push(taken, link);
	}
}

void iw_events_drop(struct rdma_event_channel *ch, const unsigned int *pending,
		    void (*forget)(struct rdma_cm_id *request))
{
	struct fifo taken;
	struct fifo_link *link;

	take_of((struct channel *)ch, pending, &taken);
	while ((link = fifo_pop(&taken))) {
		struct iw_event *e = container_of(link, struct iw_event, link);

		if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			forget(e->ev.id);
		free(e);
	}
}

int iw_events_migrate(struct rdma_cm_id *id, const unsigned int *pending, struct rdma_event_channel *to,
		      void (*requests)(struct rdma_cm_id *listener))
{
	struct fifo taken;
	struct fifo_link *link;

	if (!to) {
		errno = EINVAL;
		return -1;
	}
	pthread_mutex_lock(&iw_cm_lock);
	if (to != id->channel) {
		take_of((struct channel *)id->channel, pending, &taken);
		id->channel = to;
		while ((link = fifo_pop(&taken))) {
			struct iw_event *e = container_of(link, struct iw_event, link);

			e->ev.id->channel = to;
			iw_event_queue(e);
		}
		requests(id);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

int iw_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
	struct channel *c = (struct channel *)ch;

	for (;;) {
		pthread_mutex_lock(&iw_cm_lock);

		struct iw_event *e = take(c);

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
	--*e->pending;
	pthread_cond_broadcast(&iw_cm_cond);
	pthread_mutex_unlock(&iw_cm_lock);
	free(e);
	return 0;
}
