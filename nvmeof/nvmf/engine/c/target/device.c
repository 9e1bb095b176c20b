/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices in use.
 *
 * Owns, per device, the protection domain and the registrations of the reactors' pools.  A device is opened when
 * listening on it begins, or at the first connection.  It is closed when the target ends, or after the device was
 * removed and its last queue pair is freed, because many drivers wait for that.
 *
 * Opening and closing register and deregister memory, which takes long on devices that pin it.  So this is done on
 * the memory thread (background.h), and ends with the upcall DEVICE.  If a device does not pin memory, it is done at
 * once.  Control thread, except functions named *_job.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct background *device_lane(const struct target_device *device)
{
	return device->verbs->pins_memory ? device->target->memory : NULL;
}

/* ---- opening ---- */

static void device_deregister(struct target_device *device)
{
	const struct verbs *verbs = device->verbs;

	for (unsigned i = 0; device->pool_mr && i < device->target->reactors; i++)
		if (device->pool_mr[i])
			verbs->dereg_mr(device->pool_mr[i]);
	if (device->zero_mr)
		verbs->dereg_mr(device->zero_mr);
	srqs_free(device);
	if (device->pd)
		verbs->dealloc_pd(device->pd);
	device->zero_mr = NULL;
	device->pd = NULL;
	free(device->pool_mr);
	device->pool_mr = NULL;
}

static int device_register(struct target_device *device)
{
	const struct verbs *verbs = device->verbs;
	struct target *target = device->target;
	bool iwarp = device->context->device->transport_type == IBV_TRANSPORT_IWARP;

	device->sink_access = IBV_ACCESS_LOCAL_WRITE;
	if (iwarp && !verbs->read_sink_is_local) {
		device->sink_access |= IBV_ACCESS_REMOTE_WRITE;
		device->private_pd = true;
	}
	device->send_with_invalidate = iwarp || (device->attr.device_cap_flags &
						 IBV_DEVICE_MEM_MGT_EXTENSIONS);
	if (device->private_pd)	/* its queue pairs could not use memory registered here */
		return 0;
	for (unsigned i = 0; i < target->reactors; i++) {
		struct pool *pool = &target->reactor[i]->pool;

		device->pool_mr[i] = verbs->reg_mr(device->pd, pool->memory, pool->bytes,
						   device->sink_access);
		if (!device->pool_mr[i])
			return errno;
	}
	device->zero_mr = verbs->reg_mr(device->pd, target->zero, TARGET_ZERO_BYTES, 0);
	if (device->zero_mr) {	/* without it, reads of null stores use buffers */
		device->zero.base = target->zero;
		device->zero.span = TARGET_ZERO_BYTES;
		device->zero.lkey = device->zero_mr->lkey;
	}
	return 0;
}

/* Open a device, or record in why the reason for which it could not be opened. */
static void device_open_job(struct job *job)
{
	struct target_device *device = container_of(job, struct target_device, job);
	const struct verbs *verbs = device->verbs;
	const char *what = "query_device";
	int rc = verbs->query_device(device->context, &device->attr);

	if (!rc) {
		what = "alloc_pd";
		device->pd = verbs->alloc_pd(device->context);
		device->pool_mr = calloc(device->target->reactors, sizeof(*device->pool_mr));
		rc = device->pd && device->pool_mr ? 0 : errno;
	}
	if (!rc) {
		what = "registering the buffers (is the memlock limit too low?)";
		rc = device_register(device);
	}
	if (rc)
		snprintf(device->why, sizeof(device->why), "%s device %s: %s: %s", verbs->name,
			 device->name, what, strerror(rc));
	if (!device_lane(device))
		return;
	device->upcall = (struct target_upcall){ .type = TARGET_UPCALL_DEVICE, .device = device->name,
						 .reason = device->why, .cookie = device };
	target_post_upcall(device->target, &device->upcall);
}

static unsigned device_free_index(const struct target *target)
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

static void device_unlink(struct target_device *device)
{
	struct target_device **p = &device->target->devices;

	while (*p != device)
		p = &(*p)->next;
	*p = device->next;
	device->target->device_count--;
}

/* Take the result of device_open_job(). */
void device_opened(struct target_device *device)
{
	if (device->gone && !*device->why)
		snprintf(device->why, sizeof(device->why), "%s device %s: it was removed",
			 device->verbs->name, device->name);
	if (*device->why) {
		device_deregister(device);
		device_unlink(device);
		target_free_later(device->target, device);
		return;
	}
	device->state = DEVICE_READY;
	if (!device->target->ending)
		windows_open_device(device);
}

static struct target_device *device_new(struct target *target, const struct verbs *verbs,
					struct ibv_context *context)
{
	struct target_device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	device->target = target;
	device->verbs = verbs;
	device->context = context;
	device->index = device_free_index(target);
	snprintf(device->name, sizeof(device->name), "%s", verbs->get_device_name(context->device));
	target->device_count++;
	device->next = target->devices;
	target->devices = device;
	return device;
}

static struct target_device *device_find(struct target *target, const struct ibv_context *context)
{
	struct target_device *device;

	for (device = target->devices; device; device = device->next)
		if (device->context == context && !device->gone)
			return device;
	return NULL;
}

int target_device_open(struct target *target, const struct verbs *verbs, struct ibv_context *context,
		       char *err, size_t len)
{
	struct target_device *device = device_find(target, context);

	if (device)
		return device->state == DEVICE_READY ? 0 : -EAGAIN;
	if (!context || target->device_count == TARGET_MAX_DEVICES) {
		snprintf(err, len, context ? "there are more than %d RDMA devices"
					   : "the connection has no RDMA device (of %d at most)",
			 TARGET_MAX_DEVICES);
		return -ENOSPC;
	}
	device = device_new(target, verbs, context);
	if (!device) {
		snprintf(err, len, "out of memory");
		return -ENOMEM;
	}
	background_post(device_lane(device), &device->job, device_open_job);
	if (device_lane(device)) {
		snprintf(err, len, "device %s is still being prepared", device->name);
		return -EAGAIN;
	}
	if (*device->why)
		snprintf(err, len, "%s", device->why);
	device_opened(device);
	return device_find(target, context) ? 0 : -EIO;
}

struct target_device *device_get(struct target *target, const struct verbs *verbs,
				 struct ibv_context *context, char *err, size_t len)
{
	int rc = target_device_open(target, verbs, context, err, len);

	if (rc) {
		errno = -rc;
		return NULL;
	}
	return device_find(target, context);
}

/* ---- devices that were removed ---- */

static bool device_in_use(const struct target_device *device)
{
	for (const struct target_qpair *qp = device->target->qpairs; qp; qp = qp->next)
		if (qp->dev == device)
			return true;
	return false;
}

static void device_close_job(struct job *job)
{
	struct target_device *device = container_of(job, struct target_device, job);

	windows_close_device(device);
	device_deregister(device);
	device->upcall = (struct target_upcall){
		.type = (enum target_upcall_type)TARGET_UPCALL_DEVICE_CLOSED,
		.cookie = device,
	};
	target_post_upcall(device->target, &device->upcall);
}

void device_closed(struct target_device *device)
{
	const struct verbs *verbs = device->verbs;

	device_unlink(device);
	free(device->shown);
	target_free_later(device->target, device);
	if (verbs->drop_unused)
		verbs->drop_unused();
}

static void device_drop(struct target_device *device)
{
	windows_snapshot(device);
	background_post(device_lane(device), &device->job, device_close_job);
}

/* Begin or finish freeing removed devices that no queue pair uses. */
void device_let_go(struct target *target)
{
	struct target_device *device, *next;

	for (device = target->devices; device; device = next) {
		next = device->next;
		if (!device->gone || device->state != DEVICE_READY || device_in_use(device))
			continue;
		device->state = DEVICE_CLOSING;
		if (device->cqs) {
			cqs_let_go(device);	/* device_cqs_gone() continues */
			srqs_let_go(device);
		} else {
			device_drop(device);
		}
	}
}

void device_srq_gone(struct target_device *device)
{
	device->cqs--;
	device_cqs_gone(device);
}

void device_cqs_gone(struct target_device *device)
{
	if (device->state == DEVICE_CLOSING && !device->cqs)
		device_drop(device);
}

void target_device_gone(struct target *target, const struct verbs *verbs, const char *name)
{
	for (struct target_device *device = target->devices; device; device = device->next)
		if (!strcmp(device->name, name))
			device->gone = true;
	device_let_go(target);
	if (verbs->drop_unused)
		verbs->drop_unused();
}

/* The reactors and background threads have ended, and there are no queue pairs. */
void device_free_all(struct target *target)
{
	struct target_device *device;

	cqs_free_all(target);
	while ((device = target->devices)) {
		device_deregister(device);
		device_unlink(device);
		free(device->shown);
		free(device);
	}
}
