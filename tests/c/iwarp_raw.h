/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer of one connection that is a bare socket (iwarp_raw.c). */
#ifndef IWARP_RAW_H
#define IWARP_RAW_H

#include "iwarp_pair.h"

extern struct side raw_side;		/* the device's end */
extern int raw_fd;
extern int raw_mss;			/* for the next connection's socket; 0: the system's */
extern int raw_depth;			/* depth for READs on the device's side, for the next connection; 0: 2 */

/* Connect by hand with these MPA bits; the reply is left in rep. */
int raw_open(uint16_t bits, uint16_t ird, uint16_t ord, uint8_t *rep);
/* The same, and the device's side may send: a zero-length WRITE has yet to be received. */
int raw_open_spoken(void);
void raw_close(void);
/* Make the device post n WRITEs of all the memory, as one chain. */
void raw_post_writes(int n);
/* Complete the FPDU whose header (and payload) is in f; returns its size. */
uint32_t raw_finish(uint8_t *f, bool crc);
/* Receive until the connection closes, while the device is polled. */
uint32_t raw_answer(uint8_t *buf, uint32_t room);

#endif
