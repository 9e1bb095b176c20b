/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the ring, which the devices fill, and the thread that empties it. */
#ifndef NVMF_CAPTURE_INTERNAL_H
#define NVMF_CAPTURE_INTERNAL_H

#include "capture.h"

#include <netinet/in.h>

enum {
	CAPTURE_PIECE = 61440,		/* largest payload of a record, so that its packet has at most 64 KiB */
};

enum capture_kind {
	CAPTURE_TCP,
	CAPTURE_FIN,
	CAPTURE_UDP,
	CAPTURE_PAD,
	/* work, of which frames are synthesised */
	CAPTURE_MPA_REQUEST,
	CAPTURE_MPA_REPLY,
	CAPTURE_MPA_REJECT,
	CAPTURE_CLOSED,
	CAPTURE_SEND,
	CAPTURE_SEND_INVALIDATE,
	CAPTURE_WRITE,
	CAPTURE_READ,
	CAPTURE_READ_DATA,
};

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
	/* of work: */
	struct capture_place place;	/* of a WRITE, of a READ's source, or with data its sink; or an invalidated key */
	struct capture_place sink;	/* of a READ */
	uint32_t amount;		/* bytes: of a READ, or those of a Send before this piece of it */
	bool last;			/* the last piece of a message */
	bool inferred;
};

/* ---- ring.c; any thread appends, one reads ---- */

/*
 * Begin a record with room for length bytes behind it, which the caller fills if r->stored; NULL, and counted as
 * dropped, if there is no room; also NULL if the capture has ended.  size: for capture_record_done(), after which it
 * can be read.
 */
struct capture_record *capture_record(enum capture_kind kind, bool sent, const struct sockaddr *local,
				      const struct sockaddr *peer, size_t length, uint32_t *size);
void capture_record_done(struct capture_record *r, uint32_t size);
void capture_record_dropped(void);

/* A position in an iovec. */
struct capture_cursor {
	const struct iovec *iov;
	int niov;
	size_t skip;			/* bytes of iov[0] before it */
};
/* Move it by n bytes, which are copied to to if that is not NULL; returns fewer at the end of the iovec. */
size_t capture_take(struct capture_cursor *cursor, uint8_t *to, size_t n);

int capture_ring_make(void);
/* Return the oldest record, NULL if there is none or it is not complete; and end its use. */
struct capture_record *capture_ring_next(void);
void capture_ring_done(struct capture_record *r);
/* Records that were dropped since the ring was created. */
uint64_t capture_ring_dropped(void);

/* ---- packet.c; the writer's thread ---- */

enum { CAPTURE_HEADERS = 40 + 20 };	/* maximum of a packet */

/* The function of the writer that takes bytes for the file.  comment: a text for the packet, or NULL. */
typedef void capture_put(const struct capture_record *r, bool sent, const uint8_t *headers, uint32_t n,
			 const uint8_t *data, uint32_t stored, uint32_t length, const char *comment);

struct capture_flow {			/* a TCP connection */
	bool used;
	bool mirror;			/* both ends are in this process, and the other one is recorded */
	union capture_addr local, peer;
	uint32_t next[2];		/* sequence number: of the peer, of ourselves */
	/* of synthesised frames (frames.c), by direction in the same way */
	uint32_t sends[2], reads[2];	/* MSNs: numbers of messages so far */
	bool answered;			/* the request has its reply */
	bool closed[2];
};

void capture_packets_begin(void);
/* Call put for the packets of a record: several, if it begins a connection. */
void capture_packets(const struct capture_record *r, capture_put *put);
/* Put a segment with the next bytes of a direction of a flow, or with its end if there are no bytes. */
void capture_segment(const struct capture_record *r, struct capture_flow *flow, const uint8_t *bytes, uint32_t stored,
		     uint32_t length, capture_put *put);

/* ---- frames.c; the writer's thread ---- */

static inline bool capture_is_work(const struct capture_record *r)
{
	return r->kind > CAPTURE_PAD;
}

/* The comment of packets that are synthesised from a record; NULL for others. */
const char *capture_comment(const struct capture_record *r);
/* Put the frames of a record of work. */
void capture_frames(const struct capture_record *r, struct capture_flow *flow, capture_put *put);

#endif
