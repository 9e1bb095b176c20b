/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matches the two commands of fused pairs, and finds commands whose other half is missing.
 *
 * A host sends both commands consecutively, so the next capsule of the queue decides whether the first command has its
 * second.  If no capsule arrives (the host failed in between, or sends no second command), the first command does not
 * wait until the end of the connection: after fused_wait_ms it ends with Command Aborted due to Missing Fused Command,
 * and a second command that arrives later has no first one.  A pair begins only when both are there, so nothing was
 * written.
 * Reactor's thread.
 */
#include "target/calls.h"

#define NS_PER_MS 1000000ull

/* ---- waiting for the second ---- */

static void wait_begin(struct target_qpair *qp)
{
	struct reactor *reactor = qp->reactor;

	qp->fused_until = clock_ns() + reactor->target->options.fused_wait_ms * NS_PER_MS;
	if (qp->fused_listed)
		return;
	qp->fused_listed = true;
	fifo_push(&reactor->halves, &qp->fused_link);
}

/* The connection ends. */
void fused_wait_no_more(struct target_qpair *qp)
{
	if (!qp->fused_listed)
		return;
	qp->fused_listed = false;
	fifo_remove(&qp->reactor->halves, &qp->fused_link);
}

/* Queues whose second command has arrived meanwhile are removed from the list here, too. */
void fused_serve(struct reactor *reactor)
{
	uint64_t now = clock_ns();
	struct fifo still;
	struct fifo_link *link;

	fifo_init(&still);
	while ((link = fifo_pop(&reactor->halves))) {
		struct target_qpair *qp = container_of(link, struct target_qpair,
						       fused_link);

		if (qp->fused_first && now < qp->fused_until) {
			fifo_push(&still, link);
			continue;
		}
		qp->fused_listed = false;
		if (!qp->fused_first)
			continue;
		qp->fused_expected = false;
		fused_missing(qp);
	}
	while ((link = fifo_pop(&still)))
		fifo_push(&reactor->halves, link);
}

/* ---- incoming capsules ---- */

/* End the first command of a pair: the second did not follow, or the connection ends. */
void fused_missing(struct target_qpair *qp)
{
	struct target_request *first = qp->fused_first;

	qp->fused_first = NULL;
	if (!first)
		return;
	if (qp->dead)
		request_free(first);
	else
		request_respond(first, NVME_ABORTED_MISSING_FUSED | NVME_DNR);
}

/* Abort a first command whose second has not arrived: the second will fail, too. */
bool fused_cancel(struct target_request *req, uint16_t status)
{
	if (req->qp->fused_first != req)
		return false;
	req->qp->fused_first = NULL;
	request_respond(req, status);
	return true;
}

static uint16_t begin(struct target_request *req, const struct nvme_sqe *sqe, uint16_t status)
{
	struct target_qpair *qp = req->qp;

	if (!status && sqe->opc != NVME_OPC_COMPARE)
		status = NVME_INVALID_FIELD | NVME_DNR;
	qp->fused_expected = true;
	if (status)
		return status;
	req->sqe = *sqe;
	req->state = REQUEST_HALF;
	qp->fused_first = req;
	wait_begin(qp);
	return NVME_SUCCESS;
}

/*
 * Handle a command with FUSE, or the command after the first of a pair.  status: of the command alone.  False if the
 * caller must continue with the command and status.
 */
bool fused_capsule(struct target_request *req, const struct nvme_sqe *sqe, uint16_t *status)
{
	struct target_qpair *qp = req->qp;
	struct target_request *first;
	unsigned fuse = sqe->flags & NVME_FUSE_MASK;
	bool failed = qp->fused_expected && !qp->fused_first;

	qp->fused_expected = false;
	if (fuse != NVME_FUSE_SECOND)
		fused_missing(qp);
	if (!fuse)
		return false;
	if (!*status && (sqe->opc == NVME_OPC_FABRICS || !atomic_load(&qp->table) ||
			 fuse == NVME_FUSE_MASK))
		*status = NVME_INVALID_FIELD | NVME_DNR;
	if (!*status && !atomic_load(&qp->enabled))
		*status = NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR;
	if (fuse == NVME_FUSE_FIRST) {
		*status = begin(req, sqe, *status);
		return !*status;
	}
	if (!*status && sqe->opc != NVME_OPC_WRITE)
		*status = NVME_INVALID_FIELD | NVME_DNR;
	first = qp->fused_first;
	qp->fused_first = NULL;
	if (first && *status) {
		request_respond(first, NVME_ABORTED_FAILED_FUSED);
	} else if (first) {
		fused_begin(first, req, sqe);
		return true;
	} else if (!*status) {
		*status = failed ? NVME_ABORTED_FAILED_FUSED
				 : NVME_ABORTED_MISSING_FUSED | NVME_DNR;
	}
	return false;
}
