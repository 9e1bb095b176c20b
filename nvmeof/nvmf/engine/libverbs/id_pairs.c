/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pairs and shared receive queues of ids, with completion queues of their own if the caller has none. */
#include "libverbs.h"

#include <stdlib.h>

static int own_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq, bool *own)
{
	struct ibv_comp_channel *channel;

	if (*cq)
		return 0;
	channel = device()->create_comp_channel(id->verbs);
	if (!channel)
		return -1;
	*cq = device()->create_cq(id->verbs, size ? (int)size : 1, id, channel, 0);
	if (!*cq) {
		device()->destroy_comp_channel(channel);
		return -1;
	}
	*own = true;
	return 0;
}

static void drop_cq(struct ibv_cq *cq, bool *own)
{
	struct ibv_comp_channel *channel;

	if (!*own)
		return;
	*own = false;
	channel = cq->channel;
	device()->destroy_cq(cq);
	device()->destroy_comp_channel(channel);
}

static int create(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct id_extra *extra = *id_extra(id);

	if (attr->send_cq && attr->recv_cq)
		return device()->create_qp(id, pd, attr);
	if (!id->verbs || id->qp) {
		errno = EINVAL;
		return -1;
	}
	if (!extra)
		*id_extra(id) = extra = calloc(1, sizeof(*extra));
	if (!extra)
		return -1;
	if (own_cq(id, attr->cap.max_send_wr, &attr->send_cq, &extra->own_send_cq) ||
	    own_cq(id, attr->cap.max_recv_wr, &attr->recv_cq, &extra->own_recv_cq) ||
	    device()->create_qp(id, pd, attr)) {
		const int e = errno;

		drop_cq(attr->send_cq, &extra->own_send_cq);
		drop_cq(attr->recv_cq, &extra->own_recv_cq);
		errno = e;
		return -1;
	}
	return 0;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr mine = *attr;	/* a copy: the caller's must not get our queues */
	const int rc = create(id, pd, &mine);

	attr->cap = mine.cap;
	return rc;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain;

	errno = plain_attr(attr, &plain);
	if (errno == EINVAL && !(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		errno = 0;		/* the id has a protection domain */
	if (errno || create(id, attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL, &plain))
		return -1;
	attr->cap = plain.cap;
	errno = pair_extend(id->qp, attr);
	if (!errno)
		return 0;
	rdma_destroy_qp(id);
	errno = ENOMEM;
	return -1;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct id_extra *extra = *id_extra(id);
	struct wr_batch *batch = id->qp ? wr_batch_of(id->qp) : NULL;

	device()->destroy_qp(id);
	wr_batch_free(batch);
	if (!extra)
		return;
	drop_cq(id->send_cq, &extra->own_send_cq);
	drop_cq(id->recv_cq, &extra->own_recv_cq);
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = device()->create_srq(pd ? pd : id->pd, attr);

	if (!srq)
		return -1;
	id->srq = srq;
	if (!id->pd)
		id->pd = pd;
	return 0;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	device()->destroy_srq(id->srq);
	id->srq = NULL;
}

/* ---- not supported ---- */

static int refused(void)
{
	unsupported();
	return -1;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	(void)id, (void)attr;
	return refused();
}

/* For applications that make the transitions of the queue pair themselves. */
EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id, (void)attr, (void)mask;
	return refused();
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	return refused();
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id, (void)event;
	return refused();
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id, (void)ece;
	return refused();
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id, (void)ece;
	return refused();
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)id, (void)addr, (void)context;
	return refused();
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	(void)id, (void)attr, (void)context;
	return refused();
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id, (void)addr;
	return refused();
}
