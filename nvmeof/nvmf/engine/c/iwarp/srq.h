/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues (srq.c).  A queue pair takes a receive when a Send begins; if there is none it
 * waits in line, and takes nothing more from its socket until a receive is posted for it.
 */
#ifndef NVMF_IWARP_SRQ_H
#define NVMF_IWARP_SRQ_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct iw_qp;
struct iw_srq;

/* A queue pair's place in line, under the lock of its SRQ. */
struct iw_srq_place {
	struct iw_qp *next, **prev;	/* prev: NULL when not in line */
	bool promised;			/* a receive is kept for it */
};

struct ibv_srq *iw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int iw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int iw_destroy_srq(struct ibv_srq *srq);
int iw_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

void iw_srq_ref(struct iw_srq *srq, int n);
unsigned int iw_srq_max_sge(const struct iw_srq *srq);
/* Move a receive to the queue pair's own receive queue, or get in line: false.  Under qp->lock. */
bool iw_srq_take(struct iw_qp *qp);
/* Whether a queue pair that got in line need not wait any longer.  Under qp->lock. */
bool iw_srq_promised(struct iw_qp *qp);
/* Out of the line; a promised receive is the next one's.  Under qp->lock. */
void iw_srq_leave(struct iw_qp *qp);
/* How many receives there are, roughly. */
unsigned int iw_srq_available(const struct iw_srq *srq);
void iw_srq_forked(struct iw_srq *srq);

#endif
