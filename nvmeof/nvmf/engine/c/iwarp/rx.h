/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the receiver share: rx.c cuts the stream, rx_crc.c does so where FPDUs have a CRC. */
#ifndef NVMF_IWARP_RX_H
#define NVMF_IWARP_RX_H

#include "iwarp.h"

enum { RX_BIG = 8192 };			/* payloads from here on are worth receiving in place */

/* The ways in which bytes are taken in. */
enum { RX_END = -1, RX_OK = 0, RX_WAIT = 1 };

/* rx.c */
int iw_rx_whole_fpdu(struct iw_qp *qp, const uint8_t *p);	/* where it lies, and its CRC is right */
void iw_rx_note_size(struct iw_rx *rx, uint32_t payload);
void iw_rx_end_payload(struct iw_rx *rx);

/* rx_crc.c */
int iw_rx_crc_bytes(struct iw_qp *qp, uint8_t *p, uint32_t len, uint32_t *used);
int iw_rx_crc_carried(struct iw_qp *qp, uint32_t size);		/* the FPDU in carry is whole */
/* Bytes that were received straight into the memory they are for. */
void iw_rx_crc_placed(struct iw_rx *rx, const struct iovec *iov, uint32_t n);

#endif
