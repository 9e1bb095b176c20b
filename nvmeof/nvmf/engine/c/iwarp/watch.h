/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that no thread polls (watch.c).  On the helper, or while it is excluded: under iw_cm_lock. */
#ifndef NVMF_IWARP_WATCH_H
#define NVMF_IWARP_WATCH_H

#include "qp.h"

int iw_watch_memory(void);		/* before the helper starts; an errno */
void iw_watch_no_memory(void);		/* after the helper has ended */
/* A new queue pair; ended: called on the helper when it has ended by itself, and was reaped. */
void iw_watch_init(struct iw_qp *qp, void (*ended)(struct iw_qp *qp));
int iw_watch_start(struct iw_qp *qp);
uint64_t iw_watch_expire(uint64_t now);	/* returns the next deadline, or 0 */
void iw_watch_forked(void);
void iw_reap(struct iw_qp *qp);		/* an ended queue pair: remove it from all epolls, close the socket in order */

#endif
