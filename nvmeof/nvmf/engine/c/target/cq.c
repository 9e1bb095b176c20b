/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues of reactors on devices.
 *
 * Owns, per reactor and device, one completion queue with its channel, or two if sends have their own (see
 * reactor.c).  A queue grows with the queue pairs that share it; a further one is created only if the device cannot
 * resize it or its maximum is reached.  The control thread creates and frees them; the reactor polls them.
 */
#include "target/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cq_free(struct reactor_cq *rcq)
{
	const struct verbs *verbs = rcq->device->verbs;

	if (rcq->cq)
		verbs->destroy_cq(rcq->cq);
	if (rcq->channel)
		verbs->destroy_comp_channel(rcq->channel);
	free(rcq);
}

static void cq_deliver(struct reactor *reactor, struct mail *mail)
{
	reactor_add_cq(reactor, container_of(mail, struct reactor_cq, mail));
}

/* Reactors have different vectors, because each vector interrupts one processor. */
static int cq_vector(const struct reactor *reactor, const struct target_device *device)
{
	int vectors = device->context->num_comp_vectors;

	return vectors > 0 ? (int)(reactor->index % (unsigned)vectors) : 0;
}

static struct reactor_cq *cq_create(struct reactor *reactor, struct target_device *device,
				    uint32_t entries, bool sends)
{
	const struct verbs *verbs = device->verbs;
	struct reactor_cq *rcq = calloc(1, sizeof(*rcq));
	int flags;

	if (!rcq)
		return NULL;
	rcq->reactor = reactor;
	rcq->device = device;
	rcq->sends = sends;
	rcq->entries = entries;
	rcq->channel = verbs->create_comp_channel(device->context);
	if (rcq->channel) {
		flags = fcntl(rcq->channel->fd, F_GETFL);
		if (flags >= 0 && !fcntl(rcq->channel->fd, F_SETFL, flags | O_NONBLOCK))
			rcq->cq = verbs->create_cq(device->context, (int)entries, rcq, rcq->channel,
						   cq_vector(reactor, device));
	}
	if (!rcq->cq) {
		int saved = errno;

		cq_free(rcq);
		errno = saved;
		return NULL;
	}
	return rcq;
}

/* Enlarge the queue if necessary; return whether it has room for more entries. */
static bool cq_has_room(struct reactor_cq *rcq, uint32_t entries, uint32_t limit)
{
	uint64_t needed = (uint64_t)rcq->reserved + entries;

	return needed <= rcq->entries ||
	       verbs_enlarge_cq(rcq->device->verbs, rcq->cq, &rcq->entries, needed, limit);
}

static struct reactor_cq *cq_find(struct reactor *reactor, struct target_device *device,
				  uint32_t entries, uint32_t limit, bool sends)
{
	struct reactor_cq *rcq;

	for (rcq = reactor->control_cqs; rcq; rcq = rcq->sibling)
		if (rcq->device == device && rcq->sends == sends &&
		    cq_has_room(rcq, entries, limit))
			break;
	return rcq;
}

static struct reactor_cq *cq_get(struct reactor *reactor, struct target_device *device,
				 uint32_t entries, bool sends, char *err, size_t len)
{
	uint32_t size = reactor->target->options.cq_entries;
	uint32_t limit = device->attr.max_cqe > 0 ? (uint32_t)device->attr.max_cqe : INT32_MAX;
	struct reactor_cq *rcq = cq_find(reactor, device, entries, limit, sends);

	if (!rcq) {
		size = size > limit ? limit : size;
		size = size < entries ? entries : size;
		if (entries > limit) {
			snprintf(err, len, "a completion queue of %u entries is needed, but the device allows %u",
				 entries, limit);
			return NULL;
		}
		rcq = cq_create(reactor, device, size, sends);
		if (!rcq) {
			snprintf(err, len, "cannot create a completion queue of %u entries: %s", size,
				 strerror(errno));
			return NULL;
		}
		rcq->sibling = reactor->control_cqs;
		reactor->control_cqs = rcq;
		device->cqs++;
		reactor_mail(reactor, &rcq->mail, cq_deliver);
	}
	rcq->reserved += entries;
	return rcq;
}

int cqs_get(struct target_qpair *qp, char *err, size_t len)
{
	struct reactor *reactor = qp->reactor;
	uint32_t receives = qp->recv_share, sends = qp->send_share;

	if (qp->verbs->sends_complete_inline) {	/* polling one takes less time than polling two */
		qp->recv_cq = cq_get(reactor, qp->dev, receives + sends, false, err, len);
		qp->send_cq = qp->recv_cq;
	} else {
		qp->recv_cq = cq_get(reactor, qp->dev, receives, false, err, len);
		if (qp->recv_cq)
			qp->send_cq = cq_get(reactor, qp->dev, sends, true, err, len);
	}
	return qp->send_cq ? 0 : -EIO;
}

void cqs_put(struct target_qpair *qp)
{
	if (qp->recv_cq)
		qp->recv_cq->reserved -= qp->recv_share;
	if (qp->send_cq)
		qp->send_cq->reserved -= qp->send_share;
	qp->recv_cq = qp->send_cq = NULL;
}

/* ---- queues of a device that was removed ---- */

static void cq_let_go(struct reactor *reactor, struct mail *mail)
{
	struct reactor_cq *rcq = container_of(mail, struct reactor_cq, gone_mail);

	reactor_remove_cq(reactor, rcq);
	rcq->upcall = (struct target_upcall){
		.type = (enum target_upcall_type)TARGET_UPCALL_CQ_GONE,
		.cookie = rcq,
	};
	target_post_upcall(reactor->target, &rcq->upcall);
}

void cqs_let_go(struct target_device *device)
{
	struct target *target = device->target;

	for (unsigned i = 0; i < target->reactors; i++)
		for (struct reactor_cq *rcq = target->reactor[i]->control_cqs; rcq; rcq = rcq->sibling)
			if (rcq->device == device)
				reactor_mail(target->reactor[i], &rcq->gone_mail, cq_let_go);
}

void cq_gone(struct reactor_cq *rcq)
{
	struct target_device *device = rcq->device;
	struct reactor_cq **p = &rcq->reactor->control_cqs;

	while (*p != rcq)
		p = &(*p)->sibling;
	*p = rcq->sibling;
	cq_free(rcq);
	device->cqs--;
	device_cqs_gone(device);
}

void cqs_free_all(struct target *target)
{
	for (unsigned i = 0; i < target->reactors; i++) {
		struct reactor *reactor = target->reactor[i];
		struct reactor_cq *rcq;

		while ((rcq = reactor->control_cqs)) {
			reactor->control_cqs = rcq->sibling;
			cq_free(rcq);
		}
	}
}
