/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, memory, channels, queues; and kinds of objects that the device does not support.  Any thread. */
#include "libverbs.h"

#include <string.h>

int unsupported(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return device()->alloc_pd(context);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return device()->dealloc_pd(pd);
}

/* The device ignores optional access rights, and those for the placement of memory. */
#undef ibv_reg_mr
EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	access &= ~(IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB);
	if (access & IBV_ACCESS_ON_DEMAND) {
		unsupported();
		return NULL;
	}
	return device()->reg_mr(pd, addr, length, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	if (iova != (uintptr_t)addr) {
		unsupported();
		return NULL;
	}
	return ibv_reg_mr(pd, addr, length, (int)access);
}

#undef ibv_reg_mr_iova
EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	unsupported();
	return NULL;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
	unsupported();
	return IBV_REREG_MR_ERR_INPUT;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return device()->dereg_mr(mr);
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return device()->create_comp_channel(context);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return device()->destroy_comp_channel(channel);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	return device()->get_cq_event(channel, cq, cq_context);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	device()->ack_cq_events(cq, nevents);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	return device()->create_cq(context, cqe, cq_context, channel, comp_vector);
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return device()->resize_cq(cq, cqe);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct wc_batch *batch = ((struct verbs_cq_head *)cq)->batch;
	const int rc = device()->destroy_cq(cq);

	if (!rc)
		wc_batch_free(batch);
	return rc;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return device()->create_srq(pd, attr);
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return device()->modify_srq(srq, attr, mask);
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	(void)srq, (void)attr;
	return unsupported();
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return device()->destroy_srq(srq);
}

/* ---- datagrams and multicast: not supported, because the devices have connections only ---- */

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd, (void)attr;
	unsupported();
	return NULL;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	(void)pd, (void)wc, (void)grh, (void)port;
	unsupported();
	return NULL;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	(void)context, (void)port, (void)wc, (void)grh, (void)attr;
	return unsupported();
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
				       uint16_t *vid)
{
	(void)context, (void)attr, (void)mac, (void)vid;
	return unsupported();
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	return unsupported();
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return unsupported();
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return unsupported();
}

/* ---- objects of a different process ---- */

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	unsupported();
	return NULL;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	unsupported();
	return NULL;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	unsupported();
	return NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	unsupported();
	return NULL;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}
