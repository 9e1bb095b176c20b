/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host queue's life cycle: its rings and slots, its queue pair on a resolved cm id, its end.  The data path is in
 * submit.c and complete.c, establishing the connection in connect.c.
 *
 * Called by the thread that creates the queue and the one that destroys it; both may block (bounded).
 */
#include "internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Work requests that a queue may have posted beyond its size (keys.c); more than its receives need. */
enum { SEND_SLACK = 4 * HOST_SIGNAL_EVERY + HOST_NUDGES };

static int queue_no_memory(struct host_queue *q, struct host_error *error, const char *what)
{
	const int ret = errno ? errno : ENOMEM;

	return host_error_set(error, -ret, "cannot create queue %u to %s: %s: %s", q->qid, q->where,
			      what, strerror(ret));
}

static void queue_link_slots(struct host_queue *q)
{
	for (unsigned i = 0; i < q->depth; i++) {
		struct host_slot *s = &q->slots[i];

		s->cid = (uint16_t)i;
		s->wr.sg_list = s->sge;
		s->wr.opcode = IBV_WR_SEND;
		s->wr.send_flags = IBV_SEND_SIGNALED;
		q->free[i] = (uint16_t)(q->depth - 1 - i);
	}
	q->nfree = q->depth;
}

struct host_queue *host_queue_new(struct host_device *device,
				  const struct host_queue_options *options,
				  struct host_error *error)
{
	if (options->size < 2 || options->size > HOST_SIZE_MAX) {
		host_error_set(error, -EINVAL, "queue size %u is not between 2 and %d", options->size,
			       HOST_SIZE_MAX);
		errno = EINVAL;
		return NULL;
	}
	struct host_queue *q = calloc(1, sizeof(*q));

	if (!q)
		goto fail;
	q->device = device;
	atomic_fetch_add(&device->refs, 1);
	q->verbs = device->verbs;
	q->qid = options->qid;
	q->size = options->size;
	q->depth = (uint16_t)(options->size - 1);	/* one entry of a full queue stays empty */
	q->in_capsule = options->in_capsule;
	q->nrecv = q->depth + HOST_RECV_SLACK;
	snprintf(q->where, sizeof(q->where), strchr(options->traddr, ':') ? "[%s]:%s" : "%s:%s",
		 options->traddr, options->trsvcid);
	q->slots = calloc(q->depth, sizeof(*q->slots));
	q->free = calloc(q->depth, sizeof(*q->free));
	q->recvs = calloc(q->nrecv, sizeof(*q->recvs));
	q->recv_sges = calloc(q->nrecv, sizeof(*q->recv_sges));
	q->own_group = !options->group;
	q->group = options->group ? options->group :
		   host_poll_group_create(device, options->notify, error->text, sizeof(error->text));
	if (!q->slots || !q->free || !q->recvs || !q->recv_sges || !q->group) {
		host_queue_destroy(q);
		goto fail;
	}
	queue_link_slots(q);
	return q;
fail:
	host_error_set(error, -ENOMEM, "no memory for a queue of %u entries", options->size);
	errno = ENOMEM;
	return NULL;
}

static int queue_register_rings(struct host_queue *q, struct host_error *error)
{
	const size_t commands = q->depth * sizeof(struct nvme_sqe);
	const size_t bytes = commands + q->nrecv * sizeof(struct nvme_cqe);

	q->ring = host_memory_alloc_local(q->device, bytes, error->text, sizeof(error->text));
	if (!q->ring)
		return -ENOMEM;
	q->capsules = q->ring->addr;
	q->responses = (struct nvme_cqe *)((uint8_t *)q->ring->addr + commands);
	for (unsigned i = 0; i < q->depth; i++) {
		q->slots[i].sge[0] = (struct ibv_sge){
			.addr = (uintptr_t)&q->capsules[i],
			.length = sizeof(struct nvme_sqe),
			.lkey = q->ring->mr->lkey,
		};
	}
	for (unsigned i = 0; i < q->nrecv; i++) {
		q->recv_sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)&q->responses[i],
			.length = sizeof(struct nvme_cqe),
			.lkey = q->ring->mr->lkey,
		};
		q->recvs[i] = (struct ibv_recv_wr){
			.next = i + 1 < q->nrecv ? &q->recvs[i + 1] : NULL,
			.sg_list = &q->recv_sges[i],
			.num_sge = 1,
		};
	}
	return 0;
}

static int queue_build_qp(struct host_queue *q, struct host_error *error)
{
	const struct ibv_qp_init_attr plain = {
		.send_cq = q->group->cqs[q->cq].cq,
		.recv_cq = q->group->cqs[q->cq].cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = q->send_depth,
			.max_recv_wr = q->nrecv,
			.max_send_sge = 2,
			.max_recv_sge = 1,
		},
	};
	struct ibv_qp_init_attr init = plain;

	/* the embedded device sends a capsule from its place, and no longer needs it afterwards */
	init.cap.max_inline_data = q->verbs->sends_complete_inline ? 0 : sizeof(struct nvme_sqe);
	if (q->verbs->create_qp(q->id, q->device->pd, &init)) {
		init = plain;	/* the device may not support inline capsules */
		if (q->verbs->create_qp(q->id, q->device->pd, &init))
			return queue_no_memory(q, error, "queue pair");
	}
	q->capsule_flags = init.cap.max_inline_data < sizeof(struct nvme_sqe) ? 0 : IBV_SEND_INLINE;
	q->quiet = q->capsule_flags || q->verbs->sends_complete_inline;
	return 0;
}

/* Number the queue's work requests, so that they identify it and their slots. */
static void queue_number(struct host_queue *q)
{
	const uint64_t tag = (uint64_t)q->tag << HOST_WR_TAG_SHIFT;

	for (unsigned i = 0; i < q->depth; i++)
		q->slots[i].wr.wr_id = tag | HOST_WR_SEND | i;
	for (unsigned i = 0; q->windows && i < q->depth; i++)
		q->windows[i].bind.wr_id = tag | HOST_WR_BIND | i;
	for (unsigned i = 0; i < q->nrecv; i++)
		q->recvs[i].wr_id = tag | HOST_WR_RECV | i;
}

static bool queue_is_local(const struct host_queue *q)
{
	const struct sockaddr *to = &q->id->route.addr.dst_addr, *from = &q->id->route.addr.src_addr;

	if (to->sa_family == AF_INET6) {
		const struct in6_addr *a = &((const struct sockaddr_in6 *)to)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(a) || !memcmp(a, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(*a));
	}

	const struct in_addr a = ((const struct sockaddr_in *)to)->sin_addr;

	return ntohl(a.s_addr) >> 24 == IN_LOOPBACKNET ||
	       a.s_addr == ((const struct sockaddr_in *)from)->sin_addr.s_addr;
}

/*
 * A capsule of several packets is sent by itself.  If the target fetches the data instead, the capsules of several
 * commands are a train, and so are their data.  That costs a further round trip, which takes less time than it saves
 * only if the target is on this machine, and several commands are outstanding.
 */
static void queue_choose_capsules(struct host_queue *q)
{
	const uint32_t whole = q->verbs->train_message - (uint32_t)sizeof(struct nvme_sqe);

	q->in_capsule_busy = q->in_capsule;
	if (q->verbs->train && q->in_capsule > whole && queue_is_local(q))
		q->in_capsule_busy = whole;
}

int host_queue_build(struct host_queue *queue, struct host_error *error)
{
	struct host_queue *q = queue;
	struct ibv_recv_wr *bad;
	int ret = host_device_bind(q->device, q->id->verbs, error->text, sizeof(error->text));

	q->nudges = 0;
	if (ret)
		return ret;
	queue_choose_capsules(q);
	if (q->size > q->device->attr.max_qp_wr - SEND_SLACK)
		return host_error_set(error, -EINVAL,
				      "a queue of %u entries exceeds the limit of RDMA device %s (%d)",
				      q->size,
				      q->verbs->get_device_name(q->device->context->device),
				      q->device->attr.max_qp_wr - SEND_SLACK);
	ret = queue_register_rings(q, error);
	if (ret)
		return ret;
	if (host_keys_build(q))
		return queue_no_memory(q, error, "memory windows");
	/* an unsignalled request completes only if it fails, together with all others */
	ret = host_group_join(q, q->send_depth + q->nrecv + 1, error);
	if (ret)
		return ret;
	queue_number(q);
	ret = queue_build_qp(q, error);
	if (ret)
		return ret;
	ret = ibv_post_recv(q->id->qp, &q->recvs[0], &bad);
	if (ret) {
		errno = ret;
		return queue_no_memory(q, error, "posting receives");
	}
	return 0;
}

struct host_queue *host_queue_connect(struct host_device *device,
				      const struct host_queue_options *options,
				      struct host_error *error)
{
	host_error_clear(error);
	struct host_queue *q = host_queue_new(device, options, error);

	if (!q)
		return NULL;
	int ret = host_queue_establish(q, options, error);

	if (!ret)
		return q;
	host_queue_destroy(q);
	errno = -ret;
	return NULL;
}

void host_queue_stop(struct host_queue *queue)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	/* fails if the connection has ended or never began: then there is nothing to stop */
	if (queue->id && queue->id->qp)
		(void)queue->verbs->modify_qp(queue->id->qp, &attr, IBV_QP_STATE);
}

void host_queue_unbuild(struct host_queue *queue)
{
	struct host_queue *q = queue;

	if (q->id) {
		if (q->id->qp) {
			if (q->outstanding)
				host_queue_stop(q);
			q->verbs->disconnect(q->id);
			q->verbs->destroy_qp(q->id);
		}
		q->verbs->destroy_id(q->id);
		q->id = NULL;
	}
	host_keys_unbuild(q);
	host_group_leave(q);
	host_memory_free(q->ring);
	q->ring = NULL;
}

void host_queue_destroy(struct host_queue *queue)
{
	struct host_queue *q = queue;

	if (!q)
		return;
	host_queue_unbuild(q);
	if (q->own_group)
		host_poll_group_destroy(q->group);
	free(q->slots);
	free(q->free);
	free(q->recvs);
	free(q->recv_sges);
	host_device_put(q->device);
	free(q);
}

const char *host_queue_reason(const struct host_queue *queue)
{
	return queue->reason;
}

unsigned host_queue_outstanding(const struct host_queue *queue)
{
	return queue->outstanding;
}

unsigned host_queue_size(const struct host_queue *queue)
{
	return queue->size;
}

unsigned host_queue_room(const struct host_queue *queue)
{
	return queue->nfree + queue->outstanding;
}

int host_queue_fd(const struct host_queue *queue)
{
	return host_poll_group_fd(queue->group);
}

int host_queue_arm(struct host_queue *queue)
{
	return host_poll_group_arm(queue->group);
}

void host_queue_drain(struct host_queue *queue)
{
	host_poll_group_drain(queue->group);
}
