/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A poll group's life cycle: its members, its completion queues and the channels on which it sleeps.
 *
 * A group and its queues belong to one thread at a time.  Queues join and leave in control functions of that thread
 * (connect, destroy); nothing here allocates or locks on the I/O path.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	GROUP_ENTRIES = 4096,		/* of the first completion queue, at least */
	GROUP_MEMBERS = 8,		/* initial number of places */
	GROUP_NO_MEMBER = UINT32_MAX,
};

struct host_poll_group *host_poll_group_create(struct host_device *device, bool notify, char *err,
					       size_t len)
{
	struct host_poll_group *g = calloc(1, sizeof(*g));

	if (!g) {
		snprintf(err, len, "no memory for a poll group");
		return NULL;
	}
	atomic_fetch_add(&device->refs, 1);
	g->device = device;
	g->verbs = device->verbs;
	g->notify = notify;
	g->epfd = -1;
	g->free_member = GROUP_NO_MEMBER;
	g->unsent_tail = &g->unsent;
	g->done_tail = &g->done;
	g->lost_tail = &g->lost;
	return g;
}

void host_poll_group_destroy(struct host_poll_group *group)
{
	struct host_poll_group *g = group;

	if (!g)
		return;
	for (unsigned i = 0; i < g->ncqs; i++)
		g->verbs->destroy_cq(g->cqs[i].cq);
	if (g->epfd >= 0)
		close(g->epfd);
	if (g->comp)
		g->verbs->destroy_comp_channel(g->comp);
	if (g->channel)
		g->verbs->destroy_event_channel(g->channel);
	host_device_put(g->device);
	free(g->cqs);
	free(g->members);
	free(g);
}

/* ---- channels ---- */

static int group_watch(struct host_poll_group *g, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(g->epfd, EPOLL_CTL_ADD, fd, &ev);
}

struct rdma_event_channel *host_group_channel(struct host_poll_group *group)
{
	struct host_poll_group *g = group;

	if (!g->channel)
		g->channel = g->verbs->create_event_channel();
	if (!g->channel || !g->notify || g->epfd >= 0)
		return g->channel;
	g->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (g->epfd >= 0 && !group_watch(g, g->channel->fd))
		return g->channel;

	const int saved = errno;

	if (g->epfd >= 0)
		close(g->epfd);
	g->epfd = -1;
	errno = saved;
	return NULL;
}

static int group_comp_channel(struct host_poll_group *g)
{
	if (!g->notify || g->comp)
		return 0;
	g->comp = g->verbs->create_comp_channel(g->device->context);
	if (!g->comp)
		return -errno;

	/* the descriptor is also readable when there is no completion yet, for example after half of a response */
	const int flags = fcntl(g->comp->fd, F_GETFL);

	if (flags >= 0 && !fcntl(g->comp->fd, F_SETFL, flags | O_NONBLOCK) &&
	    !group_watch(g, g->comp->fd))
		return 0;

	const int saved = errno;

	g->verbs->destroy_comp_channel(g->comp);
	g->comp = NULL;
	return -saved;
}

/* ---- completion queues ---- */

static uint32_t group_most(const struct host_poll_group *g)
{
	return g->device->attr.max_cqe > 0 ? (uint32_t)g->device->attr.max_cqe : INT32_MAX;
}

/* Add a completion queue, as large as all earlier ones together. */
static int group_add_cq(struct host_poll_group *g, uint32_t entries, bool shared)
{
	const uint32_t most = group_most(g);
	struct host_cq *cqs = realloc(g->cqs, (g->ncqs + 1) * sizeof(*cqs));
	uint32_t wanted = shared ? GROUP_ENTRIES : entries;

	if (!cqs)
		return -ENOMEM;
	g->cqs = cqs;
	for (unsigned i = 0; i < g->ncqs; i++)
		wanted = wanted > most - cqs[i].entries ? most : wanted + cqs[i].entries;
	if (wanted < entries)
		wanted = entries;
	if (wanted > most)
		wanted = most;
	if (entries > wanted)
		return -EINVAL;

	const int vectors = g->device->context->num_comp_vectors;
	const unsigned vector = vectors > 1 ? atomic_fetch_add(&g->device->next_vector, 1) % (unsigned)vectors : 0;

	cqs[g->ncqs] = (struct host_cq){
		.cq = g->verbs->create_cq(g->device->context, (int)wanted, g, g->comp, (int)vector),
		.entries = wanted,
	};
	if (!cqs[g->ncqs].cq)
		return errno ? -errno : -ENOMEM;
	g->ncqs++;
	return 0;
}

/*
 * Whether a completion queue has room for more entries.  The last one is enlarged if necessary: one queue takes less time
 * to poll than several, and serves its queues equally.
 */
static bool group_has_room(struct host_poll_group *g, unsigned i, uint32_t entries)
{
	struct host_cq *cq = &g->cqs[i];
	const uint64_t needed = (uint64_t)cq->reserved + entries;

	return needed <= cq->entries ||
	       (i + 1 == g->ncqs && verbs_enlarge_cq(g->verbs, cq->cq, &cq->entries, needed, group_most(g)));
}

static int group_reserve(struct host_queue *q, uint32_t entries)
{
	struct host_poll_group *g = q->group;
	unsigned i = 0;

	while (i < g->ncqs && !group_has_room(g, i, entries))
		i++;
	if (i == g->ncqs) {
		const int ret = group_add_cq(g, entries, !q->own_group);

		if (ret)
			return ret;
	}
	g->cqs[i].reserved += entries;
	q->cq = i;
	q->cq_share = entries;
	return 0;
}

/* ---- members ---- */

static int group_grow(struct host_poll_group *g)
{
	const uint32_t n = g->nmembers ? g->nmembers * 2 : GROUP_MEMBERS;

	if (n > HOST_TAG_INDEX)
		return -EMFILE;

	struct host_member *members = realloc(g->members, n * sizeof(*members));

	if (!members)
		return -ENOMEM;
	g->members = members;
	while (g->nmembers < n) {
		members[g->nmembers] = (struct host_member){
			.tag = g->nmembers,
			.next_free = g->free_member,
		};
		g->free_member = g->nmembers++;
	}
	return 0;
}

int host_group_join(struct host_queue *queue, uint32_t entries, struct host_error *error)
{
	struct host_poll_group *g = queue->group;
	int ret = g->free_member == GROUP_NO_MEMBER ? group_grow(g) : 0;

	if (!ret)
		ret = group_comp_channel(g);
	if (!ret)
		ret = group_reserve(queue, entries);
	if (ret)
		return host_error_set(error, ret, "cannot create queue %u to %s: a completion queue for %u "
				      "entries: %s", queue->qid, queue->where, entries, strerror(-ret));

	struct host_member *m = &g->members[g->free_member];

	g->free_member = m->next_free;
	m->queue = queue;
	queue->tag = m->tag;
	return 0;
}

/* Remove the queue from a list that is linked by the member at next. */
#define GROUP_UNLINK(head, tail, item, next)                                                        \
	do {                                                                                       \
		for ((tail) = &(head); *(tail);) {                                                 \
			if (*(tail) == (item))                                                     \
				*(tail) = (item)->next;                                            \
			else                                                                       \
				(tail) = &(*(tail))->next;                                         \
		}                                                                                  \
	} while (0)

void host_group_leave(struct host_queue *queue)
{
	struct host_poll_group *g = queue->group;
	struct host_queue *q = queue;

	if (!q->cq_share)
		return;
	g->cqs[q->cq].reserved -= q->cq_share;
	q->cq_share = 0;

	struct host_member *m = &g->members[q->tag & HOST_TAG_INDEX];

	m->queue = NULL;
	m->tag += HOST_TAG_GENERATION;
	m->next_free = g->free_member;
	g->free_member = (uint32_t)(m - g->members);
	host_queue_forget_done(q);
	GROUP_UNLINK(g->unsent, g->unsent_tail, q, unsent_next);
	GROUP_UNLINK(g->lost, g->lost_tail, q, lost_next);
	q->marked = false;
}

void host_group_mark(struct host_queue *queue)
{
	struct host_poll_group *g = queue->group;

	if (queue->marked)
		return;
	queue->marked = true;
	queue->unsent_next = NULL;
	*g->unsent_tail = queue;
	g->unsent_tail = &queue->unsent_next;
}

void host_poll_group_flush(struct host_poll_group *group)
{
	struct host_queue *q = group->unsent, *next;

	if (!q)
		return;
	group->unsent = NULL;
	group->unsent_tail = &group->unsent;
	for (; q; q = next) {
		next = q->unsent_next;
		q->marked = false;
		host_queue_flush(q);
	}
}

/* ---- lost queues ---- */

void host_group_lose(struct host_queue *queue)
{
	struct host_poll_group *g = queue->group;

	if (!queue->cq_share)
		return;
	queue->lost_next = NULL;
	*g->lost_tail = queue;
	g->lost_tail = &queue->lost_next;
	g->undrained = g->wc_count - g->wc_next + g->cqs[queue->cq].reserved;
}

struct host_queue *host_poll_group_lost(struct host_poll_group *group)
{
	struct host_queue *q = group->lost;

	if (!q || group->undrained)
		return NULL;
	group->lost = q->lost_next;
	if (!group->lost)
		group->lost_tail = &group->lost;
	return q;
}

void host_group_cm_events(struct host_poll_group *group)
{
	struct pollfd p = { .fd = group->channel->fd, .events = POLLIN };

	while (poll(&p, 1, 0) > 0) {
		struct rdma_cm_event *ev;

		if (group->verbs->get_cm_event(group->channel, &ev))
			return;

		struct host_queue *q = ev->id->context;
		const enum rdma_cm_event_type type = ev->event;
		const int status = ev->status;

		group->verbs->ack_cm_event(ev);
		host_queue_cm_event(q, type, status);
	}
}

/* ---- sleep ---- */

int host_poll_group_fd(const struct host_poll_group *group)
{
	return group->epfd;
}

int host_poll_group_arm(struct host_poll_group *group)
{
	int ret = 0;

	if (group->epfd < 0)
		return -EINVAL;
	host_poll_group_flush(group);
	for (unsigned i = 0; i < group->ncqs && !ret; i++)
		ret = -ibv_req_notify_cq(group->cqs[i].cq, 0);
	return ret;
}

void host_poll_group_drain(struct host_poll_group *group)
{
	struct ibv_cq *cq;
	void *context;

	if (!group->comp)
		return;
	while (!group->verbs->get_cq_event(group->comp, &cq, &context))
		group->verbs->ack_cq_events(cq, 1);
	host_group_cm_events(group);
}
