/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps: commands that consist of one store operation after another (Flush, Write Zeroes, Dataset Management, a write
 * from its capsule), without recursion if an operation completes at once.  Runs on the reactor's thread.
 *
 * Writing zeroes to a range or deallocating it is done in pieces, each with a latch of its own, so that a large range
 * does not block the namespace for other commands.  Of such commands on a namespace a queue pair has as many under way as
 * one piece is long, and the others wait: a capsule of 64 bytes can ask for much work, and other hosts wait for its latches.
 *
 * The states in req->stepping are: STARTING while an operation is begun, UNDER_WAY if it has not ended when that is done,
 * NONE when it has ended, IN_LINE while the command waits for others of its queue pair.
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

/*
 * req->step ranges were begun; step_done bytes of the last of them are done.  If they include marked blocks, a flush is
 * last: a power failure must not leave older data and no mark, whose removal is stored.
 */
static bool step_dsm(struct target_request *req)
{
	uint8_t shift = req->ns->block_shift;

	while (req->step <= req->steps) {
		if (req->step) {
			struct nvme_dsm_range range = dsm_range(req, req->step - 1);

			if (step_piece(req, STORE_DEALLOCATE, 0, range.slba << shift,
				       (uint64_t)range.blocks << shift))
				return true;
		}
		req->step_done = 0;
		if (req->step++ < req->steps)
			continue;
		if (req->validates)
			step_submit(req, STORE_FLUSH, 0, 0, 0, NULL);
		return req->validates;
	}
	return false;
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

/* ---- the line of a queue pair ---- */

enum { RANGES_FULL = 8 };	/* namespaces without room that others are looked for behind */

/* The share of range_bytes that a command needs; 0: it zeroes and deallocates nothing. */
static uint32_t range_share(const struct target_request *req, uint32_t steps)
{
	uint64_t bytes = req->opcode == NVME_OPC_WRITE_ZEROES ? req->length : 0;

	for (uint32_t i = 0; req->opcode == NVME_OPC_DSM && i < steps && bytes < LATCH_PIECE; i++)
		bytes += (uint64_t)dsm_range(req, i).blocks << req->ns->block_shift;
	return bytes < LATCH_PIECE ? (uint32_t)bytes : LATCH_PIECE;
}

/* Whether a command may begin, beside those of its queue pair and namespace; a new one must not overtake them. */
static bool range_has_room(const struct target_request *req, bool is_new)
{
	const struct target_qpair *qp = req->qp;
	uint32_t bytes = 0;

	if (!req->step_share || (qp->range_bytes + req->step_share <= LATCH_PIECE && !(is_new && qp->ranges.head)))
		return true;
	for (uint32_t i = 0; i < qp->request_fresh; i++) {
		const struct target_request *other = &qp->requests[i];

		if (other == req || !other->step_share || other->ns != req->ns)
			continue;
		if (other->stepping != STEP_IN_LINE)
			bytes += other->step_share;
		else if (is_new)
			return false;
	}
	return !bytes || bytes + req->step_share <= LATCH_PIECE;
}

static void range_begin(struct target_request *req)
{
	req->qp->range_bytes += req->step_share;
	steps_run(req);
}

static void range_end(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	qp->range_bytes -= req->step_share;
	req->step_share = 0;
	if (qp->ranges.head)
		reactor_mark(qp);
}

static struct target_request *range_leave(struct target_qpair *qp, struct fifo_link *link)
{
	struct target_request *req = container_of(link, struct target_request, tx.link);

	fifo_remove(&qp->ranges, link);
	req->stepping = STEP_NONE;
	return req;
}

void steps_serve(struct target_qpair *qp)
{
	const struct target_namespace *full[RANGES_FULL];	/* without room: their commands keep their order */
	unsigned count = 0;
	struct fifo_link *link, *next;

	for (link = qp->ranges.head; link && count < RANGES_FULL; link = next) {
		struct target_request *req = container_of(link, struct target_request, tx.link);
		unsigned i = 0;

		next = link->next;
		while (i < count && full[i] != req->ns)
			i++;
		if (i < count)
			continue;
		if (range_has_room(req, false))
			range_begin(range_leave(qp, link));
		else
			full[count++] = req->ns;
	}
}

/* End a command that waits, with its status or because its connection has ended. */
void steps_cancel(struct target_request *req)
{
	range_leave(req->qp, &req->tx.link);
	req->step_share = 0;
	steps_end(req);
}

void steps_drop(struct target_qpair *qp)
{
	while (qp->ranges.head)
		steps_cancel(container_of(qp->ranges.head, struct target_request, tx.link));
}

/* ---- beginning and end ---- */

void steps_end(struct target_request *req)
{
	if (req->step_share)
		range_end(req);
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
	req->step_share = range_share(req, steps);
	if (!range_has_room(req, true)) {
		req->stepping = STEP_IN_LINE;
		fifo_push(&req->qp->ranges, &req->tx.link);
	} else {
		range_begin(req);
	}
}
