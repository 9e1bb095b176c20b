/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection's receiver (rx.c) and sender (tx.c) keep from one call to the next.  Under qp->lock. */
#ifndef NVMF_IWARP_STREAM_H
#define NVMF_IWARP_STREAM_H

#include "sizes.h"
#include "wire.h"
#include "work.h"

enum iw_rx_state { IW_RX_HEADER, IW_RX_PAYLOAD, IW_RX_TRAILER };

struct iw_rx {
	enum iw_rx_state state;
	uint8_t hdr[FPDU_HDR_MAX];	/* of the FPDU being received, as far as it is here */
	uint32_t hdr_have;
	uint32_t ulpdu_len;
	uint32_t remain;		/* payload or trailer still to come */
	uint8_t opcode;
	bool last;
	bool big;			/* large payloads lately: receive them in place */
	uint8_t small_run;
	uint32_t stag;			/* tagged: where the next byte goes */
	uint64_t to;
	uint32_t send_msn, read_msn;	/* expected */
	uint32_t mo;			/* bytes of the open Send received */
	uint32_t term_have;
	uint8_t term[FPDU_TERM_CTRL + FPDU_HDR_MAX];
	/* CRC on: an FPDU is whole before a byte of it is looked at */
	uint8_t *carry;
	uint32_t carry_have;
	/*
	 * No receive was there for a Send: its header (in hdr) or FPDU (in carry) waits, if it was not
	 * found whole in the stash, which is what had been received behind it.
	 */
	bool waits, header_waits;
	uint8_t *stash;
	uint32_t stash_off, stash_len;
};

enum iw_kind { IW_TX_SQ, IW_TX_READ_RESP };

struct iw_tx {
	uint32_t off;			/* payload bytes of sq[tx] already in sent FPDUs */
	uint32_t rr_off;		/* the same for irq[irq_head] */
	uint32_t part;			/* bytes of the current FPDU that the socket has taken */
	enum iw_kind kind;		/* of the current FPDU */
	uint32_t send_msn, read_msn;	/* next */
	uint32_t mulpdu, mulpdu_left;	/* largest ULPDU, and messages until that is looked at again */
	bool hold;			/* responder: silent until the first FPDU came */
	atomic_bool blocked;		/* the socket is full (the helper looks without the lock) */
	bool watched;			/* the CQs' epolls tell when the socket is no longer full */
	bool yielded;			/* blocked although the socket is not full: no edge will tell */
	/* CRC on: FPDUs are built here, so that the CRC is of the bytes that are sent */
	uint8_t *bounce;
	uint32_t bounce_off, bounce_len;
};

#endif
