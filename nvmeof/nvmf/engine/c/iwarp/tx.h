/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch of FPDUs on their way into one sendmsg: what tx_build.c makes and tx.c sends.  Under qp->lock. */
#ifndef NVMF_IWARP_TX_H
#define NVMF_IWARP_TX_H

#include "stream.h"

enum {
	TX_BATCH = 256,			/* FPDUs in one sendmsg: a turn's worth of 4 KiB READs */
	TX_BATCH_BYTES = 1 << 20,
	TX_BATCH_SUMMED = 256 * 1024,	/* with CRCs: those of what the socket does not take were for nothing */
	TX_TURN = 2 << 20,		/* bytes sent for one queue pair, then the others' turn */
	TX_BATCH_IOV = 544,
	TX_COPY_MAX = 256,			/* payloads up to here are copied behind their header */
	TX_TAIL_MAX = 8,		/* padding and CRC, and a byte to make it a whole word */
	TX_FPDU_MAX = FPDU_HDR_MAX + TX_COPY_MAX + TX_TAIL_MAX,	/* of it in buf, without copy */
	TX_SCRATCH = 20480,		/* a batch of the longest has fewer */
	TX_BOUNCE = 256 * 1024,
};

struct tx_rec {
	uint32_t bytes, payload;
	enum iw_kind kind;
	bool last;
};

struct tx_cursor {				/* where building is, ahead of what was sent */
	uint32_t sq, off, irq, rr_off, reads;
	enum iw_kind kind;		/* of the last FPDU, for fairness */
};

struct tx_batch {
	struct tx_cursor at;
	uint8_t *scratch;		/* the caller's, for headers */
	uint32_t scratch_size;
	uint8_t *buf;			/* of the two, which one it is built in */
	uint32_t len, cap, margin;	/* cap: bytes of buf; margin: what one more FPDU may take of it */
	uint32_t run;			/* from here on nothing of buf is in iov yet */
	int niov, nrec;
	size_t bytes;
	uint32_t seg;			/* of those, since the last TCP segment began */
	bool copy;			/* everything into buf, which is the bounce buffer */
	bool summed;			/* crc is that of the FPDU so far: header and payload */
	uint32_t crc;
	enum iw_access err;
	struct iovec iov[TX_BATCH_IOV];
	struct tx_rec rec[TX_BATCH];
};

/*
 * As many FPDUs as fit and may be sent.  Fewer than there are, with b->err set, where one cannot be
 * built: once it is the first, nothing else is left to send before the connection ends over it.
 */
void iw_tx_build(struct iw_stream *s, struct tx_batch *b);

#endif
