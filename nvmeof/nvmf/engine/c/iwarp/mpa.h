/* SPDX-License-Identifier: BSD-3-Clause */
/* The frames of MPA's handshake (mpa.c).  Pure functions, any thread. */
#ifndef NVMF_IWARP_MPA_H
#define NVMF_IWARP_MPA_H

#include "wire.h"

struct iw_mpa {
	bool reply, markers, crc, reject, enhanced;
	uint8_t revision;
	uint16_t ird_word, ord_word;
	uint16_t pd_len;		/* without the two depth words */
	const uint8_t *pd;
};

/* Write a frame to buf (MPA_FRAME_MAX bytes); returns its length. */
uint32_t iw_mpa_put(uint8_t *buf, const struct iw_mpa *m);
/*
 * Decode the first have bytes of a frame: 0 and *need (total bytes required), the frame's length if it is complete (m
 * is set), or -1 with the reason in *why.
 */
int iw_mpa_get(const uint8_t *buf, uint32_t have, bool reply, struct iw_mpa *m, uint32_t *need,
	       const char **why);

#endif
