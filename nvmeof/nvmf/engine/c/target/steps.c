/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps: commands that consist of one store operation after another (Flush, Write Zeroes, Dataset Management, a write
 * from its capsule), without recursion if an operation completes at once.  Runs on the reactor's thread.
 *
 * Writing zeroes to a range or deallocating it is done in pieces, each with a latch of its own, so that a large range
 * does not block the namespace for other commands.  The states in req->stepping are: STARTING while an operation is
 * begun, UNDER_WAY if it has not ended when that is done, NONE when it has ended.
 */
#include "target/calls.h"

#include <string.h>

static void steps_run(struct target_request *req);

static void step_done(struct store_io *io, uint16_t status)
{
	struct target_request *req = container_of(io, struct target_request, io);
	bool later = req->stepping == STEP_UNDER_WAY;

	if (status && !req->status)
		req->status = status;
	latch_drop(req->qp->reactor, &req->latch);
	req->step_done += io->length;
	req->stepping = STEP_NONE;
	if (later)
		steps_run(req);
}

static void step_latched(struct latch *latch)
{
	struct target_request *req = container_of(latch, struct target_request, latch);

	if (req->qp->dead)
		step_done(&req->io, NVME_ABORTED_SQ_DELETED);
	else
		store_submit(req->qp->reactor->ring, req->ns->store, &req->io);
}

static void step_submit(struct target_request *req, enum store_op op, uint32_t flags,
			uint64_t offset, uint64_t length, void *buffer)
{
	struct target_namespace *ns = req->ns;

	req->io = (struct store_io){
		.op = op,
		.flags = flags | (req->fua ? STORE_IO_FUA : 0),
		.offset = offset,
		.length = length,
		.buffer = buffer,
		.done = step_done,
		.store = ns->store,
	};
	if (op == STORE_FLUSH || !ns->latched ||
	    latch_take(req->qp->reactor, &req->latch, ns, offset, length, true, step_latched))
		store_submit(req->qp->reactor->ring, ns->store, &req->io);
}

/* Set up the next piece of this step's range; false: there is none left. */
static bool step_piece(struct target_request *req, enum store_op op, uint32_t flags, uint64_t offset,
		       uint64_t length)
{
	uint64_t left = length - req->step_done;

	if (!left)
		return false;
	step_submit(req, op, flags, offset + req->step_done, left < LATCH_PIECE ? left : LATCH_PIECE,
		    NULL);
	return true;
}

/* Flush of all namespaces: find the next one that exists. */
static bool flush_next(struct target_request *req, uint32_t last)
{
	if (req->ns)
		namespace_put(req);
	while (req->step < last) {
		uint16_t status = namespace_use(req, ++req->step, GATE_FLUSH);

		if (!status)
			return true;
		if (status != (NVME_INVALID_NAMESPACE | NVME_DNR)) {
			req->status = status;
			return false;
		}
		if (req->ns)
			namespace_put(req);
	}
	return false;
}

static bool step_flush(struct target_request *req)
{
	if (req->steps) {
		if (!flush_next(req, req->steps))
			return false;
	} else if (req->step++) {
		return false;
	}
	stat_add(&namespace_local(req)->flushes, 1);
	step_submit(req, STORE_FLUSH, 0, 0, 0, NULL);
	return true;
}

static bool step_write_zeroes(struct target_request *req)
{
	req->step = 1;
	return step_piece(req, STORE_WRITE_ZEROES, req->steps, req->offset, req->length);
}

static struct nvme_dsm_range dsm_range(const struct target_request *req, uint32_t index)
{
	const uint8_t *ranges = req->chunk ? req->chunk->buffer : req->capsule;
	struct nvme_dsm_range range;

	ranges = req->data ? req->data : ranges;

	memcpy(&range, ranges + sizeof(range) * index, sizeof(range));
	return range;
}

/* req->step ranges were begun; step_done bytes of the last of them are done. */
static bool step_dsm(struct target_request *req)
{
	uint8_t shift = req->ns->block_shift;

	for (;;) {
		if (req->step) {
			struct nvme_dsm_range range = dsm_range(req, req->step - 1);

			if (step_piece(req, STORE_DEALLOCATE, 0, range.slba << shift,
				       (uint64_t)range.blocks << shift))
				return true;
		}
		if (req->step == req->steps)
			return false;
		req->step++;
		req->step_done = 0;
	}
}

static bool step_write(struct target_request *req)
{
	if (req->step++)
		return false;
	step_submit(req, STORE_WRITE, 0, req->offset, req->length, req->capsule);
	return true;
}

/* Begin the next operation; false: there is none left. */
static bool step_next(struct target_request *req)
{
	switch (req->opcode) {
	case NVME_OPC_FLUSH:
		return step_flush(req);
	case NVME_OPC_WRITE_ZEROES:
		return step_write_zeroes(req);
	case NVME_OPC_DSM:
		return step_dsm(req);
	default:
		return step_write(req);
	}
}

void steps_end(struct target_request *req)
{
	if (req->chunk) {
		chunk_release(req->chunk);
		req->chunk = NULL;
	}
	if (req->qp->dead)
		request_free(req);
	else
		request_respond(req, req->status);
}

static void steps_run(struct target_request *req)
{
	for (;;) {
		req->stepping = STEP_STARTING;
		if (req->qp->dead || req->status || !step_next(req)) {
			req->stepping = STEP_NONE;
			steps_end(req);
			return;
		}
		if (req->stepping == STEP_STARTING) {	/* it has not ended yet: step_done() continues */
			req->stepping = STEP_UNDER_WAY;
			return;
		}
	}
}

void steps_start(struct target_request *req, uint32_t steps)
{
	req->state = REQUEST_STEPPING;
	req->step = 0;
	req->step_done = 0;
	req->steps = steps;
	steps_run(req);
}
