/* SPDX-License-Identifier: BSD-3-Clause */
/* The device and its context: one of each, static, for the whole process; its attributes.  Any thread. */
#include "device.h"
#include "qp.h"

#define GUID_SEED 0x84222325cbf29ce4u

struct iw_device ro_dev = {
	.device = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = "roce0",
		.dev_name = "roce0",
	},
	.ext = {
		.sz = sizeof(struct verbs_context),
		.context = {
			.abi_compat = __VERBS_ABI_IS_EXTENDED,
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
	},
};

const char *roce_qp_end_reason(struct ibv_qp *qp)
{
	return qp && qp->context == &ro_dev.ext.context ? ro_qp_reason(ro_qp(qp)) : "";
}

struct ibv_device **ro_get_device_list(int *num)
{
	return iw_device_list(&ro_dev, num);
}

struct ibv_context **ro_get_devices(int *num)
{
	return iw_context_list(&ro_dev, num);
}

struct ibv_context *ro_open_device(struct ibv_device *device)
{
	return iw_device_open(&ro_dev, device);
}

int ro_close_device(struct ibv_context *context)
{
	return iw_device_close(&ro_dev, context);
}

int ro_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	iw_device_attributes(GUID_SEED, attr);
	attr->max_qp_wr = RO_MAX_WR;
	attr->device_cap_flags |= IBV_DEVICE_RC_RNR_NAK_GEN;
	attr->max_sge = attr->max_sge_rd = attr->max_srq_sge = RO_MAX_SGE;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = RO_MAX_RD;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	return 0;
}
