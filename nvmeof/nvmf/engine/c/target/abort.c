/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Abort: commands that are taken back before anything of them was done.
 *
 * What can be: a command that waits for its namespace's limits, for a buffer or for an RDMA READ to
 * fetch its data with, one whose RDMA READs are in line and not posted, one whose store operation is
 * in line behind others, the first of a fused pair before its second has come.
 * What cannot: a command that a store has, or whose data is on its way, which soon ends by itself,
 * and one that no request was free for.  Reactor's thread, but for the calls of target.h.
 */
#include "target/calls.h"

#include <stdlib.h>

struct target_abort {
	struct target_abort *next;	/* control */
	struct mail mail;
	struct target_qpair *qp;
	uint16_t cid;
	struct target_upcall upcall;
};

static bool is_of(const struct store_io *io, const void *arg)
{
	const struct target_request *req = arg;

	return io == &req->io || transfer_io_of(io) == req;
}

/* The first chunk of it in line for an RDMA READ, and how many there are untouched. */
static struct chunk *in_line(const struct target_request *req, unsigned *count)
{
	struct chunk *first = NULL;

	*count = 0;
	for (struct fifo_link *link = req->qp->reads.head; link; link = link->next) {
		struct chunk *chunk = container_of(link, struct chunk, tx.link);

		if (chunk->req != req || chunk->posted)
			continue;
		if (!(*count)++)
			first = chunk;
	}
	return first;
}

/*
 * End it with its status, if all that is under way of it is in line here: whether it was so.  Its
 * chunks are dropped as those of a dead connection are, and their data is not looked at.
 */
static bool take_transfer(struct target_request *req)
{
	struct target_qpair *qp = req->qp;
	struct chunk *chunk;
	unsigned count;

	chunk = in_line(req, &count);
	if (count != req->outstanding)
		return false;
	req->pumping = true;	/* until all of it is taken back */
	if (req->waiting)
		fifo_remove(&qp->waiting[transfer_fetches(req)], &req->tx.link);
	req->waiting = false;
	for (; chunk; chunk = in_line(req, &count)) {
		fifo_remove(&qp->reads, &chunk->tx.link);
		qp->fetching--;
		transfer_chunk_release(chunk);
	}
	req->pumping = false;
	reactor_mark(qp);
	transfer_check(req);
	return true;
}

/* With the store's line: all that is under way of it waits there, or nothing is done. */
static bool take_from_store(struct target_request *req)
{
	struct store_ring *ring = req->qp->reactor->ring;
	unsigned under_way = req->mode == TRANSFER_NONE ? req->submitted : req->outstanding;

	if (!under_way || store_ring_waiting(ring, is_of, req) != under_way)
		return false;
	store_ring_cancel(ring, is_of, req);	/* the last of them ends it */
	return true;
}

bool request_cancel(struct target_request *req, uint16_t status)
{
	if (req->responding || req->held || req->qp->dead || req->status)
		return false;
	if (req->throttled) {
		limits_cancel(req, status);
		return true;
	}
	if (fused_cancel(req, status))
		return true;
	if (req->mode == TRANSFER_FETCH || req->mode == TRANSFER_PUSH || req->mode == TRANSFER_FUSED)
		return false;
	if (req->mode != TRANSFER_NONE && req->moved)
		return false;
	if ((req->mode == TRANSFER_NONE || req->mode == TRANSFER_RANGES) && req->step > 1)
		return false;	/* a step of it is done */
	req->status = status;
	if ((req->mode != TRANSFER_NONE && take_transfer(req)) || take_from_store(req))
		return true;
	req->status = 0;
	return false;
}

static void abort_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_abort *abort = container_of(mail, struct target_abort, mail);
	struct target_qpair *qp = abort->qp;

	(void)reactor;
	for (uint32_t i = 0; i < qp->request_fresh; i++) {
		struct target_request *req = &qp->requests[i];

		if (!req->cid_taken || req->cqe.cid != abort->cid)
			continue;
		abort->upcall.aborted = request_cancel(req, NVME_ABORTED_BY_REQUEST);
		break;
	}
	target_post_upcall(qp->target, &abort->upcall);
}

struct target_abort *target_abort_create(struct target_qpair *qp, uint16_t cid, void *cookie)
{
	struct target_abort *abort = calloc(1, sizeof(*abort));

	if (!abort)
		return NULL;
	abort->qp = qp;
	abort->cid = cid;
	abort->upcall = (struct target_upcall){
		.type = TARGET_UPCALL_ABORTED,
		.qpair = qp,
		.abort = abort,
		.cookie = cookie,
	};
	abort->next = qp->target->aborts;
	qp->target->aborts = abort;
	reactor_mail(qp->reactor, &abort->mail, abort_deliver);
	return abort;
}

void target_abort_destroy(struct target *target, struct target_abort *abort)
{
	struct target_abort **p = &target->aborts;

	while (*p && *p != abort)
		p = &(*p)->next;
	if (*p)
		*p = abort->next;
	free(abort);
}

/* The reactors have ended. */
void aborts_free_all(struct target *target)
{
	while (target->aborts)
		target_abort_destroy(target, target->aborts);
}
