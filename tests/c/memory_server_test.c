/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory server and the memory client, with peers that violate the protocol. */
#include "iwarp_pair.h"
#include "memory/client_internal.h"
#include "memory/server.h"
#include "util/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE (2ull << 30)	/* bytes, of which none is allocated: they are only read */
enum { MANY = 128, SMALL = 1 << 20, OPEN_LENGTH = 536, BATCHES = 32 };

struct line {
	struct memory_server *server;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct memory_conn *conn;
	struct memory_client *client;
	struct store store;
	uint32_t key, platform;
	uint64_t address;
	/* for the thread that connects */
	const char *host;
	char service[8], err[400];
	unsigned depth;
};

static void *connect_client(void *arg)
{
	struct line *l = arg;
	const struct memory_client_options options = {
		.traddr = l->host, .trsvcid = l->service, .verbs = v, .depth = l->depth, .slot_bytes = SMALL,
		.timeout_ms = CHECK_PATIENCE_S * 1000,
	};

	l->client = memory_client_connect(&options, l->err, sizeof(l->err));
	return NULL;
}

/* A connection, and the range of a store that records what is written back. */
static bool line_open(struct line *l, const char *host, unsigned depth, uint64_t bytes)
{
	struct rdma_cm_id *id = NULL;
	pthread_t thread;
	int port = 0;
	char err[400] = "";

	*l = (struct line){ .host = host, .depth = depth };
	l->store = (struct store){ .fd = memfd_create("store", MFD_CLOEXEC), .size = bytes, .memory_is_stable = true };
	l->store.map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	l->server = memory_server_create(200, err, sizeof(err));
	l->events = v->create_event_channel();
	l->listener = listen_on(l->events, host, &port);
	if (!CHECK(l->server && l->listener, "%s", err))
		return false;
	snprintf(l->service, sizeof(l->service), "%d", port);
	pthread_create(&thread, NULL, connect_client, l);
	if (next_event(l->events, &id, NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST)
		l->conn = memory_conn_accept(l->server, v, id, depth, 16, NULL, 0, l, err, sizeof(err));
	pthread_join(thread, NULL);
	if (!CHECK(l->conn && l->client, "%s%s", err, l->err))
		return false;
	CHECK(!memory_conn_grant(l->conn, &l->store, bytes, true, &l->key, &l->address, &l->platform, err, sizeof(err)),
	      "%s", err);
	memory_client_opened(l->client, l->address, l->key, bytes, l->platform);
	return true;
}

/* The server's next event. */
static void await_event(struct line *l, struct memory_event *event)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct pollfd pfd = { .fd = memory_server_fd(l->server), .events = POLLIN };
	struct memory_done done[1];

	do {
		if (l->client)
			(void)memory_client_poll(l->client, done, 1);
		poll(&pfd, 1, 1);
		memory_server_event(l->server, event);
	} while (event->type == MEMORY_EVENT_NONE && clock_ns() < end);
}

static void line_close(struct line *l, bool closed)
{
	struct memory_event event = { .type = closed ? MEMORY_EVENT_CLOSED : MEMORY_EVENT_NONE };

	if (l->client)
		memory_client_free(l->client);
	l->client = NULL;
	while (l->conn && event.type != MEMORY_EVENT_CLOSED)
		await_event(l, &event);
	if (l->conn)
		memory_conn_free(l->conn);
	if (l->listener)
		v->destroy_id(l->listener);
	v->destroy_event_channel(l->events);
	memory_server_destroy(l->server);
	munmap(l->store.map, l->store.size);
	close(l->store.fd);
}

/* The completion's length is that of the written memory, not of a message. */
static void immediate(const char *host)
{
	struct memory_event event;
	struct ibv_send_wr *bad;
	struct line l;

	check_section("an RDMA WRITE with immediate data, behind OPENs in all receives");
	if (!line_open(&l, host, 1, SMALL))
		return;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t open[OPEN_LENGTH] = { MEMORY_OPEN };

		CHECK(!memory_client_send(l.client, open, sizeof(open)));
		await_event(&l, &event);
		CHECK(event.type == MEMORY_EVENT_MESSAGE && event.length == OPEN_LENGTH);
	}
	memset(l.client->memory, 0x5a, SMALL);

	struct ibv_sge sge = { (uintptr_t)l.client->memory, SMALL, l.client->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .wr_id = 2 << 16,
		.wr.rdma = { .remote_addr = l.address, .rkey = l.key },
	};

	CHECK(!ibv_post_send(l.client->end.id->qp, &wr, &bad));
	await_event(&l, &event);
	if (CHECK(event.type == MEMORY_EVENT_CLOSED, "(%d, %u bytes)", event.type, event.length))
		CHECK_HAS(event.reason, "immediate");
	line_close(&l, event.type == MEMORY_EVENT_CLOSED);
}

/* A fence does not wait for PERSIST requests of a host. */
static void long_persists(const char *host)
{
	const struct memory_ask ask = { .type = MEMORY_PERSIST, .length = LARGE };
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct memory_event event;
	struct line l;

	check_section("long PERSISTs, and a fence");
	if (!line_open(&l, host, MANY, LARGE))
		return;
	for (unsigned i = 0; i < MANY; i++)
		CHECK(!memory_client_send(l.client, &ask, sizeof(ask)));
	while (!memory_conn_counts(l.conn).persists && clock_ns() < end)
		usleep(1000);
	CHECK(memory_conn_counts(l.conn).persists);
	memory_conn_close(l.conn, "fenced");
	do
		await_event(&l, &event);
	while (event.type == MEMORY_EVENT_MESSAGE);
	CHECK(event.type == MEMORY_EVENT_CLOSED);
	CHECK_STR(event.reason, "fenced");
	CHECK(memory_conn_counts(l.conn).persists < BATCHES, "(%llu of %d)",
	      (unsigned long long)memory_conn_counts(l.conn).persists, MANY);
	line_close(&l, event.type == MEMORY_EVENT_CLOSED);
}

/* The statuses of PERSIST for ranges at the ends of the memory. */
static void statuses(const char *host)
{
	static const struct {
		uint64_t offset, length;
		enum memory_status status;
	} cases[] = {
		{ 0, SMALL, MEMORY_OK },
		{ SMALL, 0, MEMORY_OK },
		{ SMALL - 1, 1, MEMORY_OK },
		{ SMALL, 1, MEMORY_BAD_RANGE },
		{ 1, UINT64_MAX, MEMORY_BAD_RANGE },
		{ UINT64_MAX, 1, MEMORY_BAD_RANGE },
		{ UINT64_MAX, UINT64_MAX, MEMORY_BAD_RANGE },
	};
	struct line l;

	check_section("ranges of PERSIST");
	if (!line_open(&l, host, 1, SMALL))
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct memory_ask ask = {
			.type = MEMORY_PERSIST, .offset = cases[i].offset, .length = cases[i].length,
		};
		const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
		struct memory_done done[1];
		int n;

		l.client->busy[0] = true;	/* as if it had begun an operation */
		CHECK(!memory_client_send(l.client, &ask, sizeof(ask)));
		do
			n = memory_client_poll(l.client, done, 1);
		while (!n && clock_ns() < end);
		CHECK(n == 1 && done[0].status == cases[i].status, "(case %zu: %d, %d)", i, n, done[0].status);
	}
	line_close(&l, false);
}

int main(int argc, char **argv)
{
	char roce[32];

	check_begin(&argc, argv);
	snprintf(roce, sizeof(roce), "127.%d.%d.3", 64 + getpid() / 256 % 64, getpid() % 256);
	v = verbs_iwarp();
	statuses("127.0.0.1");
	long_persists("127.0.0.1");
	v = verbs_roce();
	statuses(roce);
	immediate(roce);
	return check_report();
}
