/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending on the socket of a port.  Runs on the thread that posts or polls; management datagrams on any thread. */
#include "calls.h"
#include "port.h"
#include "capture/capture.h"

#include <errno.h>
#include <netinet/udp.h>

bool ro_port_send(struct ro_port *port, const union ro_addr *to, uint8_t *buf, uint32_t len, uint32_t seg)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec iov = { buf, len };
	struct msghdr h = {
		.msg_name = (void *)(uintptr_t)&to->sa, .msg_namelen = ro_addr_len(to),
		.msg_iov = &iov, .msg_iovlen = 1,
	};
	ssize_t sent;

	if (len > seg) {
		const uint16_t size = (uint16_t)seg;
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(size));
		memcpy(CMSG_DATA(c), &size, sizeof(size));
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
	}
	/* before sending, because another thread records the response; if sending fails, the packet counts as lost */
	if (capture_on())
		capture_segments(&port->addr.sa, &to->sa, buf, len, seg);
	sent = ro_sendmsg(port->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && len > seg && (errno == EIO || errno == EINVAL || errno == EOPNOTSUPP))
		atomic_store(&port->gso, false);	/* not supported by the interface: sent again singly */
	return sent >= 0 || errno != EMSGSIZE;
}

void ro_port_send_late(struct ro_port *port, const union ro_addr *to, const uint8_t *packet, uint32_t len)
{
	struct ro_outbox *out = &port->out;
	const unsigned int i = out->count++;

	memcpy(out->packets[i], packet, len);
	out->to[i] = *to;
	out->iov[i] = (struct iovec){ out->packets[i], len };
	out->msgs[i].msg_hdr = (struct msghdr){
		.msg_name = &out->to[i].sa, .msg_namelen = ro_addr_len(to), .msg_iov = &out->iov[i], .msg_iovlen = 1,
	};
	if (capture_on())
		capture_segments(&port->addr.sa, &to->sa, out->packets[i], len, len);
	if (out->count == RO_BATCH)
		ro_port_send_rest(port);
}

void ro_port_send_rest(struct ro_port *port)
{
	struct ro_outbox *out = &port->out;

	/* what the socket does not take is lost, as on the way */
	if (out->count == 1)
		(void)ro_sendmsg(port->fd, &out->msgs[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (out->count)
		(void)sendmmsg(port->fd, out->msgs, out->count, MSG_DONTWAIT | MSG_NOSIGNAL);
	out->count = 0;
}

void ro_port_send_mad(struct ro_port *port, const union ro_addr *to, const uint8_t mad[RO_MAD])
{
	uint8_t buf[RO_UD_PACKET];
	struct ro_bth bth = { .opcode = RO_OP_UD_SEND_ONLY, .ack_req = true, .qpn = RO_QP1 };
	struct ro_flow flow;
	union ro_addr dst = *to;
	uint32_t icrc;

	if (dst.sa.sa_family == AF_INET)
		dst.in.sin_port = htons(RO_UDP_PORT);
	else
		dst.in6.sin6_port = htons(RO_UDP_PORT);
	ro_flow_set(&flow, &port->addr.sa, &dst.sa);
	ro_bth_put(buf, &bth);
	ro_put32(buf + RO_BTH, RO_QKEY);
	ro_put32(buf + RO_BTH + 4, RO_QP1);
	memcpy(buf + RO_BTH + RO_DETH, mad, RO_MAD);
	icrc = ro_icrc(&flow, 0, buf, RO_UD_PACKET - RO_ICRC);
	memcpy(buf + RO_UD_PACKET - RO_ICRC, &icrc, sizeof(icrc));
	(void)ro_port_send(port, &dst, buf, RO_UD_PACKET, RO_UD_PACKET);
}
