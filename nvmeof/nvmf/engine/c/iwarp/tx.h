/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch of FPDUs for one sendmsg: built by tx_build.c, sent by tx.c.  Under qp->lock. */
#ifndef NVMF_IWARP_TX_H
#define NVMF_IWARP_TX_H

#include "stream.h"

enum {
	TX_BATCH = 256,			/* FPDUs in one sendmsg: a turn's worth of 4 KiB READs */
	TX_BATCH_BYTES = 2 << 20,	/* a turn: eight READs of 128 KiB and their headers fit into one sendmsg */
	TX_BATCH_SUMMED = 256 * 1024,	/* with CRCs, which are wasted for data that the socket does not take */
	TX_TURN = 2 << 20,		/* bytes sent for one queue pair, before others are served */
	TX_BATCH_IOV = 544,
	TX_COPY_MAX = 256,			/* payloads up to this size are copied to the end of their header */
	TX_TAIL_MAX = 8,		/* padding and CRC, and a byte for alignment to a whole word */
	TX_FPDU_MAX = FPDU_HDR_MAX + TX_COPY_MAX + TX_TAIL_MAX,	/* in buf, if not everything is copied */
	TX_SCRATCH = 20480,		/* more than a batch of the longest parts needs */
	TX_BOUNCE = 256 * 1024,
};

struct tx_rec {
	uint32_t bytes, payload;
	enum iw_kind kind;
	bool last;
};

struct tx_cursor {				/* position of building, ahead of the sent data */
	uint32_t sq, off, irq, rr_off, reads;
	enum iw_kind kind;		/* of the last FPDU, for fairness */
};

struct tx_batch {
	struct tx_cursor at;
	uint8_t *scratch;		/* provided by the caller, for headers */
	uint32_t scratch_size;
	uint8_t *buf;			/* the buffer in use: scratch or the bounce buffer */
	uint32_t len, cap, margin;	/* cap: bytes of buf; margin: its largest use by one more FPDU */
	uint32_t run;			/* buf from here on is not in iov yet */
	int niov, nrec;
	size_t bytes;
	uint32_t seg;			/* of those, since the last TCP segment began */
	bool copy;			/* copy everything into buf, which is the bounce buffer */
	bool summed;			/* crc is that of the FPDU so far: header and payload */
	uint32_t crc;
	enum iw_access err;
	struct iovec iov[TX_BATCH_IOV];
	struct tx_rec rec[TX_BATCH];
};

/*
 * Build as many FPDUs as fit and may be sent.  Stops early, with b->err set, if one cannot be built: when that one is
 * the first, nothing else is left to send before the connection ends because of it.
 */
void iw_tx_build(struct iw_stream *s, struct tx_batch *b);

#endif
