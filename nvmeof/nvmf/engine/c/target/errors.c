/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last commands of each queue pair that the engine ended with an error, for the error log.
 *
 * The reactor writes, and the control thread reads without delaying it: an entry whose number differs before and after
 * it was copied has been overwritten, and is left out.  The control thread records the commands that it completes.
 */
#include "target/calls.h"

#include <string.h>

enum { NOWHERE = 0xffff };	/* the error concerns no byte of the command */

/* Location in the command of the parameter that the status concerns (Base 2.0, figure 206). */
static uint16_t location_of(const struct target_request *req, uint16_t status)
{
	switch (status & 0x7ff) {
	case NVME_COMMAND_ID_CONFLICT:
		return offsetof(struct nvme_sqe, cid);
	case NVME_INVALID_NAMESPACE:
		return offsetof(struct nvme_sqe, nsid);
	case NVME_LBA_OUT_OF_RANGE:
		return req->opcode == NVME_OPC_DSM || req->opcode == NVME_OPC_COPY ? NOWHERE : offsetof(struct nvme_sqe, cdw10);
	case NVME_INVALID_SGL_SEGMENT:
	case NVME_INVALID_SGL_COUNT:
	case NVME_SGL_DATA_LENGTH_INVALID:
	case NVME_SGL_OFFSET_INVALID:
		return offsetof(struct nvme_sqe, sgl);
	case NVME_SGL_TYPE_INVALID:
		return offsetof(struct nvme_sqe, sgl) + offsetof(struct nvme_sgl, keyed.type);
	default:
		return NOWHERE;
	}
}

/* Not of Copy: its SDLBA is not the block that could not be read. */
static bool has_lba(const struct target_request *req)
{
	if (!atomic_load_explicit(&req->qp->table, memory_order_relaxed))
		return false;
	switch (req->opcode) {
	case NVME_OPC_WRITE:
	case NVME_OPC_READ:
	case NVME_OPC_COMPARE:
	case NVME_OPC_WRITE_ZEROES:
	case NVME_OPC_VERIFY:
		return true;
	default:
		return false;
	}
}

/* A miscompare, and the write that it prevents, are not errors: hosts use them for locks (ATS). */
static bool is_error(uint16_t status)
{
	status &= 0x7ff;
	return status && status != NVME_COMPARE_FAILURE && status != NVME_ABORTED_FAILED_FUSED;
}

bool error_record(struct target_request *req, uint16_t status)
{
	struct target_qpair *qp = req->qp;
	uint64_t number = qp->refused + 1, words[ERROR_WORDS];
	struct error_slot *slot = &qp->refusals[number % TARGET_ERRORS];
	struct target_error error = {
		.number = number,
		.when = reactor_now(qp->reactor),
		.lba = has_lba(req) ? req->slba : 0,
		.nsid = req->opcode == NVME_OPC_FABRICS ? 0 : req->nsid,
		.cid = req->cqe.cid,
		.status = status,
		.location = location_of(req, status),
		.opcode = req->opcode,
	};

	if (!is_error(status) || !atomic_load_explicit(&qp->connected, memory_order_relaxed))
		return false;
	memcpy(words, &error, sizeof(words));
	__atomic_store_n(&slot->word[0], 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (unsigned i = 1; i < ERROR_WORDS; i++)
		__atomic_store_n(&slot->word[i], words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[0], number, __ATOMIC_RELEASE);
	__atomic_store_n(&qp->refused, number, __ATOMIC_RELEASE);
	return true;
}

static bool error_read(const struct error_slot *slot, uint64_t number, struct target_error *error)
{
	uint64_t words[ERROR_WORDS] = { number };

	if (__atomic_load_n(&slot->word[0], __ATOMIC_ACQUIRE) != number)
		return false;
	for (unsigned i = 1; i < ERROR_WORDS; i++)
		words[i] = __atomic_load_n(&slot->word[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&slot->word[0], __ATOMIC_RELAXED) != number)
		return false;
	memcpy(error, words, sizeof(words));
	return true;
}

unsigned target_qpair_errors(const struct target_qpair *qp, uint64_t after, uint64_t *last,
			     struct target_error errors[TARGET_ERRORS])
{
	uint64_t end = __atomic_load_n(&qp->refused, __ATOMIC_ACQUIRE), number = after;
	unsigned count = 0;

	if (end > TARGET_ERRORS && number < end - TARGET_ERRORS)
		number = end - TARGET_ERRORS;
	while (number++ < end)
		count += error_read(&qp->refusals[number % TARGET_ERRORS], number, &errors[count]);
	*last = end;
	return count;
}
