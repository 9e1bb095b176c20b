/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of the embedded devices; see device_common.h. */
#include "device_common.h"
#include "sizes.h"
#include "stag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ibv_device **iw_device_list(struct iw_device *dev, int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &dev->device;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void iw_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *iw_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context **iw_context_list(struct iw_device *dev, int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &dev->ext.context;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void iw_free_devices(struct ibv_context **list)
{
	free(list);
}

struct ibv_context *iw_device_open(struct iw_device *dev, const struct ibv_device *device)
{
	if (device != &dev->device) {
		errno = ENODEV;
		return NULL;
	}
	return &dev->ext.context;
}

int iw_device_close(const struct iw_device *dev, const struct ibv_context *context)
{
	return context == &dev->ext.context ? 0 : EINVAL;
}

/* Constant for this machine, and different from real adapters: locally administered. */
static uint64_t guid(uint64_t seed)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	for (const char *p = host; *p; p++)
		seed = (seed ^ (unsigned char)*p) * 0x100000001b3u;
	return __builtin_bswap64((seed & ~0x0300000000000000u) | 0x0200000000000000u);
}

void iw_device_attributes(uint64_t seed, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.0");
	attr->node_guid = attr->sys_image_guid = guid(seed);
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000u;
	attr->max_qp = 1 << 20;
	attr->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_SRQ_RESIZE;
	attr->max_cq = 1 << 20;
	attr->max_cqe = IW_MAX_CQE;
	attr->max_mr = attr->max_mw = IW_MAX_STAGS;
	attr->max_pd = 1 << 20;
	attr->max_srq = 1 << 20;
	attr->max_srq_wr = IW_MAX_SRQ_WR;
	attr->max_res_rd_atom = 1 << 24;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

int iw_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = 0x80000000u;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->active_width = 2;		/* 4X */
	attr->active_speed = 4;		/* 10 Gb/s per lane */
	attr->phys_state = 5;		/* link up */
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int iw_device_gid(uint64_t seed, uint8_t port, int index, union ibv_gid *gid)
{
	const uint64_t id = guid(seed);

	if (port != 1 || index != 0)
		return EINVAL;
	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, &id, sizeof(id));
	return 0;
}
