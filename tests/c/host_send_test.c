/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a host queue sends: few completions of sends, capsules inline if the device supports it, and the completion
 * vectors of the device in turn.
 */
#include "check.h"
#include "host/internal.h"
#include "host_rig.h"
#include "mini_target.h"

enum { SIZE = 33, COMMANDS = 1000, DATA = 512 };

static const struct store_options ram = {
	.kind = "ram", .size = 1 << 20, .block_size = 512, .direct = -1,
};

/* ---- a device whose calls are recorded ---- */

static struct verbs table;
static unsigned inline_asked, inline_most;
static int vectors[64], nvectors;
static int (*device_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static struct ibv_cq *watched;
static unsigned sends_completed;
static const struct ibv_qp *stopped;	/* the queue pair that was last put into the error state */

static int watch_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	inline_asked = attr->cap.max_inline_data;
	if (inline_asked > inline_most) {
		errno = EINVAL;
		return -1;
	}
	return verbs_iwarp()->create_qp(id, pd, attr);
}

static struct ibv_cq *watch_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				      struct ibv_comp_channel *channel, int vector)
{
	vectors[nvectors++] = vector;
	return verbs_iwarp()->create_cq(context, cqe, cq_context, channel, 0);
}

static int watch_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	const int got = device_poll(cq, n, wc);

	for (int i = 0; cq == watched && i < got; i++)
		sends_completed += (wc[i].wr_id & HOST_WR_KIND) == HOST_WR_SEND;
	return got;
}

static int watch_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		stopped = qp;
	return verbs_iwarp()->modify_qp(qp, attr, mask);
}

struct rig {
	struct host_device *device;
	struct host_controller *c;
	struct host_queue *q;
	struct host_memory *memory;
};

static bool rig_open(struct rig *r, const struct mini *m, unsigned inline_bytes, bool sends_complete_inline)
{
	struct host_error e = { .cm_event = -1 };
	struct host_controller_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = MINI_NQN, .timeout_ms = CHECK_PATIENCE_S * 1000,
	};

	table = *verbs_iwarp();
	table.create_qp = watch_create_qp;
	table.create_cq = watch_create_cq;
	table.modify_qp = watch_modify_qp;
	table.sends_complete_inline = sends_complete_inline;
	inline_most = inline_bytes;
	nvectors = 0;
	r->device = o.device = host_device_get(&table, HOST_KEYS_OF_COMMANDS, e.text, sizeof(e.text));
	r->c = host_controller_connect(&o, &e);
	r->q = r->c ? host_controller_queue(r->c, SIZE, NULL, false, &e) : NULL;
	r->memory = host_memory_alloc(r->device, SIZE * DATA, e.text, sizeof(e.text));
	return CHECK(r->q && r->memory, "%s", e.text);
}

static void rig_close(struct rig *r)
{
	host_queue_destroy(r->q);
	host_controller_destroy(r->c);
	host_memory_free(r->memory);
	host_device_put(r->device);
}

static bool submit_one(struct rig *r, uint8_t opcode, unsigned i)
{
	const struct nvme_sqe sqe = { .opc = opcode, .nsid = 1, .cdw10 = i };
	const struct host_data data = {
		.addr = (uint8_t *)r->memory->addr + i % SIZE * DATA, .length = DATA, .memory = r->memory,
		.to_device = opcode == NVME_OPC_WRITE, .in_capsule = true,
	};

	return host_queue_submit(r->q, &sqe, opcode == NVME_OPC_FLUSH ? NULL : &data, r, i % 3) >= 0;
}

/* Run commands, with up to depth outstanding; returns how many completions of sends they caused. */
static unsigned cost(struct rig *r, uint8_t opcode, unsigned depth)
{
	struct host_completion done[SIZE];
	unsigned sent = 0, back = 0;
	bool ok = true;

	sends_completed = 0;
	watched = r->q->group->cqs[0].cq;
	while (ok && back < COMMANDS) {
		while (ok && sent < COMMANDS && sent - back < depth)
			ok = submit_one(r, opcode, sent++ % 1000);

		const int n = host_queue_poll(r->q, done, SIZE);

		for (int i = 0; i < n; i++)
			ok &= !done[i].cqe.status;
		ok &= n >= 0;
		back += n > 0 ? (unsigned)n : 0;
	}
	CHECK(ok, "%s", host_queue_reason(r->q));
	/* a signalled command holds its slot until it is retired; others may follow it */
	while (host_queue_poll(r->q, done, SIZE) > 0)
		;
	CHECK(!host_queue_outstanding(r->q) && r->q->nfree == SIZE - 1);
	CHECK(r->q->sent - r->q->retired <= r->q->send_depth);
	watched = NULL;
	return sends_completed;
}

static void test_signals(struct mini *m)
{
	static const unsigned depths[] = { 1, 7, SIZE - 1 };
	struct rig r = { 0 };

	check_section("one signalled send in several");
	if (rig_open(&r, m, 1024, true)) {
		CHECK(!inline_asked);	/* there would be no benefit */
		for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
			CHECK(cost(&r, NVME_OPC_FLUSH, depths[i]) <= COMMANDS / 7);
			CHECK(cost(&r, NVME_OPC_READ, depths[i]) <= COMMANDS / 7);
			/* the capsule has the user's data */
			CHECK(cost(&r, NVME_OPC_WRITE, depths[i]) == COMMANDS);
		}
	}
	rig_close(&r);
}

static void test_inline(struct mini *m)
{
	struct rig r = { 0 };

	check_section("inline, or signalled");
	if (rig_open(&r, m, 64, false)) {	/* like an adapter: sends complete later, capsules fit inline */
		CHECK(inline_asked == sizeof(struct nvme_sqe));
		CHECK(r.q->capsule_flags == IBV_SEND_INLINE);
		CHECK(cost(&r, NVME_OPC_READ, 8) <= COMMANDS / 7);
		CHECK(cost(&r, NVME_OPC_READ, SIZE - 1) < COMMANDS);
		CHECK(cost(&r, NVME_OPC_WRITE, 8) == COMMANDS);
	}
	rig_close(&r);
	memset(&r, 0, sizeof(r));
	if (rig_open(&r, m, 0, false)) {	/* the memory of each capsule is in use until it was sent */
		CHECK(!inline_asked && !r.q->capsule_flags);
		CHECK(cost(&r, NVME_OPC_FLUSH, 8) == COMMANDS);
		CHECK(cost(&r, NVME_OPC_READ, SIZE - 1) == COMMANDS);
	}
	rig_close(&r);
}

/* A queue that ends with commands outstanding sends nothing more: they may be repeated on a different connection. */
static void test_stopped(struct mini *m)
{
	static const char *ends[] = { "idle", "with a command", "lost" };

	check_section("stopped");
	for (int i = 0; i < 3; i++) {
		const struct ibv_qp *qp = NULL;
		struct rig r = { 0 };

		stopped = NULL;
		if (rig_open(&r, m, 0, true)) {
			qp = r.q->id->qp;
			CHECK(i != 1 || submit_one(&r, NVME_OPC_READ, 0));
			if (i == 2)
				host_queue_lose(r.q, "lost");
			CHECK(i != 2 || stopped == qp);
		}
		host_queue_destroy(r.q);
		CHECK(stopped == (i ? qp : NULL), "%s", ends[i]);
		r.q = NULL;
		rig_close(&r);
	}
}

static void test_vectors(struct mini *m)
{
	struct rig r = { 0 };
	struct host_queue *more[6] = { 0 };
	struct host_error e;
	unsigned of[4] = { 0 };

	check_section("completion vectors");
	if (rig_open(&r, m, 0, true)) {
		struct ibv_context *context = r.device->context;
		const int real = context->num_comp_vectors;

		context->num_comp_vectors = 4;
		nvectors = 0;
		for (int i = 0; i < 6; i++) {
			more[i] = host_controller_queue(r.c, SIZE, NULL, false, &e);
			CHECK(more[i], "%s", e.text);
		}
		context->num_comp_vectors = real;
		for (int i = 0; i < nvectors; i++)
			of[vectors[i] & 3]++;
		CHECK(nvectors == 6 && of[0] && of[1] && of[2] && of[3]);
		for (int i = 0; i < 6; i++)
			host_queue_destroy(more[i]);
	}
	rig_close(&r);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);

	struct ibv_device **list = verbs_iwarp()->get_device_list(NULL);
	struct ibv_context *context = verbs_iwarp()->open_device(list[0]);
	struct mini *m = mini_start(&ram, 8192, -1);

	device_poll = context->ops.poll_cq;
	context->ops.poll_cq = watch_poll;
	verbs_iwarp()->free_device_list(list);
	test_signals(m);
	test_inline(m);
	test_vectors(m);
	test_stopped(m);
	mini_stop(m);
	context->ops.poll_cq = device_poll;
	return check_report();
}
