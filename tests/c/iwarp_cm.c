/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection management: depths, private data, rejects, refusals, addresses, ends. */
#include "iwarp_pair.h"

#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void private_data(void)
{
	uint8_t pd[200];
	struct pair_options o = { .pd = pd, .pd_len = sizeof(pd), .ird = 5, .ord = 7 };
	struct pair p;

	for (size_t i = 0; i < sizeof(pd); i++)
		pd[i] = (uint8_t)i;
	check(!pair_open(&p, &o), "pd: connects");
	check(p.seen_request.private_data_len == 200 && !memcmp(p.request_pd, pd, 200),
	      "pd: the request's private data");
	check(p.seen_reply.private_data_len == 200 && !memcmp(p.reply_pd, pd, 200),
	      "pd: the reply's private data");
	check(p.seen_request.initiator_depth == 5 && p.seen_request.responder_resources == 7,
	      "pd: the request's depths (%u %u)", p.seen_request.initiator_depth,
	      p.seen_request.responder_resources);
	check(p.a.id->verbs && p.b.id->verbs == p.a.id->verbs && !strcmp(p.a.id->verbs->device->name, "iwarp0"),
	      "pd: both ids have their device");
	check(p.b.id->route.addr.dst_sin.sin_port == p.a.id->route.addr.src_sin.sin_port &&
	      p.a.id->route.addr.dst_sin.sin_port == p.b.id->route.addr.src_sin.sin_port &&
	      p.a.id->route.addr.src_sin.sin_family == AF_INET, "pd: addresses on both ids");
	check(!v->disconnect(p.a.id), "pd: disconnect");
	check(next_event(p.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED &&
	      next_event(p.b.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED,
	      "pd: both ends get one event");
	check(strstr(iwarp_qp_end_reason(p.b.qp), "the peer closed the connection") != NULL, "pd: %s",
	      iwarp_qp_end_reason(p.b.qp));
	fcntl(p.a.events->fd, F_SETFL, O_NONBLOCK);
	fcntl(p.b.events->fd, F_SETFL, O_NONBLOCK);
	struct rdma_cm_event *e;

	check(v->get_cm_event(p.a.events, &e) && errno == EAGAIN && v->get_cm_event(p.b.events, &e) &&
	      errno == EAGAIN, "pd: and only once");
	pair_close(&p);
}

static void rejected(void)
{
	struct side a = { .events = v->create_event_channel() };
	struct rdma_event_channel *ch = v->create_event_channel();
	struct pair_options o = { 0 };
	struct rdma_conn_param param = { .responder_resources = 1 }, seen = { 0 };
	struct rdma_cm_id *l, *child = NULL;
	int port = 0, status = 0;
	uint8_t pd[256] = { 0 };

	l = listen_on(ch, "127.0.0.1", &port);
	check(l && port && !resolve(&a, "127.0.0.1", port) && !side_objects(&a, &o) && !side_qp(&a, &o),
	      "reject: ready");
	check(!v->connect(a.id, &param) &&
	      next_event(ch, &child, NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST, "reject: asked");
	check(!v->reject(child, "\x01\x02\x03\x04", 4), "reject: done");
	check(next_event(a.events, NULL, &status, &seen, pd) == RDMA_CM_EVENT_REJECTED &&
	      status == -ECONNREFUSED && seen.private_data_len == 4 && !memcmp(pd, "\x01\x02\x03\x04", 4),
	      "reject: heard, with status %d and its private data", status);
	v->destroy_id(child);
	side_close(&a);
	/* a listener is destroyed with a request that was not processed yet */
	a = (struct side){ .events = a.events };
	check(!resolve(&a, "127.0.0.1", port) && !side_objects(&a, &o) && !side_qp(&a, &o) &&
	      !v->connect(a.id, &param), "gone: asked");
	struct pollfd request = { .fd = ch->fd, .events = POLLIN };

	check(poll(&request, 1, CHECK_PATIENCE_S * 1000) == 1, "gone: the listener was told");
	v->destroy_id(l);
	int type = next_event(a.events, NULL, &status, NULL, NULL);

	check(type == RDMA_CM_EVENT_REJECTED, "gone: heard (%d status %d)", type, status);
	side_close(&a);
	/* no listener */
	a = (struct side){ .events = a.events };
	check(!resolve(&a, "127.0.0.1", port) && !side_objects(&a, &o) && !side_qp(&a, &o) &&
	      !v->connect(a.id, &param), "refused: asked");
	type = next_event(a.events, NULL, &status, NULL, NULL);
	check(type == RDMA_CM_EVENT_REJECTED && status == -ECONNREFUSED, "refused: heard (%d status %d)",
	      type, status);
	side_close(&a);
	v->destroy_event_channel(a.events);
	v->destroy_event_channel(ch);
}

static void addresses(void)
{
	struct rdma_event_channel *ch = v->create_event_channel();
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *l, *l2;
	struct pair p;
	struct pair_options six = { .host = "::1" };
	int port = 0, again;

	l = listen_on(ch, "127.0.0.1", &port);
	again = port;
	l2 = listen_on(ch, "127.0.0.1", &again);
	check(l && port && !l2 && errno == EADDRINUSE, "addr: a port taken is EADDRINUSE");
	check(l->verbs != NULL, "addr: bound to an address means bound to the device");
	v->destroy_id(l);
	check(!v->create_id(ch, &l, NULL, RDMA_PS_TCP) && !v->bind_addr(l, (struct sockaddr *)&any) &&
	      !l->verbs && l->route.addr.src_sin.sin_port, "addr: bound to the wildcard means not");
	v->destroy_id(l);
	if (pair_open(&p, &six)) {
		check(1, "addr: IPv6 skipped: %s", strerror(errno));
	} else {
		post_recv(&p.b, 1, 0, 64);
		post_send(&p.a, 2, IBV_WR_SEND, 0, 0, 64, 0, 0);
		expect_wc(&p.b, &p.a, 1, IBV_WC_SUCCESS, "addr: IPv6 works");
		check(p.b.id->route.addr.dst_sin6.sin6_family == AF_INET6, "addr: and is reported");
	}
	pair_close(&p);
	v->destroy_event_channel(ch);
}

static const char *_Atomic logged;

static void log_refusal(const char *peer, const char *what)
{
	(void)peer;
	logged = what;
}

/* A TCP peer of a listener that does not speak MPA, or sends nothing. */
static void strangers(void)
{
	struct rdma_event_channel *ch = v->create_event_channel();
	struct iwarp_options o, old;
	int port = 0, fd[2];
	char c;

	iwarp_set_event_log(log_refusal);

	struct rdma_cm_id *l = listen_on(ch, "127.0.0.1", &port);
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				   .sin_addr.s_addr = htonl(0x7f000001) };

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	check(!connect(fd[0], (struct sockaddr *)&sin, sizeof(sin)), "stranger: connects");
	check(send(fd[0], "GET / HTTP/1.1\r\n", 16, 0) == 16 && recv(fd[0], &c, 1, 0) <= 0,
	      "stranger: hung up on");
	iwarp_get_options(&old);
	o = old;
	o.handshake_timeout_ms = 200;
	iwarp_set_options(&o);
	check(!connect(fd[1], (struct sockaddr *)&sin, sizeof(sin)), "stranger: connects");
	check(recv(fd[1], &c, 1, 0) <= 0, "stranger: a silent one after a while");
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end; usleep(1000))
		if (logged && strstr(logged, "in time"))
			break;
	const char *said = logged;

	check(said && strstr(said, "in time") != NULL, "stranger: logged: %s", said ? said : "");
	check(iwarp_get_stats()->refused >= 2, "stranger: counted");
	close(fd[0]);
	close(fd[1]);
	iwarp_set_event_log(NULL);
	v->destroy_id(l);
	v->destroy_event_channel(ch);

	/* and a server that accepts the connection and never answers */
	int s = socket(AF_INET, SOCK_STREAM, 0), status = 0;
	socklen_t len = sizeof(sin);
	struct side a = { .events = v->create_event_channel() };
	struct pair_options po = { 0 };

	sin.sin_port = 0;
	check(!bind(s, (struct sockaddr *)&sin, sizeof(sin)) && !listen(s, 1) &&
	      !getsockname(s, (struct sockaddr *)&sin, &len), "mute: listens");
	check(!resolve(&a, "127.0.0.1", ntohs(sin.sin_port)) && !side_objects(&a, &po) &&
	      !side_qp(&a, &po) && !v->connect(a.id, NULL), "mute: asked");
	int type = next_event(a.events, NULL, &status, NULL, NULL);

	check(type == RDMA_CM_EVENT_UNREACHABLE && status == -ETIMEDOUT, "mute: unreachable (%d status %d)",
	      type, status);
	side_close(&a);
	close(s);
	v->destroy_event_channel(a.events);
	iwarp_set_options(&old);
}

static void options(void)
{
	static const struct { bool crc; uint16_t rev; const char *name; } kinds[] = {
		{ true, 2, "CRC" }, { false, 1, "revision 1" }, { true, 1, "revision 1 with CRC" },
	};
	struct iwarp_options old, o;

	iwarp_get_options(&old);
	for (size_t k = 0; k < 3; k++) {
		struct pair p;

		o = old;
		o.crc = kinds[k].crc;
		o.mpa_revision = kinds[k].rev;
		iwarp_set_options(&o);
		check(!pair_open(&p, NULL), "%s: connects", kinds[k].name);
		for (uint32_t i = 0; i < 1000000; i++)
			p.a.mem[i] = (uint8_t)(i * 31 + (i >> 11));
		post_recv(&p.b, 1, 2000000, 64);
		post_recv(&p.b, 2, 3000000, 200000);
		post_send(&p.a, 3, IBV_WR_RDMA_WRITE, 0, 0, 1000000, (uintptr_t)p.b.mem + 5,
			  p.b.mr->rkey);
		post_send(&p.a, 4, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 61, 0, 0);
		post_send(&p.a, 5, IBV_WR_SEND, IBV_SEND_SIGNALED, 17, 199999, 0, 0);
		expect_wc(&p.b, &p.a, 1, IBV_WC_SUCCESS, "small send");
		expect_wc(&p.b, &p.a, 2, IBV_WC_SUCCESS, "large send");
		check(!memcmp(p.b.mem + 5, p.a.mem, 1000000) && !memcmp(p.b.mem + 2000000, p.a.mem, 61) &&
		      !memcmp(p.b.mem + 3000000, p.a.mem + 17, 199999), "%s: the bytes", kinds[k].name);
		expect_wc(&p.a, &p.b, 4, IBV_WC_SUCCESS, "completed");
		expect_wc(&p.a, &p.b, 5, IBV_WC_SUCCESS, "completed");
		post_send(&p.b, 6, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 1500000, 500000,
			  (uintptr_t)p.a.mem + 1, p.a.mr->rkey);
		expect_wc(&p.b, &p.a, 6, IBV_WC_SUCCESS, "read");
		check(!memcmp(p.b.mem + 1500000, p.a.mem + 1, 500000), "%s: read the bytes",
		      kinds[k].name);
		pair_close(&p);
	}
	iwarp_set_options(&old);
}

static bool congestion_is(int fd, const char *name)
{
	char got[16] = "";
	socklen_t len = sizeof(got);

	return !getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, got, &len) && !strcmp(got, name);
}

/* TCP's congestion control: selected by the device for local connections, otherwise only by option. */
static void congestion(void)
{
	static const struct {
		const char *from, *to;
		bool ours;
	} paths[] = {
		{ "127.0.0.1", "127.0.0.1", true }, { "127.0.0.1", "127.1.2.3", true },
		{ "192.0.2.1", "192.0.2.1", true }, { "192.0.2.1", "192.0.2.2", false },
		{ "128.0.0.1", "10.0.0.127", false }, { "::1", "::1", true },
		{ "2001:db8::1", "2001:db8::1", true }, { "2001:db8::1", "2001:db8::2", false },
	};
	struct iwarp_options old, o;
	struct pair p;

	iwarp_get_options(&old);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct sockaddr_storage a[2] = { { 0 } };
		const char *text[2] = { paths[i].from, paths[i].to };
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		for (int k = 0; k < 2; k++) {
			a[k].ss_family = strchr(text[k], ':') ? AF_INET6 : AF_INET;
			inet_pton(a[k].ss_family, text[k], a[k].ss_family == AF_INET ?
				  (void *)&((struct sockaddr_in *)&a[k])->sin_addr :
				  (void *)&((struct sockaddr_in6 *)&a[k])->sin6_addr);
		}
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5)) {
			check(true, "congestion: no cubic here, not tried");
			close(fd);
			return;
		}
		check(!iw_tune_socket(fd) && congestion_is(fd, "cubic"), "congestion: left alone without a peer");
		iw_congestion_path(fd, (struct sockaddr *)&a[0], (struct sockaddr *)&a[1], "");
		check(congestion_is(fd, paths[i].ours ? "reno" : "cubic"), "congestion: %s to %s", text[0],
		      text[1]);
		o = old;
		o.congestion = paths[i].ours ? "cubic" : "reno";
		iwarp_set_options(&o);
		iw_congestion_path(fd, (struct sockaddr *)&a[0], (struct sockaddr *)&a[1], "");
		check(congestion_is(fd, o.congestion), "congestion: %s to %s, as asked for", text[0], text[1]);
		iwarp_set_options(&old);
		close(fd);

		char own[IW_CONGESTION_NAME];

		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
		iw_congestion_listen(fd, own);
		check(congestion_is(fd, "reno"), "congestion: a listener's, before it knows from where");
		iw_congestion_path(fd, (struct sockaddr *)&a[0], (struct sockaddr *)&a[1], own);
		check(congestion_is(fd, paths[i].ours ? "reno" : "cubic"), "congestion: %s to %s, accepted", text[0],
		      text[1]);
		close(fd);
	}
	for (int k = 0; k < 2; k++) {
		o.congestion = k ? "cubic" : NULL;
		iwarp_set_options(&o);
		check(!pair_open(&p, NULL) && congestion_is(((struct iw_id *)p.listener)->fd, k ? "cubic" : "reno"),
		      "congestion: of a listener, so that its connections never have a different one");
		check(congestion_is(iw_qp(p.a.qp)->stream.fd, k ? "cubic" : "reno") &&
		      congestion_is(iw_qp(p.b.qp)->stream.fd, k ? "cubic" : "reno"), "congestion: of a connection, both ends");
		pair_close(&p);
		iwarp_set_options(&old);
	}
}

/* Connections end in various ways with traffic in progress, and everything is destroyed meanwhile. */
static void untidy(void)
{
	for (int how = 0; how < 5; how++) {
		struct pair p;

		check(!pair_open(&p, NULL), "untidy %d: connects", how);
		for (uint64_t i = 0; i < 20; i++) {
			post_recv(&p.b, i, 0, 1000);
			post_send(&p.a, i, i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				  IBV_SEND_SIGNALED, 0, 1000000, (uintptr_t)p.b.mem, p.b.mr->rkey);
		}
		if (how == 1)
			v->disconnect(p.a.id);
		if (how == 2)
			v->disconnect(p.b.id);
		if (how == 3)
			v->destroy_qp(p.b.id), p.b.qp = NULL;
		if (how == 4) {
			v->dereg_mr(p.b.mr);
			p.b.mr = NULL;
			for (int i = 0; i < 100; i++) {
				struct ibv_wc wc;

				ibv_poll_cq(p.b.cq, 1, &wc);
				ibv_poll_cq(p.a.cq, 1, &wc);
			}
		}
		pair_close(&p);
		check(1, "untidy %d: closed", how);
	}
}

void test_cm(void)
{
	private_data();
	rejected();
	addresses();
	strangers();
	options();
	congestion();
	untidy();
}
