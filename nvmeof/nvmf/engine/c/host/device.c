/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's device: a verbs table, the context that addresses route to, its protection domain, and the memory
 * registered there.
 *
 * Control threads create and free all of it; the queues only read it.  The context is bound late: the first
 * connection binds it to the device that its address routes to, and memory registered before any connection binds it
 * to the first device.
 */
#include "internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, RXE_VENDOR = 0xffffff };

struct host_device *host_device_get(const struct verbs *verbs, enum host_remote_keys keys, char *err,
				    size_t len)
{
	struct host_device *d = calloc(1, sizeof(*d));

	if (!d) {
		snprintf(err, len, "no memory for a host device");
		return NULL;
	}
	d->verbs = verbs ? verbs : verbs_iwarp();
	d->keys = keys;
	pthread_mutex_init(&d->lock, NULL);
	atomic_init(&d->refs, 1);
	return d;
}

void host_device_put(struct host_device *device)
{
	if (!device || atomic_fetch_sub(&device->refs, 1) != 1)
		return;
	if (device->pd)
		device->verbs->dealloc_pd(device->pd);
	if (device->id)
		device->verbs->destroy_id(device->id);
	if (device->channel)
		device->verbs->destroy_event_channel(device->channel);
	if (device->opened)
		device->verbs->close_device(device->opened);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static int context_bind_locked(struct host_device *d, struct ibv_context *context, char *err, size_t len)
{
	if (d->context == context)
		return 0;
	if (d->context) {
		snprintf(err, len,
			 "the address routes to RDMA device %s, but this host device is bound to %s: use "
			 "a host device of its own for each",
			 d->verbs->get_device_name(context->device),
			 d->verbs->get_device_name(d->context->device));
		return -EXDEV;
	}
	int ret = d->verbs->query_device(context, &d->attr);

	if (ret) {
		snprintf(err, len, "cannot query RDMA device %s: %s",
			 d->verbs->get_device_name(context->device), strerror(ret));
		return -ret;
	}
	d->pd = d->verbs->alloc_pd(context);
	if (!d->pd) {
		ret = errno ? errno : ENOMEM;
		snprintf(err, len, "cannot create a protection domain on RDMA device %s: %s",
			 d->verbs->get_device_name(context->device), strerror(ret));
		return -ret;
	}
	/* rxe, as of Linux 6.12: invalidating a window that the peer has invalidated crashes the kernel */
	d->windows = d->keys == HOST_KEYS_OF_COMMANDS && d->attr.max_mw > 0 && d->attr.vendor_id != RXE_VENDOR &&
		     (d->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	d->context = context;
	return 0;
}

int host_device_bind(struct host_device *device, struct ibv_context *context, char *err, size_t len)
{
	pthread_mutex_lock(&device->lock);
	int ret = context_bind_locked(device, context, err, len);

	pthread_mutex_unlock(&device->lock);
	return ret;
}

/* The CM's own context for a local address: required for queue pairs that are created with cm ids. */
static struct ibv_context *context_of_address(struct host_device *d, struct sockaddr *addr)
{
	struct rdma_cm_id *id;

	if (d->verbs->create_id(d->channel, &id, NULL, RDMA_PS_TCP))
		return NULL;
	if (d->verbs->bind_addr(id, addr) || !id->verbs) {
		d->verbs->destroy_id(id);
		return NULL;
	}
	d->id = id;	/* keeps the context open */
	return id->verbs;
}

static struct ibv_context *context_first(struct host_device *d)
{
	struct ibv_context *context = NULL;
	struct ifaddrs *list = NULL;

	d->channel = d->verbs->create_event_channel();
	if (d->channel && !getifaddrs(&list)) {
		for (struct ifaddrs *a = list; a && !context; a = a->ifa_next)
			if (a->ifa_addr && (a->ifa_addr->sa_family == AF_INET ||
					    a->ifa_addr->sa_family == AF_INET6))
				context = context_of_address(d, a->ifa_addr);
		freeifaddrs(list);
	}
	if (context)
		return context;

	int n = 0;
	struct ibv_device **devices = d->verbs->get_device_list(&n);

	if (devices && n > 0)
		context = d->opened = d->verbs->open_device(devices[0]);
	if (devices)
		d->verbs->free_device_list(devices);
	return context;
}

/* Bind to the first device, if the device is not bound yet. */
static int context_bind_any(struct host_device *d, char *err, size_t len)
{
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	if (!d->context) {
		struct ibv_context *context = context_first(d);

		if (context) {
			ret = context_bind_locked(d, context, err, len);
		} else {
			snprintf(err, len, "the %s verbs have no RDMA device with an address", d->verbs->name);
			ret = -ENODEV;
		}
	}
	pthread_mutex_unlock(&d->lock);
	return ret;
}

/* Set the access for peers: through windows only, or by keys for reading and for writing the whole buffer. */
static int memory_register_keys(struct host_memory *m, bool local)
{
	const struct host_device *d = m->device;
	const bool keys = !local && d->keys == HOST_KEYS_OF_BUFFERS;
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (keys)
		access |= IBV_ACCESS_REMOTE_WRITE;
	else if (!local && d->windows)
		access |= IBV_ACCESS_MW_BIND;
	m->mr = d->verbs->reg_mr(d->pd, m->addr, m->length, access);
	if (!m->mr || !keys)
		return m->mr ? 0 : -1;
	m->source = d->verbs->reg_mr(d->pd, m->addr, m->length, IBV_ACCESS_REMOTE_READ);
	if (m->source)
		return 0;

	const int saved = errno;

	d->verbs->dereg_mr(m->mr);
	errno = saved;
	return -1;
}

static struct host_memory *memory_register_range(struct host_device *device, void *addr, size_t length,
						 bool local, char *err, size_t len)
{
	if (context_bind_any(device, err, len))
		return NULL;
	struct host_memory *m = calloc(1, sizeof(*m));

	if (!m) {
		snprintf(err, len, "no memory to register a buffer");
		return NULL;
	}
	m->addr = addr;
	m->length = length;
	m->device = device;
	if (memory_register_keys(m, local)) {
		snprintf(err, len, "cannot register %zu bytes with RDMA device %s: %s%s", length,
			 device->verbs->get_device_name(device->context->device), strerror(errno),
			 errno == ENOMEM ? " (is the memlock limit large enough? see ulimit -l)" : "");
		free(m);
		return NULL;
	}
	atomic_fetch_add(&device->refs, 1);
	return m;
}

struct host_memory *host_memory_register(struct host_device *device, void *addr, size_t length,
					 char *err, size_t len)
{
	return memory_register_range(device, addr, length, false, err, len);
}

static size_t memory_mapped_length(size_t length)
{
	size_t unit = length >= HUGE_PAGE ? (size_t)HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);

	return (length + unit - 1) / unit * unit;
}

/* Map huge pages of the pool, otherwise an aligned range for transparent huge pages. */
static void *memory_map_pages(size_t length)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;

	if (length < HUGE_PAGE)
		return mmap(NULL, length, prot, flags, -1, 0);

	void *p = mmap(NULL, length, prot, flags | MAP_HUGETLB, -1, 0);

	if (p != MAP_FAILED)
		return p;

	uint8_t *wide = mmap(NULL, length + HUGE_PAGE, prot, flags, -1, 0);

	if (wide == MAP_FAILED)
		return MAP_FAILED;
	uint8_t *at = wide + (-(uintptr_t)wide & (HUGE_PAGE - 1));

	if (at != wide)
		munmap(wide, (size_t)(at - wide));
	if (at != wide + HUGE_PAGE)
		munmap(at + length, (size_t)(wide + HUGE_PAGE - at));
	madvise(at, length, MADV_HUGEPAGE);
	return at;
}

static struct host_memory *memory_alloc(struct host_device *device, size_t length, bool local, char *err,
					size_t len)
{
	if (!length || length > SIZE_MAX / 2) {
		snprintf(err, len, "cannot map %zu bytes", length);
		return NULL;
	}
	size_t mapped = memory_mapped_length(length);
	void *p = memory_map_pages(mapped);

	if (p == MAP_FAILED) {
		snprintf(err, len, "cannot map %zu bytes: %s", length, strerror(errno));
		return NULL;
	}
	struct host_memory *m = memory_register_range(device, p, length, local, err, len);

	if (!m) {
		munmap(p, mapped);
		return NULL;
	}
	m->owned = true;
	return m;
}

struct host_memory *host_memory_alloc(struct host_device *device, size_t length, char *err,
				      size_t len)
{
	return memory_alloc(device, length, false, err, len);
}

struct host_memory *host_memory_alloc_local(struct host_device *device, size_t length, char *err,
					    size_t len)
{
	return memory_alloc(device, length, true, err, len);
}

void host_memory_free(struct host_memory *memory)
{
	if (!memory)
		return;
	if (memory->source)
		memory->device->verbs->dereg_mr(memory->source);
	memory->device->verbs->dereg_mr(memory->mr);
	if (memory->owned)
		munmap(memory->addr, memory_mapped_length(memory->length));
	host_device_put(memory->device);
	free(memory);
}
