/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection to remote memory, with both ends in this process. */
#ifndef MEMORY_LINE_H
#define MEMORY_LINE_H

#include "iwarp_pair.h"
#include "memory/client_internal.h"
#include "memory/server.h"
#include "util/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 1 << 20 };

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

/* A connection, and the range of a store that keeps what is written back. */
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

#endif
