/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair that READs and a hand-made peer, for the tests of receiving the segments of a response together.  The
 * queue pair's socket is one end of a socketpair, so that all bytes are there when it receives.
 */
#ifndef TESTS_IWARP_AHEAD_H
#define TESTS_IWARP_AHEAD_H

#include "iwarp_pair.h"

#include "iwarp.h"

enum {
	LEN = 131072,		/* of a READ: three segments */
	GUARD = 65536,		/* on both sides of its destination */
	WRITTEN = LEN + 2 * GUARD,	/* and where a WRITE and a Send go */
	SENT = WRITTEN + GUARD,
	MEM = SENT + GUARD,
	FRAMES = LEN + 4096,	/* those of a READ */
	READ_ID = 1, RECV_ID, SEND_ID,
};

struct ahead {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;	/* NULL if a test has deregistered it */
	struct iw_qp *qp;
	int peer, fd;
	uint8_t *mem, *staging, *want;
	bool crc;
	uint32_t send_msn, read_msn;	/* of the peer's next Send and READ */
	unsigned int receives;		/* system calls that have received something */
	struct {
		unsigned int reads, receives, failed;
	} done;
};
extern struct ahead ahead;

/* Messages that may be between two segments. */
enum between { NOTHING, A_SEND, A_WRITE, A_READ };

/* The lengths of our segments; as in ahead_build(), the last is repeated. */
extern const uint32_t ahead_ours[];

void ahead_open(bool crc, bool initiator, bool shared);
void ahead_close(void);
/* Let the queue pair receive and send; whether its connection still exists. */
bool ahead_progress(void);
/* Take the completions; returns whether a number of READs and receives, and nothing else, has completed. */
bool ahead_completed(unsigned int reads, unsigned int taken);
/* Post a READ, in pieces of the destination if two; the peer takes its request. */
void ahead_read(bool two);
/* Write the CRC, or what is there without one, of a frame; its size. */
uint32_t ahead_finish(uint8_t *f);
/* One segment of the answer to the oldest READ. */
uint32_t ahead_answer(uint8_t *f, uint32_t off, uint32_t len);
uint32_t ahead_message(uint8_t *f, enum between what);
/* The answer in segments of these lengths (the last of them repeated), with messages between them. */
uint32_t ahead_build(uint8_t *f, const uint32_t *segment, enum between what);
void ahead_post(void);	/* a receive */
/* The destination is correct, and nothing beside it has changed. */
bool ahead_is_read(void);
bool ahead_put(const uint8_t *f, uint32_t len);
/* A connection on which large payloads are usual. */
void ahead_warm_up(uint8_t *f);

void ahead_wrong(bool crc);	/* iwarp_ahead_wrong.c */
void ahead_sender(bool crc);	/* iwarp_ahead_sender.c */

#endif
