/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever a target answers, and in whatever order sends, answers and the end of the connection are seen,
 * each submitted command is returned exactly once, with its own answer; an answer without a command ends the connection
 * with a reason; as long as the connection exists, enough receives are posted for the outstanding commands; at the end
 * no object is left.
 *
 * The input is a list of steps over a mock device (host_mock.h): commands of the host, answers and malformed messages
 * of the target, completions, events, and actions of the polling thread.  The device has memory windows or not; with
 * keys of commands, a key is invalid once its command is returned.
 */
#include "host_mock.h"

enum { SIZE = 8, USERS = 64, DATA = 65536, IN_CAPSULE = 4096, RIGHT = 0x600d, TAKEN = 0x11223344 };

struct run {
	const uint8_t *p, *end;
	struct host_queue *q;
	bool out[USERS];		/* submitted, and not returned */
	struct { uint16_t cid; unsigned user; uint32_t key; } asked[USERS];	/* seen by the target, in order */
	uint32_t keys[USERS];		/* that ends with each user's command, or 0 */
	bool buffers;			/* keys are of buffers */
	unsigned asked_count;
	uint16_t cids[USERS];		/* of each user's command */
	bool abandoned;
};

static struct run *run;
static uint8_t *data;

static uint8_t take8(struct run *r)
{
	return r->p < r->end ? *r->p++ : 0;
}

/* The target sees a command: the user is in its dword 15. */
static void seen(struct mock_qp *qp, const struct nvme_sqe *sqe)
{
	uint32_t key = 0;

	(void)qp;
	/* the answered command with this CID ended long ago */
	for (unsigned i = 0; i < run->asked_count; i++)
		if (run->asked[i].cid == sqe->cid)
			run->asked[i--] = run->asked[--run->asked_count];
	REQUIRE(run->asked_count < USERS && sqe->cdw15 < USERS);
	REQUIRE((sqe->flags & NVME_PSDT_MASK) == NVME_PSDT_SGL);
	if (sqe->sgl.keyed.type != NVME_SGL_IN_CAPSULE && nvme_sgl_keyed_length(&sqe->sgl)) {
		memcpy(&key, sqe->sgl.keyed.key, sizeof(key));
		mock_key(key, sqe->sgl.addr, nvme_sgl_keyed_length(&sqe->sgl));
		REQUIRE((sqe->sgl.keyed.type == NVME_SGL_KEYED_INVALIDATE) == (mock_window(key) != NULL));
	}
	run->keys[sqe->cdw15] = run->buffers ? 0 : key;
	run->asked[run->asked_count].key = mock_window(key) ? key : 0;
	run->asked[run->asked_count].cid = sqe->cid;
	run->asked[run->asked_count++].user = sqe->cdw15;
}

static void submit(struct run *r, const struct host_memory *memory, uint8_t how)
{
	struct nvme_sqe sqe = { .opc = take8(r), .flags = how };
	struct host_data moving = { .addr = data, .length = take8(r) * 257u, .memory = memory,
				    .to_device = how & 1, .in_capsule = how & 2 };
	const unsigned before = host_queue_outstanding(r->q);
	unsigned user = 0;
	int ret;

	while (user < USERS && r->out[user])
		user++;
	REQUIRE(user < USERS);
	sqe.cdw15 = user;
	ret = host_queue_submit(r->q, &sqe, &moving, &r->out[user], how & 4);
	if (ret < 0) {
		REQUIRE(ret == -ENOTCONN ? r->q->lost : ret == -EAGAIN && before == SIZE - 1);
		return;
	}
	REQUIRE(ret <= 0xffff && host_queue_outstanding(r->q) == before + 1);
	r->cids[user] = (uint16_t)ret;
	r->out[user] = true;
}

/* The answer to a command that the target has seen, with the changes of the input. */
static void respond(struct run *r, uint8_t how)
{
	uint8_t bytes[32] = { 0 };
	struct nvme_cqe cqe = { .sqhd = 1, .status = (uint16_t)(how & 4 ? take8(r) << 1 : 0) };
	uint32_t length = sizeof(cqe);
	unsigned which, user;

	if (!r->asked_count || !mock.qp)
		return;
	which = take8(r) % r->asked_count;
	user = r->asked[which].user;
	cqe.cid = r->asked[which].cid;
	cqe.dw0 = user;
	cqe.dw1 = how & 1 ? 0xbad : RIGHT;
	if (how & 1)
		((uint8_t *)&cqe)[take8(r) & 15] ^= take8(r);
	if (how & 2)
		length = take8(r) & 31;
	memcpy(bytes, &cqe, sizeof(cqe));
	if (mock_message(mock.qp, bytes, length) && !(how & 11))	/* 8: the same again, later */
		r->asked[which] = r->asked[--r->asked_count];
}

/*
 * The answer to a command, with the invalidation of a key: its own, as requested, an unknown key, or that of a
 * different command.
 */
static void invalidating(struct run *r, uint8_t how)
{
	const unsigned of = r->asked_count ? how % r->asked_count : 0;
	const uint32_t key = r->asked[of].key;
	struct nvme_cqe cqe = { .cid = r->asked[0].cid, .dw0 = r->asked[0].user, .dw1 = TAKEN };
	struct ibv_wc *wc;

	if (!r->asked_count || !mock.qp || mock.qp->error || (key && !mock_key_valid(key)))
		return;
	if (key && !of)
		cqe.dw1 = RIGHT;
	if (!mock_message(mock.qp, &cqe, sizeof(cqe)) || mock.qp->error)
		return;
	wc = &mock.qp->wc[(mock.qp->wc_head - 1) % RING];
	wc->wc_flags = IBV_WC_WITH_INV;
	wc->invalidated_rkey = key ? key : 1;
	if (key)
		mock_invalidate(key);
	if (key && !of)
		r->asked[0] = r->asked[--r->asked_count];
}

/* The user's command is returned, and the peer can no longer use its key. */
static void key_ended(struct run *r, unsigned user)
{
	REQUIRE(!r->keys[user] || !mock_key_valid(r->keys[user]));
	r->keys[user] = 0;
}

static void take_back(struct run *r, const struct host_completion *c)
{
	const bool *out = c->user;
	const unsigned user = (unsigned)(out - r->out);

	REQUIRE(user < USERS && r->out[user] && c->cqe.cid == r->cids[user]);
	REQUIRE(c->cqe.dw1 != TAKEN && (c->cqe.dw1 != RIGHT || c->cqe.dw0 == user));
	key_ended(r, user);
	r->out[user] = false;
}

static void poll(struct run *r, unsigned completions, int max)
{
	struct host_completion found[USERS];
	int n;

	mock.give = completions;
	n = host_queue_poll(r->q, found, max);
	REQUIRE(n <= max && (n >= 0 || (n == -ENOTCONN && r->q->lost)));
	for (int i = 0; i < n; i++)
		take_back(r, &found[i]);
	if (r->q->lost)
		REQUIRE(*host_queue_reason(r->q));
}

static void abandon(struct run *r)
{
	void *users[3];
	int n;

	do {
		n = host_queue_abandon(r->q, users, 3);
		for (int i = 0; i < n; i++) {
			bool *out = users[i];

			REQUIRE(*out);
			key_ended(r, (unsigned)(out - r->out));
			*out = false;
		}
	} while (n == 3);
	REQUIRE(!host_queue_outstanding(r->q));
	r->abandoned = true;
}

static void event(struct run *r, uint8_t how)
{
	mock_event(r->q->id, (enum rdma_cm_event_type)(how & 15), -(int)take8(r), NULL, 0);
	if (how & 16)
		mock_fail(mock.qp);
}

static void step(struct run *r, const struct host_memory *memory)
{
	const uint8_t op = take8(r);

	switch (op & 7) {
	case 0:
	case 1:
		submit(r, memory, op >> 3);
		break;
	case 2:
		mock_complete(mock.qp, op >> 3, op & 128 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		if (op & 128)
			mock_fail(mock.qp);
		break;
	case 3:
		respond(r, op & 8 ? op >> 4 : op >> 4 & 12);
		break;
	case 4:
	case 5:
		poll(r, op >> 3, 1 + (op >> 5));
		break;
	case 6:
		event(r, op >> 3);
		break;
	default:
		if (op & 8)
			host_queue_drain(r->q);
		else if (op & 16)
			host_queue_nudge(r->q);
		else if (op & 32)
			mock_fail(mock.qp);
		else if (op & 128)
			invalidating(r, take8(r));
		else if (r->q->lost && !r->abandoned && op & 64)
			poll(r, RING, USERS), abandon(r);
		else
			host_queue_flush(r->q);
		break;
	}
}

/* While the connection is up, all outstanding commands are answered and returned. */
static void settle(struct run *r)
{
	mock_event(r->q->id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0);	/* it concerns no command */
	for (unsigned i = 0; i < 4 && !r->q->lost; i++) {
		host_queue_flush(r->q);
		mock_complete(mock.qp, RING, IBV_WC_SUCCESS);
		poll(r, RING, USERS);
	}
	for (unsigned user = 0; user < USERS; user++) {
		const struct nvme_cqe cqe = { .cid = r->cids[user], .dw0 = user };

		if (!r->q->lost && r->out[user])
			REQUIRE(mock_message(mock.qp, &cqe, sizeof(cqe)) || mock.qp->error);
		poll(r, RING, USERS);
	}
	mock_complete(mock.qp, RING, IBV_WC_SUCCESS);	/* keys that the host invalidates */
	poll(r, RING, USERS);
	if (!r->q->lost) {
		REQUIRE(!host_queue_outstanding(r->q));
		REQUIRE(mock.qp->recv_head - mock.qp->recv_tail >= SIZE - 1u);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct run r = { .p = input, .end = input + size };
	const struct host_queue_options options = {
		.traddr = "192.0.2.1", .trsvcid = "4420", .qid = 1, .size = SIZE,
		.in_capsule = IN_CAPSULE, .notify = size & 1,
	};
	const uint8_t device_kind = take8(&r), keys = device_kind % 3;
	struct host_device *device;
	struct host_memory *memory;
	struct host_error error = { 0 };

	run = &r;
	mock.capsule = seen;
	if (!data)
		data = malloc(DATA);
	mock.windows = keys == 0;
	mock.inline_most = device_kind & 128 ? 64 : 0;
	r.buffers = keys == 2;
	device = host_device_get(&mock_verbs, r.buffers ? HOST_KEYS_OF_BUFFERS : HOST_KEYS_OF_COMMANDS,
				 error.text, sizeof(error.text));
	r.q = host_queue_new(device, &options, &error);
	REQUIRE(device && r.q);
	mock_create_id(host_group_channel(r.q->group), &r.q->id, r.q, RDMA_PS_TCP);
	REQUIRE(!host_queue_build(r.q, &error));
	memory = host_memory_register(device, data, DATA, error.text, sizeof(error.text));
	REQUIRE(memory);
	while (r.p < r.end && r.asked_count < USERS - SIZE)
		step(&r, memory);
	settle(&r);
	if (r.q->lost) {
		for (unsigned i = 0; i < 64; i++)
			poll(&r, RING, USERS);
		abandon(&r);
	}
	for (unsigned user = 0; user < USERS; user++)
		REQUIRE(!r.out[user]);
	host_queue_destroy(r.q);
	host_memory_free(memory);
	host_device_put(device);
	mock_nothing_left();
	return 0;
}
