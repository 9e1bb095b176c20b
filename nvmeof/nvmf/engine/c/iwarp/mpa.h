/* SPDX-License-Identifier: BSD-3-Clause */
/* The frames of MPA's handshake (mpa.c).  Pure functions, any thread. */
#ifndef NVMF_IWARP_MPA_H
#define NVMF_IWARP_MPA_H

#include "wire.h"

struct iw_mpa {
	bool reply, markers, crc, reject, enhanced;
	uint8_t revision;
	uint16_t ird_word, ord_word;
	uint16_t pd_len;		/* without the two words */
	const uint8_t *pd;
};

/* Frame into buf (MPA_FRAME_MAX bytes); its length. */
uint32_t iw_mpa_put(uint8_t *buf, const struct iw_mpa *m);
/*
 * What have bytes of a frame are: 0 and *need (bytes wanted in all), the frame's length when it is
 * complete (m filled), or -1 with the complaint in *why.
 */
int iw_mpa_get(const uint8_t *buf, uint32_t have, bool reply, struct iw_mpa *m, uint32_t *need,
	       const char **why);

#endif
