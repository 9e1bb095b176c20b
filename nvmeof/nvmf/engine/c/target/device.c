/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices in use, and the completion queues of reactors on them.
 *
 * Owns, per device, the protection domain and the registrations of the reactors' pools; per reactor
 * and device, completion queues with a channel each, as many as the queue pairs need.  All of it is
 * made by the control thread at first use and stays until the target ends, or until the device was
 * removed and its last queue pair is gone: many a driver cannot let the device go before.
 */
#include "target/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void device_free(struct target *target, struct target_device *device)
{
	const struct verbs *verbs = device->verbs;

	for (unsigned i = 0; device->pool_mr && i < target->reactors; i++)
		if (device->pool_mr[i])
			verbs->dereg_mr(device->pool_mr[i]);
	if (device->zero_mr)
		verbs->dereg_mr(device->zero_mr);
	if (device->pd)
		verbs->dealloc_pd(device->pd);
	free(device->pool_mr);
	free(device);
}

static int device_register(struct target *target, struct target_device *device)
{
	const struct verbs *verbs = device->verbs;
	bool iwarp = device->context->device->transport_type == IBV_TRANSPORT_IWARP;

	device->sink_access = IBV_ACCESS_LOCAL_WRITE;
	if (iwarp && !verbs->read_sink_is_local)
		device->sink_access |= IBV_ACCESS_REMOTE_WRITE;
	device->send_with_invalidate = iwarp || (device->attr.device_cap_flags &
						 IBV_DEVICE_MEM_MGT_EXTENSIONS);
	for (unsigned i = 0; i < target->reactors; i++) {
		struct pool *pool = &target->reactor[i]->pool;

		device->pool_mr[i] = verbs->reg_mr(device->pd, pool->memory, pool->bytes,
						   device->sink_access);
		if (!device->pool_mr[i])
			return -errno;
	}
	device->zero_mr = verbs->reg_mr(device->pd, target->zero, TARGET_ZERO_BYTES, 0);
	if (device->zero_mr) {	/* else reads of null stores go through buffers */
		device->zero.base = target->zero;
		device->zero.span = TARGET_ZERO_BYTES;
		device->zero.lkey = device->zero_mr->lkey;
	}
	return 0;
}

static int device_open(struct target *target, struct target_device *device, char *err, size_t len)
{
	const struct verbs *verbs = device->verbs;
	const char *what = "query_device";
	int rc = verbs->query_device(device->context, &device->attr);

	if (!rc) {
		what = "alloc_pd";
		device->pd = verbs->alloc_pd(device->context);
		device->pool_mr = calloc(target->reactors, sizeof(*device->pool_mr));
		rc = device->pd && device->pool_mr ? 0 : errno;
	}
	if (!rc) {
		what = "registering the buffers (is the memlock limit too low?)";
		rc = -device_register(target, device);
	}
	if (rc)
		snprintf(err, len, "%s device: %s: %s", verbs->name, what, strerror(rc));
	return rc;
}

static unsigned free_index(const struct target *target)
{
	const struct target_device *device;
	unsigned index = 0;

	for (device = target->devices; device;)
		if (device->index == index) {
			index++;
			device = target->devices;
		} else {
			device = device->next;
		}
	return index;
}

struct target_device *device_get(struct target *target, const struct verbs *verbs,
				 struct ibv_context *context, char *err, size_t len)
{
	struct target_device *device;

	for (device = target->devices; device; device = device->next)
		if (device->context == context && !device->gone)
			return device;
	if (!context || target->device_count == TARGET_MAX_DEVICES) {
		snprintf(err, len, context ? "more than %d RDMA devices"
					   : "the connection has no RDMA device (of %d at most)",
			 TARGET_MAX_DEVICES);
		return NULL;
	}
	device = calloc(1, sizeof(*device));
	if (!device) {
		snprintf(err, len, "out of memory");
		return NULL;
	}
	device->verbs = verbs;
	device->context = context;
	device->index = free_index(target);
	if (device_open(target, device, err, len)) {
		device_free(target, device);
		return NULL;
	}
	target->device_count++;
	device->next = target->devices;
	target->devices = device;
	namespace_device_added(target, device);
	return device;
}

/* ---- completion queues ---- */

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
						   0);
	}
	if (!rcq->cq) {
		int saved = errno;

		cq_free(rcq);
		errno = saved;
		return NULL;
	}
	return rcq;
}

/* A completion queue with room for so many more. */
static struct reactor_cq *cq_get(struct reactor *reactor, struct target_device *device,
				 uint32_t entries, bool sends, char *err, size_t len)
{
	uint32_t size = reactor->target->options.cq_entries;
	uint32_t limit = device->attr.max_cqe > 0 ? (uint32_t)device->attr.max_cqe : UINT32_MAX;
	struct reactor_cq *rcq;

	for (rcq = reactor->control_cqs; rcq; rcq = rcq->sibling)
		if (rcq->device == device && rcq->sends == sends &&
		    rcq->entries - rcq->reserved >= entries)
			break;
	if (!rcq) {
		size = size > limit ? limit : size;
		if (entries > limit) {
			snprintf(err, len, "a completion queue of %u entries: the device has %u",
				 entries, limit);
			return NULL;
		}
		rcq = cq_create(reactor, device, size < entries ? entries : size, sends);
		if (!rcq) {
			snprintf(err, len, "cannot make a completion queue of %u entries: %s",
				 size < entries ? entries : size, strerror(errno));
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

int device_cqs_get(struct target_qpair *qp, char *err, size_t len)
{
	struct reactor *reactor = qp->reactor;
	uint32_t receives = qp->recv_share, sends = qp->send_share;

	if (qp->verbs->sends_complete_inline) {	/* one is polled in less time than two */
		qp->recv_cq = cq_get(reactor, qp->dev, receives + sends, false, err, len);
		qp->send_cq = qp->recv_cq;
	} else {
		qp->recv_cq = cq_get(reactor, qp->dev, receives, false, err, len);
		if (qp->recv_cq)
			qp->send_cq = cq_get(reactor, qp->dev, sends, true, err, len);
	}
	return qp->send_cq ? 0 : -EIO;
}

void device_cqs_put(struct target_qpair *qp)
{
	if (qp->recv_cq)
		qp->recv_cq->reserved -= qp->recv_share;
	if (qp->send_cq)
		qp->send_cq->reserved -= qp->send_share;
	qp->recv_cq = qp->send_cq = NULL;
}

/* ---- devices that were removed ---- */

static bool in_use(const struct target *target, const struct target_device *device)
{
	for (const struct target_qpair *qp = target->qpairs; qp; qp = qp->next)
		if (qp->dev == device)
			return true;
	return false;
}

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

static void device_drop(struct target *target, struct target_device *device)
{
	struct target_device **p = &target->devices;
	const struct verbs *verbs = device->verbs;

	while (*p != device)
		p = &(*p)->next;
	*p = device->next;
	target->device_count--;
	namespace_device_gone(target, device);
	device_free(target, device);
	if (verbs->drop_unused)
		verbs->drop_unused();
}

/* Begin, or end, to free the removed devices that no queue pair has any more. */
void device_let_go(struct target *target)
{
	struct target_device *device, *next;

	for (device = target->devices; device; device = next) {
		next = device->next;
		if (!device->gone || device->released || in_use(target, device))
			continue;
		device->released = true;
		if (!device->cqs) {
			device_drop(target, device);
			continue;
		}
		for (unsigned i = 0; i < target->reactors; i++) {
			struct reactor_cq *rcq = target->reactor[i]->control_cqs;

			for (; rcq; rcq = rcq->sibling)
				if (rcq->device == device)
					reactor_mail(target->reactor[i], &rcq->gone_mail,
						     cq_let_go);
		}
	}
}

void device_cq_gone(struct reactor_cq *rcq)
{
	struct target_device *device = rcq->device;
	struct target *target = rcq->reactor->target;
	struct reactor_cq **p = &rcq->reactor->control_cqs;

	while (*p != rcq)
		p = &(*p)->sibling;
	*p = rcq->sibling;
	cq_free(rcq);
	if (!--device->cqs)
		device_drop(target, device);
}

void target_device_gone(struct target *target, const struct verbs *verbs, const char *name)
{
	for (struct target_device *device = target->devices; device; device = device->next)
		if (!strcmp(device->context->device->name, name))
			device->gone = true;
	device_let_go(target);
	if (verbs->drop_unused)
		verbs->drop_unused();
}

/* The reactors have ended and no queue pair is left. */
void device_free_all(struct target *target)
{
	struct target_device *device;

	for (unsigned i = 0; i < target->reactors; i++) {
		struct reactor *reactor = target->reactor[i];
		struct reactor_cq *rcq;

		while ((rcq = reactor->control_cqs)) {
			reactor->control_cqs = rcq->sibling;
			cq_free(rcq);
		}
	}
	while ((device = target->devices)) {
		target->devices = device->next;
		device_free(target, device);
	}
}
