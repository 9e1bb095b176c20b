/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Establishes a connection: name, address, route, queue pair, RDMA-CM request with the private data of the RDMA
 * transport; and explains to the user why it failed.
 *
 * Runs on the thread that connects, and blocks it until the deadline at most (except if a name server does not
 * answer).  The addresses of a name are tried in turn.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define NO_DEVICE "no RDMA device routes to that address; the embedded device, iwarp, may reach it"
#define SCOPE_MISSING "a link-local address needs its interface, as in fe80::1%eth0"

enum { DEFAULT_TIMEOUT_MS = 10000 };

/* One attempt: its inputs, and the event that ended a step. */
struct attempt {
	struct host_queue *queue;
	const struct host_queue_options *options;
	struct host_error *error;
	uint32_t timeout_ms;
	uint64_t deadline;
	enum rdma_cm_event_type event;
	int status;
	uint8_t data[256];
	unsigned data_len;
};

static int connect_ms_left(const struct attempt *a)
{
	const uint64_t now = clock_ns();

	return now >= a->deadline ? 0 : (int)((a->deadline - now + 999999) / 1000000);
}

static int connect_timed_out(const struct attempt *a, const char *step)
{
	return host_error_set(a->error, -ETIMEDOUT,
			      "connecting queue %u to %s: no answer within %u ms (%s): is the address right, "
			      "is the target running, and does a firewall drop the packets?",
			      a->queue->qid, a->queue->where, a->timeout_ms, step);
}

/* Report that a function of the table failed before any event; hint: an explanation, or "". */
static int connect_call_failed(const struct attempt *a, const char *step, const char *hint)
{
	const int e = errno ? errno : EIO;

	return host_error_set(a->error, -e, "connecting queue %u to %s: %s: %s%s%s", a->queue->qid,
			      a->queue->where, step, strerror(e), *hint ? ": " : "", hint);
}

/* Report that there is no event channel, because the kernel has no RDMA device. */
static int connect_channel_failed(const struct attempt *a)
{
	return connect_call_failed(a, "rdma_create_event_channel",
			   errno == ENODEV || errno == ENOENT ?
			   "this machine has no RDMA device; use the embedded device, iwarp" : "");
}

/* fe80::/10 is on every link: without a scope the link is ambiguous (RFC 4007 section 6). */
static bool connect_scope_missing(const struct attempt *a)
{
	struct in6_addr address;

	return inet_pton(AF_INET6, a->options->traddr, &address) == 1 && IN6_IS_ADDR_LINKLOCAL(&address);
}

static int connect_address_failed(const struct attempt *a)
{
	switch (errno) {
	case EADDRNOTAVAIL:
		if (a->options->host_traddr)
			return host_error_set(a->error, -EADDRNOTAVAIL,
					      "connecting queue %u to %s from %s: %s: give a source address "
					      "(host_traddr) of this machine, or none",
					      a->queue->qid, a->queue->where, a->options->host_traddr,
					      strerror(EADDRNOTAVAIL));
		return connect_call_failed(a, "rdma_resolve_addr", "is the address right?");
	case ENODEV:
		return connect_call_failed(a, "rdma_resolve_addr", NO_DEVICE);
	default:
		return connect_call_failed(a, "rdma_resolve_addr", connect_scope_missing(a) ? SCOPE_MISSING : "");
	}
}

/* The sts of an NVMe-oF target's reject, which has 4 bytes of data; otherwise 0. */
static int connect_reject_status(const struct attempt *a)
{
	struct nvme_rdma_cm_rej rej;

	if (a->event != RDMA_CM_EVENT_REJECTED || a->data_len < sizeof(rej))
		return 0;
	memcpy(&rej, a->data, sizeof(rej));
	return rej.recfmt == 0 ? rej.sts : 0;
}

static const char *connect_event_hint(const struct attempt *a)
{
	switch (a->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (connect_scope_missing(a))
			return SCOPE_MISSING;
		if (a->status == -EADDRINUSE)
			return "UDP port 4791 of the source address is in use by a process of another user, or by the "
			       "kernel's rxe: give a different source address (host_traddr)";
		return strcmp(a->queue->verbs->name, "system") ?
		       "no route leads there: check the address and the network" : NO_DEVICE;
	case RDMA_CM_EVENT_UNREACHABLE:
		return "nothing answers there: check the address, the route, the firewall, and that the target runs";
	case RDMA_CM_EVENT_REJECTED:
		if (a->status == HOST_CM_NO_SERVICE)
			return "no target listens there; is it running, and is the port right?";
		if (a->status == -ECONNRESET)
			return "is that the port of an NVMe-oF target for RDMA over this kind of fabric?";
		return "the target accepted the connection but refused the queue without a reason: see its log";
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
		return "is that the port of an NVMe-oF target for RDMA over this kind of fabric?";
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return "the RDMA device was removed";
	default:
		return "";
	}
}

/* The peer's connection manager rejected it for a reason of InfiniBand's; iWARP has negative error numbers instead. */
static int connect_rejected(const struct attempt *a)
{
	const int e = a->status == HOST_CM_NO_SERVICE ? ECONNREFUSED : ECONNABORTED;

	return host_error_set(a->error, -e, "connecting queue %u to %s: %s, status %d (%s): %s", a->queue->qid,
			      a->queue->where, host_cm_event_name((int)a->event), a->status,
			      host_cm_reason_name(a->status), connect_event_hint(a));
}

static int connect_event_failed(const struct attempt *a)
{
	struct host_error *e = a->error;
	const struct host_queue *q = a->queue;
	const int status = a->status < 0 ? -a->status : a->status;

	e->cm_event = (int)a->event;
	e->cm_status = a->status;
	e->reject_sts = connect_reject_status(a);
	if (e->reject_sts)
		return host_error_set(e, -ECONNREFUSED,
				      "connecting queue %u of %u entries to %s: the target rejected it: %s (sts %d): "
				      "%s",
				      q->qid, q->size, q->where, host_reject_name(e->reject_sts),
				      e->reject_sts, host_reject_hint(e->reject_sts));
	if (a->event == RDMA_CM_EVENT_REJECTED && a->status > 0)
		return connect_rejected(a);
	if (status == ECONNREFUSED && !a->data_len)
		return host_error_set(e, -ECONNREFUSED,
				      "connecting queue %u to %s: connection refused: no target listens there; is "
				      "it running, and is the port right?",
				      q->qid, q->where);
	if (status == ETIMEDOUT)
		return connect_timed_out(a, host_cm_event_name((int)a->event));
	return host_error_set(e, status && status < 134 ? -status : -ECONNABORTED,
			      "connecting queue %u to %s: %s, status %d (%s): %s", q->qid, q->where,
			      host_cm_event_name((int)a->event), a->status,
			      strerror(status), connect_event_hint(a));
}

static int connect_await_event(struct attempt *a, const char *step, struct rdma_cm_event **ev)
{
	struct host_queue *q = a->queue;
	struct rdma_event_channel *channel = q->group->channel;
	struct pollfd p[] = {
		{ .fd = channel->fd, .events = POLLIN },
		{ .fd = a->options->cancel ? *a->options->cancel : -1, .events = POLLIN },
	};
	int n;

	do
		n = poll(p, 2, connect_ms_left(a));
	while (n < 0 && errno == EINTR && connect_ms_left(a));
	if (n <= 0)
		return connect_timed_out(a, step);
	if (p[1].revents)
		return host_error_set(a->error, -ECANCELED, "connecting queue %u to %s was cancelled (%s)",
				      q->qid, q->where, step);
	if (q->verbs->get_cm_event(channel, ev))
		return connect_call_failed(a, "rdma_get_cm_event", "");
	return 0;
}

/* Pass on an event of a different queue of the group. */
static void connect_pass_on(const struct host_queue *q, struct rdma_cm_event *ev)
{
	struct host_queue *other = ev->id->context;
	const enum rdma_cm_event_type type = ev->event;
	const int status = ev->status;

	q->verbs->ack_cm_event(ev);
	host_queue_cm_event(other, type, status);
}

/* Wait for one event of the queue; it is copied and acknowledged. */
static int connect_next_event(struct attempt *a, const char *step)
{
	struct host_queue *q = a->queue;
	struct rdma_cm_event *ev;
	int ret;

	while (!(ret = connect_await_event(a, step, &ev)) && ev->id != q->id)
		connect_pass_on(q, ev);
	if (ret)
		return ret;
	a->event = ev->event;
	a->status = ev->status;
	a->data_len = 0;
	if ((ev->event == RDMA_CM_EVENT_ESTABLISHED || ev->event == RDMA_CM_EVENT_REJECTED) &&
	    ev->param.conn.private_data) {
		a->data_len = ev->param.conn.private_data_len;
		memcpy(a->data, ev->param.conn.private_data, a->data_len);
	}
	q->verbs->ack_cm_event(ev);
	return 0;
}

static int connect_expect(struct attempt *a, enum rdma_cm_event_type wanted, const char *step)
{
	const int ret = connect_next_event(a, step);

	if (ret)
		return ret;
	return a->event == wanted ? 0 : connect_event_failed(a);
}

static int connect_send_request(struct attempt *a)
{
	const struct host_queue *q = a->queue;
	const int ird = q->device->attr.max_qp_rd_atom;
	const struct nvme_rdma_cm_req req = {
		.qid = q->qid,
		.hrqsize = q->size,
		.hsqsize = (uint16_t)(q->size - 1),
		.cntlid = a->options->cntlid,
	};
	struct rdma_conn_param param = {
		.private_data = &req,
		.private_data_len = sizeof(req),
		.responder_resources = (uint8_t)(ird > 128 ? 128 : ird),
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	if (q->verbs->connect(q->id, &param))
		return connect_call_failed(a, "rdma_connect", "");
	return 0;
}

/* The target may accept fewer commands than requested. */
static int connect_read_reply(struct attempt *a)
{
	struct host_queue *q = a->queue;
	struct nvme_rdma_cm_rep rep;

	if (a->data_len < sizeof(rep))
		return 0;
	memcpy(&rep, a->data, sizeof(rep));
	if (rep.recfmt || !rep.crqsize || rep.crqsize >= q->depth)
		return 0;
	/* an Asynchronous Event Request would occupy it forever */
	if (!q->qid && rep.crqsize < 2)
		return host_error_set(a->error, -EPROTO,
				      "connecting queue 0 to %s: the target takes one admin command at a time "
				      "(CRQSIZE), but two are needed, because one waits for events", q->where);
	while (q->nfree > rep.crqsize)
		q->nfree--;
	return 0;
}

static int connect_try_address(struct attempt *a, struct sockaddr *source, struct sockaddr *address)
{
	struct host_queue *q = a->queue;
	const struct verbs *v = q->verbs;
	int ret;

	if (v->create_id(q->group->channel, &q->id, q, RDMA_PS_TCP)) {
		q->id = NULL;
		return connect_call_failed(a, "rdma_create_id", "");
	}
	if (v->resolve_addr(q->id, source, address, connect_ms_left(a)))
		return connect_address_failed(a);
	ret = connect_expect(a, RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address");
	if (ret)
		return ret;
	if (v->resolve_route(q->id, connect_ms_left(a)))
		return connect_call_failed(a, "rdma_resolve_route", "");
	ret = connect_expect(a, RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route");
	if (!ret)
		ret = host_queue_build(q, a->error);
	if (!ret)
		ret = connect_send_request(a);
	if (!ret)
		ret = connect_expect(a, RDMA_CM_EVENT_ESTABLISHED, "waiting for the target to accept");
	if (!ret)
		ret = connect_read_reply(a);
	return ret;
}

static int connect_lookup(struct attempt *a, const char *host, const char *service, struct addrinfo **list)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo numeric = hints;

	numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	if (!getaddrinfo(host, service, &numeric, list))
		return 0;

	const int e = getaddrinfo(host, service, &hints, list);

	if (!e)
		return 0;
	*list = NULL;
	return host_error_set(a->error, -EHOSTUNREACH,
			      "connecting queue %u to %s: unknown address %s (%s): give an IPv4 or IPv6 "
			      "address or a name that resolves",
			      a->queue->qid, a->queue->where, host, gai_strerror(e));
}

static int connect_try_all(struct attempt *a, struct addrinfo *source, struct addrinfo *targets)
{
	int ret = -EHOSTUNREACH;

	for (struct addrinfo *t = targets; t; t = t->ai_next) {
		struct host_queue *q = a->queue;

		if (source && source->ai_family != t->ai_family)
			continue;
		ret = connect_try_address(a, source ? source->ai_addr : NULL, t->ai_addr);
		if (!ret || ret == -ECANCELED || a->error->reject_sts || !connect_ms_left(a))
			return ret;
		host_queue_unbuild(q);
	}
	if (ret == -EHOSTUNREACH && !a->error->text[0])
		host_error_set(a->error, ret,
			       "connecting queue %u to %s: the source address %s is of another family",
			       a->queue->qid, a->queue->where, a->options->host_traddr);
	return ret;
}

int host_queue_establish(struct host_queue *queue, const struct host_queue_options *options,
			 struct host_error *error)
{
	struct attempt a = {
		.queue = queue,
		.options = options,
		.error = error,
		.timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS,
	};
	struct addrinfo *targets = NULL, *source = NULL;

	a.deadline = clock_ns() + a.timeout_ms * 1000000ull;
	int ret = connect_lookup(&a, options->traddr, options->trsvcid, &targets);

	if (!ret && options->host_traddr)
		ret = connect_lookup(&a, options->host_traddr, NULL, &source);
	if (!ret) {
		if (host_group_channel(queue->group))
			ret = connect_try_all(&a, source, targets);
		else
			ret = connect_channel_failed(&a);
	}
	if (targets)
		freeaddrinfo(targets);
	if (source)
		freeaddrinfo(source);
	return ret;
}
