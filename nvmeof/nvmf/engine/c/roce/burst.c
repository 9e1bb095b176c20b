/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that are adjacent in a buffer and sent at once.  Payload is copied, so that the ICRC matches the bytes that
 * are sent even if the application changes them meanwhile.  The ICRC is computed during the copy.  Under the lock of
 * the queue pair.
 */
#include "qp.h"

void ro_burst_begin(struct ro_burst *b, struct ro_qp *qp)
{
	b->qp = qp;
	b->len = b->seg = b->packets = 0;
	b->closed = false;
}

void ro_burst_send(struct ro_burst *b)
{
	if (b->packets && !ro_port_send(b->qp->port, &b->qp->peer, b->buf, b->len, b->seg))
		b->qp->too_large = true;
	ro_burst_begin(b, b->qp);
}

void ro_burst_send_late(struct ro_burst *b)
{
	if (b->packets == 1 && b->buf[0] == RO_OP_ACK)
		ro_port_send_late(b->qp->port, &b->qp->peer, b->buf, b->len);
	else
		ro_burst_send(b);
}

/* Whether a packet of this size can follow those of the burst. */
static bool burst_fits(const struct ro_burst *b, uint32_t size)
{
	/* a shorter one ends the train: the response to a command goes along with the last of its data */
	const uint32_t most = RO_TRAIN + (size < b->seg);

	return !b->closed && size <= b->seg && b->len + size <= RO_BURST && b->packets < most &&
	       atomic_load_explicit(&b->qp->port->gso, memory_order_relaxed);
}

bool ro_burst_has_room(const struct ro_burst *b, uint8_t opcode)
{
	return b->packets && burst_fits(b, ro_ops[opcode].hdr + (uint32_t)RO_ICRC);
}

uint8_t *ro_burst_packet(struct ro_burst *b, const struct ro_bth *bth, uint32_t len)
{
	struct ro_bth h = *bth;
	const uint32_t pad = -len & 3, size = ro_ops[bth->opcode].hdr + len + pad + RO_ICRC;
	uint8_t *p;

	if (b->packets && !burst_fits(b, size))
		ro_burst_send(b);
	p = b->buf + b->len;
	b->end = size - RO_ICRC;
	b->covered = 0;
	h.qpn = b->qp->dqpn;
	h.pad = (uint8_t)pad;
	ro_bth_put(p, &h);
	return p;
}

void ro_burst_copy(struct ro_burst *b, uint8_t *packet, const void *from, uint32_t len, uint32_t more)
{
	const uint32_t hdr = ro_ops[packet[0]].hdr;

	if (!b->covered) {
		b->crc = ro_icrc_begin(&b->qp->flow, (uint16_t)b->packets, packet, b->end);
		b->crc = ro_crc32(b->crc, packet + RO_BTH, hdr - RO_BTH);
		b->covered = hdr;
	}
	b->crc = ro_crc32_copy(b->crc, packet + b->covered, from, len, more >= len ? len : 0);
	b->covered += len;
}

void ro_burst_seal(struct ro_burst *b, uint8_t *packet, uint32_t len)
{
	const uint32_t pad = -len & 3, end = ro_ops[packet[0]].hdr + len + pad, size = end + RO_ICRC;
	uint32_t icrc;

	memset(packet + end - pad, 0, pad);
	if (b->covered)
		icrc = ro_icrc_end(ro_crc32(b->crc, packet + b->covered, end - b->covered));
	else
		icrc = (packet[0] == RO_OP_FLUSH && b->qp->flush == RO_FLUSH_RXE ? ro_icrc_rxe_flush : ro_icrc)(
			&b->qp->flow, (uint16_t)b->packets, packet, end);
	memcpy(packet + end, &icrc, RO_ICRC);
	if (!b->packets)
		b->seg = size;
	b->closed = size < b->seg;
	b->packets++;
	b->len += size;
}

enum iw_access ro_sge_copy(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t num_sge, uint32_t off,
			   uint8_t *buf, uint32_t len, struct ro_burst *into)
{
	const int access = IW_ACCESS_LOCAL | (into ? 0 : IBV_ACCESS_LOCAL_WRITE);

	for (uint32_t i = 0; i < num_sge && len; i++) {
		uint32_t n = sge[i].length;
		enum iw_access a;

		if (off >= n) {
			off -= n;
			continue;
		}
		n -= off;
		if (n > len)
			n = len;
		a = iw_mr_look(pd, NULL, sge[i].lkey, sge[i].addr + off, n, access);
		if (a != IW_OK)
			return a;
		if (into) {
			ro_burst_copy(into, buf, (const void *)(uintptr_t)(sge[i].addr + off), n,
				      sge[i].length - off - n);
		} else {
			memcpy((void *)(uintptr_t)(sge[i].addr + off), buf, n);
			buf += n;
		}
		len -= n;
		off = 0;
	}
	return len ? IW_BAD_BOUNDS : IW_OK;
}
