/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of the embedded device, and the size of the receive buffer. */
#ifndef NVMF_IWARP_SIZES_H
#define NVMF_IWARP_SIZES_H

enum {
	IW_MAX_SGE = 32,
	IW_MAX_INLINE = 1024,
	IW_MAX_WR = 32768,
	IW_MAX_SRQ_WR = 1 << 20,
	IW_MAX_IRD = 128,
	IW_MAX_CQE = 1 << 23,		/* one queue for 20,000 connections: a poll of each queue takes time */
	IW_STAGING = 256 * 1024,
};

#endif
