/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the ring, which the devices fill, and the thread that empties it. */
#ifndef NVMF_CAPTURE_INTERNAL_H
#define NVMF_CAPTURE_INTERNAL_H

#include "capture.h"

#include <netinet/in.h>

enum {
	CAPTURE_PIECE = 61440,		/* largest payload of a record, so that its packet has at most 64 KiB */
};

enum capture_kind { CAPTURE_TCP, CAPTURE_FIN, CAPTURE_UDP, CAPTURE_PAD };

union capture_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct capture_record {
	_Atomic uint32_t size;		/* of the record with its data; 0 until it is complete */
	uint32_t stored;		/* bytes of data that follow */
	uint32_t length;		/* bytes of data before truncation */
	uint16_t id;
	uint8_t kind;
	bool sent;
	uint64_t when;			/* CLOCK_REALTIME, in ns */
	union capture_addr local, peer;
};

/* ---- ring.c; one thread reads ---- */

int capture_ring_make(void);
/* Return the oldest record, NULL if there is none or it is not complete; and end its use. */
struct capture_record *capture_ring_next(void);
void capture_ring_done(struct capture_record *r);
/* Records that were dropped since the ring was created. */
uint64_t capture_ring_dropped(void);

/* ---- packet.c; the writer's thread ---- */

enum { CAPTURE_HEADERS = 40 + 20 };	/* maximum of a packet */

/* The function of the writer that takes bytes for the file. */
typedef void capture_put(uint64_t when, bool sent, const uint8_t *headers, uint32_t n, const uint8_t *data,
			 uint32_t stored, uint32_t length);

void capture_packets_begin(void);
/* Call put for the packets of a record: several, if it begins a connection. */
void capture_packets(const struct capture_record *r, capture_put *put);

#endif
