/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_create_cq_ex: completions one at a time, by functions in the queue.  On the thread that polls it. */
#include "libverbs.h"

#include <stdlib.h>

enum { BATCH = 16 };

struct wc_batch {
	unsigned int at, n;
	struct ibv_wc wc[BATCH];
};

static struct wc_batch *batch_of(struct ibv_cq_ex *cq)
{
	return ((struct verbs_cq_head *)cq)->batch;
}

static const struct ibv_wc *now(struct ibv_cq_ex *cq)
{
	return &batch_of(cq)->wc[batch_of(cq)->at];
}

static int show(struct ibv_cq_ex *cq)
{
	cq->status = now(cq)->status;
	cq->wr_id = now(cq)->wr_id;
	return 0;
}

/* Take more completions if all have been shown: those that remain after an end are shown first after the next start. */
static int more(struct ibv_cq_ex *cq)
{
	struct wc_batch *b = batch_of(cq);
	int n;

	if (b->at < b->n)
		return show(cq);
	b->at = b->n = 0;
	n = ibv_poll_cq(ibv_cq_ex_to_cq(cq), BATCH, b->wc);
	if (n <= 0)
		return n ? EIO : ENOENT;
	b->n = (unsigned int)n;
	return show(cq);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : more(cq);
}

static int next_poll(struct ibv_cq_ex *cq)
{
	batch_of(cq)->at++;
	return more(cq);
}

static void end_poll(struct ibv_cq_ex *cq)
{
	if (batch_of(cq)->at < batch_of(cq)->n)
		batch_of(cq)->at++;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return now(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return now(cq)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return now(cq)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return now(cq)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return now(cq)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return now(cq)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return now(cq)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return now(cq)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return now(cq)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return now(cq)->dlid_path_bits;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct verbs_cq_head *head;
	struct ibv_cq *cq;
	struct wc_batch *batch;

	/* the device has no clock of its own for time stamps */
	if (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS ||
	    attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS ||
	    (attr->comp_mask && attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		unsupported();
		return NULL;
	}
	batch = calloc(1, sizeof(*batch));
	if (!batch)
		return NULL;
	cq = device()->create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector);
	if (!cq) {
		free(batch);
		return NULL;
	}
	head = (struct verbs_cq_head *)cq;
	head->batch = batch;
	head->ex.start_poll = start_poll;
	head->ex.next_poll = next_poll;
	head->ex.end_poll = end_poll;
	head->ex.read_opcode = read_opcode;
	head->ex.read_vendor_err = read_vendor_err;
	head->ex.read_byte_len = read_byte_len;
	head->ex.read_imm_data = read_imm_data;
	head->ex.read_qp_num = read_qp_num;
	head->ex.read_src_qp = read_src_qp;
	head->ex.read_wc_flags = read_wc_flags;
	head->ex.read_slid = read_slid;
	head->ex.read_sl = read_sl;
	head->ex.read_dlid_path_bits = read_dlid_path_bits;
	return &head->ex;
}

void wc_batch_free(struct wc_batch *batch)
{
	free(batch);
}
