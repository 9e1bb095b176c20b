/* SPDX-License-Identifier: BSD-3-Clause */
/* The device and its context: one of each, static, for the whole process; what it says about itself.  Any thread. */
#include "device.h"
#include "qp.h"

#include <stdlib.h>
#include <unistd.h>

struct ro_dev ro_dev = {
	.device = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = "roce0",
		.dev_name = "roce0",
	},
	.context = {
		.device = &ro_dev.device,
		.ops = {
			.alloc_mw = iw_alloc_mw,
			.dealloc_mw = iw_dealloc_mw,
			.poll_cq = iw_poll_cq,
			.req_notify_cq = iw_req_notify_cq,
			.post_send = ro_post_send,
			.post_recv = ro_post_recv,
			.post_srq_recv = iw_post_srq_recv,
		},
		.cmd_fd = -1,
		.async_fd = -1,
		.num_comp_vectors = 1,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
	},
};

const char *roce_qp_end_reason(struct ibv_qp *qp)
{
	return qp && qp->context == &ro_dev.context ? ro_qp_reason(ro_qp(qp)) : "";
}

struct ibv_device **ro_get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &ro_dev.device;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void ro_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ro_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context **ro_get_devices(int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &ro_dev.context;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void ro_free_devices(struct ibv_context **list)
{
	free(list);
}

struct ibv_context *ro_open_device(struct ibv_device *device)
{
	if (device != &ro_dev.device) {
		errno = ENODEV;
		return NULL;
	}
	return &ro_dev.context;
}

int ro_close_device(struct ibv_context *context)
{
	return context == &ro_dev.context ? 0 : EINVAL;
}

/* The same on every run on this machine, and not a real adapter's: locally administered. */
static uint64_t guid(void)
{
	char host[256] = "";
	uint64_t h = 0x84222325cbf29ce4u;

	gethostname(host, sizeof(host) - 1);
	for (const char *p = host; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	return (h & ~0x0300000000000000u) | 0x0200000000000000u;
}

int ro_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.0");
	attr->node_guid = attr->sys_image_guid = __builtin_bswap64(guid());
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000u;
	attr->max_qp = 1 << 20;
	attr->max_qp_wr = RO_MAX_WR;
	attr->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_RC_RNR_NAK_GEN;
	attr->max_sge = RO_MAX_SGE;
	attr->max_sge_rd = RO_MAX_SGE;
	attr->max_cq = 1 << 20;
	attr->max_cqe = IW_MAX_CQE;
	attr->max_mr = attr->max_mw = IW_MAX_STAGS;
	attr->max_pd = 1 << 20;
	attr->max_srq = 1 << 20;
	attr->max_srq_wr = IW_MAX_SRQ_WR;
	attr->max_srq_sge = RO_MAX_SGE;
	attr->max_qp_rd_atom = RO_MAX_RD;
	attr->max_res_rd_atom = 1 << 24;
	attr->max_qp_init_rd_atom = RO_MAX_RD;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
	return 0;
}

int ro_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
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
	attr->active_speed = 4;		/* 10 Gb/s a lane */
	attr->phys_state = 5;		/* link up */
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int ro_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != 1 || index != 0)
		return EINVAL;
	memset(gid, 0, sizeof(*gid));
	ro_put64(gid->raw, guid());
	return 0;
}
