/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that exists only in memory, for fuzzing the memory server: one queue pair at a time, whose completions are
 * delivered on demand.  Every obligation of the server to a device is checked during use, and so is every answer to the
 * peer.
 */
#ifndef FUZZ_MEMORY_MOCK_H
#define FUZZ_MEMORY_MOCK_H

#include <string.h>

#include "memory/wire.h"
#include "mock_objects.h"
#include "verbs/verbs.h"

enum { QUEUE = 64, RANGE = 600 << 10, MESSAGES = 32768 };

static struct {
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_qp_init_attr init;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_mr *range;		/* that is registered for the peer */
	bool up, error, armed;
	struct ibv_wc wc[QUEUE];	/* returned by poll_cq */
	unsigned wc_head, wc_tail;
	struct ibv_wc sent[QUEUE];	/* not reported by the device yet */
	unsigned sent_head, sent_tail;
	struct ibv_recv_wr receives[QUEUE];
	struct ibv_sge sge[QUEUE];
	unsigned receive_head, receive_tail;
	/* the peer */
	bool waits[MESSAGES];		/* for an answer, by identifier */
	struct memory_ask asks[MESSAGES];
	unsigned asked, answered, words;
} mock;

static void complete(const struct ibv_wc *wc)
{
	const uint64_t one = 1;

	REQUIRE(mock.wc_head - mock.wc_tail < (unsigned)mock.cq->cqe && mock.wc_head - mock.wc_tail < QUEUE);
	mock.wc[mock.wc_head++ % QUEUE] = *wc;
	if (mock.armed)
		REQUIRE(write(mock.channel->fd, &one, sizeof(one)) == sizeof(one));
	mock.armed = false;
}

static void fail(void)
{
	if (mock.error)
		return;
	mock.error = true;
	for (; mock.sent_tail != mock.sent_head; mock.sent_tail++) {
		struct ibv_wc wc = mock.sent[mock.sent_tail % QUEUE];

		wc.status = IBV_WC_WR_FLUSH_ERR;
		complete(&wc);
	}
	for (; mock.receive_tail != mock.receive_head; mock.receive_tail++)
		complete(&(struct ibv_wc){ .wr_id = mock.receives[mock.receive_tail % QUEUE].wr_id,
					   .status = IBV_WC_WR_FLUSH_ERR });
}

static void check_answer(const struct memory_answer *answer)
{
	const struct memory_ask *ask = &mock.asks[answer->id];
	const bool within = ask->offset <= RANGE && ask->length <= RANGE - ask->offset;

	REQUIRE(answer->id < MESSAGES && mock.waits[answer->id] && !answer->zero);
	mock.waits[answer->id] = false;
	mock.answered++;
	REQUIRE(answer->type == ask->type + 1);
	if (answer->type == MEMORY_ECHOED)
		REQUIRE(!answer->status);
	else if (answer->status != MEMORY_NOT_OPEN)
		REQUIRE(answer->status == (within ? MEMORY_OK : MEMORY_BAD_RANGE) && mock.range);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct memory_answer answer;

	(void)qp;
	(void)bad;
	REQUIRE(!wr->next && wr->num_sge == 1 && wr->opcode == IBV_WR_SEND && wr->send_flags == IBV_SEND_SIGNALED);
	mock_mr(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	REQUIRE(mock.sent_head - mock.sent_tail < mock.init.cap.max_send_wr);
	if (mock.error) {
		complete(&(struct ibv_wc){ .wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR });
		return 0;
	}
	if (*(uint8_t *)(uintptr_t)wr->sg_list->addr == MEMORY_OPENED) {
		mock.words++;
	} else {
		REQUIRE(wr->sg_list->length == sizeof(answer));
		memcpy(&answer, (void *)(uintptr_t)wr->sg_list->addr, sizeof(answer));
		check_answer(&answer);
	}
	mock.sent[mock.sent_head++ % QUEUE] = (struct ibv_wc){ .wr_id = wr->wr_id, .opcode = IBV_WC_SEND };
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const unsigned i = mock.receive_head % QUEUE;

	(void)qp;
	(void)bad;
	REQUIRE(!wr->next && wr->num_sge == 1 && mock.receive_head - mock.receive_tail < mock.init.cap.max_recv_wr);
	mock_mr(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	mock.receives[i] = *wr;
	mock.sge[i] = *wr->sg_list;
	if (mock.error)
		complete(&(struct ibv_wc){ .wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR });
	else
		mock.receive_head++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int n = 0;

	(void)cq;
	while (n < count && mock.wc_tail != mock.wc_head)
		wc[n++] = mock.wc[mock.wc_tail++ % QUEUE];
	return n;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	mock.armed = true;
	return mock_notify(cq, solicited);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	(void)cq_context;
	(void)vector;
	mock.cq = mock_new(sizeof(*mock.cq));
	*mock.cq = (struct ibv_cq){ .context = context, .channel = channel, .cqe = cqe };
	mock.channel = channel;
	return mock.cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
	REQUIRE(cq == mock.cq && !mock.up);
	return mock_destroy_cq(cq);
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	uint64_t n;

	(void)context;
	*cq = mock.cq;
	return read(channel->fd, &n, sizeof(n)) == sizeof(n) ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	REQUIRE(cq == mock.cq && count == 1);
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	mock.init = *attr;
	mock.qp = (struct ibv_qp){ .context = id->verbs, .pd = pd };
	id->qp = &mock.qp;
	mock.up = true;
	mock_objects.count++;
	return 0;
}

static void destroy_qp(struct rdma_cm_id *id)
{
	REQUIRE(mock.up && mock.error && !mock.range);
	mock.up = false;
	id->qp = NULL;
	mock_objects.count--;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	REQUIRE(qp == &mock.qp && mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR);
	fail();
	return 0;
}

static int disconnect(struct rdma_cm_id *id)
{
	REQUIRE(id->qp == &mock.qp && !mock.range);
	return 0;
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	REQUIRE(id->qp && param->private_data_len == 4);
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	REQUIRE(!id->qp);
	return mock_free(id);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = mock_reg_mr(pd, addr, length, access);

	if (access & IBV_ACCESS_REMOTE_READ) {
		REQUIRE(!mock.range && length == RANGE);
		mock.range = mr;
	}
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	if (mr == mock.range)
		mock.range = NULL;
	return mock_dereg_mr(mr);
}

static const struct verbs table = {
	.name = "mock", .places_persistently = true, .flushes = true, .alloc_pd = mock_alloc_pd,
	.dealloc_pd = mock_dealloc_pd, .reg_mr = reg_mr, .dereg_mr = dereg_mr, .create_comp_channel = mock_comp_channel,
	.destroy_comp_channel = mock_destroy_comp_channel, .create_cq = create_cq, .destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event, .ack_cq_events = ack_cq_events, .create_qp = create_qp, .destroy_qp = destroy_qp,
	.modify_qp = modify_qp, .disconnect = disconnect, .accept = accept_id, .destroy_id = destroy_id,
};

#endif
