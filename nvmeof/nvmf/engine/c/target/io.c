/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O commands that run in the engine: the checks of each, and how it is executed.
 *
 * Reads of memory stores are sent directly from the namespace, and in-capsule data of writes is stored directly from
 * the capsule; all other commands with data are transfers.  Commands that are a sequence of store operations (Flush,
 * Write Zeroes, Dataset Management) are steps.  Protection information fields are ignored: no namespace is formatted
 * with protection information, so the NVM Command Set gives them no meaning.  Reactor's thread.
 */
#include "target/calls.h"
#include "util/fetch.h"

#include <string.h>

enum {
	CDW12_NLB = 0xffff,
	CDW12_DEAC = 1 << 25,
	CDW12_FUA = 1 << 30,
	DSM_NR = 0xff,
	DSM_DEALLOCATE = 1 << 2,
	VERIFY_PIECE = 1 << 20,	/* as long as a transfer usually is at most */
};

static uint64_t nlb(const struct nvme_sqe *sqe)
{
	return (uint64_t)(sqe->cdw12 & CDW12_NLB) + 1;
}

/* Check the range of a command, and whether it may write; returns an NVMe status. */
static uint16_t check_range(struct target_request *req, const struct nvme_sqe *sqe,
			    enum gate_group group)
{
	uint16_t status = namespace_use(req, sqe->nsid, group);
	struct target_namespace *ns = req->ns;

	if (status)
		return status;
	if (!namespace_has(ns, req->slba, nlb(sqe)))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	if (group == GATE_WRITE && ns->store->read_only)
		return NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR;
	req->offset = req->slba << ns->block_shift;
	req->length = (uint32_t)(nlb(sqe) << ns->block_shift);	/* 64 Ki blocks of 4 KiB at most */
	req->fua = sqe->cdw12 & CDW12_FUA;
	if (!invalid_overlaps(ns, req->offset, req->length))
		return NVME_SUCCESS;
	if (group == GATE_READ)
		return NVME_UNRECOVERED_READ_ERROR | NVME_DNR;
	req->validates = true;
	req->fua = true;	/* a power failure must not leave older data and no mark, whose removal is stored */
	req->sqe = *sqe;
	return NVME_SUCCESS;
}

/* The same for a command whose SGL must have the length of the range. */
static uint16_t check_transfer(struct target_request *req, const struct nvme_sqe *sqe,
			       enum gate_group group)
{
	uint16_t status = check_range(req, sqe, group);

	if (status)
		return status;
	if (req->length > req->qp->max_transfer)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (req->length != req->sgl_length)
		return NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR;
	return NVME_SUCCESS;
}

uint16_t io_check_fused(struct target_request *req, const struct nvme_sqe *sqe, bool compare)
{
	uint16_t status = check_transfer(req, sqe, compare ? GATE_READ : GATE_WRITE);

	return status || nlb(sqe) == 1 ? status : NVME_INVALID_FIELD | NVME_DNR;	/* ACWU is 0 */
}

static uint16_t check_no_data(const struct target_request *req)
{
	return req->sgl_length ? NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR : NVME_SUCCESS;
}

/* ---- the commands ---- */

/* The namespace's memory, registered with the queue pair's device; NULL: use buffers. */
static const struct ns_window *read_window(const struct target_request *req)
{
	const struct ns_window *window = atomic_load_explicit(&req->ns->window[req->qp->device],
							      memory_order_acquire);

	if (!window || (req->offset & window->mask) + req->length > window->span ||
	    !store_memory_ready(req->ns->store, req->offset, req->length))
		return NULL;
	return window;
}

/* The whole range is latched until the response was sent, or needs no latch. */
static void read_in_place(struct target_request *req, const struct ns_window *window)
{
	uint16_t status = store_memory_check(req->ns->store, req->offset, req->length);

	req->source = window->base + (req->offset & window->mask);
	req->source_lkey = window->lkey;
	fetch_to_send(req->source, req->length, FETCH_SECOND);	/* sent after all commands of this iteration have begun */
	request_respond(req, status);
}

/* The request holds the latch for which it waited. */
static void read_latched(struct latch *latch)
{
	struct target_request *req = container_of(latch, struct target_request, latch);
	const struct ns_window *window = read_window(req);

	if (req->qp->dead) {
		request_free(req);
	} else if (window) {
		read_in_place(req, window);
	} else {	/* the window was closed meanwhile */
		latch_drop(req->qp->reactor, latch);
		transfer_start(req, TRANSFER_READ, req->length);
	}
}

static void io_read(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_transfer(req, sqe, GATE_READ);
	const struct ns_window *window;

	if (status) {
		request_respond(req, status);
		return;
	}
	if (limited(req, sqe))
		return;
	window = io_read_is_stable(req) ? read_window(req) : NULL;
	if (!window)
		transfer_start(req, TRANSFER_READ, req->length);
	else if (!req->ns->latched ||
		 latch_take(req->qp->reactor, &req->latch, req->ns, req->offset, req->length, false,
			    read_latched))
		read_in_place(req, window);
	else
		req->state = REQUEST_LATCHING;
}

/* Copy in-capsule data to memory. */
static void write_capsule(struct latch *latch)
{
	struct target_request *req = container_of(latch, struct target_request, latch);
	uint16_t status = 0;

	if (!req->qp->dead)
		status = namespace_copy(req, req->offset, req->capsule, req->length);
	latch_drop(req->qp->reactor, latch);
	request_respond(req, status);
}

static void io_write(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_transfer(req, sqe, GATE_WRITE);
	struct store *store;

	if (status) {
		request_respond(req, status);
		return;
	}
	if (limited(req, sqe))
		return;
	if (__builtin_expect(req->torn, 0))
		req->length = req->torn_blocks << req->ns->block_shift;
	store = req->ns->store;
	if (req->capsule && namespace_copies(req)) {
		if (latch_take(req->qp->reactor, &req->latch, req->ns, req->offset, req->length,
			       true, write_capsule))
			write_capsule(&req->latch);
		else
			req->state = REQUEST_LATCHING;
	} else if (req->capsule && !((uintptr_t)req->capsule & (store->alignment - 1))) {
		steps_start(req, 0);
	} else {
		transfer_start(req, TRANSFER_WRITE, req->length);
	}
}

static void io_compare(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_transfer(req, sqe, GATE_READ);

	if (status)
		request_respond(req, status);
	else if (!limited(req, sqe))
		transfer_start(req, TRANSFER_COMPARE, req->length);
}

/*
 * Set the part of the range that is read next.  A Verify may be a thousand times as long as a Read.  If its namespace
 * has limits, it is done in pieces that wait for them, so that other commands have their turns between these.
 */
static void verify_piece(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint32_t before = req->verified << req->ns->block_shift, rest = req->length - before;
	bool whole = rest <= VERIFY_PIECE || req->fenced ||
		     !atomic_load_explicit(&req->ns->limited, memory_order_acquire);

	req->offset += before;
	req->length = whole ? rest : VERIFY_PIECE;
	req->unverified = rest - req->length;
	if (req->unverified)
		req->sqe = *sqe;
}

static void io_verify(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_no_data(req);

	if (!status)
		status = check_range(req, sqe, GATE_READ);
	if (!status && store_verify_reads(req->ns->store))
		verify_piece(req, sqe);
	if (!status && limited(req, sqe))
		return;
	if (status || !store_verify_reads(req->ns->store))
		request_respond(req, status);
	else
		transfer_start(req, TRANSFER_VERIFY, req->length);
}

void io_verified(struct target_request *req)
{
	req->verified += req->length >> req->ns->block_shift;
	if (!req->unverified) {
		req->length = req->verified << req->ns->block_shift;
		request_respond(req, NVME_SUCCESS);
		return;
	}
	namespace_put(req);	/* its size and gates may have changed, or it is a different one, with other blocks */
	req->state = REQUEST_BEGUN;
	req->admitted = false;	/* that was the piece before, which may have been read at once */
	io_verify(req, &req->sqe);
}

static void io_flush(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_no_data(req);
	struct target_nstable *table = atomic_load_explicit(&req->qp->table, memory_order_acquire);

	if (!status && sqe->nsid != 0xffffffff)
		status = namespace_use(req, sqe->nsid, GATE_FLUSH);
	if (status)
		request_respond(req, status);
	else
		steps_start(req, sqe->nsid == 0xffffffff ? table->max_nsid : 0);
}

static void io_write_zeroes(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint16_t status = check_no_data(req);

	if (!status)
		status = check_range(req, sqe, GATE_WRITE);
	if (status)
		request_respond(req, status);
	else if (!limited(req, sqe))
		steps_start(req, sqe->cdw12 & CDW12_DEAC ? STORE_IO_DEALLOCATE : 0);
}

static void dsm_ranges_arrived(struct target_request *req, const void *ranges);

static void dsm_fetch(struct target_request *req, const struct nvme_sqe *sqe, uint32_t length)
{
	/* Its ranges are needed to find out whether it concerns invalid blocks. */
	if (atomic_load_explicit(&req->ns->invalid, memory_order_acquire)) {
		req->validates = req->ns->store->deallocate;
		req->sqe = *sqe;
	}
	if (req->capsule) {
		req->length = length;
		dsm_ranges_arrived(req, req->capsule);
	} else {
		req->step = 0;	/* no range begins while the ranges are fetched */
		transfer_start(req, TRANSFER_RANGES, length);
	}
}

/* Linux always sends 256 ranges: more data than necessary is valid. */
static void io_dsm(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint32_t ranges = (sqe->cdw10 & DSM_NR) + 1;
	uint32_t length = ranges * (uint32_t)sizeof(struct nvme_dsm_range);
	bool hints = !(sqe->cdw11 & DSM_DEALLOCATE);
	uint16_t status = namespace_use(req, sqe->nsid, GATE_WRITE);

	/* Hints modify nothing, so they are valid for write protected namespaces (Base 2.0, 8.12.2). */
	if (status && !(hints && status == (NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR)))
		request_respond(req, status);
	else if (req->sgl_length < length)
		request_respond(req, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR);
	else if (hints)
		request_respond(req, NVME_SUCCESS);	/* the hints are ignored */
	else if (req->ns->store->read_only)
		request_respond(req, NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR);
	else
		dsm_fetch(req, sqe, length);
}

/* All ranges are checked before any is deallocated. */
static void dsm_ranges_arrived(struct target_request *req, const void *ranges)
{
	uint32_t count = req->length / (uint32_t)sizeof(struct nvme_dsm_range);
	uint8_t shift = req->ns->block_shift;
	bool marked = false;

	for (uint32_t i = 0; i < count; i++) {
		struct nvme_dsm_range range;

		memcpy(&range, (const uint8_t *)ranges + sizeof(range) * i, sizeof(range));
		if (!namespace_has(req->ns, range.slba, range.blocks)) {
			req->status = NVME_LBA_OUT_OF_RANGE | NVME_DNR;
			steps_end(req);
			return;
		}
		marked |= range.blocks &&
			  invalid_overlaps(req->ns, range.slba << shift,
					   (uint64_t)range.blocks << shift);
	}
	req->validates = req->validates && marked && invalid_keep_ranges(req, ranges);
	steps_start(req, count);
}

void io_ranges_arrived(struct target_request *req, const void *ranges)
{
	if (req->opcode == NVME_OPC_COPY)
		copy_ranges_arrived(req, ranges);
	else
		dsm_ranges_arrived(req, ranges);
}

void io_command(struct target_request *req, const struct nvme_sqe *sqe)
{
	switch (sqe->opc) {
	case NVME_OPC_READ:
		io_read(req, sqe);
		break;
	case NVME_OPC_WRITE:
		io_write(req, sqe);
		break;
	case NVME_OPC_FLUSH:
		io_flush(req, sqe);
		break;
	case NVME_OPC_COMPARE:
		io_compare(req, sqe);
		break;
	case NVME_OPC_WRITE_ZEROES:
		io_write_zeroes(req, sqe);
		break;
	case NVME_OPC_DSM:
		io_dsm(req, sqe);
		break;
	case NVME_OPC_VERIFY:
		if (!req->admitted)
			req->verified = 0;
		io_verify(req, sqe);
		break;
	case NVME_OPC_COPY:
		copy_command(req, sqe);
		break;
	default:
		upcall_command(req, sqe, sqe->opc & 1);
		break;
	}
}
