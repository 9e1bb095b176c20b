/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: the headers and payload of an accepted packet are within its bytes; the private data of an accepted
 * message of the connection manager is within the message, and an encoded message is decoded to the same fields.
 */
#include "roce/cm_wire.h"
#include "roce/wire.h"

#include <netinet/in.h>
#include <stdlib.h>

static void packet(const uint8_t *data, uint32_t size)
{
	const struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT) };
	struct ro_flow flow;
	struct ro_packet p;
	uint16_t ip_id;

	if (size < RO_BTH + RO_ICRC)
		return;
	ro_flow_set(&flow, (const struct sockaddr *)&any, (const struct sockaddr *)&any);
	(void)ro_icrc_ok(&flow, data, size - RO_ICRC, &ip_id);
	if (!ro_packet_get(data, size, &p))
		return;
	if (p.ext < data || p.payload < p.ext || p.payload + p.len + p.bth.pad + RO_ICRC != data + size)
		abort();
}

static void message(const uint8_t *data, size_t size)
{
	uint8_t mad[RO_MAD] = { 0 }, again[RO_MAD];
	struct ro_cm_fields f, g;

	memcpy(mad, data, size < RO_MAD ? size : RO_MAD);
	if (!ro_cm_get(mad, &f))
		return;
	if (f.data && (f.data < mad || f.data + f.data_len > mad + RO_MAD))
		abort();
	if (f.kind == RO_CM_REQ && !f.has_cma)
		return;
	ro_cm_put(again, &f);
	if (!ro_cm_get(again, &g) || g.kind != f.kind || g.local_comm != f.local_comm ||
	    g.remote_comm != f.remote_comm || g.qpn != f.qpn || g.psn != f.psn || g.reason != f.reason ||
	    g.service_id != f.service_id || g.data_len != f.data_len ||
	    (f.data_len && memcmp(g.data, f.data, f.data_len)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > RO_PACKET_MAX + 1)
		return 0;
	if (data[0] & 1)
		packet(data + 1, (uint32_t)size - 1);
	else
		message(data + 1, size - 1);
	return 0;
}
