/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever messages a host of remote memory sends, each PERSIST and ECHO has one answer while the connection
 * exists, with the status for its range, and no memory outside of the range is accessed; OPEN and AUTH are passed to
 * the control thread as they were sent; the key is invalidated before the queue pair is destroyed, CLOSED comes once,
 * and then no object is left.
 *
 * The input is a list of steps over a mock device: messages, delivered completions, actions of the control thread, the
 * end of the connection.  The server has no thread: its turns are steps, too.
 */
#include <sys/mman.h>

#include "memory/server_internal.h"
#include "memory_mock.h"

enum { DEPTH = 3, GUARD = 1 << 20, STEPS_MAX = 400 };

struct run {
	const uint8_t *p, *end;
	struct memory_server *server;
	struct memory_conn *conn;
	struct store store;
	/* OPENs and AUTHs that will be reported to the control thread */
	struct {
		uint8_t bytes[MEMORY_MESSAGE];
		uint32_t length;
	} tell[STEPS_MAX];
	unsigned sent, told;
	bool closed, granted;
	unsigned words;
};

static uint8_t take(struct run *r)
{
	return r->p < r->end ? *r->p++ : 0;
}

/* ---- the peer ---- */

/* A message arrives, if there is a receive: the device holds it back otherwise. */
static bool deliver(const void *message, uint32_t length, enum ibv_wc_opcode opcode, uint32_t byte_len)
{
	const unsigned i = mock.receive_tail % QUEUE;

	if (mock.error || mock.receive_tail == mock.receive_head)
		return false;
	mock_mr(mock.sge[i].lkey, mock.sge[i].addr, mock.sge[i].length);
	REQUIRE(length <= mock.sge[i].length);
	memcpy((void *)(uintptr_t)mock.sge[i].addr, message, length);
	mock.receive_tail++;
	complete(&(struct ibv_wc){ .wr_id = mock.receives[i].wr_id, .opcode = opcode, .byte_len = byte_len });
	return true;
}

static uint64_t place(struct run *r)
{
	static const uint64_t places[] = { 0, 1, RANGE - 1, RANGE, RANGE + 1, 256 << 10, UINT64_MAX, 1ull << 63 };

	return places[take(r) & 7] + (take(r) & 1);
}

static void send_ask(struct run *r, uint8_t how)
{
	struct memory_ask ask = { .type = how & 1 ? MEMORY_PERSIST : MEMORY_ECHO, .id = (uint16_t)mock.asked };

	if (mock.asked == MESSAGES)
		return;
	ask.offset = place(r);
	ask.length = place(r);
	mock.asks[ask.id] = ask;
	mock.waits[ask.id] = true;
	if (deliver(&ask, sizeof(ask), IBV_WC_RECV, sizeof(ask)))
		mock.asked++;
	else
		mock.waits[ask.id] = false;
}

static void send_other(struct run *r, uint8_t how)
{
	uint8_t message[MEMORY_MESSAGE] = { how & 1 ? MEMORY_OPEN : MEMORY_AUTH };
	uint32_t length = how & 2 ? take(r) : MEMORY_MESSAGE;

	if (how & 4)
		message[0] = take(r);
	if (length == sizeof(struct memory_ask) && (message[0] == MEMORY_PERSIST || message[0] == MEMORY_ECHO))
		length++;
	message[MEMORY_MESSAGE - 1] = take(r);
	if (deliver(message, length, IBV_WC_RECV, length) && length &&
	    (message[0] == MEMORY_OPEN || message[0] == MEMORY_AUTH)) {
		memcpy(r->tell[r->sent].bytes, message, length);
		r->tell[r->sent++].length = length;
	}
}

/* ---- the control thread ---- */

static void take_events(struct run *r)
{
	struct memory_event event;

	for (;;) {
		memory_server_event(r->server, &event);
		if (event.type == MEMORY_EVENT_NONE)
			return;
		REQUIRE(!r->closed && event.cookie == r);
		if (event.type == MEMORY_EVENT_CLOSED) {
			REQUIRE(event.reason[0] && !mock.up && !mock.range);
			r->closed = true;
			continue;
		}
		REQUIRE(r->told < r->sent && event.length == r->tell[r->told].length &&
			!memcmp(event.message, r->tell[r->told].bytes, event.length));
		r->told++;
	}
}

static void grant(struct run *r, bool write)
{
	uint32_t key, platform;
	uint64_t address;
	char err[200];
	int rc = memory_conn_grant(r->conn, &r->store, RANGE, write, &key, &address, &platform, err, sizeof(err));

	REQUIRE(rc == (r->granted || !mock.up ? -ENOTCONN : 0));
	REQUIRE(rc || (address == (uintptr_t)r->store.map && key == mock.range->rkey));
	r->granted |= !rc;
}

static void control(struct run *r, uint8_t how)
{
	uint8_t word[MEMORY_MESSAGE] = { MEMORY_OPENED };

	switch (how & 3) {
	case 0:
		grant(r, how & 4);
		break;
	case 1:
		r->words += !memory_conn_send(r->conn, word, how & 4 ? sizeof(word) : 288);
		break;
	case 2:
		take_events(r);
		break;
	default:
		if (!r->closed && how & 8)
			memory_conn_close(r->conn, "closed by the control thread");
		break;
	}
}

static void step(struct run *r)
{
	const uint8_t op = take(r);

	switch (op & 7) {
	case 0:
	case 1:
		send_ask(r, op >> 3);
		break;
	case 2:
		send_other(r, op >> 3);
		break;
	case 3:
		for (unsigned n = op >> 3; n && mock.sent_tail != mock.sent_head; n--)
			complete(&mock.sent[mock.sent_tail++ % QUEUE]);
		break;
	case 4:
		control(r, op >> 3);
		break;
	case 5:
		if ((op >> 3) == 31)
			fail();
		else if ((op >> 3) == 30)
			/* into a receive that has an old OPEN */
			deliver("\1", 1, IBV_WC_RECV_RDMA_WITH_IMM, take(r) * 16777216u + take(r));
		break;
	default:
		for (unsigned n = op >> 3; n; n--)
			memory_server_turn(r->server, false);
		break;
	}
}

/* If the connection exists, all requests are answered; then it ends, and everything is released. */
static void finish(struct run *r)
{
	for (unsigned n = 0; n < 400; n++) {
		while (mock.sent_tail != mock.sent_head)
			complete(&mock.sent[mock.sent_tail++ % QUEUE]);
		memory_server_turn(r->server, false);
	}
	take_events(r);
	if (!r->closed) {
		REQUIRE(!mock.error && mock.answered == mock.asked && mock.words == r->words && r->told == r->sent);
		REQUIRE(mock.receive_head - mock.receive_tail == 2 * DEPTH);
		memory_conn_close(r->conn, "the end");
		for (unsigned n = 0; n < 40; n++)
			memory_server_turn(r->server, false);
		take_events(r);
	}
	REQUIRE(r->closed && !r->server->active.head);
	memory_conn_free(r->conn);
	REQUIRE(!mock_objects.count);
	memory_server_free(r->server);
}

/* It is between pages that must not be accessed. */
static void make_store(struct store *store)
{
	static uint8_t *map;

	if (!map) {
		map = mmap(NULL, 2 * GUARD + RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		REQUIRE(map != MAP_FAILED && !mprotect(map + GUARD, RANGE, PROT_READ));
	}
	*store = (struct store){ .kind = STORE_PMEM, .size = RANGE, .map = map + GUARD, .memory_is_stable = true };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rdma_cm_id *id = mock_new(sizeof(*id));
	static struct run r;
	char err[200];

	r = (struct run){ .p = data, .end = data + size };
	memset(&mock, 0, sizeof(mock));
	mock.context.ops.post_send = post_send;
	mock.context.ops.post_recv = post_recv;
	mock.context.ops.poll_cq = poll_cq;
	mock.context.ops.req_notify_cq = notify;
	id->verbs = &mock.context;
	make_store(&r.store);
	r.server = memory_server_make(take(&r) & 1 ? 1000 : 0, err, sizeof(err));
	REQUIRE(r.server);
	r.conn = memory_conn_accept(r.server, &table, id, DEPTH, 1, "RM", 4, &r, err, sizeof(err));
	REQUIRE(r.conn);
	for (unsigned n = 0; r.p < r.end && n < STEPS_MAX; n++)
		step(&r);
	finish(&r);
	return 0;
}
