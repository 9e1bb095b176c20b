/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capsules: the checks of every command, before its opcode matters.
 *
 * The result is a request with a checked SGL, a response with the status of the specification, or, if the capsule is
 * too short, the end of the connection.  Reactor's thread.
 */
#include "target/calls.h"

#include "capture/capture.h"

#include <string.h>

static uint16_t sgl_keyed(struct target_request *req, const struct nvme_sgl *sgl)
{
	req->sgl_length = nvme_sgl_keyed_length(sgl);
	if (req->sgl_length) {
		req->sgl = (struct sgl_entry){ sgl->addr, req->sgl_length, nvme_sgl_key(sgl) };
		req->sgl_count = 1;
		req->invalidate = sgl->keyed.type == NVME_SGL_KEYED_INVALIDATE;
	}
	return NVME_SUCCESS;
}

/* Whether length bytes at offset are within the in-capsule data. */
static bool in_capsule(const struct recv *recv, uint64_t offset, uint32_t length)
{
	uint64_t present = recv->length - SQE_SIZE;

	return offset <= present && length <= present - offset;
}

static uint16_t sgl_capsule(struct target_request *req, const struct nvme_sgl *sgl,
			    const struct recv *recv, bool from_host)
{
	uint32_t length = sgl->plain.length;

	if (!in_capsule(recv, sgl->addr, length))
		return NVME_SGL_OFFSET_INVALID | NVME_DNR;
	if (!length)
		return NVME_SUCCESS;
	if (!from_host)
		return NVME_INVALID_FIELD | NVME_DNR;
	req->sgl_length = length;
	req->capsule = recv->data + sgl->addr;
	return NVME_SUCCESS;
}

static uint16_t sgl_list(struct target_request *req, const struct nvme_sgl *sgl,
			 const struct recv *recv)
{
	struct sgl_entry *list = req->qp->sgls + (size_t)req->index * TARGET_MAX_SGL;
	uint32_t count = sgl->plain.length / sizeof(struct nvme_sgl), used = 0;
	uint64_t total = 0;

	if (sgl->plain.length % sizeof(struct nvme_sgl) || !count)
		return NVME_INVALID_SGL_SEGMENT | NVME_DNR;
	if (count > TARGET_MAX_SGL)
		return NVME_INVALID_SGL_COUNT | NVME_DNR;
	if (!in_capsule(recv, sgl->addr, sgl->plain.length))
		return NVME_SGL_OFFSET_INVALID | NVME_DNR;
	for (uint32_t i = 0; i < count; i++) {
		struct nvme_sgl d;
		uint32_t length;

		memcpy(&d, recv->data + sgl->addr + i * sizeof(d), sizeof(d));
		if (d.keyed.type != NVME_SGL_KEYED && d.keyed.type != NVME_SGL_KEYED_INVALIDATE)
			return NVME_SGL_TYPE_INVALID | NVME_DNR;
		length = nvme_sgl_keyed_length(&d);
		if (!length)
			continue;
		if (!used)
			req->invalidate = d.keyed.type == NVME_SGL_KEYED_INVALIDATE;
		list[used++] = (struct sgl_entry){ d.addr, length, nvme_sgl_key(&d) };
		total += length;	/* 16 times 24 bits do not overflow 32 */
	}
	if (used == 1)
		req->sgl = list[0];
	req->sgl_count = (uint8_t)used;
	req->sgl_length = (uint32_t)total;
	return NVME_SUCCESS;
}

static uint16_t parse_sgl(struct target_request *req, const struct nvme_sgl *sgl,
			  const struct recv *recv, bool from_host)
{
	switch (sgl->keyed.type) {
	case NVME_SGL_KEYED:
	case NVME_SGL_KEYED_INVALIDATE:
		return sgl_keyed(req, sgl);
	case NVME_SGL_IN_CAPSULE:
		return sgl_capsule(req, sgl, recv, from_host);
	case NVME_SGL_LAST_SEGMENT_OFFSET:
		return sgl_list(req, sgl, recv);
	default:
		return NVME_SGL_TYPE_INVALID | NVME_DNR;
	}
}

/* Bits 1:0 of the opcode, or of the fabrics command type: bit 0 host to controller. */
static bool data_from_host(const struct nvme_sqe *sqe)
{
	return (sqe->opc == NVME_OPC_FABRICS ? sqe->nsid : sqe->opc) & 1;
}

static bool is_connect(const struct nvme_sqe *sqe)
{
	return sqe->opc == NVME_OPC_FABRICS && (sqe->nsid & 0xff) == NVME_FCTYPE_CONNECT;
}

static bool take_cid(struct target_request *req, uint16_t cid)
{
	uint64_t *word = &req->qp->cids[cid >> 6], bit = 1ull << (cid & 63);

	req->cqe.cid = cid;
	if (*word & bit)
		return false;
	*word |= bit;
	req->cid_taken = true;
	return true;
}

static uint16_t check(struct target_request *req, const struct nvme_sqe *sqe,
		      const struct recv *recv, bool from_host)
{
	uint16_t status;

	/*
	 * A Fabrics command may have an identifier that is in use: SPDK's Property Get at each detach has that of
	 * an Asynchronous Event Request.  Such a host can distinguish the completions.
	 */
	if (!take_cid(req, sqe->cid) && sqe->opc != NVME_OPC_FABRICS)
		return NVME_COMMAND_ID_CONFLICT | NVME_DNR;
	if ((sqe->flags & NVME_PSDT_MASK) != NVME_PSDT_SGL)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (!atomic_load_explicit(&req->qp->connected, memory_order_acquire) && !is_connect(sqe))
		return NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR;
	status = parse_sgl(req, &sqe->sgl, recv, from_host);
	if (status) {
		req->sgl_count = 0;
		req->capsule = NULL;
		req->invalidate = false;
	}
	return status;
}

static void capsule_execute(struct target_request *req, const struct nvme_sqe *sqe, bool from_host)
{
	struct target_qpair *qp = req->qp;

	if (sqe->opc == NVME_OPC_FABRICS ||
	    !atomic_load_explicit(&qp->table, memory_order_acquire))
		upcall_command(req, sqe, from_host);
	else if (atomic_load_explicit(&qp->enabled, memory_order_acquire))
		io_command(req, sqe);
	else
		request_respond(req, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR);
}

static void capsule_start(struct target_request *req, const struct nvme_sqe *sqe, bool from_host)
{
	uint32_t injected = atomic_load_explicit(&req->qp->injected, memory_order_relaxed);

	if (__builtin_expect(injected != 0, 0) && inject_command(req, sqe, injected))
		return;
	capsule_execute(req, sqe, from_host);
}

void capsule_begin(struct target_request *req)
{
	capsule_execute(req, &req->sqe, data_from_host(&req->sqe));
}

void capsule_received(struct target_qpair *qp, struct recv *recv)
{
	const struct nvme_sqe *sqe = recv->sqe;
	struct target_request *req;
	uint16_t status;
	bool from_host;

	if (recv->length < SQE_SIZE) {
		if (capture_on())
			record_capsule(qp, recv);
		stat_add(&qp->malformed, 1);
		qpair_fail(qp, "the host sent a capsule of %u bytes, shorter than a command (%u)",
			   recv->length, SQE_SIZE);
		recv_give_back(qp, recv);
		return;
	}
	req = request_alloc(qp);
	if (!req) {
		fifo_push(&qp->pending, &recv->link);
		return;
	}
	if (capture_on())
		record_capsule(qp, recv);
	req->opcode = sqe->opc;
	req->nsid = sqe->nsid;
	req->slba = sqe->cdw10 | (uint64_t)sqe->cdw11 << 32;
	req->began = reactor_now(qp->reactor);
	from_host = data_from_host(sqe);
	status = check(req, sqe, recv, from_host);
	/* Without in-capsule data, the capsule is not needed after the command has begun. */
	if (req->capsule)
		req->recv = recv;
	else
		recv_give_back(qp, recv);
	if ((sqe->flags & NVME_FUSE_MASK || qp->fused_expected) &&
	    fused_capsule(req, sqe, &status))
		return;
	if (status) {
		stat_add(&qp->malformed, 1);
		request_respond(req, status);
	} else {
		capsule_start(req, sqe, from_host);
	}
}
