/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy (NVM 1.0, 3.2.2): source ranges of a namespace are copied to its blocks from SDLBA on, one range after the other.
 *
 * The source ranges are fetched and checked first, all of them before anything is written.  Then the command is a transfer
 * (transfer.c) whose chunks are read from the store and written to it.  A chunk is of one source range, and has a latch on
 * what it reads, and then on what it writes, never both.  Several are under way at once, so source and destination must not
 * overlap: in this format the result would be undefined (NVM 1.1, 3.3.2), and the host is told.  Reactor's thread.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>

enum {
	CDW12_NR = 0xff,
	CDW12_FORMAT = 0xf00,
	CDW12_FUA = 1 << 30,
};

static struct nvme_copy_range copy_range(const void *ranges, uint32_t index)
{
	struct nvme_copy_range range;

	memcpy(&range, (const uint8_t *)ranges + sizeof(range) * index, sizeof(range));
	return range;
}

/* The source range of a byte of the destination; *before: bytes of the ranges before it. */
static uint32_t copy_range_of(const struct target_request *req, uint32_t offset, uint64_t *before)
{
	uint8_t shift = req->ns->block_shift;
	uint64_t end = 0;

	for (uint32_t i = 0;; i++) {
		*before = end;
		end += ((uint64_t)copy_range(req->data, i).nlb + 1) << shift;
		if (offset < end)
			return i;
	}
}

uint64_t copy_source(const struct target_request *req, uint32_t offset, uint32_t *rest)
{
	uint64_t before;
	struct nvme_copy_range range = copy_range(req->data, copy_range_of(req, offset, &before));
	uint8_t shift = req->ns->block_shift;

	if (rest)
		*rest = (uint32_t)(before + (((uint64_t)range.nlb + 1) << shift) - offset);
	return (range.slba << shift) + offset - before;
}

void copy_failed(const struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	uint64_t before;
	uint32_t range = copy_range_of(req, chunk->offset, &before);

	if (range >= req->copy_failed)
		return;
	req->copy_failed = range;
	req->copy_at = chunk->io.offset;
	req->copy_length = chunk->length;
}

/* Dword 0 of a failure is the lowest range that was not copied, or 0 if nothing was written. */
void copy_end(struct target_request *req)
{
	if (req->status && req->copy_wrote)
		req->cqe.dw0 = req->copy_failed;
	if (req->status && req->copy_failed != UINT32_MAX) {	/* for the report: the source or the destination */
		req->offset = req->copy_at;
		req->length = req->copy_length;
	}
	request_free_data(req);
	request_respond(req, req->status);
}

/* Returns an NVMe status; *blocks: of all ranges. */
static uint16_t copy_check_length(const struct target_request *req, const void *ranges, uint32_t count,
				  uint64_t *blocks)
{
	*blocks = 0;
	for (uint32_t i = 0; i < count; i++)
		*blocks += (uint64_t)copy_range(ranges, i).nlb + 1;
	/* One range may be as long as all of them: MSSRL is MCL. */
	return *blocks << req->ns->block_shift > TARGET_COPY_BYTES ? NVME_COMMAND_SIZE_LIMIT_EXCEEDED | NVME_DNR
								    : NVME_SUCCESS;
}

static uint16_t copy_check_range(const struct target_request *req, const struct nvme_copy_range *range,
				 uint64_t all)
{
	uint8_t shift = req->ns->block_shift;
	uint64_t blocks = (uint64_t)range->nlb + 1;

	if (!namespace_has(req->ns, range->slba, blocks))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	if (range->slba < req->slba + all && req->slba < range->slba + blocks)
		return NVME_OVERLAPPING_IO_RANGE | NVME_DNR;
	if (invalid_overlaps(req->ns, range->slba << shift, blocks << shift))
		return NVME_UNRECOVERED_READ_ERROR | NVME_DNR;
	return NVME_SUCCESS;
}

static uint16_t copy_check(const struct target_request *req, const void *ranges, uint32_t count, uint64_t *blocks)
{
	uint16_t status = copy_check_length(req, ranges, count, blocks);

	if (!status && !namespace_has(req->ns, req->slba, *blocks))
		status = NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	for (uint32_t i = 0; i < count && !status; i++) {
		struct nvme_copy_range range = copy_range(ranges, i);

		status = copy_check_range(req, &range, *blocks);
	}
	return status;
}

/* The marks of the destination are removed as those of a Write of these blocks are. */
static void copy_prepare_marks(struct target_request *req, uint64_t blocks)
{
	if (!invalid_overlaps(req->ns, req->offset, blocks << req->ns->block_shift))
		return;
	req->validates = true;
	req->fua = true;	/* see io.c */
	req->sqe.opc = NVME_OPC_WRITE;
	req->sqe.cdw12 = (uint32_t)blocks - 1;
}

/* Keep the source ranges without the buffer or the receive in which they arrived; an NVMe status. */
static uint16_t copy_keep(struct target_request *req, const void *ranges, uint32_t count)
{
	size_t length = sizeof(struct nvme_copy_range) * count;

	if (!req->data) {
		req->data = malloc(length);
		if (!req->data)
			return NVME_INTERNAL_ERROR;
		memcpy(req->data, ranges, length);
	}
	if (req->chunk) {
		chunk_release(req->chunk);
		req->chunk = NULL;
	}
	if (req->recv) {
		recv_give_back(req->qp, req->recv);
		req->recv = NULL;
		req->capsule = NULL;
	}
	return NVME_SUCCESS;
}

void copy_ranges_arrived(struct target_request *req, const void *ranges)
{
	uint32_t count = req->length / (uint32_t)sizeof(struct nvme_copy_range);
	uint64_t blocks = 0;
	uint16_t status = copy_check(req, ranges, count, &blocks);

	if (!status)
		status = copy_keep(req, ranges, count);
	limits_give_back(req, status ? TARGET_COPY_BYTES : TARGET_COPY_BYTES - (blocks << req->ns->block_shift));
	if (status) {
		req->status = status;
		steps_end(req);
		return;
	}
	req->offset = req->slba << req->ns->block_shift;
	req->copy_failed = UINT32_MAX;
	req->copy_wrote = false;
	copy_prepare_marks(req, blocks);
	transfer_start(req, TRANSFER_COPY, (uint32_t)(blocks << req->ns->block_shift));
}

void copy_unfetched(struct target_request *req)
{
	limits_give_back(req, TARGET_COPY_BYTES);
}

void copy_command(struct target_request *req, const struct nvme_sqe *sqe)
{
	uint32_t count = (sqe->cdw12 & CDW12_NR) + 1;
	uint32_t length = count * (uint32_t)sizeof(struct nvme_copy_range);
	uint16_t status = namespace_use(req, sqe->nsid, GATE_WRITE);

	if (!status && sqe->cdw12 & CDW12_FORMAT)
		status = NVME_INVALID_FIELD | NVME_DNR;
	else if (!status && count > TARGET_COPY_RANGES)
		status = NVME_COMMAND_SIZE_LIMIT_EXCEEDED | NVME_DNR;
	else if (!status && req->sgl_length < length)
		status = NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR;
	else if (!status && req->ns->store->read_only)
		status = NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR;
	if (status) {
		if (req->admitted && req->ns)	/* it has waited for the limits, and is not what it was */
			limits_give_back(req, TARGET_COPY_BYTES);
		request_respond(req, status);
		return;
	}
	req->fua = sqe->cdw12 & CDW12_FUA;
	/* It costs a limit the most that it may copy until its ranges are known. */
	req->length = TARGET_COPY_BYTES;
	if (limited(req, sqe))
		return;
	req->sqe = *sqe;
	req->step = 0;	/* nothing was begun: it can be aborted */
	if (req->capsule) {
		req->length = length;
		copy_ranges_arrived(req, req->capsule);
	} else {
		transfer_start(req, TRANSFER_RANGES, length);
	}
}
