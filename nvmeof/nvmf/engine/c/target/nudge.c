/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A nudge for a siw device of this machine that missed a host's Connect.
 *
 * As a responder, siw takes over its socket a moment after it has sent its MPA reply.  A capsule that arrives before
 * that remains unread until more data arrives (seen once in 50 connections on a busy machine with Linux 6.1).  So if a
 * host has sent nothing, the target reads no bytes from it: a zero-length RDMA READ refers to no memory, and needs no
 * STag (RFC 5040, section 5.2), and its response is more data.
 *
 * A responder must be silent until the initiator's first FPDU (RFC 5044, section 7.1.3).  A host whose Connect was
 * missed has sent that FPDU; a slow host probably has not, so the first nudge is late.
 */
#include "target/calls.h"
#include "target/wr.h"
#include "verbs/siw.h"

enum { FIRST_MS = 250, NUDGES = 5 };

unsigned target_qpair_nudge(struct target_qpair *qp)
{
	if (!qp->iwarp_adapter || !siw_is(&qp->dev->attr) || qp->nudges == NUDGES ||
	    qp->disconnect_sent || qp->destroy_sent)
		return 0;
	/* the mail of the last call may still be in the mailbox */
	if (qp->nudges && !atomic_exchange(&qp->nudge_sent, true))
		reactor_mail(qp->reactor, &qp->nudge_mail, qpair_nudge_deliver);
	return (unsigned)FIRST_MS << qp->nudges++;
}

static bool nudge_wanted(const struct target_qpair *qp)
{
	return qp->up && !qp->dead && !qp->lingering && !qp->commands && !qp->active && !qp->pending.head &&
	       qp->sq_free && qp->read_free;
}

void qpair_nudge_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_qpair *qp = container_of(mail, struct target_qpair, nudge_mail);
	struct ibv_sge none = { .lkey = qp->lkey };	/* siw demands one element */
	struct ibv_send_wr *bad = NULL, wr = {
		.wr_id = wr_id(qp, WR_NUDGE),
		.sg_list = &none,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int rc;

	atomic_store(&qp->nudge_sent, false);
	if (!nudge_wanted(qp))
		return;
	qp->sq_free--;
	qp->read_free--;
	reactor->awaited++;
	rc = ibv_post_send(qp->ibqp, &wr, &bad);
	if (!rc)
		return;
	qpair_fail_post(qp, "RDMA READ", rc);
	if (bad)	/* see post.c */
		nudge_completed(qp);
}

void nudge_completed(struct target_qpair *qp)
{
	qp->reactor->awaited--;
	qp->read_free++;
	qp->sq_free++;
	if (qp->tx.head || qp->reads.head || qp->dead)
		reactor_mark(qp);
}
