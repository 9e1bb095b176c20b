/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: creating, and receiving from their sockets.  Owns the list of ports.  Control threads and the helper under
 * iw_cm_lock; receiving on the thread that polls.
 */
#include "calls.h"
#include "port.h"
#include "util/fifo.h"
#include "capture/capture.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SOCKET_BUFFER = 8 << 20,	/* requested */
	ROOM_MIN = 1 << 16,		/* bytes */
	LOOPBACK_TRIES = 16,
};

struct list ro_ports;

/* ---- creating and freeing ---- */

int ro_port_socket(const union ro_addr *addr, bool grouped)
{
	int fd = socket(addr->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, whole = IP_PMTUDISC_PROBE, size = SOCKET_BUFFER, ecn = RO_ECN_ECT0, e;

	if (fd < 0)
		return -1;
	/* with CAP_NET_ADMIN, the limits of net.core.rmem_max and wmem_max do not apply */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	/* routers may mark what this socket sends rather than drop it; without these they drop it */
	if (addr->sa.sa_family == AF_INET6) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &ecn, sizeof(ecn));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
	} else {
		(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &ecn, sizeof(ecn));
		(void)setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	}
	/*
	 * Not fragmented, whatever a router has told about the way: anybody can forge that, since both UDP ports are known.
	 * timer.c decides whether it is true.
	 */
	if (addr->sa.sa_family == AF_INET6) {
		/* rxe sends no UDP checksum */
		(void)setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &one, sizeof(one));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &whole, sizeof(whole));
	} else if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole))) {
		goto fail;	/* without it the identification is not known, and the ICRC is wrong */
	}
	if (grouped)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (!bind(fd, &addr->sa, ro_addr_len(addr)))
		return fd;
fail:
	e = errno;
	close(fd);
	errno = e;
	return -1;
}

static void port_answer(struct iw_caller *caller)
{
	struct ro_port *port = container_of(caller, struct ro_port, caller);

	port->calls->cm(port);
}

static void port_free(struct ro_port *port)
{
	int e = errno;

	ro_share_close(port);
	free(port->buffer);
	free(port->cm);
	free(port);
	errno = e;
}

/*
 * The bytes of data that the socket can hold while no thread receives.  The kernel counts the memory of packets, which may
 * be a page or two for each that a network card has received.
 */
static uint32_t port_room(const struct ro_port *port)
{
	const int share = ro_addr_loopback(&port->addr) ? 2 : 4;
	socklen_t len = sizeof(int);
	int size = 0;

	(void)getsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	return size / share > ROOM_MIN ? (uint32_t)(size / share) : ROOM_MIN;
}

static void inbox_ready(struct ro_port *port, unsigned int i)
{
	struct ro_inbox *in = &port->in;

	in->msgs[i].msg_hdr = (struct msghdr){
		.msg_name = &in->from[i], .msg_namelen = sizeof(in->from[i]), .msg_iov = &in->iov[i], .msg_iovlen = 1,
		.msg_control = in->control[i], .msg_controllen = sizeof(in->control[i]),
	};
}

static struct ro_port *port_new(const union ro_addr *addr, const struct ro_port_calls *calls)
{
	struct ro_port *port = calloc(1, sizeof(*port));
	socklen_t len = sizeof(int);
	int segment;

	if (!port)
		return NULL;
	port->addr = *addr;
	if (addr->sa.sa_family == AF_INET)
		port->addr.in.sin_port = htons(RO_UDP_PORT);
	else
		port->addr.in6.sin6_port = htons(RO_UDP_PORT);
	port->fd = -1;
	port->buffer = malloc((size_t)RO_BATCH * RO_DATAGRAM);
	port->cm = malloc(RO_CM_QUEUE * sizeof(*port->cm));
	port->calls = calls;
	port->caller.answer = port_answer;
	line_init(&port->line);
	if (!port->buffer || !port->cm || ro_share_open(port) || ro_port_watch(port)) {
		port_free(port);
		return NULL;
	}
	for (unsigned int i = 0; i < RO_BATCH; i++) {
		port->in.iov[i] = (struct iovec){ port->buffer + (size_t)i * RO_DATAGRAM, RO_DATAGRAM };
		inbox_ready(port, i);
	}
	port->in.batch = RO_BATCH;
	port->mtu = ro_interface_mtu(port->fd, addr);
	port->room = port_room(port);
	atomic_store(&port->gso, !getsockopt(port->fd, IPPROTO_UDP, UDP_SEGMENT, &segment, &len));
	port->users = 1;
	list_push(&ro_ports, &port->link);
	return port;
}

struct ro_port *ro_port_get(const union ro_addr *addr, const struct ro_port_calls *calls)
{
	for (struct list_link *link = ro_ports.head; link; link = link->next) {
		struct ro_port *port = container_of(link, struct ro_port, link);

		if (ro_addr_same(&port->addr, addr)) {
			port->users++;
			return port;
		}
	}
	return port_new(addr, calls);
}

struct ro_port *ro_port_loopback(const struct ro_port_calls *calls)
{
	static union ro_addr own;	/* the process's own address, if it has one */

	for (unsigned int i = 0; i < LOOPBACK_TRIES; i++) {
		struct ro_port *port;

		if (!own.in.sin_family)
			own.in = (struct sockaddr_in){
				.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(0x7f400000u | (iw_random32() & 0x3fffffu)),
			};
		port = ro_port_get(&own, calls);
		if (port || errno != EADDRINUSE)
			return port;
		own.in.sin_family = 0;
	}
	errno = EADDRINUSE;
	return NULL;
}

void ro_port_put(struct ro_port *port)
{
	if (--port->users)
		return;
	list_remove(&port->link);
	ro_port_unwatch(port);
	iw_helper_forget(&port->caller);
	port_free(port);
}

/* A completion queue has few ports, and a port may have thousands of completion queues. */
static struct ro_attached *port_find(const struct ro_port *port, const struct iw_cq *cq)
{
	for (struct list_link *link = cq->steady.head; link; link = link->next) {
		struct ro_attached *a = container_of(link, struct ro_attached, steady.link);

		if (a->port == port)
			return a;
	}
	return NULL;
}

int ro_port_attach(struct ro_port *port, struct iw_cq *cq)
{
	struct ro_attached *a = port_find(port, cq);

	if (a) {
		a->users++;
		return 0;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -1;
	a->port = port;
	a->users = 1;
	a->steady = (struct iw_steady){ .cq = cq, .calls = &ro_watch_calls, .owner = a };
	list_push(&port->attached, &a->link);
	iw_steady_attach(&a->steady);
	return 0;
}

void ro_port_detach(struct ro_port *port, struct iw_cq *cq)
{
	struct ro_attached *a = port_find(port, cq);

	if (!a || --a->users)
		return;
	iw_steady_detach(&a->steady);
	list_remove(&a->link);
	ro_watch_leave(a);
	free(a);
}

/* ---- receiving ---- */

static void port_cm_packet(struct ro_port *port, const uint8_t *buf, uint32_t len, const union ro_addr *from)
{
	struct ro_cm_message *m;

	if (len != RO_UD_PACKET || buf[0] != RO_OP_UD_SEND_ONLY || (buf[1] & RO_BTH_VERSION) ||
	    (ro_get16(buf + 2) & RO_PKEY_PARTITION) != RO_PKEY_PARTITION || ro_get32(buf + RO_BTH) != RO_QKEY)
		return;
	iw_lock(&port->cm_lock);
	if (port->cm_head - port->cm_tail < RO_CM_QUEUE) {	/* else it is lost; the peer repeats it */
		m = &port->cm[port->cm_head++ % RO_CM_QUEUE];
		m->from = *from;
		memcpy(m->mad, buf + RO_BTH + RO_DETH, RO_MAD);
	}
	iw_unlock(&port->cm_lock);
	iw_helper_call(&port->caller);
}

bool ro_port_cm_take(struct ro_port *port, struct ro_cm_message *m)
{
	bool found;

	iw_lock(&port->cm_lock);
	found = port->cm_head != port->cm_tail;
	if (found)
		*m = port->cm[port->cm_tail++ % RO_CM_QUEUE];
	iw_unlock(&port->cm_lock);
	return found;
}

/* Whether a packet is for a different process: GRO joins the packets of a peer, regardless of their process. */
static bool port_strayed(const struct ro_port *port, const uint8_t *buf)
{
	const uint32_t qpn = ro_get24(buf + 5);

	return qpn != RO_QP1 && qpn >> RO_TAG_QPN != port->tag;
}

/* place: of the packet among those that were joined; GSO derives their identifications from it. */
static void port_packet(struct ro_port *port, const struct ro_flow *flow, const uint8_t *buf, uint32_t len,
			uint16_t place, const union ro_addr *from, bool congested)
{
	struct ro_packet p;
	uint16_t ip_id = flow->six ? 0 : place;
	bool ok;

	if (len < RO_BTH + RO_ICRC || len > RO_PACKET_MAX)
		return;
	ok = ro_icrc_ok(flow, buf, len - RO_ICRC, &ip_id);
	if (capture_on())
		capture_datagram(&port->addr.sa, &from->sa, false, ok ? ip_id : 0, buf, len);
	if (!ok)
		return;
	if (atomic_load_explicit(&port->shared, memory_order_relaxed) && port_strayed(port, buf)) {
		ro_share_strayed(port);
		return;
	}
	if (ro_get24(buf + 5) == RO_QP1)
		port_cm_packet(port, buf, len, from);
	else if (buf[0] == RO_OP_CNP && len == RO_CNP + RO_ICRC)
		port->calls->congested(port, ro_get24(buf + 5), from);
	else if (ro_packet_get(buf, len, &p)) {
		p.congested = congested;
		port->calls->packet(port, &p, from);
	}
}

/* Read the control messages of a datagram: the size of the packets that GRO joined, and whether they are marked. */
static uint32_t port_told(struct msghdr *h, uint32_t len, bool *congested)
{
	uint32_t segment = len;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		int value;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			*congested = (*CMSG_DATA(c) & RO_ECN) == RO_ECN_CE;
			continue;
		}
		memcpy(&value, CMSG_DATA(c), sizeof(value));
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			*congested = (value & RO_ECN) == RO_ECN_CE;
		else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO && value > 0)
			segment = (uint32_t)value;
	}
	return segment;
}

static void port_datagram(struct ro_port *port, struct msghdr *h, const uint8_t *buf, uint32_t len)
{
	const union ro_addr *from = h->msg_name;
	bool congested = false;
	const uint32_t seg = port_told(h, len, &congested);
	struct ro_flow flow;

	ro_flow_set(&flow, &from->sa, &port->addr.sa);
	for (uint32_t off = 0, place = 0; off < len; off += seg, place++)
		port_packet(port, &flow, buf + off, len - off < seg ? len - off : seg, (uint16_t)place, from,
			    congested);
}

/* Send everything that has become due. */
static void port_flush(struct ro_port *port)
{
	port->calls->flush(port);
	ro_port_send_rest(port);
	atomic_store_explicit(&port->unsent, port->more.head, memory_order_relaxed);
	atomic_store_explicit(&port->holds, port->held.head, memory_order_relaxed);
}

void ro_port_release(struct ro_port *port)
{
	struct iw_epoch *section;

	if (!atomic_load_explicit(&port->holds, memory_order_relaxed))
		return;
	section = iw_section_lock(&port->lock);
	port->holding = false;
	port_flush(port);
	iw_section_unlock(section, &port->lock);
}

/*
 * Receive datagrams; returns their number.  While they come one by one, only one is asked for: to find that there is no
 * second one takes the kernel a quarter of a microsecond.
 */
static int inbox_fill(const struct ro_port *port, struct ro_inbox *in, unsigned int most)
{
	ssize_t len;

	if (most > 1)
		return ro_recvmmsg(port->fd, in->msgs, most, MSG_DONTWAIT);
	len = ro_recvmsg(port->fd, &in->msgs[0].msg_hdr, MSG_DONTWAIT);
	if (len < 0)
		return -1;
	in->msgs[0].msg_len = (unsigned int)len;
	return 1;
}

/* Note how many datagrams a receive has found. */
static void inbox_note(struct ro_inbox *in, int n, int bytes)
{
	if (n == 1 && !in->found && bytes <= RO_LONE)
		in->sparse += in->sparse < RO_SPARSE;
	else if (n > 0)
		in->sparse -= in->sparse < RO_SPARSE / 4 ? in->sparse : RO_SPARSE / 4;
	in->found = n > 0;
}

struct iw_visit ro_port_visit(struct ro_port *port, bool hold)
{
	struct iw_epoch *section = iw_section_trylock(&port->lock);
	struct ro_inbox *in = &port->in;
	struct iw_visit v = { 0 };
	unsigned int batch;
	int n;

	if (!section)
		return (struct iw_visit){ .more = true };
	port->visit++;
	port->holding = hold;
	/* without a next visit, all of them are received, and v.more is not true of one that was alone */
	batch = hold && in->sparse >= RO_SPARSE / 2 ? 1 : in->batch;
	n = inbox_fill(port, in, batch);
	for (int i = 0; i < n; i++) {
		v.bytes += (int)in->msgs[i].msg_len;
		port_datagram(port, &in->msgs[i].msg_hdr, in->iov[i].iov_base, in->msgs[i].msg_len);
		inbox_ready(port, (unsigned int)i);
	}
	if (n > 0) {
		in->batch = v.bytes > n * RO_LARGE ? RO_BATCH_LARGE : RO_BATCH;
		atomic_fetch_add_explicit(&port->rx_count, 1, memory_order_relaxed);
	}
	inbox_note(in, n, v.bytes);
	port_flush(port);
	v.more = n == (int)batch || port->more.head;
	iw_section_unlock(section, &port->lock);
	return v;
}
