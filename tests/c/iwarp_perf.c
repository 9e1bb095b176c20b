/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the embedded iWARP device with a bare TCP exchange.  The same "read" both ways, with the same polling: 88
 * bytes one way, N bytes and 16 more the other way.  Two processes, as with a target and an initiator. Prints the
 * floor and the device side by side.
 *
 * iwarp_perf [-c (CRC)] [-s seconds] [-o (own only)] [SIZE:DEPTH ...]
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQ = 88, RSP = 16, MAX_DEPTH = 128, FRAME_REQ = 112, FRAME_RSP = 60 };

static double seconds = 1.0;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- the floor: the same bytes as iWARP would frame, no protocol ---- */

static void tune(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static void floor_server(int fd, size_t size)
{
	static uint8_t in[65536];
	uint8_t *data = aligned_alloc(4096, size), tail[FRAME_RSP] = { 0 };
	size_t have = 0;

	memset(data, 1, size);
	for (;;) {
		ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			exit(0);
		have += (size_t)n;

		size_t count = have / FRAME_REQ;

		have %= FRAME_REQ;
		while (count) {
			struct iovec iov[2 * MAX_DEPTH];
			int niov = 0;
			size_t left = 0;

			for (; count && niov < 2 * MAX_DEPTH; count--) {
				iov[niov++] = (struct iovec){ data, size };
				iov[niov++] = (struct iovec){ tail, sizeof(tail) };
				left += size + sizeof(tail);
			}
			for (struct iovec *v = iov; left;) {
				ssize_t m = writev(fd, v, niov);

				if (m < 0 && errno == EAGAIN)
					continue;
				if (m < 0)
					exit(0);
				left -= (size_t)m;
				while (m && (size_t)m >= v->iov_len) {
					m -= (ssize_t)v->iov_len;
					v++;
					niov--;
				}
				if (m) {
					v->iov_base = (uint8_t *)v->iov_base + m;
					v->iov_len -= (size_t)m;
				}
			}
		}
	}
}

static double floor_client(int fd, size_t size, int depth)
{
	static uint8_t req[FRAME_REQ * MAX_DEPTH];
	/* as much memory as the device's client has, so that the cache has the same effect */
	size_t ring = (size_t)depth * (size + FRAME_RSP), at = 0, have = 0;
	uint8_t *in = malloc(ring);
	double start = now_s(), t;
	unsigned long done = 0;
	int want = depth;

	do {
		if (want && send(fd, req, (size_t)want * FRAME_REQ, 0) < 0)
			die("send");

		size_t room = ring - at < 256 * 1024 ? ring - at : 256 * 1024;
		ssize_t n = recv(fd, in + at, room, MSG_DONTWAIT);

		want = 0;
		if (n > 0) {
			at = (at + (size_t)n) % ring;
			have += (size_t)n;
			want = (int)(have / (size + FRAME_RSP));
			have %= size + FRAME_RSP;
			done += (unsigned long)want;
		}
		t = now_s() - start;
	} while (t < seconds);
	free(in);
	return (double)done / t;
}

static double run_floor(size_t size, int depth)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t len = sizeof(sin);
	int l = socket(AF_INET, SOCK_STREAM, 0), fd;
	double r;
	pid_t pid;

	if (bind(l, (struct sockaddr *)&sin, len) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&sin, &len))
		die("listen");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = accept(l, NULL, NULL);
		tune(fd);
		floor_server(fd, size);
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	tune(fd);
	if (connect(fd, (struct sockaddr *)&sin, len))
		die("connect");
	r = floor_client(fd, size, depth);
	close(fd);
	close(l);
	waitpid(pid, NULL, 0);
	return r;
}

/* ---- the device ---- */

static const struct verbs *v;

struct hello {
	uint64_t addr;
	uint32_t rkey;
} __attribute__((packed));

struct end {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint8_t *mem;
	struct ibv_mr *mr;
};

static struct rdma_cm_event *wait_event(struct rdma_event_channel *ch, int type)
{
	struct rdma_cm_event *e;

	if (v->get_cm_event(ch, &e))
		die("get_cm_event");
	if ((int)e->event != type) {
		fprintf(stderr, "event %d status %d instead of %d\n", (int)e->event, e->status, type);
		exit(1);
	}
	return e;
}

static void objects(struct end *e, size_t len)
{
	struct ibv_qp_init_attr attr = { 0 };

	e->pd = v->alloc_pd(e->id->verbs);
	e->cq = v->create_cq(e->id->verbs, 4 * MAX_DEPTH, NULL, NULL, 0);
	e->mem = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	memset(e->mem, 1, len);
	e->mr = v->reg_mr(e->pd, e->mem, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	attr.send_cq = attr.recv_cq = e->cq;
	attr.qp_type = IBV_QPT_RC;
	attr.cap = (struct ibv_qp_cap){ 2 * MAX_DEPTH + 2, MAX_DEPTH + 2, 1, 1, 0 };
	if (v->create_qp(e->id, e->pd, &attr))
		die("create_qp");
}

static void recv_one(struct end *e, uint64_t slot, size_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->mem + off, len, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(e->id->qp, &wr, &bad))
		die("post_recv");
}

static void own_server(int port_fd, size_t size, int depth)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	struct end e = { .ch = v->create_event_channel() };
	struct rdma_conn_param param = { .responder_resources = 16, .initiator_depth = 16 };
	struct rdma_cm_id *listener;
	struct rdma_cm_event *ev;
	struct hello peer;
	size_t reqs = size, len = size + (MAX_DEPTH + 1) * 128;

	if (v->create_id(e.ch, &listener, NULL, RDMA_PS_TCP) ||
	    v->bind_addr(listener, (struct sockaddr *)&sin) || v->listen(listener, 1))
		die("listen");
	if (write(port_fd, &listener->route.addr.src_sin.sin_port, 2) != 2)
		die("write");
	ev = wait_event(e.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	e.id = ev->id;
	memcpy(&peer, ev->param.conn.private_data, sizeof(peer));
	v->ack_cm_event(ev);
	objects(&e, len);
	for (uint64_t i = 0; i < (uint64_t)depth; i++)
		recv_one(&e, i, reqs + i * 128, REQ);
	if (v->accept(e.id, &param))
		die("accept");
	v->ack_cm_event(wait_event(e.ch, RDMA_CM_EVENT_ESTABLISHED));
	for (;;) {
		struct ibv_wc wc[64];
		int n = ibv_poll_cq(e.cq, 64, wc);
		struct ibv_send_wr wr[2 * 64], *bad;
		struct ibv_sge data = { (uintptr_t)e.mem, (uint32_t)size, e.mr->lkey };
		struct ibv_sge rsp = { (uintptr_t)e.mem, RSP, e.mr->lkey };
		int k = 0;

		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				exit(0);
			recv_one(&e, wc[i].wr_id, reqs + wc[i].wr_id * 128, REQ);
			wr[k] = (struct ibv_send_wr){ .next = &wr[k + 1], .sg_list = &data,
				.num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
			wr[k].wr.rdma.remote_addr = peer.addr + wc[i].wr_id * size;
			wr[k].wr.rdma.rkey = peer.rkey;
			wr[k + 1] = (struct ibv_send_wr){ .next = &wr[k + 2], .sg_list = &rsp,
				.num_sge = 1, .opcode = IBV_WR_SEND };
			k += 2;
		}
		if (!k)
			continue;
		wr[k - 1].next = NULL;
		if (ibv_post_send(e.id->qp, wr, &bad))
			die("post_send");
	}
}

static double own_client(uint16_t port, size_t size, int depth)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = port,
				   .sin_addr.s_addr = htonl(0x7f000001) };
	struct end e = { .ch = v->create_event_channel() };
	struct hello hello;
	struct rdma_conn_param param = { .private_data = &hello, .private_data_len = sizeof(hello),
					 .responder_resources = 16, .initiator_depth = 16 };
	size_t data = (size_t)MAX_DEPTH * size, len = data + (MAX_DEPTH + 1) * 256;
	unsigned long done = 0;
	double start, t;
	int want = depth;

	if (v->create_id(e.ch, &e.id, NULL, RDMA_PS_TCP) ||
	    v->resolve_addr(e.id, NULL, (struct sockaddr *)&sin, 1000))
		die("resolve");
	v->ack_cm_event(wait_event(e.ch, RDMA_CM_EVENT_ADDR_RESOLVED));
	v->resolve_route(e.id, 1000);
	v->ack_cm_event(wait_event(e.ch, RDMA_CM_EVENT_ROUTE_RESOLVED));
	objects(&e, len);
	hello = (struct hello){ (uintptr_t)e.mem, e.mr->rkey };
	for (uint64_t i = 0; i < (uint64_t)depth; i++)
		recv_one(&e, i, data + i * 256 + 128, RSP);
	if (v->connect(e.id, &param))
		die("connect");
	v->ack_cm_event(wait_event(e.ch, RDMA_CM_EVENT_ESTABLISHED));
	start = now_s();
	do {
		struct ibv_send_wr wr[MAX_DEPTH], *bad;
		struct ibv_sge req = { (uintptr_t)e.mem + data, REQ, e.mr->lkey };
		struct ibv_wc wc[MAX_DEPTH];
		int n;

		for (int i = 0; i < want; i++)
			wr[i] = (struct ibv_send_wr){ .next = i + 1 < want ? &wr[i + 1] : NULL,
				.sg_list = &req, .num_sge = 1, .opcode = IBV_WR_SEND };
		if (want && ibv_post_send(e.id->qp, wr, &bad))
			die("post_send");
		n = ibv_poll_cq(e.cq, MAX_DEPTH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				die(iwarp_qp_end_reason(e.id->qp));
			recv_one(&e, wc[i].wr_id, data + wc[i].wr_id * 256 + 128, RSP);
		}
		want = n;
		done += (unsigned long)n;
		t = now_s() - start;
	} while (t < seconds);
	v->disconnect(e.id);
	v->destroy_qp(e.id);
	v->destroy_id(e.id);
	v->dereg_mr(e.mr);
	v->destroy_cq(e.cq);
	v->dealloc_pd(e.pd);
	free(e.mem);
	v->destroy_event_channel(e.ch);
	return (double)done / t;
}

static double run_own(size_t size, int depth)
{
	int pipefd[2];
	uint16_t port;
	pid_t pid;
	double r;

	if (pipe(pipefd))
		die("pipe");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		own_server(pipefd[1], size, depth);
	}
	if (read(pipefd[0], &port, 2) != 2)
		die("read");
	r = own_client(port, size, depth);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipefd[0]);
	close(pipefd[1]);
	return r;
}

int main(int argc, char **argv)
{
	static const char *const usual[] = { "4096:1", "4096:32", "4096:128", "131072:1", "131072:4",
					     "131072:32" };
	struct iwarp_options o;
	int opt, own_only = 0;

	v = verbs_iwarp();
	iwarp_get_options(&o);
	while ((opt = getopt(argc, argv, "cos:")) != -1) {
		if (opt == 'c')
			o.crc = true;
		else if (opt == 'o')
			own_only = 1;
		else if (opt == 's')
			seconds = atof(optarg);
		else
			return 2;
	}
	iwarp_set_options(&o);

	int n = argc > optind ? argc - optind : (int)(sizeof(usual) / sizeof(usual[0]));

	for (int i = 0; i < n; i++) {
		const char *a = argc > optind ? argv[optind + i] : usual[i];
		size_t size = (size_t)atol(a);
		int depth = strchr(a, ':') ? atoi(strchr(a, ':') + 1) : 1;
		double f = own_only ? 0 : run_floor(size, depth), own = run_own(size, depth);

		printf("%6zu B qd%-3d  floor %8.0f/s %6.2f us %5.2f GB/s   own %8.0f/s %6.2f us "
		       "%5.2f GB/s   own/floor %.2f\n", size, depth, f, depth * 1e6 / f,
		       f * (double)size * 1e-9, own, depth * 1e6 / own, own * (double)size * 1e-9,
		       own / f);
		fflush(stdout);
	}
	return 0;
}
