/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-made MPA peers on real sockets: the device follows the start-up frames of other implementations. */
#include "iwarp_pair.h"

#include "util/crc32c.h"
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A listening socket of ours, and one side of the device that connects to it. */
struct responder {
	int listener, fd;
	struct side a;
	uint8_t request[MPA_HDR_LEN + 512];
	int request_len;
};

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return sin;
}

static int whole(int fd, void *buf, int len)
{
	int have = 0;

	while (have < len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, CHECK_PATIENCE_S * 1000) != 1)
			return -1;

		ssize_t n = recv(fd, (char *)buf + have, (size_t)(len - have), 0);

		if (n <= 0)
			return -1;
		have += (int)n;
	}
	return have;
}

/* A start-up frame into buf; its length, or -1. */
static int start_frame(int fd, uint8_t *buf)
{
	if (whole(fd, buf, MPA_HDR_LEN) < 0)
		return -1;

	int len = iw_get16(buf + MPA_KEY_LEN + 2);

	return len > 512 || whole(fd, buf + MPA_HDR_LEN, len) < 0 ? -1 : MPA_HDR_LEN + len;
}

static int put_frame(uint8_t *buf, const char *key, unsigned int bits, const void *pd, int len)
{
	memcpy(buf, key, MPA_KEY_LEN);
	iw_put16(buf + MPA_KEY_LEN, bits);
	iw_put16(buf + MPA_KEY_LEN + 2, (uint32_t)len);
	if (len)
		memcpy(buf + MPA_HDR_LEN, pd, (size_t)len);
	return MPA_HDR_LEN + len;
}

static bool send_frame(int fd, const char *key, unsigned int bits, const void *pd, int len)
{
	uint8_t buf[MPA_HDR_LEN + 512];
	int n = put_frame(buf, key, bits, pd, len);

	return send(fd, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

/* The next connection to it and its request. */
static bool next_request(struct responder *r)
{
	struct pollfd p = { .fd = r->listener, .events = POLLIN };

	if (poll(&p, 1, CHECK_PATIENCE_S * 1000) != 1)
		return false;
	r->fd = accept(r->listener, NULL, NULL);
	r->request_len = r->fd < 0 ? -1 : start_frame(r->fd, r->request);
	return r->request_len > 0;
}

static bool asked(struct responder *r, struct rdma_conn_param *param, const struct sockaddr_in *from)
{
	struct sockaddr_in sin = loopback(0);
	struct pair_options po = { 0 };
	socklen_t len = sizeof(sin);

	*r = (struct responder){ .listener = socket(AF_INET, SOCK_STREAM, 0), .fd = -1,
				 .a.events = v->create_event_channel() };
	if (bind(r->listener, (struct sockaddr *)&sin, sizeof(sin)) || listen(r->listener, 8) ||
	    getsockname(r->listener, (struct sockaddr *)&sin, &len))
		return false;
	if (from) {
		if (v->create_id(r->a.events, &r->a.id, NULL, RDMA_PS_TCP) ||
		    v->resolve_addr(r->a.id, (struct sockaddr *)(uintptr_t)from, (struct sockaddr *)&sin, 1000) ||
		    next_event(r->a.events, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ADDR_RESOLVED ||
		    v->resolve_route(r->a.id, 1000) ||
		    next_event(r->a.events, NULL, NULL, NULL, NULL) != RDMA_CM_EVENT_ROUTE_RESOLVED)
			return false;
	} else if (resolve(&r->a, "127.0.0.1", ntohs(sin.sin_port))) {
		return false;
	}
	return !side_objects(&r->a, &po) && !side_qp(&r->a, &po) && !v->connect(r->a.id, param);
}

static void gone(struct responder *r)
{
	side_close(&r->a);
	v->destroy_event_channel(r->a.events);
	if (r->fd >= 0)
		close(r->fd);
	close(r->listener);
}

/* A responder without the C bit does not turn off the CRC that the initiator asked for. */
static void crc_by_either(void)
{
	struct iwarp_options old, o;
	struct responder r;
	uint8_t depths[4] = { 0, 8, 0, 8 }, fpdu[FPDU_UNTAGGED + 16 + FPDU_CRC], field[4];
	uint32_t sum;

	iwarp_get_options(&old);
	o = old;
	o.crc = true;
	iwarp_set_options(&o);
	check(asked(&r, NULL, NULL) && next_request(&r) &&
	      iw_get16(r.request + MPA_KEY_LEN) == (MPA_BIT_CRC | MPA_BIT_ENHANCED | 2), "crc: asked for");
	check(send_frame(r.fd, MPA_KEY_REP, MPA_BIT_ENHANCED | 2, depths, 4) &&
	      next_event(r.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED,
	      "crc: a reply without it is taken");
	memset(r.a.mem, 0x5a, 16);
	post_send(&r.a, 1, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 14, 0, 0);
	check(whole(r.fd, fpdu, sizeof(fpdu)) == (int)sizeof(fpdu), "crc: a Send comes");
	sum = crc32c(0, fpdu, sizeof(fpdu) - 4);
	memcpy(field, &sum, 4);
	check(!memcmp(fpdu + sizeof(fpdu) - 4, field, 4), "crc: with the sum that was asked for");
	gone(&r);
	iwarp_set_options(&old);
}

/* All ones are no demand: a peer that does not negotiate a depth is connected, with our own limit. */
static void depth_left_open(void)
{
	static const uint8_t open[4] = { 0x3f, 0xff, 0x3f, 0xff }, half[4] = { 0x3f, 0xff, 0, 7 };
	struct rdma_conn_param param = { .responder_resources = 5, .initiator_depth = 6 }, seen;
	struct rdma_event_channel *ch = v->create_event_channel();
	struct pair_options po = { 0 };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct responder r;
	int port = 0;

	check(asked(&r, &param, NULL) && next_request(&r) &&
	      send_frame(r.fd, MPA_KEY_REP, MPA_BIT_ENHANCED | 2, open, 4) &&
	      next_event(r.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED,
	      "depths: a reply that leaves them open is taken");
	v->query_qp(r.a.qp, &attr, 0, &init);
	check(attr.max_rd_atomic == 6, "depths: ours stays as it was (%u)", attr.max_rd_atomic);
	gone(&r);

	struct rdma_cm_id *l = listen_on(ch, "127.0.0.1", &port);
	struct sockaddr_in sin = loopback(port);

	for (int k = 0; k < 2; k++) {
		struct side b = { .events = ch };
		uint8_t reply[MPA_HDR_LEN + 512];
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		check(!connect(fd, (struct sockaddr *)&sin, sizeof(sin)) &&
		      send_frame(fd, MPA_KEY_REQ, MPA_BIT_ENHANCED | 2, k ? half : open, 4) &&
		      next_event(ch, &b.id, NULL, &seen, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST,
		      "depths: a request that leaves them open");
		check(seen.initiator_depth == 128 && seen.responder_resources == (k ? 7 : 128),
		      "depths: gets our limit (%u %u)", seen.initiator_depth,
		      seen.responder_resources);
		check(!side_objects(&b, &po) && !side_qp(&b, &po) && !v->accept(b.id, &param) &&
		      start_frame(fd, reply) == MPA_HDR_LEN + 4, "depths: answered");
		check(iw_get16(reply + MPA_HDR_LEN) == (k ? 7 : 0x3fff) &&
		      iw_get16(reply + MPA_HDR_LEN + 2) == 0x3fff, "depths: as open (%#x %#x)",
		      iw_get16(reply + MPA_HDR_LEN), iw_get16(reply + MPA_HDR_LEN + 2));
		check(next_event(ch, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED, "depths: connected");
		side_close(&b);
		close(fd);
	}
	v->destroy_id(l);
	v->destroy_event_channel(ch);
}

/* 512 bytes of private data are valid both ways; the event's field holds as many as it can. */
static void long_private_data(void)
{
	struct rdma_event_channel *ch = v->create_event_channel();
	struct rdma_conn_param seen;
	uint8_t pd[512], got[256];
	struct responder r;
	int port = 0;

	for (size_t i = 0; i < sizeof(pd); i++)
		pd[i] = (uint8_t)(i * 7 + (i >> 8));
	check(asked(&r, NULL, NULL) && next_request(&r), "private data: asked");
	iw_put16(pd, 8);
	iw_put16(pd + 2, 8);
	check(send_frame(r.fd, MPA_KEY_REP, MPA_BIT_ENHANCED | 2, pd, 512) &&
	      next_event(r.a.events, NULL, NULL, &seen, got) == RDMA_CM_EVENT_ESTABLISHED &&
	      seen.private_data_len == 255 && !memcmp(got, pd + 4, 255), "private data: 512 bytes in a reply");
	gone(&r);

	struct rdma_cm_id *l = listen_on(ch, "127.0.0.1", &port);
	struct sockaddr_in sin = loopback(port);

	for (int revision = 1; revision <= 2; revision++) {
		unsigned int bits = revision == 1 ? 1 : MPA_BIT_ENHANCED | 2u, skip = revision == 1 ? 0 : 4;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		struct rdma_cm_id *id = NULL;

		check(!connect(fd, (struct sockaddr *)&sin, sizeof(sin)) &&
		      send_frame(fd, MPA_KEY_REQ, bits, pd, 512) &&
		      next_event(ch, &id, NULL, &seen, got) == RDMA_CM_EVENT_CONNECT_REQUEST &&
		      seen.private_data_len == 255 && !memcmp(got, pd + skip, 255),
		      "private data: 512 bytes in a request of revision %d", revision);
		if (id)
			v->destroy_id(id);
		close(fd);
	}
	v->destroy_id(l);
	v->destroy_event_channel(ch);
}

enum how { HOW_FIN, HOW_RST };

static void hang_up(struct responder *r, enum how how)
{
	struct linger reset = { .l_onoff = 1 };

	if (how == HOW_RST)
		setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(r->fd);
	r->fd = -1;
}

static bool nobody_else(const struct responder *r)
{
	struct pollfd p = { .fd = r->listener, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

/* A peer that closes after a request of revision 2 gets a second one, with revision 1 and the same private data. */
static void second_try(void)
{
	struct rdma_conn_param param = { .responder_resources = 5, .initiator_depth = 6,
					 .private_data = "0123456789", .private_data_len = 10 };
	struct sockaddr_in from = loopback(0);
	struct responder r;
	uint8_t fpdu[FPDU_UNTAGGED + 16 + FPDU_CRC];
	int type, status = 0;

	for (int k = 0; k < 3; k++) {
		enum how how = k & 1 ? HOW_RST : HOW_FIN;

		check(asked(&r, &param, k == 2 ? &from : NULL) && next_request(&r) &&
		      iw_get16(r.request + MPA_KEY_LEN) == (MPA_BIT_ENHANCED | 2),
		      "again: revision 2 first");
		hang_up(&r, how);
		check(next_request(&r) && iw_get16(r.request + MPA_KEY_LEN) == 1 &&
		      r.request_len == MPA_HDR_LEN + 10 && !memcmp(r.request + MPA_HDR_LEN, "0123456789", 10),
		      "again: then revision 1, with the same private data");
		check(send_frame(r.fd, MPA_KEY_REP, 1, NULL, 0) &&
		      next_event(r.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED,
		      "again: connected");
		post_send(&r.a, 1, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 14, 0, 0);
		check(whole(r.fd, fpdu, sizeof(fpdu)) == (int)sizeof(fpdu), "again: and used");
		gone(&r);
	}

	check(asked(&r, &param, NULL) && next_request(&r), "twice closed: asked");
	hang_up(&r, HOW_FIN);
	check(next_request(&r), "twice closed: asked again");
	hang_up(&r, HOW_FIN);
	type = next_event(r.a.events, NULL, &status, NULL, NULL);
	check(type == RDMA_CM_EVENT_REJECTED && status == -ECONNRESET && nobody_else(&r),
	      "twice closed: given up (%d status %d)", type, status);
	gone(&r);

	check(asked(&r, &param, NULL) && next_request(&r) && send(r.fd, MPA_KEY_REP, 9, 0) == 9,
	      "half a reply: asked");
	hang_up(&r, HOW_FIN);
	type = next_event(r.a.events, NULL, &status, NULL, NULL);
	check(type == RDMA_CM_EVENT_CONNECT_ERROR && status == -EPROTO && nobody_else(&r),
	      "half a reply: given up at once (%d status %d)", type, status);
	gone(&r);
}

void test_peers(void)
{
	crc_by_either();
	depth_left_open();
	long_private_data();
	second_try();
}
