/* SPDX-License-Identifier: BSD-3-Clause */
/* The bare socket at the other end of a connection of the device. */
#include "iwarp_raw.h"

#include "cm.h"
#include "util/crc32c.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rdma_event_channel *ch;
struct side raw_side;
int raw_fd, raw_mss, raw_depth;

/* Connect by hand with these MPA bits; the reply is left in rep. */
int raw_open(uint16_t bits, uint16_t ird, uint16_t ord, uint8_t *rep)
{
	uint8_t req[MPA_HDR_LEN + MPA_V2_LEN];
	struct pair_options o = { 0 };
	const uint8_t depth = raw_depth ? (uint8_t)raw_depth : 2;
	struct rdma_conn_param param = { .responder_resources = depth, .initiator_depth = depth };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	int port = 0, one = 1;
	struct rdma_cm_id *l;
	uint32_t len = bits & MPA_BIT_ENHANCED ? 24 : 20;

	ch = v->create_event_channel();
	raw_side = (struct side){ .events = ch };
	l = listen_on(ch, "127.0.0.1", &port);
	raw_fd = socket(AF_INET, SOCK_STREAM, 0);
	sin.sin_port = htons((uint16_t)port);
	setsockopt(raw_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (raw_mss)
		setsockopt(raw_fd, IPPROTO_TCP, TCP_MAXSEG, &raw_mss, sizeof(raw_mss));
	memcpy(req, MPA_KEY_REQ, MPA_KEY_LEN);
	iw_put16(req + 16, bits);
	iw_put16(req + 18, len - 20);
	iw_put16(req + 20, ird);
	iw_put16(req + 22, ord);
	if (!l || connect(raw_fd, (struct sockaddr *)&sin, sizeof(sin)) || send(raw_fd, req, len, 0) != (ssize_t)len)
		return -1;
	if (next_event(ch, &raw_side.id, NULL, NULL, NULL) != RDMA_CM_EVENT_CONNECT_REQUEST)
		return -1;
	v->destroy_id(l);
	if (side_objects(&raw_side, &o) || side_qp(&raw_side, &o) || post_recv(&raw_side, 1, 0, 100) ||
	    v->accept(raw_side.id, &param) ||
	    next_event(ch, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ESTABLISHED)
		return -1;
	return recv(raw_fd, rep, len, MSG_WAITALL) == (ssize_t)len ? 0 : -1;
}

void raw_close(void)
{
	close(raw_fd);
	side_close(&raw_side);
	v->destroy_event_channel(ch);
}

/* Complete the FPDU whose header (and payload) is in f; returns its size. */
uint32_t raw_finish(uint8_t *f, bool crc)
{
	uint32_t size = fpdu_size(iw_get16(f)), sum = 0;

	if (crc)
		sum = crc32c(0, f, size - 4);
	memcpy(f + size - 4, &sum, 4);
	return size;
}

/* Receive until the connection closes. */
uint32_t raw_answer(uint8_t *buf, uint32_t room)
{
	struct pollfd pfd = { .fd = raw_fd, .events = POLLIN };
	uint32_t have = 0;
	struct ibv_wc wc;
	double end = now_s() + CHECK_PATIENCE_S;

	while (now_s() < end) {
		ibv_poll_cq(raw_side.cq, 0, &wc);
		ibv_poll_cq(raw_side.cq, 1, &wc);
		if (poll(&pfd, 1, 1) != 1)
			continue;

		ssize_t n = recv(raw_fd, buf + have, room - have, 0);

		if (n == 0)
			return have;
		if (n < 0)
			return UINT32_MAX;	/* a reset instead of an orderly end */
		have += (uint32_t)n;
	}
	return UINT32_MAX - 1;
}

/* An established connection whose responder may send; the zero-length WRITE has yet to be received. */
int raw_open_spoken(void)
{
	uint8_t f[FPDU_TAGGED + FPDU_CRC] = { 0 }, rep[64];
	struct ibv_wc wc;
	int rc = raw_open(0x1002, 2, 2, rep);

	fpdu_put_tagged(f, RDMAP_WRITE, true, 0, 1, 0);
	if (rc || send(raw_fd, f, sizeof(f), 0) != sizeof(f))
		return -1;
	for (int i = 0; i < 20; i++, usleep(1000))
		ibv_poll_cq(raw_side.cq, 1, &wc);
	return 0;
}

/* Post n WRITEs of all the memory, as one chain. */
void raw_post_writes(int n)
{
	struct ibv_sge sge = { (uintptr_t)raw_side.mem, SIDE_MEM, raw_side.mr->lkey };
	struct ibv_send_wr wr[DEPTH], *bad;

	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = 7, .next = i < n - 1 ? &wr[i + 1] : NULL,
					      .sg_list = &sge, .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE };
	check(!ibv_post_send(raw_side.qp, wr, &bad), "%d writes posted", n);
}
