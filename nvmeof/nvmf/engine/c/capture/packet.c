/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of records: IP with TCP or UDP headers.  TCP sequence numbers count the bytes of each direction, so that
 * they are consistent, but they are not those on the wire, which a process does not know.  A connection whose MPA
 * request is in the capture begins with the three segments of a handshake, at the time of the request.
 *
 * Runs on the writer's thread, which owns the table of connections.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum {
	FLOWS = 1 << 16,		/* connections; with more at once, sequence numbers begin again */
	PROBES = 16,
	TCP_HEADER = 20,
	UDP_HEADER = 8,
	TTL = 64,
	MPA_KEY = 16,
	FIN = 0x01,
	SYN = 0x02,
	PSH = 0x08,
	ACK = 0x10,
};

static struct capture_flow *flows;

void capture_packets_begin(void)
{
	free(flows);
	flows = calloc(FLOWS, sizeof(*flows));
}

/* ---- addresses ---- */

static bool same(const union capture_addr *a, const union capture_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port && a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port && !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16);
}

static uint32_t port_of(const union capture_addr *a)
{
	return ntohs(a->sa.sa_family == AF_INET ? a->in.sin_port : a->in6.sin6_port);
}

/* Convert an IPv4 address inside an IPv6 address to the IPv4 address on the wire. */
static void unmap(union capture_addr *a)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a->sa.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		return;
	in.sin_port = a->in6.sin6_port;
	memcpy(&in.sin_addr, a->in6.sin6_addr.s6_addr + 12, 4);
	a->in = in;
}

static struct capture_flow *flow_find(const union capture_addr *local, const union capture_addr *peer, bool make)
{
	const uint32_t at = (port_of(local) * 31u + port_of(peer)) * 2654435761u >> 16;
	struct capture_flow *f = NULL;

	if (!flows)
		return NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		f = &flows[(at + i) % FLOWS];
		if (!f->used)
			break;
		if (same(&f->local, local) && same(&f->peer, peer))
			return f;
	}
	if (!make)
		return NULL;
	*f = (struct capture_flow){ .used = true, .local = *local, .peer = *peer, .next = { 1, 1 } };
	return f;
}

/* ---- headers ---- */

static uint32_t sum(uint32_t s, const uint8_t *p, uint32_t n)
{
	uint64_t total = s;

	for (; n > 1; p += 2, n -= 2)
		total += (uint32_t)p[0] << 8 | p[1];
	if (n)
		total += (uint32_t)p[0] << 8;
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return (uint32_t)total;
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

/* An IP header for len bytes; returns its size, and the sum of the pseudo header. */
static uint32_t put_ip(uint8_t *h, const union capture_addr *from, const union capture_addr *to, uint8_t protocol,
		       uint16_t id, uint32_t len, uint32_t *pseudo)
{
	if (from->sa.sa_family == AF_INET) {
		memset(h, 0, 20);
		h[0] = 0x45;
		put16(h + 2, 20 + len);
		put16(h + 4, id);
		h[6] = 0x40;		/* don't fragment: the ICRC covers it */
		h[8] = TTL;
		h[9] = protocol;
		memcpy(h + 12, &from->in.sin_addr, 4);
		memcpy(h + 16, &to->in.sin_addr, 4);
		put16(h + 10, ~sum(0, h, 20));
		*pseudo = sum(protocol + len, h + 12, 8);
		return 20;
	}
	memset(h, 0, 40);
	h[0] = 0x60;
	put16(h + 4, len);
	h[6] = protocol;
	h[7] = TTL;
	memcpy(h + 8, &from->in6.sin6_addr, 16);
	memcpy(h + 24, &to->in6.sin6_addr, 16);
	*pseudo = sum(protocol + len, h + 8, 32);
	return 40;
}

struct ends {
	union capture_addr local, peer;
};

struct bytes {				/* of a segment */
	const uint8_t *data;
	uint32_t stored, length;
};

static void put_segment(const struct capture_record *r, const struct ends *e, bool sent, uint8_t flags, uint32_t seq,
			uint32_t ack, struct bytes b, capture_put *put)
{
	const union capture_addr *from = sent ? &e->local : &e->peer, *to = sent ? &e->peer : &e->local;
	uint8_t h[CAPTURE_HEADERS];
	uint32_t pseudo, n = put_ip(h, from, to, IPPROTO_TCP, 0, TCP_HEADER + b.length, &pseudo);
	uint8_t *tcp = h + n;

	memset(tcp, 0, TCP_HEADER);
	put16(tcp, port_of(from));
	put16(tcp + 2, port_of(to));
	put32(tcp + 4, seq);
	put32(tcp + 8, ack);
	tcp[12] = TCP_HEADER / 4 << 4;
	tcp[13] = flags;
	put16(tcp + 14, 65535);
	put16(tcp + 16, ~sum(sum(pseudo, tcp, TCP_HEADER), b.data, b.stored));
	put(r, sent, h, n + TCP_HEADER, b.data, b.stored, b.length, capture_comment(r));
}

static void put_handshake(const struct capture_record *r, const struct ends *e, capture_put *put)
{
	const struct bytes none = { 0 };

	put_segment(r, e, r->sent, SYN, 0, 0, none, put);
	put_segment(r, e, !r->sent, SYN | ACK, 0, 1, none, put);
	put_segment(r, e, r->sent, ACK, 1, 1, none, put);
}

void capture_segment(const struct capture_record *r, struct capture_flow *f, const uint8_t *bytes, uint32_t stored,
		     uint32_t length, capture_put *put)
{
	const struct ends e = { f->local, f->peer };
	const uint32_t seq = f->next[r->sent];

	f->next[r->sent] += length ? length : 1;
	put_segment(r, &e, r->sent, length ? PSH | ACK : FIN | ACK, seq, f->next[!r->sent],
		    (struct bytes){ bytes, stored, length }, put);
}

static bool begins(const struct capture_record *r)
{
	return r->kind == CAPTURE_MPA_REQUEST ||
	       (r->kind == CAPTURE_TCP && r->stored >= MPA_KEY && !memcmp(r + 1, "MPA ID Req Frame", MPA_KEY));
}

static void put_tcp(const struct capture_record *r, const struct ends *e, capture_put *put)
{
	const bool request = begins(r);
	struct capture_flow *f = flow_find(&e->local, &e->peer, false);

	if (f && request) {	/* the ports were used before */
		f->used = false;
		f = NULL;
	}
	if (!f) {
		struct capture_flow *other = flow_find(&e->peer, &e->local, false);

		f = flow_find(&e->local, &e->peer, true);
		if (!f)
			return;
		*f = (struct capture_flow){ .used = true, .local = e->local, .peer = e->peer, .next = { 1, 1 } };
		f->mirror = other && !other->mirror;
		if (request && !f->mirror)
			put_handshake(r, e, put);
	}
	if (f->mirror)
		return;
	if (capture_is_work(r))
		capture_frames(r, f, put);
	else
		capture_segment(r, f, (const uint8_t *)(r + 1), r->stored, r->length, put);
}

static void put_udp(const struct capture_record *r, const struct ends *e, capture_put *put)
{
	const union capture_addr *from = r->sent ? &e->local : &e->peer, *to = r->sent ? &e->peer : &e->local;
	uint8_t h[CAPTURE_HEADERS];
	uint32_t pseudo, n = put_ip(h, from, to, IPPROTO_UDP, r->id, UDP_HEADER + r->length, &pseudo), check;
	uint8_t *udp = h + n;

	put16(udp, port_of(from));
	put16(udp + 2, port_of(to));
	put16(udp + 4, UDP_HEADER + r->length);
	put16(udp + 6, 0);
	check = ~sum(sum(pseudo, udp, UDP_HEADER), (const uint8_t *)(r + 1), r->stored) & 0xffff;
	put16(udp + 6, check ? check : 0xffff);
	put(r, r->sent, h, n + UDP_HEADER, (const uint8_t *)(r + 1), r->stored, r->length, NULL);
}

void capture_packets(const struct capture_record *r, capture_put *put)
{
	struct ends e = { r->local, r->peer };

	unmap(&e.local);
	unmap(&e.peer);
	if (r->kind == CAPTURE_UDP)
		put_udp(r, &e, put);
	else
		put_tcp(r, &e, put);
}
