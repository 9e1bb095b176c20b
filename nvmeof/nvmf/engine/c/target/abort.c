/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Abort: ends commands that have had no effect yet.
 *
 * Can be aborted: a command that waits because of a fault on purpose, for its namespace's limits, for a latch of all that
 * it reads or writes, for a buffer or an RDMA READ; one whose RDMA READs have not been posted; one whose store operation
 * waits in line; the first command of a fused pair before the second has arrived.
 * Cannot be aborted: a command that a store is executing or whose data is being transferred, which will end soon,
 * and a command for which there was no free request.  Reactor's thread, except the functions of target.h.
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

	return io == &req->io || chunk_io_of(io) == req;
}

/* Only if all of its operations wait in the store's line. */
static bool cancel_in_store(struct target_request *req, unsigned under_way)
{
	struct store_ring *ring = req->qp->reactor->ring;

	if (!under_way || store_ring_waiting(ring, is_of, req) != under_way)
		return false;
	if (req->state == REQUEST_MOVING)
		transfer_line_leave(req);	/* it is not to wait there for its end */
	store_ring_cancel(ring, is_of, req);	/* the last one ends the request */
	return true;
}

static bool cancel_moving(struct target_request *req)
{
	if (req->mode == TRANSFER_FETCH || req->mode == TRANSFER_PUSH || req->mode == TRANSFER_FUSED)
		return false;
	return !req->moved && (transfer_cancel(req) || cancel_in_store(req, req->outstanding));
}

/* Only in the first step, before any byte was changed. */
static bool cancel_stepping(struct target_request *req)
{
	if (req->stepping == STEP_IN_LINE) {
		steps_cancel(req);
		return true;
	}
	return req->step <= 1 && !req->step_done &&
	       cancel_in_store(req, req->stepping == STEP_UNDER_WAY);
}

bool request_cancel(struct target_request *req, uint16_t status)
{
	bool cancelled = false;

	if (req->qp->dead || req->status)
		return false;
	switch ((enum request_state)req->state) {
	case REQUEST_INJECTED:
		inject_cancel(req, status);
		return true;
	case REQUEST_LIMITED:
		limits_cancel(req, status);
		return true;
	case REQUEST_HALF:
		return fused_cancel(req, status);
	case REQUEST_LATCHING:
		if (!latch_cancel(req->qp->reactor, &req->latch))
			return false;
		request_respond(req, status);
		return true;
	case REQUEST_MOVING:
		req->status = status;
		cancelled = cancel_moving(req);
		break;
	case REQUEST_STEPPING:
		req->status = status;
		cancelled = cancel_stepping(req);
		break;
	default:
		return false;
	}
	if (!cancelled)
		req->status = 0;
	return cancelled;
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
