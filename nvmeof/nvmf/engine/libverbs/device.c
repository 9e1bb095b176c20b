/* SPDX-License-Identifier: BSD-3-Clause */
/* The device, its context and their attributes.  Any thread. */
#include "libverbs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const struct verbs *chosen;

/*
 * Servers of perftest close their listener and listen again on its port, and their clients connect sooner than they
 * would through the kernel.  The server of ucmatose sends first.
 */
enum { REFUSED_MS = 2000 };

static void choose(void)
{
	const char *name = getenv("NVMEOF_VERBS_DEVICE");
	struct iwarp_options o;

	iwarp_get_options(&o);
	o.refused_ms = REFUSED_MS;
	o.first_fpdu = true;
	iwarp_set_options(&o);
	if (!name || !*name || !strcmp(name, "iwarp")) {
		chosen = verbs_iwarp();
	} else if (!strcmp(name, "roce")) {
		chosen = verbs_roce();
	} else {
		fprintf(stderr, "libnvmf-verbs: NVMEOF_VERBS_DEVICE is %s: must be iwarp or roce\n", name);
		exit(2);
	}
}

const struct verbs *device(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	return chosen;
}

static int query_port_sized(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr whole;
	const int rc = device()->query_port(context, port, &whole);

	if (!rc)
		memcpy(attr, &whole, size < sizeof(whole) ? size : sizeof(whole));
	return rc;
}

enum { NO_VENDOR = 0x026e76 };		/* programs expect a vendor: this number is locally administered */

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int rc = device()->query_device(context, attr);

	attr->vendor_id = NO_VENDOR;
	return rc;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	if ((input && input->comp_mask) || size < sizeof(attr->orig_attr))
		return EINVAL;
	memset(attr, 0, size);
	if (size >= offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + sizeof(attr->phys_port_cnt_ex))
		attr->phys_port_cnt_ex = 1;
	return query_device(context, &attr->orig_attr);
}

static struct ibv_context *extended;

/* Set the functions that the inline functions of <infiniband/verbs.h> call through the context. */
static void extend(void)
{
	struct ibv_device **list = device()->get_device_list(NULL);
	struct verbs_context *ext;

	extended = list ? device()->open_device(list[0]) : NULL;
	device()->free_device_list(list);
	if (!extended)
		return;
	ext = verbs_get_ctx(extended);
	ext->query_port = query_port_sized;
	ext->query_device_ex = query_device_ex;
	ext->create_qp_ex = create_qp_ex;
	ext->create_cq_ex = create_cq_ex;
	extended->async_fd = eventfd(0, EFD_CLOEXEC);	/* the device has no such events: never ready */
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	return device()->get_device_list(num);
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	device()->free_device_list(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *dev)
{
	return device()->get_device_name(dev);
}

EXPORT int ibv_get_device_index(struct ibv_device *dev)
{
	(void)dev;
	return 0;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *dev)
{
	struct ibv_device_attr attr;
	struct ibv_context *context = device()->open_device(dev);

	if (!context || device()->query_device(context, &attr))
		return 0;
	return attr.node_guid;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ibv_context *context = device()->open_device(dev);

	pthread_once(&once, extend);
	return context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	return device()->close_device(context);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return query_device(context, attr);
}

#undef ibv_query_port
/* This symbol fills the original part of the structure; newer programs call query_port_sized(). */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port_sized(context, port, (struct ibv_port_attr *)attr,
				offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	return device()->query_gid(context, port, index, gid);
}

static bool on_ethernet(const struct ibv_context *context)
{
	return context->device->transport_type == IBV_TRANSPORT_IB;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	struct ibv_gid_entry one = { .gid_index = index, .port_num = port };

	if (flags || size < sizeof(one))
		return EOPNOTSUPP;
	if (port > UINT8_MAX || index > INT32_MAX || device()->query_gid(context, (uint8_t)port, (int)index, &one.gid))
		return EINVAL;
	one.gid_type = on_ethernet(context) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
	memcpy(entry, &one, sizeof(one));
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t size)
{
	struct ibv_port_attr port;
	size_t n = 0;

	if (flags || size < sizeof(*entries))
		return -EOPNOTSUPP;
	if (device()->query_port(context, 1, &port) || max < (size_t)port.gid_tbl_len)
		return -EINVAL;
	while (n < max && !_ibv_query_gid_ex(context, 1, (uint32_t)n, (void *)((char *)entries + n * size), 0, size))
		n++;
	return (ssize_t)n;
}

/* A private symbol of libibverbs, which ibv_devinfo and pyverbs use: 0 is InfiniBand and RoCE version 1, 1 version 2. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	(void)port;
	(void)index;
	*type = on_ethernet(context);
	return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index)
		return EINVAL;
	*pkey = 0xffff;
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	return port == 1 && pkey == 0xffff ? 0 : -1;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t count;

	(void)event;
	/* waits forever, or fails if the file does not block */
	return read(context->async_fd, &count, sizeof(count)) < 0 ? -1 : 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* Memory of the embedded devices is ordinary memory: a child may use its copy without affecting its parent's. */
EXPORT int ibv_fork_init(void)
{
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
