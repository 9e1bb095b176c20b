/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that posts its work by ibv_wr_start and so on, on queue pairs of librdmacm, as SPDK does: two ends in one
 * process, with batches of Write, Send and Read, scatter lists, inline data and a batch that is aborted.  It is linked
 * against libibverbs and librdmacm, and prints "done".
 *
 * usage: wr_user ADDRESS
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALF = 4096, PART = 1000, MEM = 4 * HALF };

struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp_ex *qp;
	unsigned char mem[MEM];
};

static struct end client, server;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

/* Wait for an event; the id of a connection request. */
static struct rdma_cm_id *next(struct end *e, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(e->channel, &event));
	if (event->event != type) {
		printf("%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void equip(struct end *e)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_RDMA_WRITE,
	};

	CHECK((e->pd = ibv_alloc_pd(e->id->verbs)) && (e->cq = ibv_create_cq(e->id->verbs, 32, NULL, NULL, 0)));
	e->mr = ibv_reg_mr(e->pd, e->mem, MEM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	CHECK(e->mr);
	attr.pd = e->pd;
	attr.send_cq = attr.recv_cq = e->cq;
	CHECK(!rdma_create_qp_ex(e->id, &attr) && (e->qp = ibv_qp_to_qp_ex(e->id->qp)));
}

static void receive(struct end *e, size_t off)
{
	struct ibv_sge sge = { (uintptr_t)e->mem + off, HALF, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 100, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->id->qp, &wr, &bad));
}

/* Wait for a completion of one end while the other one is polled too. */
static struct ibv_wc completed(struct end *e)
{
	struct end *other = e == &client ? &server : &client;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		(void)ibv_poll_cq(other->cq, 0, NULL);
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void meet(const char *address)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct rdma_conn_param param = { .initiator_depth = 4, .responder_resources = 4, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener;

	CHECK(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	CHECK((server.channel = rdma_create_event_channel()) && (client.channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(server.channel, &listener, NULL, RDMA_PS_TCP) &&
	      !rdma_bind_addr(listener, (struct sockaddr *)&a) && !rdma_listen(listener, 4));
	a.sin_port = rdma_get_src_port(listener);
	CHECK(!rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP) &&
	      !rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&a, 2000));
	next(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(client.id, 2000));
	next(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	equip(&client);
	CHECK(!rdma_connect(client.id, &param));
	server.id = next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	equip(&server);
	receive(&server, 0);
	receive(&server, HALF);
	CHECK(!rdma_accept(server.id, &param));
	next(&client, RDMA_CM_EVENT_ESTABLISHED);
	next(&server, RDMA_CM_EVENT_ESTABLISHED);
}

/* A Write from two places and a Send in one batch: the Send's arrival shows that the Write has arrived. */
static void write_and_send(void)
{
	const struct ibv_sge parts[] = {
		{ (uintptr_t)client.mem, PART, client.mr->lkey },
		{ (uintptr_t)client.mem + HALF, PART, client.mr->lkey },
	};
	struct ibv_wc wc;

	ibv_wr_start(client.qp);
	client.qp->wr_id = 1;
	client.qp->wr_flags = 0;
	ibv_wr_rdma_write(client.qp, server.mr->rkey, (uintptr_t)server.mem + 2 * HALF);
	ibv_wr_set_sge_list(client.qp, 2, parts);
	client.qp->wr_id = 2;
	client.qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(client.qp);
	ibv_wr_set_sge(client.qp, client.mr->lkey, (uintptr_t)client.mem, 64);
	CHECK(!ibv_wr_complete(client.qp));
	wc = completed(&server);
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 64);
	CHECK(!memcmp(server.mem + 2 * HALF, client.mem, PART) && !memcmp(server.mem, client.mem, 64));
	CHECK(!memcmp(server.mem + 2 * HALF + PART, client.mem + HALF, PART));
	wc = completed(&client);
	CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_SEND);
}

static void read_back(void)
{
	ibv_wr_start(client.qp);
	client.qp->wr_id = 3;
	client.qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(client.qp, server.mr->rkey, (uintptr_t)server.mem + 2 * HALF);
	ibv_wr_set_sge(client.qp, client.mr->lkey, (uintptr_t)client.mem + 3 * HALF, 2 * PART);
	CHECK(!ibv_wr_complete(client.qp));
	CHECK(completed(&client).wr_id == 3);
	CHECK(!memcmp(client.mem + 3 * HALF, server.mem + 2 * HALF, 2 * PART));
}

/* Nothing of an aborted batch is sent; what follows it is. */
static void abort_and_send_inline(void)
{
	char text[] = "inline";
	struct ibv_wc wc;

	ibv_wr_start(client.qp);
	client.qp->wr_id = 4;
	ibv_wr_send(client.qp);
	ibv_wr_set_sge(client.qp, client.mr->lkey, (uintptr_t)client.mem, HALF);
	ibv_wr_abort(client.qp);
	ibv_wr_start(client.qp);
	client.qp->wr_id = 5;
	client.qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_send(client.qp);
	ibv_wr_set_inline_data(client.qp, text, sizeof(text));
	CHECK(!ibv_wr_complete(client.qp));
	memset(text, 0, sizeof(text));
	wc = completed(&server);
	CHECK(wc.byte_len == sizeof(text) && !strcmp((char *)server.mem + HALF, "inline"));
	CHECK(completed(&client).wr_id == 5);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	for (int i = 0; i < MEM; i++)
		client.mem[i] = (unsigned char)(i * 7 + i / 256);
	meet(argv[1]);
	write_and_send();
	read_back();
	abort_and_send_inline();
	CHECK(!rdma_disconnect(client.id));
	next(&client, RDMA_CM_EVENT_DISCONNECTED);
	puts("done");
	return 0;
}
