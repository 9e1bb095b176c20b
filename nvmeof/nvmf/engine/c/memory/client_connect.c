/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects a memory client, and frees it.  Blocks its thread until the deadline at most: see client.h. */
#include "memory/client_internal.h"
#include "util/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attempt {
	struct memory_client *client;
	const struct memory_client_options *options;
	uint64_t deadline;
	char *err;
	size_t len;
};

static int ms_left(const struct attempt *a)
{
	const uint64_t now = clock_ns();

	return now >= a->deadline ? 0 : (int)((a->deadline - now + 999999) / 1000000);
}

static int call_failed(const struct attempt *a, const char *step)
{
	const int e = errno ? errno : EIO;

	snprintf(a->err, a->len, "cannot connect to the memory of %s: %s: %s", a->client->where, step, strerror(e));
	return -e;
}

/* The target's reason for its reject: the same struct as in its acceptance, with a status. */
static int rejected(const struct attempt *a, const struct rdma_cm_event *ev)
{
	const uint8_t *d = ev->param.conn.private_data;
	const unsigned n = d ? ev->param.conn.private_data_len : 0;

	if (n >= 6 && d[0] == 0x52 && d[1] == 0x4d) {
		snprintf(a->err, a->len,
			 "cannot connect to the memory of %s: the target rejected it: %s (status %u, its protocol "
			 "version is %u)", a->client->where,
			 d[4] == 1 ? "it uses a different version of the protocol" :
			 d[4] == 2 ? "it exports no memory" :
			 d[4] == 3 ? "it has too many connections" : "malformed request",
			 d[4], d[2] | d[3] << 8);
		return -ECONNREFUSED;
	}
	snprintf(a->err, a->len,
		 "cannot connect to the memory of %s: the target rejected it: is that the port of a target that "
		 "exports memory?", a->client->where);
	return -ECONNREFUSED;
}

static int event_failed(const struct attempt *a, const struct rdma_cm_event *ev)
{
	const int status = ev->status < 0 ? -ev->status : ev->status;

	if (ev->event == RDMA_CM_EVENT_REJECTED && status != ECONNREFUSED)
		return rejected(a, ev);
	if (status == ECONNREFUSED && ev->event == RDMA_CM_EVENT_REJECTED && ev->param.conn.private_data_len)
		return rejected(a, ev);
	snprintf(a->err, a->len, "cannot connect to the memory of %s: %s: is the address right, and the target "
		 "running?", a->client->where, status && status < 134 ? strerror(status) : "the connection failed");
	return status && status < 134 ? -status : -ECONNABORTED;
}

static int await(const struct attempt *a, enum rdma_cm_event_type wanted)
{
	struct memory_client *c = a->client;
	struct pollfd p = { .fd = c->events->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	int n, rc = 0;

	do
		n = poll(&p, 1, ms_left(a));
	while (n < 0 && errno == EINTR && ms_left(a));
	if (n <= 0) {
		errno = ETIMEDOUT;
		return call_failed(a, "waiting for an answer");
	}
	if (c->end.verbs->get_cm_event(c->events, &ev))
		return call_failed(a, "rdma_get_cm_event");
	if (ev->event != wanted) {
		rc = event_failed(a, ev);
	} else if (wanted == RDMA_CM_EVENT_ESTABLISHED && ev->param.conn.private_data) {
		c->reply_len = ev->param.conn.private_data_len;
		memcpy(c->reply, ev->param.conn.private_data, c->reply_len);
	}
	c->end.verbs->ack_cm_event(ev);
	return rc;
}

static int build(const struct attempt *a)
{
	enum { PAGE = 4096 };
	struct memory_client *c = a->client;
	const size_t bytes = (size_t)c->depth * (c->slot_bytes + CLIENT_SINK);
	int rc;

	/*
	 * For each operation a WRITE and its second request, twice, as an answer may overtake its completion; and OPEN.
	 * A tail takes four as well: its last request completes after the others.
	 */
	rc = memory_end_build(&c->end, c->depth + 1, c->depth + 1, 4 * c->depth + 1, a->err, a->len);
	if (rc)
		return rc;
	c->ends = calloc(c->depth, sizeof(*c->ends));
	c->memory_bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
	c->memory = aligned_alloc(PAGE, c->memory_bytes);
	if (!c->ends || !c->memory)
		return call_failed(a, "memory for data");
	memset(c->memory, 0, c->memory_bytes);
	/* REMOTE_WRITE: the destination of an RDMA READ must have it on iWARP adapters */
	c->mr = c->end.verbs->reg_mr(c->end.pd, c->memory, c->memory_bytes, IBV_ACCESS_LOCAL_WRITE |
				     (c->end.verbs->read_sink_is_local ? 0 : IBV_ACCESS_REMOTE_WRITE));
	return c->mr ? 0 : call_failed(a, "registering memory");
}

static int try_address(const struct attempt *a, struct sockaddr *source, struct sockaddr *address)
{
	struct memory_client *c = a->client;
	const struct verbs *v = c->end.verbs;
	struct rdma_conn_param param = {
		.private_data = a->options->data,
		.private_data_len = a->options->data_len,
		.initiator_depth = 16,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct ibv_device_attr attr;
	int rc;

	if (v->create_id(c->events, &c->end.id, c, RDMA_PS_TCP)) {
		c->end.id = NULL;
		return call_failed(a, "rdma_create_id");
	}
	if (v->resolve_addr(c->end.id, source, address, ms_left(a)))
		return call_failed(a, "rdma_resolve_addr");
	rc = await(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rc)
		return rc;
	if (v->resolve_route(c->end.id, ms_left(a)))
		return call_failed(a, "rdma_resolve_route");
	rc = await(a, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!rc)
		rc = build(a);
	if (rc)
		return rc;
	if (!v->query_device(c->end.id->verbs, &attr) && attr.max_qp_init_rd_atom > 0 &&
	    attr.max_qp_init_rd_atom < param.initiator_depth)
		param.initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	if (v->connect(c->end.id, &param))
		return call_failed(a, "rdma_connect");
	return await(a, RDMA_CM_EVENT_ESTABLISHED);
}

static int look_up(const struct attempt *a, const char *host, const char *service, struct addrinfo **list)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const int e = getaddrinfo(host, service, &hints, list);

	if (!e)
		return 0;
	*list = NULL;
	snprintf(a->err, a->len, "cannot connect to the memory of %s: unknown address %s (%s)", a->client->where,
		 host, gai_strerror(e));
	return -EHOSTUNREACH;
}

static int establish(const struct attempt *a)
{
	const struct memory_client_options *o = a->options;
	struct memory_client *c = a->client;
	struct addrinfo *target = NULL, *source = NULL;
	int rc;

	c->events = c->end.verbs->create_event_channel();
	if (!c->events)
		return call_failed(a, "rdma_create_event_channel");
	rc = look_up(a, o->traddr, o->trsvcid, &target);
	if (!rc && o->host_traddr)
		rc = look_up(a, o->host_traddr, NULL, &source);
	if (!rc)
		rc = try_address(a, source ? source->ai_addr : NULL, target->ai_addr);
	if (target)
		freeaddrinfo(target);
	if (source)
		freeaddrinfo(source);
	return rc;
}

struct memory_client *memory_client_connect(const struct memory_client_options *options, char *err, size_t len)
{
	struct memory_client *c = calloc(1, sizeof(*c));
	const struct attempt a = {
		.client = c,
		.options = options,
		.deadline = clock_ns() + options->timeout_ms * 1000000ull,
		.err = err,
		.len = len,
	};
	int rc;

	if (!c) {
		snprintf(err, len, "no memory for a memory connection");
		errno = ENOMEM;
		return NULL;
	}
	c->end.verbs = options->verbs;
	c->depth = options->depth;
	c->slot_bytes = options->slot_bytes;
	snprintf(c->where, sizeof(c->where), strchr(options->traddr, ':') ? "[%s]:%s" : "%s:%s", options->traddr,
		 options->trsvcid);
	rc = establish(&a);
	if (!rc)
		return c;
	memory_client_free(c);
	errno = -rc;
	return NULL;
}

void memory_client_free(struct memory_client *client)
{
	const struct verbs *v = client->end.verbs;
	struct ibv_mr *mr = client->mr;

	if (client->end.has_qp) {	/* nothing may reach the memory after it is freed */
		v->disconnect(client->end.id);
		v->destroy_qp(client->end.id);
		client->end.has_qp = false;
	}
	if (mr)
		v->dereg_mr(mr);
	if (client->end.id) {
		memory_end_break(&client->end);
		v->destroy_id(client->end.id);
	}
	if (client->events)
		v->destroy_event_channel(client->events);
	free(client->ends);
	free(client->memory);
	free(client);
}
