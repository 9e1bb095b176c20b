/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices in use, and the completion queues of reactors on them.
 *
 * Owns, per device, the protection domain and the registrations of the reactors' pools; per reactor
 * and device, completion queues with a channel each, as many as the queue pairs need.  All of it is
 * made by the control thread at first use and stays until the target ends.
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

struct target_device *device_get(struct target *target, const struct verbs *verbs,
				 struct ibv_context *context, char *err, size_t len)
{
	struct target_device *device;

	for (device = target->devices; device; device = device->next)
		if (device->context == context)
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
	device->index = target->device_count;
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
				    uint32_t entries)
{
	const struct verbs *verbs = device->verbs;
	struct reactor_cq *rcq = calloc(1, sizeof(*rcq));
	int flags;

	if (!rcq)
		return NULL;
	rcq->reactor = reactor;
	rcq->device = device;
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

/* A completion queue with room for so many more; queue pairs give it back as they go. */
struct reactor_cq *device_cq_get(struct reactor *reactor, struct target_device *device,
				 uint32_t entries, char *err, size_t len)
{
	uint32_t size = reactor->target->options.cq_entries;
	uint32_t limit = device->attr.max_cqe > 0 ? (uint32_t)device->attr.max_cqe : UINT32_MAX;
	struct reactor_cq *rcq;

	for (rcq = reactor->control_cqs; rcq; rcq = rcq->sibling)
		if (rcq->device == device && rcq->entries - rcq->reserved >= entries)
			break;
	if (!rcq) {
		size = size > limit ? limit : size;
		if (entries > limit) {
			snprintf(err, len, "a completion queue of %u entries: the device has %u",
				 entries, limit);
			return NULL;
		}
		rcq = cq_create(reactor, device, size < entries ? entries : size);
		if (!rcq) {
			snprintf(err, len, "cannot make a completion queue of %u entries: %s",
				 size < entries ? entries : size, strerror(errno));
			return NULL;
		}
		rcq->sibling = reactor->control_cqs;
		reactor->control_cqs = rcq;
		reactor_mail(reactor, &rcq->mail, cq_deliver);
	}
	rcq->reserved += entries;
	return rcq;
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
