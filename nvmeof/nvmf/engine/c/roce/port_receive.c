/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving from the socket of a port, and passing on what was received.  On the thread that polls, or the helper, under
 * port->lock, within a section.
 */
#include "calls.h"
#include "port.h"
#include "capture/capture.h"

#include <linux/sock_diag.h>
#include <netinet/udp.h>

static void inbox_ready(struct ro_port *port, unsigned int i)
{
	struct ro_inbox *in = &port->in;

	in->msgs[i].msg_hdr = (struct msghdr){
		.msg_name = &in->from[i], .msg_namelen = sizeof(in->from[i]), .msg_iov = &in->iov[i], .msg_iovlen = 1,
		.msg_control = in->control[i], .msg_controllen = sizeof(in->control[i]),
	};
}

void ro_inbox_open(struct ro_port *port)
{
	for (unsigned int i = 0; i < RO_BATCH; i++) {
		port->in.iov[i] = (struct iovec){ port->buffer + (size_t)i * RO_DATAGRAM, RO_DATAGRAM };
		inbox_ready(port, i);
	}
	port->in.batch = RO_BATCH;
}

static void port_cm_packet(struct ro_port *port, const uint8_t *buf, uint32_t len, const union ro_addr *from)
{
	struct ro_cm_message *m;

	if (len != RO_UD_PACKET || buf[0] != RO_OP_UD_SEND_ONLY || (buf[1] & RO_BTH_VERSION) ||
	    (ro_get16(buf + 2) & RO_PKEY_PARTITION) != RO_PKEY_PARTITION || ro_get32(buf + RO_BTH) != RO_QKEY)
		return;
	iw_lock(&port->cm_lock);
	if (port->cm_head - port->cm_tail < RO_CM_QUEUE) {
		m = &port->cm[port->cm_head++ % RO_CM_QUEUE];
		m->from = *from;
		memcpy(m->mad, buf + RO_BTH + RO_DETH, RO_MAD);
	} else {
		port->cm_lost++;	/* the peer repeats it */
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

uint32_t ro_port_lost(struct ro_port *port)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 }, lost;
	socklen_t len = sizeof(info);

	(void)getsockopt(port->fd, SOL_SOCKET, SO_MEMINFO, info, &len);
	iw_lock(&port->cm_lock);
	lost = port->cm_lost;
	iw_unlock(&port->cm_lock);
	return lost + info[SK_MEMINFO_DROPS];
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
