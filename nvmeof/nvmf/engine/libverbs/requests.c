/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_wr_start and so on: work requests that are described by calls, and posted together as a list at the end.  The
 * mutex is held from the start to the end, as the interface requires.  If the list does not fit the queue, the requests
 * before the first that does not fit are posted, as by ibv_post_send.
 */
#include "libverbs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct wr_batch {
	pthread_mutex_t lock;
	int error;
	uint32_t n, room, sges, bytes;	/* sges and bytes (inline): of each request */
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint8_t *data;
};

struct wr_batch *wr_batch_of(const struct ibv_qp *qp)
{
	return ((const struct verbs_qp_head *)qp)->batch;
}

static struct wr_batch *batch_of(struct ibv_qp_ex *qp)
{
	return wr_batch_of(&qp->qp_base);
}

static void failed(struct wr_batch *b, int error)
{
	if (!b->error)
		b->error = error;
}

/* The request that was begun last.  After an error it is never posted. */
static struct ibv_send_wr *last(struct wr_batch *b)
{
	if (!b->n)
		failed(b, EINVAL);
	return &b->wr[b->n ? b->n - 1 : 0];
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct wr_batch *b = batch_of(qp);
	struct ibv_send_wr *wr;

	if (b->n == b->room)
		failed(b, ENOMEM);
	else
		b->n++;
	wr = &b->wr[b->n - 1];
	memset(wr, 0, sizeof(*wr));
	wr->opcode = opcode;
	wr->wr_id = qp->wr_id;
	wr->send_flags = qp->wr_flags;
	wr->sg_list = &b->sge[(size_t)(b->n - 1) * b->sges];
	return wr;
}

static struct ibv_send_wr *begin_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static struct ibv_send_wr *begin_atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	return wr;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *wr = begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);

	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr)->wr.atomic.compare_add = add;
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = begin(qp, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin(qp, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *list)
{
	struct wr_batch *b = batch_of(qp);
	struct ibv_send_wr *wr = last(b);

	if (n > b->sges) {
		failed(b, EINVAL);
		return;
	}
	if (b->error)
		return;
	wr->num_sge = (int)n;
	memcpy(wr->sg_list, list, n * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(qp, length ? 1 : 0, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_data_buf *list)
{
	struct wr_batch *b = batch_of(qp);
	struct ibv_send_wr *wr = last(b);
	uint8_t *to = b->data + (size_t)(b->n ? b->n - 1 : 0) * b->bytes;
	uint32_t len = 0;

	for (size_t i = 0; i < n && !b->error; i++) {
		if (list[i].length > b->bytes - len) {
			failed(b, EINVAL);
			return;
		}
		memcpy(to + len, list[i].addr, list[i].length);
		len += (uint32_t)list[i].length;
	}
	if (b->error)
		return;
	wr->send_flags |= IBV_SEND_INLINE;
	wr->num_sge = len ? 1 : 0;
	wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)to, .length = len };
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(qp, 1, &buf);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value)
{
	const struct ibv_data_buf buf = { .addr = (void *)value, .length = 8 };

	begin_rdma(qp, (enum ibv_wr_opcode)VERBS_WR_ATOMIC_WRITE, rkey, addr);
	wr_set_inline_data_list(qp, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	struct wr_batch *b = batch_of(qp);

	pthread_mutex_lock(&b->lock);
	b->n = 0;
	b->error = 0;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct wr_batch *b = batch_of(qp);
	struct ibv_send_wr *bad;
	int rc = b->error;

	for (uint32_t i = 0; i + 1 < b->n; i++)
		b->wr[i].next = &b->wr[i + 1];
	if (!rc && b->n)
		rc = ibv_post_send(&qp->qp_base, b->wr, &bad);
	pthread_mutex_unlock(&b->lock);
	return rc;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	pthread_mutex_unlock(&batch_of(qp)->lock);
}

void wr_batch_free(struct wr_batch *batch)
{
	if (!batch)
		return;
	pthread_mutex_destroy(&batch->lock);
	free(batch->wr);
	free(batch->sge);
	free(batch->data);
	free(batch);
}

int wr_batch_new(struct ibv_qp *qp, const struct ibv_qp_cap *cap)
{
	struct verbs_qp_head *head = (struct verbs_qp_head *)qp;
	struct wr_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return ENOMEM;
	pthread_mutex_init(&b->lock, NULL);
	b->room = cap->max_send_wr ? cap->max_send_wr : 1;
	b->sges = cap->max_send_sge ? cap->max_send_sge : 1;
	b->bytes = cap->max_inline_data;
	b->wr = calloc(b->room, sizeof(*b->wr));
	b->sge = calloc((size_t)b->room * b->sges, sizeof(*b->sge));
	b->data = calloc(b->room, b->bytes + !b->bytes);
	if (!b->wr || !b->sge || !b->data) {
		wr_batch_free(b);
		return ENOMEM;
	}
	head->batch = b;
	head->ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	head->ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
	head->ex.wr_bind_mw = wr_bind_mw;
	head->ex.wr_local_inv = wr_local_inv;
	head->ex.wr_rdma_read = wr_rdma_read;
	head->ex.wr_rdma_write = wr_rdma_write;
	head->ex.wr_rdma_write_imm = wr_rdma_write_imm;
	head->ex.wr_send = wr_send;
	head->ex.wr_send_imm = wr_send_imm;
	head->ex.wr_send_inv = wr_send_inv;
	head->ex.wr_set_inline_data = wr_set_inline_data;
	head->ex.wr_set_inline_data_list = wr_set_inline_data_list;
	head->ex.wr_set_sge = wr_set_sge;
	head->ex.wr_set_sge_list = wr_set_sge_list;
	head->ex.wr_atomic_write = wr_atomic_write;
	head->ex.wr_start = wr_start;
	head->ex.wr_complete = wr_complete;
	head->ex.wr_abort = wr_abort;
	return 0;
}
