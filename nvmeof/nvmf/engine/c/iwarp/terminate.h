/* SPDX-License-Identifier: BSD-3-Clause */
/* TERMINATE (terminate.c).  Pure functions, any thread. */
#ifndef NVMF_IWARP_TERMINATE_H
#define NVMF_IWARP_TERMINATE_H

#include "wire.h"

#include <stddef.h>

/*
 * Write the frame to buf (TERM_FPDU_MAX bytes); returns its length.  hdr: the header at fault, copied from its length
 * field on (that is the DDP segment length).
 */
uint32_t iw_term_build(uint8_t *buf, uint16_t code, const uint8_t *hdr, bool crc);
/* Describe the code as text. */
void iw_term_text(uint16_t code, char *buf, size_t len);

#endif
