/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The use that a target can make of the host's keys: transfer the data of a command while it is outstanding, in its
 * direction, and nothing else.  Any other use ends the connection, and no byte is transferred.
 *
 * Each case runs with memory windows, on a device that has none, and with keys of buffers as far as those give the
 * same protection.
 */
#include "check.h"
#include "host/internal.h"
#include "host_rig.h"
#include "raw_target.h"

enum { MEMORY = 65536, AT = 8192, LENGTH = 4096, MINE = 0x11, THEIRS = 0x22, LANDED = 0x33, AT_TARGET = 3072 };

enum mode { WINDOWS, REGISTERED, BUFFERS };
static const char *const mode_names[] = { "windows", "registrations", "buffers" };

enum when { AT_ONCE, AFTER_PLAIN, AFTER_INVALIDATE, NOT_AT_ALL };

/* The target's action with a command. */
struct use {
	const char *label;
	bool to_device;			/* of the command */
	enum when when;
	enum ibv_wr_opcode op;
	int64_t offset;			/* from the command's data */
	uint32_t length;
	const char *reason;		/* why the connection ends */
	bool ring;			/* at the host's capsules, not at the data */
	bool buffers;			/* keys of buffers give this protection as well */
};

static struct use use;
static uint64_t ring_at;
static uint32_t ring_key;
static atomic_bool go, done;

static struct nvme_sgl use_sgl;

static uint32_t sgl_key(const struct nvme_sgl *sgl)
{
	uint32_t key;

	memcpy(&key, sgl->keyed.key, sizeof(key));
	return key;
}

static void use_key(struct raw *r)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)r->memory + AT_TARGET, .length = use.length, .lkey = r->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = 2000, .sg_list = &sge, .num_sge = 1, .opcode = use.op,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	wr.wr.rdma.remote_addr = use.ring ? ring_at : use_sgl.addr + (uint64_t)use.offset;
	wr.wr.rdma.rkey = use.ring ? ring_key : sgl_key(&use_sgl);
	memset(r->memory + AT_TARGET, THEIRS, use.length);
	CHECK(!ibv_post_send(r->id->qp, &wr, &bad), "%s", use.label);
}

static void use_command(struct raw *r, const struct nvme_sqe *sqe)
{
	const bool invalidate = use.when == AFTER_INVALIDATE && sqe->sgl.keyed.type == NVME_SGL_KEYED_INVALIDATE;

	use_sgl = sqe->sgl;
	if (use.when != AT_ONCE)
		raw_send_key(r, sqe->cid, sizeof(struct nvme_cqe), invalidate ? sgl_key(&sqe->sgl) : 0);
	while (use.when != AT_ONCE && !atomic_load(&go) && !atomic_load(&r->stop))
		sched_yield();
	if (use.when != NOT_AT_ALL)
		use_key(r);
	atomic_store(&done, true);
}

/* ---- the host ---- */

struct host {
	struct host_device *device;
	struct host_queue *queue;
	struct host_memory *memory;
};

static int without_windows(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int ret = verbs_iwarp()->query_device(context, attr);

	attr->max_mw = 0;
	return ret;
}

static bool host_open(struct host *h, enum mode mode, const char *port)
{
	static struct verbs plain;
	struct host_error e;

	plain = *verbs_iwarp();
	plain.query_device = without_windows;
	h->device = host_device_get(mode == REGISTERED ? &plain : NULL,
				    mode == BUFFERS ? HOST_KEYS_OF_BUFFERS : HOST_KEYS_OF_COMMANDS, e.text,
				    sizeof(e.text));
	h->queue = connect_to(h->device, "127.0.0.1", port, 1, 32, false, &e);
	h->memory = host_memory_alloc(h->device, MEMORY, e.text, sizeof(e.text));
	if (!CHECK(h->queue && h->memory, "%s", e.text))
		return false;
	CHECK((mode == WINDOWS) == (h->queue->windows != NULL));
	memset(h->memory->addr, MINE, MEMORY);
	ring_at = (uintptr_t)h->queue->capsules;
	ring_key = h->queue->ring->mr->rkey;
	return true;
}

static void host_close(struct host *h)
{
	host_queue_destroy(h->queue);
	host_memory_free(h->memory);
	host_device_put(h->device);
}

static int host_submit(struct host *h, bool to_device, uint32_t offset)
{
	const struct nvme_sqe sqe = { .opc = to_device ? NVME_OPC_WRITE : NVME_OPC_READ, .nsid = 1 };
	const struct host_data data = {
		.addr = (uint8_t *)h->memory->addr + offset, .length = LENGTH, .memory = h->memory,
		.to_device = to_device,
	};

	return host_queue_submit(h->queue, &sqe, &data, h, false);
}

/* The number of bytes of the memory that have changed. */
static size_t host_changed(const struct host *h)
{
	const uint8_t *p = h->memory->addr;
	size_t n = 0;

	for (size_t i = 0; i < MEMORY; i++)
		n += p[i] != MINE;
	return n;
}

/* ---- cases ---- */

static void test_use(enum mode mode)
{
	struct raw *raw = raw_start_with(RAW_SILENCE, use_command);
	struct host_completion c;
	void *users[32];
	struct host h = { 0 };
	const bool late = use.when != AT_ONCE;

	check_section(use.label);
	atomic_store(&go, false);
	atomic_store(&done, false);
	if (host_open(&h, mode, raw->port)) {
		CHECK(host_submit(&h, use.to_device, AT) >= 0);
		if (late)
			CHECK(poll_for(h.queue, &c) == 1 && !c.cqe.status, "%s: completes", use.label);
		atomic_store(&go, true);
		CHECK(poll_for(h.queue, &c) == -ENOTCONN, "%s, %s", use.label, mode_names[mode]);
		CHECK_HAS(host_queue_reason(h.queue), use.reason);
		CHECK(host_queue_abandon(h.queue, users, 32) == !late);
		CHECK(!host_changed(&h), "%s, %s", use.label, mode_names[mode]);
		for (uint32_t i = 0; i < use.length && use.op == IBV_WR_RDMA_READ; i++)
			CHECK(raw->memory[AT_TARGET + i] == THEIRS, "%s, %s", use.label, mode_names[mode]);
	}
	host_close(&h);
	raw_stop(raw);
}

static void test_misuse(void)
{
	static const struct use uses[] = {
		{ "write beyond", false, AT_ONCE, IBV_WR_RDMA_WRITE, LENGTH - 8, 16, "bounds", 0, 0 },
		{ "write before", false, AT_ONCE, IBV_WR_RDMA_WRITE, -8, 16, "bounds", 0, 0 },
		{ "write elsewhere in the buffer", false, AT_ONCE, IBV_WR_RDMA_WRITE, LENGTH, 16, "bounds", 0, 0 },
		{ "read beyond", true, AT_ONCE, IBV_WR_RDMA_READ, LENGTH - 8, 16, "bounds", 0, 0 },
		{ "read elsewhere in the buffer", true, AT_ONCE, IBV_WR_RDMA_READ, 2 * LENGTH, 16, "bounds", 0, 0 },
		{ "write what is to be written out", true, AT_ONCE, IBV_WR_RDMA_WRITE, 0, 16, "invalid STag", 0, 1 },
		{ "read what is to be read into", false, AT_ONCE, IBV_WR_RDMA_READ, 0, 16, "access", 0, 1 },
		{ "write after the end", false, AFTER_PLAIN, IBV_WR_RDMA_WRITE, 0, 16, "invalid STag", 0, 0 },
		{ "read after the end", true, AFTER_PLAIN, IBV_WR_RDMA_READ, 0, 16, "invalid STag", 0, 0 },
		{ "write after invalidation", false, AFTER_INVALIDATE, IBV_WR_RDMA_WRITE, 0, 16, "invalid STag", 0, 0 },
		{ "read after invalidation", true, AFTER_INVALIDATE, IBV_WR_RDMA_READ, 0, 16, "invalid STag", 0, 0 },
		{ "write a capsule", false, AT_ONCE, IBV_WR_RDMA_WRITE, 0, 16, "invalid STag", 1, 1 },
		{ "read a capsule", false, AT_ONCE, IBV_WR_RDMA_READ, 0, 16, "access", 1, 1 },
	};

	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		use = uses[i];
		test_use(WINDOWS);
		test_use(REGISTERED);
		if (use.buffers)
			test_use(BUFFERS);
	}
}

/* ---- a command's own data ---- */

/* RDMA WRITE to the destination of a Read, or RDMA READ from the source of a Write; then the response. */
static void serve_command(struct raw *r, const struct nvme_sqe *sqe)
{
	static unsigned turn;
	const bool read = sqe->opc == NVME_OPC_READ;
	struct ibv_sge sge = { .addr = (uintptr_t)r->memory + AT_TARGET, .length = 64, .lkey = r->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2000, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.opcode = read ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
	}, *bad;
	struct ibv_wc wc = { 0 };

	wr.wr.rdma.remote_addr = sqe->sgl.addr;
	wr.wr.rdma.rkey = sgl_key(&sqe->sgl);
	memset(r->memory + AT_TARGET, read ? LANDED : 0, 64);
	CHECK(!ibv_post_send(r->id->qp, &wr, &bad));
	while (wc.wr_id != 2000 && !atomic_load(&r->stop))
		if (!ibv_poll_cq(r->cq, 1, &wc))
			sched_yield();
	CHECK(!wc.status, "the command's own data moves");
	CHECK(read || r->memory[AT_TARGET + 63] == MINE);
	raw_send_key(r, sqe->cid, sizeof(struct nvme_cqe),
		     sqe->sgl.keyed.type == NVME_SGL_KEYED_INVALIDATE && turn++ % 3 ? sgl_key(&sqe->sgl) : 0);
}

/* More commands than a window has keys; the target invalidates some of the keys and the host the others. */
static void test_many(enum mode mode)
{
	struct raw *raw = raw_start_with(RAW_SILENCE, serve_command);
	struct host_completion c;
	struct host h = { 0 };
	int bad = 0;

	check_section("many commands");
	for (unsigned i = 0; i < 1000 && (h.queue || host_open(&h, mode, raw->port)) && !bad; i++) {
		uint8_t *p = (uint8_t *)h.memory->addr + AT + i % 7;

		bad += host_submit(&h, i & 1, AT + i % 7) < 0 || poll_for(h.queue, &c) != 1 || c.cqe.status;
		bad += p[0] != (i & 1 ? MINE : LANDED) || p[63] != (i & 1 ? MINE : LANDED) || p[-1] != MINE ||
		       p[64] != MINE;
		memset(p, MINE, 64);
	}
	CHECK(!bad, "%s: %s", mode_names[mode], h.queue ? host_queue_reason(h.queue) : "");
	host_close(&h);
	raw_stop(raw);
}

/* ---- false invalidations ---- */

static struct nvme_sqe first;

static void lie_command(struct raw *r, const struct nvme_sqe *sqe)
{
	if (first.opc)	/* the first command is answered with the second's key */
		raw_send_key(r, first.cid, sizeof(struct nvme_cqe), sgl_key(&sqe->sgl));
	first = *sqe;
}

static void test_wrong_invalidation(void)
{
	struct raw *raw = raw_start_with(RAW_SILENCE, lie_command);
	struct host_completion c;
	void *users[32];
	struct host h = { 0 };

	check_section("another command's key invalidated");
	memset(&first, 0, sizeof(first));
	if (host_open(&h, WINDOWS, raw->port)) {
		CHECK(host_submit(&h, false, AT) >= 0 && host_submit(&h, false, 2 * AT) >= 0);
		CHECK(poll_for(h.queue, &c) == -ENOTCONN);
		CHECK_HAS(host_queue_reason(h.queue), "which it may not invalidate");
		CHECK(host_queue_abandon(h.queue, users, 32) == 2);
	}
	host_close(&h);
	raw_stop(raw);
}

static int as_rxe(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int ret = verbs_iwarp()->query_device(context, attr);

	attr->vendor_id = 0xffffff;
	return ret;
}

/* Its windows must not be used, no matter what it reports. */
static void test_rxe(void)
{
	struct raw *raw = raw_start_with(RAW_SILENCE, serve_command);
	struct verbs rxe = *verbs_iwarp();
	struct host_error e;

	check_section("rxe");
	rxe.query_device = as_rxe;

	struct host_device *d = host_device_get(&rxe, HOST_KEYS_OF_COMMANDS, e.text, sizeof(e.text));
	struct host_queue *q = connect_to(d, "127.0.0.1", raw->port, 1, 32, false, &e);

	CHECK(q && !q->windows && !d->windows, "%s", e.text);
	host_queue_destroy(q);
	host_device_put(d);
	raw_stop(raw);
}

/* Commands that end with the queue: their memory is no longer in use, and can be freed before the queue. */
static void test_abandoned(enum mode mode)
{
	struct raw *raw = raw_start(RAW_SILENCE);
	struct host h = { 0 };
	void *users[32];

	check_section("abandoned");
	if (host_open(&h, mode, raw->port)) {
		for (uint32_t i = 0; i < 8; i++)
			CHECK(host_submit(&h, i & 1, i * LENGTH) >= 0);
		host_queue_lose(h.queue, "the test has cut it");
		h.queue->verbs->disconnect(h.queue->id);
		CHECK(host_queue_abandon(h.queue, users, 32) == 8);
		for (unsigned i = 0; i < 8; i++)
			CHECK(!h.queue->slots[i].key && !h.queue->slots[i].mr);
		host_memory_free(h.memory);
		h.memory = NULL;
	}
	host_close(&h);
	raw_stop(raw);
}

/* Windows that are bound when the queue is destroyed. */
static void test_destroyed(enum mode mode)
{
	struct raw *raw = raw_start(RAW_SILENCE);
	struct host h = { 0 };

	check_section("destroyed");
	if (host_open(&h, mode, raw->port))
		CHECK(host_submit(&h, false, AT) >= 0);
	host_close(&h);
	raw_stop(raw);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_misuse();
	test_many(WINDOWS);
	test_many(REGISTERED);
	test_many(BUFFERS);
	test_wrong_invalidation();
	test_rxe();
	for (enum mode mode = WINDOWS; mode <= BUFFERS; mode++) {
		test_abandoned(mode);
		test_destroyed(mode);
	}
	return check_report();
}
