/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a queue pair: one mapping, registered once, of which an idle queue uses little (pages are allocated
 * when they are first written).  Control thread.
 *
 * On an iWARP adapter the destination of an RDMA READ is memory that the peer may write to from then on, because in
 * RFC 5040 the Read Response names its destination by an STag that allows remote access.  To keep keys
 * to the memory of others from every host, a queue pair on such a device has its own protection domain and buffers.
 */
#include "target/calls.h"
#include "util/numa.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE 4096u
#define CID_BYTES (65536 / 8)
#define PRIVATE_SMALL 128u	/* of a queue pair with its own buffers: the maximum of small ones, */
#define PRIVATE_LARGE 8u	/* and the number of large ones for an I/O queue */

static size_t region_place(size_t *at, size_t bytes, size_t align)
{
	size_t here = (*at + align - 1) & ~(align - 1);

	*at = here + bytes;
	return here;
}

/*
 * The part used by the device comes first, and only that part is registered.  SQEs are adjacent; in-capsule data is
 * on pages of its own, from which O_DIRECT stores can write.  A queue pair with shared receives has neither.
 */
int region_map(struct target_qpair *qp)
{
	uint32_t depth = qp->srq ? 0 : qp->options.recv_depth;
	size_t stride = (qp->in_capsule + PAGE - 1) & ~(size_t)(PAGE - 1), at = 0;
	size_t own = region_place(&at, TARGET_OWN_BUFFER, PAGE);
	size_t cqes = region_place(&at, sizeof(struct nvme_cqe) * qp->request_count, CACHE_LINE);
	size_t sqes = region_place(&at, sizeof(struct nvme_sqe) * depth, CACHE_LINE);
	size_t data = region_place(&at, stride * depth, PAGE);
	size_t requests = region_place(&at, sizeof(struct target_request) * qp->request_count, PAGE);
	size_t recvs = region_place(&at, sizeof(struct recv) * depth, CACHE_LINE);
	size_t sgls = region_place(&at, sizeof(struct sgl_entry) * TARGET_MAX_SGL * qp->request_count,
				   CACHE_LINE);
	size_t cids = region_place(&at, CID_BYTES, CACHE_LINE);

	qp->registered_bytes = requests;
	qp->region_bytes = at;
	qp->region = mmap(NULL, at, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (qp->region == MAP_FAILED) {
		qp->region = NULL;
		return -ENOMEM;
	}
	numa_prefer(qp->region, qp->region_bytes, qp->reactor->node);
	qp->cqes = (void *)(qp->region + cqes);
	qp->recvs = (void *)(qp->region + recvs);
	qp->requests = (void *)(qp->region + requests);
	qp->sgls = (void *)(qp->region + sgls);
	qp->cids = (void *)(qp->region + cids);
	qp->own = (struct chunk){ .tx.is_chunk = true, .buffer = qp->region + own };
	qp->own_free = true;
	for (uint32_t i = 0; i < depth; i++) {
		struct recv *recv = &qp->recvs[i];

		recv->qp = qp;
		recv->sqe = (struct nvme_sqe *)(void *)(qp->region + sqes) + i;
		recv->data = qp->region + data + stride * i;
		fifo_push(&qp->repost, &recv->link);
	}
	return 0;
}

/* The protection domain and buffers of a queue pair that has its own. */
int region_make_private(struct target_qpair *qp)
{
	const struct pool *shared = &qp->reactor->pool;
	uint32_t depth = qp->options.recv_depth, small = depth < PRIVATE_SMALL ? depth : PRIVATE_SMALL;
	struct pool *pool = &qp->private_pool;

	qp->pd = qp->verbs->alloc_pd(qp->id->verbs);
	if (!qp->pd)
		return -errno;
	if (pool_create_private(pool, shared, small, qp->options.qid ? PRIVATE_LARGE : 0,
				qp->reactor->node))
		return -ENOMEM;
	qp->pool_mr = qp->verbs->reg_mr(qp->pd, pool->memory, pool->bytes, qp->dev->sink_access);
	if (!qp->pool_mr)
		return -errno;
	qp->pool = pool;
	qp->pool_lkey = qp->pool_mr->lkey;
	return 0;
}

int region_register(struct target_qpair *qp)
{
	const struct verbs *verbs = qp->verbs;
	int sink = qp->dev->sink_access;

	qp->mr = verbs->reg_mr(qp->pd, qp->region, qp->registered_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!qp->mr)
		return -errno;
	qp->lkey = qp->own_lkey = qp->mr->lkey;
	for (struct fifo_link *link = qp->repost.head; link; link = link->next)
		container_of(link, struct recv, link)->lkey = qp->lkey;
	if (sink == IBV_ACCESS_LOCAL_WRITE)
		return 0;
	qp->own_mr = verbs->reg_mr(qp->pd, qp->own.buffer, TARGET_OWN_BUFFER, sink);
	if (!qp->own_mr)
		return -errno;
	qp->own_lkey = qp->own_mr->lkey;
	return 0;
}
