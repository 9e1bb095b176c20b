/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues (srq.c).  A connection takes a receive when a Send begins; if there is none, it waits in
 * line, and reads nothing more from its socket until a receive is posted for it.
 */
#ifndef NVMF_IWARP_SRQ_H
#define NVMF_IWARP_SRQ_H

#include "util/list.h"
#include "work.h"

struct iw_srq;

/* A connection's place in line. */
struct iw_srq_place {
	/*
	 * A receive is reserved for the owner of this place: a polling thread should continue it.  Under the lock of
	 * the SRQ.
	 */
	void (*wake)(struct iw_srq_place *place);

	/* the lock of the SRQ */
	struct list_link link;
	bool promised;			/* a receive is reserved for it */
};

struct ibv_srq *iw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int iw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int iw_destroy_srq(struct ibv_srq *srq);
int iw_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

void iw_srq_ref(struct iw_srq *srq, int n);
unsigned int iw_srq_max_sge(const struct iw_srq *srq);
/* Move a receive to *wr and its list to sge, which has room for max_sge; if there is none, join the line: false. */
bool iw_srq_take(struct iw_srq *srq, struct iw_srq_place *place, struct iw_rwr *wr, struct ibv_sge *sge);
/* Whether a place that was in line has its receive now. */
bool iw_srq_promised(struct iw_srq *srq, const struct iw_srq_place *place);
/* Leave the line; a receive reserved for it goes to the next. */
void iw_srq_leave(struct iw_srq *srq, struct iw_srq_place *place);
/* Returns the approximate number of available receives. */
unsigned int iw_srq_available(const struct iw_srq *srq);
void iw_srq_forked(struct iw_srq *srq);

#endif
