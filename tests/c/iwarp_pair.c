/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the embedded iWARP device: see iwarp_pair.h.  Single-threaded. */
#include "iwarp_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct verbs *v;

void check(bool ok, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	check_va(ok, "", format, args);
	va_end(args);
}

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int next_event(struct rdma_event_channel *ch, struct rdma_cm_id **id, int *status,
	       struct rdma_conn_param *param, uint8_t *pd)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *e;
	int type;

	if (poll(&pfd, 1, CHECK_PATIENCE_S * 1000) != 1 || v->get_cm_event(ch, &e))
		return -1;
	type = (int)e->event;
	if (id)
		*id = e->id;
	if (status)
		*status = e->status;
	if (param)
		*param = e->param.conn;
	if (pd && e->param.conn.private_data_len)
		memcpy(pd, e->param.conn.private_data, e->param.conn.private_data_len);
	v->ack_cm_event(e);
	return type;
}

int side_objects(struct side *s, const struct pair_options *o)
{
	int access = o->access ? o->access : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_READ;
	struct ibv_context *ctx = s->id->verbs;

	s->pd = v->alloc_pd(ctx);
	s->channel = v->create_comp_channel(ctx);
	s->cq = v->create_cq(ctx, 512, s, s->channel, 0);
	s->mem = aligned_alloc(4096, SIDE_MEM);
	memset(s->mem, 0, SIDE_MEM);
	s->mr = v->reg_mr(s->pd, s->mem, SIDE_MEM, access);
	return s->pd && s->channel && s->cq && s->mr ? 0 : -1;
}

int side_qp(struct side *s, const struct pair_options *o)
{
	unsigned int depth = o->depth ? (unsigned int)o->depth : DEPTH;
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { depth, depth, o->sge ? (uint32_t)o->sge : 4, o->sge ? (uint32_t)o->sge : 4,
			 256 },
		.qp_type = IBV_QPT_RC,
	};

	if (v->create_qp(s->id, s->pd, &attr))
		return -1;
	s->qp = s->id->qp;
	return 0;
}

void side_close(struct side *s)
{
	if (s->qp)
		v->destroy_qp(s->id);
	if (s->mr)
		v->dereg_mr(s->mr);
	if (s->cq)
		v->destroy_cq(s->cq);
	if (s->channel)
		v->destroy_comp_channel(s->channel);
	if (s->pd)
		v->dealloc_pd(s->pd);
	if (s->id)
		v->destroy_id(s->id);
	free(s->mem);
}

static int address(const char *host, int port, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *four = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	if (strchr(host, ':')) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host, &six->sin6_addr) == 1 ? 0 : -1;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? 0 : -1;
}

struct rdma_cm_id *listen_on(struct rdma_event_channel *ch, const char *host, int *port)
{
	struct sockaddr_storage ss;
	struct rdma_cm_id *id;

	if (address(host, *port, &ss) || v->create_id(ch, &id, NULL, RDMA_PS_TCP))
		return NULL;
	if (v->bind_addr(id, (struct sockaddr *)&ss) || v->listen(id, 16)) {
		int e = errno;

		v->destroy_id(id);
		errno = e;
		return NULL;
	}
	*port = ntohs(id->route.addr.src_sin.sin_port);
	return id;
}

int resolve(struct side *s, const char *host, int port)
{
	struct sockaddr_storage ss;

	if (address(host, port, &ss) || v->create_id(s->events, &s->id, s, RDMA_PS_TCP))
		return -1;
	if (v->resolve_addr(s->id, NULL, (struct sockaddr *)&ss, 1000) ||
	    next_event(s->events, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ADDR_RESOLVED)
		return -1;
	if (v->resolve_route(s->id, 1000) ||
	    next_event(s->events, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return -1;
	return 0;
}

/* Completions of the other side, found while polling. */
static struct ibv_wc stash[64];
static struct side *stash_of[64];
static int stashed;

static uint8_t depth_of(int option)
{
	return (uint8_t)(option < 0 ? 0 : option ? option : 16);
}

int pair_open(struct pair *p, const struct pair_options *o)
{
	static const struct pair_options defaults;
	int port = 0;
	const char *host;

	if (!o)
		o = &defaults;
	host = o->host ? o->host : "127.0.0.1";
	stashed = 0;	/* drop those of an earlier pair, which may have had the same address */
	memset(p, 0, sizeof(*p));
	p->a.events = v->create_event_channel();
	p->b.events = v->create_event_channel();
	p->listener = listen_on(p->b.events, host, &port);
	if (!p->listener || resolve(&p->a, host, port) || side_objects(&p->a, o) ||
	    side_qp(&p->a, o))
		return -1;

	struct rdma_conn_param param = {
		.private_data = o->pd,
		.private_data_len = o->pd_len,
		.responder_resources = depth_of(o->ird),
		.initiator_depth = depth_of(o->ord),
	};

	if (v->connect(p->a.id, &param))
		return -1;
	if (next_event(p->b.events, &p->b.id, NULL, &p->seen_request, p->request_pd) !=
	    RDMA_CM_EVENT_CONNECT_REQUEST)
		return -1;
	if (side_objects(&p->b, o) || side_qp(&p->b, o) || v->accept(p->b.id, &param))
		return -1;
	if (next_event(p->b.events, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ESTABLISHED)
		return -1;
	if (next_event(p->a.events, NULL, NULL, &p->seen_reply, p->reply_pd) !=
	    RDMA_CM_EVENT_ESTABLISHED)
		return -1;
	return 0;
}

void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	if (p->listener)
		v->destroy_id(p->listener);
	v->destroy_event_channel(p->a.events);
	v->destroy_event_channel(p->b.events);
}

int post_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)s->mem + off, len, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

int post_send(struct side *s, uint64_t wr_id, enum ibv_wr_opcode op, unsigned int flags,
	      uint32_t off, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)s->mem + off, len, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .send_flags = flags }, *bad;

	if (op == IBV_WR_SEND_WITH_INV || op == IBV_WR_LOCAL_INV) {
		wr.invalidate_rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	if (op == IBV_WR_LOCAL_INV)
		wr.num_sge = 0;
	return ibv_post_send(s->qp, &wr, &bad);
}

int next_wc(struct side *s, struct side *other, struct ibv_wc *wc)
{
	double end = now_s() + CHECK_PATIENCE_S;

	for (int i = 0; i < stashed; i++) {
		if (stash_of[i] != s)
			continue;
		*wc = stash[i];
		stashed--;
		memmove(stash + i, stash + i + 1, (size_t)(stashed - i) * sizeof(stash[0]));
		memmove(stash_of + i, stash_of + i + 1, (size_t)(stashed - i) * sizeof(stash_of[0]));
		return 1;
	}
	do {
		if (ibv_poll_cq(s->cq, 1, wc) == 1)
			return 1;
		if (other && stashed < 64 && ibv_poll_cq(other->cq, 1, &stash[stashed]) == 1)
			stash_of[stashed++] = other;
	} while (now_s() < end);
	return 0;
}

void expect_wc(struct side *s, struct side *other, uint64_t wr_id, enum ibv_wc_status status,
	       const char *what)
{
	struct ibv_wc wc = { 0 };
	int n = next_wc(s, other, &wc);

	check(n == 1 && wc.wr_id == wr_id && wc.status == status,
	      "%s (got %d: wr_id %llu status %d)", what, n, (unsigned long long)wc.wr_id, wc.status);
}
