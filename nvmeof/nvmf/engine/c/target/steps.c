/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps: commands that are one store operation after the other (Flush, Write Zeroes, Dataset
 * Management, a write from its capsule), without recursion where one is done at once.  Runs on the
 * reactor's thread.
 */
#include "target/calls.h"

#include <string.h>

static void steps_run(struct target_request *req);

static void step_done(struct store_io *io, uint16_t status)
{
	struct target_request *req = container_of(io, struct target_request, io);

	if (status && !req->status)
		req->status = status;
	if (io->op != STORE_FLUSH)
		fused_store_written(req, io);
	req->submitted = false;
	if (!req->submitting)
		steps_run(req);
}

static void step_submit(struct target_request *req, enum store_op op, uint32_t flags,
			uint64_t offset, uint64_t length, void *buffer)
{
	req->io = (struct store_io){
		.op = op,
		.flags = flags | (req->fua ? STORE_IO_FUA : 0),
		.offset = offset,
		.length = length,
		.buffer = buffer,
		.done = step_done,
		.store = req->ns->store,
	};
	req->submitted = true;
	if (op == STORE_FLUSH)
		store_submit(req->qp->reactor->ring, req->ns->store, &req->io);
	else
		fused_store_write(req, &req->io);
}

/* Flush of all namespaces: the next one that is there. */
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
	if (req->step++)
		return false;
	step_submit(req, STORE_WRITE_ZEROES, req->steps, req->offset, req->length, NULL);
	return true;
}

static const void *dsm_ranges(const struct target_request *req)
{
	return req->chunk ? req->chunk->buffer : req->capsule;
}

static bool step_dsm(struct target_request *req)
{
	struct nvme_dsm_range range = { 0 };

	while (req->step < req->steps && !range.blocks)
		memcpy(&range, (const uint8_t *)dsm_ranges(req) + sizeof(range) * req->step++,
		       sizeof(range));
	if (!range.blocks)
		return false;
	step_submit(req, STORE_DEALLOCATE, 0, range.slba << req->ns->block_shift,
		    (uint64_t)range.blocks << req->ns->block_shift, NULL);
	return true;
}

static bool step_write(struct target_request *req)
{
	if (req->step++)
		return false;
	step_submit(req, STORE_WRITE, 0, req->offset, req->length, req->capsule);
	return true;
}

/* Begin the next operation; false where there is none left. */
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
		transfer_chunk_release(req->chunk);
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
		req->submitting = true;
		if (req->qp->dead || req->status || !step_next(req)) {
			req->submitting = false;
			steps_end(req);
			return;
		}
		req->submitting = false;
		if (req->submitted)
			return;		/* step_done() goes on */
	}
}

void steps_start(struct target_request *req, uint32_t steps)
{
	req->step = 0;
	req->steps = steps;
	steps_run(req);
}
