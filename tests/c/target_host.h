/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts of raw verbs, in the thread of the test: a test writes the SQE itself.
 *
 * lab_turn() handles pending events once: CM events of both sides, upcalls, the hosts' completions.
 */
#ifndef TESTS_TARGET_HOST_H
#define TESTS_TARGET_HOST_H

#include "target_lab.h"

static inline void queue_post_response(struct queue *q, unsigned slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)q->capsules + LAB_DEPTH * LAB_CAPSULE + slot * 16,
		.length = 16,
		.lkey = q->capsule_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = 0x10000 + slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(q->id->qp, &wr, &bad);
}

static inline void queue_completion(struct queue *q, const struct ibv_wc *wc)
{
	struct nvme_cqe cqe;
	unsigned slot;

	if (wc->status != IBV_WC_SUCCESS) {
		q->lost = true;
		return;
	}
	if (wc->wr_id < 0x10000)
		return;
	slot = (unsigned)wc->wr_id - 0x10000;
	memcpy(&cqe, q->capsules + LAB_DEPTH * LAB_CAPSULE + slot * 16, 16);
	q->cqe[cqe.cid] = cqe;
	q->done[cqe.cid] = true;
	q->sqhd = cqe.sqhd;
	q->outstanding--;
	q->invalidated = wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0;
	queue_post_response(q, slot);
}

static inline void queue_create_qp(struct queue *q)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 4 * LAB_DEPTH, .max_recv_wr = 2 * LAB_DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!lab.pd)
		lab.pd = lab.v->alloc_pd(q->id->verbs);
	q->cq = lab.v->create_cq(q->id->verbs, 8 * LAB_DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = q->cq;
	lab.v->create_qp(q->id, lab.pd, &init);
	q->memory = mmap(NULL, LAB_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	q->mr = lab.v->reg_mr(lab.pd, q->memory, LAB_MEMORY,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE);
	q->capsules = calloc(LAB_DEPTH, LAB_CAPSULE + 32);
	q->capsule_mr = lab.v->reg_mr(lab.pd, q->capsules, LAB_DEPTH * (LAB_CAPSULE + 32ul),
				      IBV_ACCESS_LOCAL_WRITE);
	for (unsigned i = 0; i < 2 * LAB_DEPTH; i++)
		queue_post_response(q, i);
}

static inline void lab_client_events(void)
{
	struct rdma_cm_event *event;

	while (!lab.v->get_cm_event(lab.client, &event)) {
		struct queue *q = event->id->context;
		enum rdma_cm_event_type type = event->event;
		struct nvme_rdma_cm_req req = { .qid = q->qid, .hrqsize = q->depth,
						.hsqsize = (uint16_t)(q->depth - 1) };
		struct rdma_conn_param param = { .private_data = &req,
						 .private_data_len = sizeof(req),
						 .responder_resources = 64,
						 .retry_count = 7, .rnr_retry_count = 7 };

		lab.v->ack_cm_event(event);
		if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
			lab.v->resolve_route(q->id, 1000);
		} else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
			queue_create_qp(q);
			lab.v->connect(q->id, &param);
		} else if (type == RDMA_CM_EVENT_ESTABLISHED) {
			q->established = true;
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			q->lost = true;
		} else {
			q->rejected = true;
		}
	}
}

static inline void lab_turn(void)
{
	struct ibv_wc wc[64];
	int handled = 0;

	lab_client_events();
	if (!lab.gone) {
		lab_server_events();
		lab_upcalls();
	}
	for (unsigned i = 0; i < LAB_QUEUES; i++) {
		struct queue *q = lab.queue[i];
		int n = q && q->cq ? ibv_poll_cq(q->cq, 64, wc) : 0;

		for (int k = 0; k < n; k++)
			queue_completion(q, &wc[k]);
		handled += n;
	}
	if (!handled)	/* the reactors may be waiting for this processor */
		sched_yield();
}

/* Handle events until the condition holds; false if that takes so long that it is a hang. */
#define LAB_UNTIL(cond)                                                                 \
	({                                                                              \
		uint64_t lab_deadline = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;  \
		while (!(cond) && clock_ns() < lab_deadline)                            \
			lab_turn();                                                     \
		(cond);                                                                 \
	})

static inline void lab_turns(unsigned ms)
{
	uint64_t until = clock_ns() + ms * 1000000ull;

	while (clock_ns() < until)
		lab_turn();
}

static inline struct queue *queue_new(uint16_t qid, uint16_t depth, uint32_t in_capsule)
{
	struct queue *q = calloc(1, sizeof(*q));

	q->qid = qid;
	q->depth = depth;
	q->in_capsule = in_capsule;
	q->max_transfer = 4 << 20;
	for (unsigned i = 0; i < LAB_QUEUES; i++) {
		if (lab.queue[i])
			continue;
		lab.queue[i] = q;
		break;
	}
	return q;
}

static inline bool queue_dial(struct queue *q)
{
	lab.connecting = q;
	lab.v->create_id(lab.client, &q->id, q, RDMA_PS_TCP);
	lab.v->resolve_addr(q->id, NULL, (struct sockaddr *)&lab.address, 1000);
	return LAB_UNTIL(q->established || q->rejected) && q->established;
}

/* Post a capsule of sqe and data, of length bytes in all. */
static inline void queue_send_raw(struct queue *q, const void *capsule, uint32_t length)
{
	unsigned slot = q->next_capsule++ % LAB_DEPTH;
	struct ibv_sge sge = { .addr = (uintptr_t)q->capsules + (size_t)slot * LAB_CAPSULE,
			       .length = length, .lkey = q->capsule_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	memcpy(q->capsules + (size_t)slot * LAB_CAPSULE, capsule, length);
	ibv_post_send(q->id->qp, &wr, &bad);
}

static inline void queue_send(struct queue *q, const struct nvme_sqe *sqe, const void *data,
		       uint32_t length)
{
	uint8_t capsule[LAB_CAPSULE];

	memcpy(capsule, sqe, sizeof(*sqe));
	if (length)
		memcpy(capsule + sizeof(*sqe), data, length);
	q->done[sqe->cid] = false;
	q->outstanding++;
	queue_send_raw(q, capsule, (uint32_t)sizeof(*sqe) + length);
}

/* The status of the command without More, or -1 if no response came. */
static inline int queue_wait(struct queue *q, uint16_t cid)
{
	if (!LAB_UNTIL(q->done[cid] || q->lost) || !q->done[cid])
		return -1;
	return q->cqe[cid].status >> 1 & ~NVME_MORE;
}

/* A response arrives before the reactor has its SEND's completion, and is in use until then. */
static inline bool queue_idle(const struct queue *q)
{
	struct target_qpair_stats stats;

	return LAB_UNTIL((target_qpair_stats(q->qp, &stats), !stats.outstanding));
}

static inline int queue_run(struct queue *q, const struct nvme_sqe *sqe, const void *data,
			    uint32_t length)
{
	queue_send(q, sqe, data, length);
	return queue_wait(q, sqe->cid);
}

static inline struct nvme_sqe sqe_new(struct queue *q, uint8_t opcode, uint32_t offset,
				      uint32_t length)
{
	static uint16_t cid;
	struct nvme_sqe sqe = { .opc = opcode, .flags = NVME_PSDT_SGL, .cid = cid++, .nsid = 1 };

	if (cid == 60000)
		cid = 0;
	nvme_sgl_set_keyed(&sqe.sgl, length ? (uintptr_t)q->memory + offset : 0, length,
			   length ? q->mr->rkey : 0, NVME_SGL_KEYED);
	return sqe;
}

/* Read, write, compare: blocks of 512 bytes, the data at offset of the queue's memory. */
static inline struct nvme_sqe sqe_io(struct queue *q, uint8_t opcode, uint64_t lba, uint32_t blocks,
			      uint32_t offset)
{
	struct nvme_sqe sqe = sqe_new(q, opcode, offset, blocks * 512);

	sqe.cdw10 = (uint32_t)lba;
	sqe.cdw11 = (uint32_t)(lba >> 32);
	sqe.cdw12 = blocks - 1;
	return sqe;
}

static inline int queue_connect_command(struct queue *q)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_FABRICS, 0, 1024);

	sqe.nsid = NVME_FCTYPE_CONNECT;
	return queue_run(q, &sqe, NULL, 0);
}

static inline struct queue *queue_open(uint16_t qid, uint16_t depth, uint32_t in_capsule)
{
	struct queue *q = queue_new(qid, depth, in_capsule);

	if (!queue_dial(q) || queue_connect_command(q))
		CHECK(false, "queue %u could not be opened: %s", qid, q->reason);
	return q;
}

/* Close both ends; the target's end may already be closed. */
static inline void queue_close(struct queue *q)
{
	if (q->id) {
		lab.v->disconnect(q->id);
		if (q->qp)
			LAB_UNTIL(q->closed);
		if (q->id->qp)
			lab.v->destroy_qp(q->id);
		lab.v->destroy_id(q->id);
	}
	for (unsigned i = 0; i < q->held_count; i++)
		target_complete(q->held[i], 0, 0, 0, NULL, 0);
	if (q->qp && !q->destroyed)
		lab_destroy(q);
	/* Its last event must not be mistaken for the first one of the next. */
	if (!lab.gone)
		LAB_UNTIL(lab.destroyed == lab.destroying);
	if (q->cq) {
		lab.v->dereg_mr(q->mr);
		lab.v->dereg_mr(q->capsule_mr);
		lab.v->destroy_cq(q->cq);
		munmap(q->memory, LAB_MEMORY);
		free(q->capsules);
	}
	for (unsigned i = 0; i < LAB_QUEUES; i++)
		if (lab.queue[i] == q)
			lab.queue[i] = NULL;
	free(q);
}

/* ---- the whole target ---- */

static inline void nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static int without_shared_receives(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int ret = verbs_iwarp()->query_device(context, attr);

	attr->max_srq = 0;
	return ret;
}

static inline void lab_start(const struct target_options *options)
{
	char err[256];

	memset(&lab, 0, sizeof(lab));
	lab_verbs = *verbs_iwarp();
	lab_verbs.sends_complete_inline = !lab_sends_apart;
	lab_verbs.pins_memory = lab_pins;
	lab_verbs.read_sink_is_local = !lab_private;
	if (!lab_shares)
		lab_verbs.query_device = without_shared_receives;
	lab.v = &lab_verbs;
	lab.address = (struct sockaddr_in){ .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	lab.server = lab.v->create_event_channel();
	lab.client = lab.v->create_event_channel();
	nonblocking(lab.server->fd);
	nonblocking(lab.client->fd);
	lab.v->create_id(lab.server, &lab.listener, NULL, RDMA_PS_TCP);
	if (lab.v->bind_addr(lab.listener, (struct sockaddr *)&lab.address) ||
	    lab.v->listen(lab.listener, 64)) {
		perror("listen");
		exit(1);
	}
	lab.address.sin_port = ((struct sockaddr_in *)&lab.listener->route.addr.src_addr)->sin_port;
	lab.target = target_create(options, err, sizeof(err));
	if (!lab.target) {
		fprintf(stderr, "target_create: %s\n", err);
		exit(1);
	}
	lab.table = target_nstable_create(lab.target, 16);
}

static inline void lab_stop(void)
{
	for (unsigned i = 0; i < LAB_QUEUES; i++)
		if (lab.queue[i])
			queue_close(lab.queue[i]);
	if (!lab.gone)
		target_destroy(lab.target);
	lab.v->destroy_id(lab.listener);
	lab.v->destroy_event_channel(lab.server);
	lab.v->destroy_event_channel(lab.client);
	if (lab.pd)
		lab.v->dealloc_pd(lab.pd);
}

static inline struct target_namespace *lab_namespace(uint32_t nsid, const struct store_options *options,
					      struct store **store)
{
	char err[256] = "";
	struct target_namespace *ns;

	*store = store_open(options, err, sizeof(err));
	if (!*store) {
		check_note("store: %s", err);
		return NULL;
	}
	ns = target_namespace_create(lab.target, nsid, *store, err, sizeof(err));
	target_nstable_set(lab.table, nsid, ns);
	return ns;
}

/* Remove a namespace of lab_namespace(), and close its store once nothing uses it. */
static inline void lab_namespace_end(uint32_t nsid, struct target_namespace *ns, struct store *store)
{
	lab.retired_count = 0;
	target_nstable_set(lab.table, nsid, NULL);
	CHECK(LAB_UNTIL(lab.retired_count == 1), "namespace %u is retired", nsid);
	target_namespace_destroy(ns);
	store_close(store);
}

#endif
