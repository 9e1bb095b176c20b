/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that exists only in memory, for fuzzing the host's side of a queue: posted work stays until the fuzzer,
 * which acts as the target, completes and answers it.
 *
 * Every obligation of a host to a device is checked during use, and at the end no object may be left
 * (mock_nothing_left).
 */
#ifndef FUZZ_HOST_MOCK_H
#define FUZZ_HOST_MOCK_H

#include <errno.h>
#include <string.h>

#include "host/internal.h"
#include "mock_objects.h"

enum { RING = 8192, EVENTS = 64, MWS = 64, MW_KEYS = 0x40000000 };

/* A queue pair, with the work posted to it. */
struct mock_qp {
	struct ibv_qp qp;		/* first: the host sees it */
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr init;
	bool error;
	struct ibv_recv_wr recv[RING];
	struct ibv_sge recv_sge[RING];
	unsigned recv_head, recv_tail;
	struct {			/* sent, and not complete yet */
		uint64_t wr_id;
		bool signalled;
	} sent[RING];
	unsigned sent_head, sent_tail;
	struct ibv_wc wc[RING];
	unsigned wc_head, wc_tail;
};

struct mock_mw {
	struct ibv_mw mw;		/* first */
	uint32_t key;			/* 0: not bound */
	uint64_t addr, length;
};

struct mock_cq {
	struct ibv_cq cq;		/* first */
	struct mock_qp *qp;		/* whose completions it gets */
};

struct mock_event {
	struct rdma_cm_event event;	/* first */
	uint8_t *data;
};

struct mock_channel {
	struct rdma_event_channel channel;	/* first */
	struct mock_event *events[EVENTS];
	unsigned head, tail;
};

static struct mock {
	struct ibv_context context;
	struct ibv_device device;
	struct mock_qp *qp;		/* the latest one */
	unsigned give;			/* completions that poll_cq may still return */
	bool windows;			/* the device has them */
	uint32_t inline_most;		/* bytes that can be sent inline */
	struct mock_mw *mws[MWS];
	/* The target's handling of a capsule, called when it is sent. */
	void (*capsule)(struct mock_qp *qp, const struct nvme_sqe *sqe);
	/* The target's handling of a step of a connection: queues its event. */
	void (*step)(struct rdma_cm_id *id, enum rdma_cm_event_type wanted);
} mock;

static void mock_wc(struct mock_qp *qp, uint64_t wr_id, enum ibv_wc_status status, uint32_t length)
{
	REQUIRE(qp->wc_head - qp->wc_tail < RING);
	qp->wc[qp->wc_head++ % RING] = (struct ibv_wc){ .wr_id = wr_id, .status = status,
							.byte_len = length };
}

/* Complete the first count signalled SENDs, and all work that was posted before them. */
static void mock_complete(struct mock_qp *qp, unsigned count, enum ibv_wc_status status)
{
	while (count && qp->sent_tail != qp->sent_head) {
		const unsigned i = qp->sent_tail++ % RING;

		if (!qp->sent[i].signalled && !status)
			continue;
		mock_wc(qp, qp->sent[i].wr_id, status, 0);
		count--;
	}
}

/* ---- memory windows ---- */

static struct mock_mw *mock_window(uint32_t key)
{
	const uint32_t i = (key - MW_KEYS) >> 8;

	return key >= MW_KEYS && i < MWS ? mock.mws[i] : NULL;
}

static struct ibv_mw *mock_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mock_mw *mw = mock_new(sizeof(*mw));
	uint32_t i = 0;

	REQUIRE(type == IBV_MW_TYPE_2);
	while (i < MWS && mock.mws[i])
		i++;
	REQUIRE(i < MWS);
	mw->mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .rkey = MW_KEYS + (i << 8) };
	mock.mws[i] = mw;
	return &mw->mw;
}

static int mock_dealloc_mw(struct ibv_mw *mw)
{
	mock.mws[(mw->rkey - MW_KEYS) >> 8] = NULL;
	return mock_free(mw);
}

static void mock_bind(const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct mock_mw *mw = (struct mock_mw *)wr->bind_mw.mw;

	REQUIRE(!(wr->send_flags & IBV_SEND_SIGNALED) && !mw->key && info->length);
	REQUIRE((mw->mw.rkey ^ wr->bind_mw.rkey) < 256 && mw->mw.rkey != wr->bind_mw.rkey);
	REQUIRE(info->mw_access_flags == IBV_ACCESS_REMOTE_READ ||
		info->mw_access_flags == IBV_ACCESS_REMOTE_WRITE);
	REQUIRE(mock_mr(info->mr->lkey, info->addr, info->length) == info->mr);
	mw->key = wr->bind_mw.rkey;
	mw->addr = info->addr;
	mw->length = info->length;
}

/* Returns false if the peer has invalidated it first. */
static bool mock_invalidate(uint32_t key)
{
	struct mock_mw *mw = mock_window(key);
	const bool valid = mw && mw->key == key;

	REQUIRE(mw && (valid || !mw->key));
	mw->key = 0;
	return valid;
}

/* Whether a peer can use the key. */
static inline bool mock_key_valid(uint32_t key)
{
	const struct mock_mw *mw = mock_window(key);

	const struct ibv_mr *mr = mock_objects.mrs[key % MRS];

	return mw ? mw->key == key : mr && mr->rkey == key;
}

/* The peer uses a key: the host must have given access to the whole range. */
static void mock_key(uint32_t key, uint64_t addr, uint64_t length)
{
	const struct mock_mw *mw = mock_window(key);

	if (!mw) {
		mock_mr(key, addr, length);
		return;
	}
	REQUIRE(mw->key == key && addr >= mw->addr && length <= mw->length &&
		addr - mw->addr <= mw->length - length);
}

/* ---- work ---- */

/* The queue pair enters the error state: all posted work is returned. */
static void mock_fail(struct mock_qp *qp)
{
	qp->error = true;
	mock_complete(qp, RING, IBV_WC_WR_FLUSH_ERR);
	for (; qp->recv_tail != qp->recv_head; qp->recv_tail++)
		mock_wc(qp, qp->recv[qp->recv_tail % RING].wr_id, IBV_WC_WR_FLUSH_ERR, 0);
}

/* Bytes from the target go into the receive that was posted first; false if there is no receive. */
static bool mock_message(struct mock_qp *qp, const void *bytes, uint32_t length)
{
	const unsigned i = qp->recv_tail % RING;

	if (qp->error || qp->recv_tail == qp->recv_head)
		return false;
	qp->recv_tail++;
	if (length > qp->recv_sge[i].length) {
		mock_wc(qp, qp->recv[i].wr_id, IBV_WC_LOC_LEN_ERR, 0);
		mock_fail(qp);
		return true;
	}
	memcpy((void *)(uintptr_t)qp->recv_sge[i].addr, bytes, length);
	mock_wc(qp, qp->recv[i].wr_id, IBV_WC_SUCCESS, length);
	return true;
}

static int mock_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;

	(void)bad;
	for (; wr; wr = wr->next) {
		struct nvme_sqe sqe;

		REQUIRE(qp->sent_head - qp->sent_tail < qp->init.cap.max_send_wr);
		qp->sent[qp->sent_head % RING].wr_id = wr->wr_id;
		qp->sent[qp->sent_head++ % RING].signalled = wr->send_flags & IBV_SEND_SIGNALED;
		if (qp->error) {
			mock_complete(qp, 1, IBV_WC_WR_FLUSH_ERR);
			continue;
		}
		if (wr->opcode == IBV_WR_BIND_MW) {
			mock_bind(wr);
			continue;
		}
		if (wr->opcode == IBV_WR_LOCAL_INV) {
			REQUIRE(wr->send_flags & IBV_SEND_SIGNALED);
			if (!mock_invalidate(wr->invalidate_rkey))
				mock_fail(qp);
			continue;
		}
		if (wr->opcode == IBV_WR_RDMA_WRITE) {	/* a nudge: it transfers nothing */
			REQUIRE(!wr->num_sge && !wr->send_flags);
			continue;
		}
		REQUIRE(wr->opcode == IBV_WR_SEND && wr->num_sge >= 1 &&
			wr->num_sge <= (int)qp->init.cap.max_send_sge);
		/* memory that is used later remains in use until a completion */
		REQUIRE(wr->send_flags & (IBV_SEND_INLINE | IBV_SEND_SIGNALED));
		for (int i = 0; i < wr->num_sge; i++)
			mock_mr(wr->sg_list[i].lkey, wr->sg_list[i].addr, wr->sg_list[i].length);
		if (wr->send_flags & IBV_SEND_INLINE)
			REQUIRE(wr->num_sge == 1 && wr->sg_list->length <= qp->init.cap.max_inline_data);
		REQUIRE(wr->sg_list->length == sizeof(sqe));
		memcpy(&sqe, (void *)(uintptr_t)wr->sg_list->addr, sizeof(sqe));
		mock.capsule(qp, &sqe);
	}
	return 0;
}

static int mock_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;

	(void)bad;
	for (; wr; wr = wr->next) {
		const unsigned i = qp->recv_head++ % RING;

		REQUIRE(qp->recv_head - qp->recv_tail <= qp->init.cap.max_recv_wr && wr->num_sge == 1);
		mock_mr(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		qp->recv[i] = *wr;
		qp->recv_sge[i] = *wr->sg_list;
	}
	if (qp->error)
		mock_fail(qp);
	return 0;
}

static int mock_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	struct mock_qp *qp = ((struct mock_cq *)cq)->qp;
	int n = 0;

	for (; qp && n < num && mock.give && qp->wc_tail != qp->wc_head; n++, mock.give--)
		wc[n] = qp->wc[qp->wc_tail++ % RING];
	return n;
}

/* ---- events of connections ---- */

static void mock_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
		       const void *data, uint8_t length)
{
	struct mock_channel *channel = (struct mock_channel *)id->channel;
	struct mock_event *e;

	if (channel->head - channel->tail == EVENTS)
		return;
	e = calloc(1, sizeof(*e));
	e->event = (struct rdma_cm_event){ .id = id, .event = type, .status = status };
	if (length) {	/* of the exact length, so that reading past its end is detected */
		e->data = malloc(length);
		memcpy(e->data, data, length);
		e->event.param.conn.private_data = e->data;
		e->event.param.conn.private_data_len = length;
	}
	mock_objects.count++;
	channel->events[channel->head++ % EVENTS] = e;
	eventfd_write(channel->channel.fd, 1);
}

static int mock_get_cm_event(struct rdma_event_channel *from, struct rdma_cm_event **event)
{
	struct mock_channel *channel = (struct mock_channel *)from;
	eventfd_t count;

	if (channel->tail == channel->head) {
		errno = EAGAIN;
		return -1;
	}
	eventfd_read(from->fd, &count);
	*event = &channel->events[channel->tail++ % EVENTS]->event;
	return 0;
}

static int mock_ack_cm_event(struct rdma_cm_event *event)
{
	struct mock_event *e = (struct mock_event *)event;

	free(e->data);
	free(e);
	mock_objects.count--;
	return 0;
}

#include "host_mock_table.h"

#endif
