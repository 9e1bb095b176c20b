/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device, and stores (target_mock_store.h), that exist only in memory, for fuzzing the code between them.
 *
 * The device executes posted work at once, and keeps the completions until the test requests them; one queue pair at a
 * time, with receives of its own or shared ones.  The host's memory is one key.  Stores keep submitted requests until
 * the test finishes them.  Every obligation of the target to a device is checked during use.
 */
#ifndef FUZZ_TARGET_MOCK_H
#define FUZZ_TARGET_MOCK_H

#include <string.h>

#include "mock_objects.h"
#include "target/calls.h"

enum { HOST_MEMORY = 1 << 18, HOST_KEY = 0x4711, QUEUE = 8192, STORE_BYTES = 1 << 18 };

static struct mock {
	struct ibv_context context;
	struct ibv_device device;
	uint8_t *host;
	struct ibv_wc wc[QUEUE];
	unsigned wc_head, wc_tail;
	unsigned give;			/* completions that poll_cq may still return */
	/* the queue pair */
	struct ibv_qp qp;
	struct ibv_qp_init_attr init;
	bool error;			/* its state */
	struct mock_receives {
		struct ibv_recv_wr wr[QUEUE];
		struct ibv_sge sge[QUEUE][2];
		unsigned head, tail;
	} own, shared;
	unsigned sq_used, reads;	/* reads: outstanding */
	unsigned unsignalled;
	bool silent;			/* the last response was unsignalled */
	unsigned responses;
	uint16_t answered[65536];	/* how many of them, by CID */
	int key_invalidated;
	/* stores */
	struct store_io *io_head, *io_tail;
	unsigned ios;
	bool io_fails;
	void (*done)(const struct store_io *io);	/* all that did not fail complete */
} mock;

static void mock_wc(uint64_t wr_id, enum ibv_wc_status status, uint32_t length)
{
	REQUIRE(mock.wc_head - mock.wc_tail < QUEUE);
	mock.wc[mock.wc_head++ % QUEUE] = (struct ibv_wc){ .wr_id = wr_id, .status = status,
							   .byte_len = length,
							   .qp_num = mock.qp.qp_num };
}

static void mock_fail(void)
{
	mock.error = true;
	for (; mock.own.tail != mock.own.head; mock.own.tail++)
		mock_wc(mock.own.wr[mock.own.tail % QUEUE].wr_id, IBV_WC_WR_FLUSH_ERR, 0);
}

/* One work request; false if the connection ended with it. */
static bool mock_do(const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;
	uint8_t *local = (uint8_t *)(uintptr_t)sge->addr;
	uint64_t at = wr->wr.rdma.remote_addr - (uintptr_t)mock.host;

	REQUIRE(wr->num_sge == 1 && sge->length);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		mock_mr(sge->lkey, sge->addr, sge->length);
	if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_INV) {
		struct nvme_cqe cqe;

		REQUIRE(sge->length == sizeof(cqe));
		mock.silent = !(wr->send_flags & IBV_SEND_SIGNALED);
		memcpy(&cqe, local, sizeof(cqe));
		REQUIRE(!(cqe.status & 1) && !cqe.sqid);
		REQUIRE(wr->opcode == IBV_WR_SEND || !cqe.status);
		mock.responses++;
		mock.answered[cqe.cid]++;
		return true;
	}
	REQUIRE(wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_RDMA_WRITE);
	if (wr->wr.rdma.rkey != HOST_KEY || at > HOST_MEMORY || sge->length > HOST_MEMORY - at)
		return false;
	if (wr->opcode == IBV_WR_RDMA_READ) {
		REQUIRE(wr->send_flags & IBV_SEND_SIGNALED && ++mock.reads <= 4);
		memcpy(local, mock.host + at, sge->length);
	} else {
		memcpy(mock.host + at, local, sge->length);
	}
	return true;
}

static int mock_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next) {
		bool signalled = wr->send_flags & IBV_SEND_SIGNALED;

		REQUIRE(++mock.sq_used <= mock.init.cap.max_send_wr);
		if (mock.error) {
			mock_wc(wr->wr_id, IBV_WC_WR_FLUSH_ERR, 0);
		} else if (!mock_do(wr)) {
			mock_wc(wr->wr_id, IBV_WC_REM_ACCESS_ERR, 0);
			mock_fail();
		} else if (signalled) {
			mock_wc(wr->wr_id, IBV_WC_SUCCESS, wr->sg_list->length);
			/* earlier work requests have left the queue when this is polled */
			mock.wc[(mock.wc_head - 1) % QUEUE].vendor_err = mock.unsignalled + 1;
			mock.wc[(mock.wc_head - 1) % QUEUE].opcode =
				wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_SEND;
			mock.unsignalled = 0;
		} else {
			mock.unsignalled++;
		}
	}
	REQUIRE(!mock.silent || mock.error);	/* the last response of a chain completes all of them */
	return 0;
}

static void mock_receive(struct mock_receives *to, const struct ibv_recv_wr *wr, unsigned most)
{
	for (; wr; wr = wr->next) {
		unsigned i = to->head++ % QUEUE;

		REQUIRE(to->head - to->tail <= most);
		to->wr[i] = *wr;
		for (int k = 0; k < wr->num_sge; k++) {
			mock_mr(wr->sg_list[k].lkey, wr->sg_list[k].addr, wr->sg_list[k].length);
			to->sge[i][k] = wr->sg_list[k];
		}
	}
}

static int mock_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)bad;
	mock_receive(&mock.shared, wr, QUEUE);
	return 0;
}

static int mock_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	mock_receive(&mock.own, wr, mock.init.cap.max_recv_wr);
	if (mock.error)
		mock_fail();
	return 0;
}

static int mock_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	int n = 0;

	(void)cq;
	/* nothing comes later once the queue pair is in error */
	for (; n < num && (mock.give || mock.error) && mock.wc_tail != mock.wc_head; n++) {
		mock.give -= mock.give > 0;
		wc[n] = mock.wc[mock.wc_tail++ % QUEUE];
		if (wc[n].status == IBV_WC_SUCCESS) {
			mock.sq_used -= wc[n].vendor_err;
			mock.reads -= wc[n].opcode == IBV_WC_RDMA_READ && wc[n].vendor_err;
		}
	}
	return n;
}

/* A capsule from the host; false if no receive was posted. */
static bool mock_capsule(const uint8_t *capsule, uint32_t length)
{
	struct mock_receives *from = mock.init.srq ? &mock.shared : &mock.own;
	unsigned i = from->tail % QUEUE;
	struct ibv_sge *sge = from->sge[i];
	uint32_t first;

	if (mock.error || from->tail == from->head)
		return false;
	from->tail++;
	first = length < sge[0].length ? length : sge[0].length;
	memcpy((void *)(uintptr_t)sge[0].addr, capsule, first);
	if (length > first) {
		REQUIRE(from->wr[i].num_sge == 2 && length - first <= sge[1].length);
		memcpy((void *)(uintptr_t)sge[1].addr, capsule + first, length - first);
	}
	mock_wc(from->wr[i].wr_id, IBV_WC_SUCCESS, length);
	mock.wc[(mock.wc_head - 1) % QUEUE].vendor_err = 0;
	return true;
}

/* ---- the table ---- */

static int mock_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	*attr = (struct ibv_device_attr){ .max_qp_wr = 4096, .max_cqe = QUEUE,
					  .max_qp_init_rd_atom = 4, .max_srq_wr = QUEUE,
					  .max_srq_sge = 2 };
	return 0;
}

static struct ibv_srq *mock_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = mock_new(sizeof(*srq));

	REQUIRE(attr->attr.max_wr <= QUEUE && attr->attr.max_sge == 2);
	*srq = (struct ibv_srq){ .context = &mock.context, .pd = pd };
	return srq;
}

static int mock_destroy_srq(struct ibv_srq *srq)
{
	return mock_free(srq);
}

static struct ibv_cq *mock_create_cq(struct ibv_context *c, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = mock_new(sizeof(*cq));

	(void)vector;
	*cq = (struct ibv_cq){ .context = c, .channel = channel, .cq_context = cq_context,
			       .cqe = cqe };
	return cq;
}

static int mock_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	if (!mock.error)
		mock_fail();
	return 0;
}

static int mock_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	mock.qp = (struct ibv_qp){ .context = &mock.context, .pd = pd,
				   .qp_num = mock.qp.qp_num + 1 };
	mock.init = *init;
	mock.error = false;
	mock.wc_head = mock.wc_tail = mock.own.head = mock.own.tail = 0;
	mock.sq_used = mock.reads = mock.unsignalled = 0;
	mock.silent = false;
	id->qp = &mock.qp;
	return 0;
}

static void mock_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
}

static int mock_destroy_id(struct rdma_cm_id *id)
{
	REQUIRE(!id->qp);
	return mock_free(id);
}

static int mock_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	return 0;
}

static int mock_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return mock_modify_qp(NULL, NULL, 0);
}

static const char *mock_device_name(struct ibv_device *device)
{
	(void)device;
	return "mock0";
}

static const struct verbs mock_verbs = {
	.name = "mock",
	.read_sink_is_local = true,
	.get_device_name = mock_device_name,
	.query_device = mock_query_device,
	.alloc_pd = mock_alloc_pd,
	.dealloc_pd = mock_dealloc_pd,
	.reg_mr = mock_reg_mr,
	.dereg_mr = mock_dereg_mr,
	.create_comp_channel = mock_comp_channel,
	.destroy_comp_channel = mock_destroy_comp_channel,
	.create_cq = mock_create_cq,
	.destroy_cq = mock_destroy_cq,
	.create_srq = mock_create_srq,
	.destroy_srq = mock_destroy_srq,
	.modify_qp = mock_modify_qp,
	.create_qp = mock_create_qp,
	.destroy_qp = mock_destroy_qp,
	.destroy_id = mock_destroy_id,
	.accept = mock_accept,
	.disconnect = mock_disconnect,
};

static struct rdma_cm_id *mock_id(void)
{
	struct rdma_cm_id *id = mock_new(sizeof(*id));

	mock.device.transport_type = IBV_TRANSPORT_IWARP;
	mock.context.device = &mock.device;
	mock.context.ops.post_send = mock_post_send;
	mock.context.ops.post_recv = mock_post_recv;
	mock.context.ops.post_srq_recv = mock_post_srq_recv;
	mock.context.ops.poll_cq = mock_poll_cq;
	mock.context.ops.req_notify_cq = mock_notify;
	id->verbs = &mock.context;
	return id;
}

const char *iwarp_qp_end_reason(struct ibv_qp *qp)
{
	(void)qp;
	return "";
}

#include "target_mock_store.h"

#endif
