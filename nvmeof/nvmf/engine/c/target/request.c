/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: a command from its capsule to its response.
 *
 * Owns the requests of a queue pair (never used, free, or in use) and what a request in use holds: namespace,
 * receive, buffers.  Runs on the reactor's thread.
 */
#include "target/calls.h"

#include <stdlib.h>

struct target_request *request_alloc(struct target_qpair *qp)
{
	struct fifo_link *link = stack_pop(&qp->free_requests);
	struct target_request *req;

	if (link) {
		req = container_of(link, struct target_request, tx.link);
	} else if (qp->request_fresh < qp->request_count) {
		req = &qp->requests[qp->request_fresh];
		req->qp = qp;
		req->index = qp->request_fresh++;
	} else {
		return NULL;
	}
	__atomic_store_n(&qp->active, qp->active + 1, __ATOMIC_RELAXED);
	req->state = REQUEST_BEGUN;
	req->status = 0;
	req->mode = TRANSFER_NONE;
	req->source = NULL;
	req->latch.state = LATCH_NONE;
	req->capsule = NULL;
	req->invalidate = false;
	req->fua = false;
	req->validates = false;
	req->torn = false;
	req->sgl_count = 0;
	req->sgl_length = 0;
	req->length = 0;
	req->cqe = (struct nvme_cqe){ 0 };
	return req;
}

static void release_receive(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	if (!req->recv)
		return;
	recv_give_back(qp, req->recv);
	req->recv = NULL;
}

/* Free data that was fetched for the control thread, or that is its answer. */
void request_free_data(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	if (!req->data)
		return;
	free(req->data);
	req->data = NULL;
	if (req->mode == TRANSFER_FETCH) {
		qp->upcall_bytes -= req->data_length;
		reactor_mark(qp);
	}
}

void request_free(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	latch_drop(qp->reactor, &req->latch);
	if (req->outstanding) {
		req->state = REQUEST_GONE;
		return;
	}
	req->state = REQUEST_FREE;
	release_receive(req);
	if (req->ns)
		namespace_put(req);
	if (req->fused)
		fused_gone(req);
	if (req->fenced)
		fence_leave(req);
	request_free_data(req);
	if (req->answer_share)
		upcall_answer_taken(req);
	if (req->cid_taken) {
		qp->cids[req->cqe.cid >> 6] &= ~(1ull << (req->cqe.cid & 63));
		req->cid_taken = false;
	}
	__atomic_store_n(&qp->active, qp->active - 1, __ATOMIC_RELAXED);
	stack_push(&qp->free_requests, &req->tx.link);
	if (qp->dead || qp->pending.head)
		reactor_mark(qp);
}

/* A block marked as invalid is not a media error: its status says that a retry will not help. */
static bool of_the_media(uint16_t status)
{
	if (status == (NVME_UNRECOVERED_READ_ERROR | NVME_DNR))
		return false;
	status &= 0x7ff;
	return status == NVME_UNRECOVERED_READ_ERROR || status == NVME_WRITE_FAULT;
}

/* Whether the command was valid, but the namespace's store could not execute it. */
static bool of_the_store(const struct target_request *req, uint16_t status)
{
	if (of_the_media(status))
		return true;
	status &= 0x7ff;
	if (status == NVME_CAPACITY_EXCEEDED)
		return true;
	/* these statuses have other causes, too */
	return (status == NVME_INTERNAL_ERROR || status == NVME_NAMESPACE_WRITE_PROTECTED) &&
	       __atomic_load_n(&req->ns->store->last_error, __ATOMIC_RELAXED);
}

static void account_other(const struct target_request *req, struct ns_local *local)
{
	switch (req->opcode) {
	case NVME_OPC_COMPARE:
		stat_add(&local->compares, 1);
		stat_add(&local->checked_bytes, req->length);
		break;
	case NVME_OPC_VERIFY:
		stat_add(&local->verifies, 1);
		stat_add(&local->checked_bytes, req->length);
		break;
	case NVME_OPC_WRITE_ZEROES:
		stat_add(&local->zeroes, 1);
		break;
	case NVME_OPC_DSM:
		stat_add(&local->deallocates, 1);
		break;
	case NVME_OPC_COPY:
		stat_add(&local->copies, 1);
		stat_add(&local->copied_bytes, req->length);
		break;
	default:	/* Flush: see steps.c */
		break;
	}
}

static void account(struct target_request *req, uint16_t status)
{
	struct target_qpair *qp = req->qp;
	struct ns_local *local = req->ns ? namespace_local(req) : NULL;

	stat_add(&qp->commands, 1);
	if (status) {
		stat_add(&qp->errors, 1);
		if (local)
			stat_add(&local->errors, 1);
		if (local && of_the_media(status))
			stat_add(&local->media_errors, 1);
		if (local && of_the_store(req, status))
			namespace_failed(req, status);
	} else if (!local) {
		return;
	} else if (req->opcode == NVME_OPC_READ) {
		stat_add(&qp->read_bytes, req->length);
		stat_add(&local->reads, 1);
		stat_add(&local->read_bytes, req->length);
	} else if (req->opcode == NVME_OPC_WRITE) {
		stat_add(&qp->write_bytes, req->length);
		stat_add(&local->writes, 1);
		stat_add(&local->write_bytes, req->length);
	} else {
		account_other(req, local);
	}
}

static void latency_add(uint64_t *buckets, uint64_t *sum, uint64_t ns)
{
	uint64_t us = ns / 1000;
	unsigned i = us ? 64u - (unsigned)__builtin_clzll(us) : 0;

	stat_add(&buckets[i < TARGET_LATENCY_BUCKETS ? i : TARGET_LATENCY_BUCKETS - 1], 1);
	stat_add(sum, ns);
}

/* The response is about to be posted. */
void request_took(struct target_request *req)
{
	struct target_latency *latency;
	uint64_t ns;

	if (!req->ns)
		return;
	namespace_served(req);
	if (req->cqe.status)
		return;
	latency = &namespace_local(req)->latency;
	ns = reactor_now(req->qp->reactor) - req->began;
	if (req->opcode == NVME_OPC_READ)
		latency_add(latency->read, &latency->read_ns, ns);
	else if (req->opcode == NVME_OPC_WRITE)
		latency_add(latency->write, &latency->write_ns, ns);
}

/* Put the response in line, after data of the request that is already there. */
void request_respond(struct target_request *req, uint16_t status)
{
	struct target_qpair *qp = req->qp;

	if (__builtin_expect(req->torn, 0))
		status = inject_torn(req, status);
	if (req->validates && !status && !qp->dead) {
		req->validates = false;
		upcall_deliver(req);
		return;
	}
	account(req, status);
	req->state = REQUEST_RESPONDING;
	if (req->fenced)
		fence_leave(req);
	if (qp->dead) {
		request_response_done(req);
		return;
	}
	if (status && req->mode != TRANSFER_PUSH && error_record(req, status))
		status |= NVME_MORE;
	req->cqe.status = (uint16_t)(status << 1);
	if (status) {
		req->source = NULL;
		req->invalidate = false;
	}
	release_receive(req);
	if (req->chunk)
		req->chunk->with_host = reactor_now(qp->reactor);
	fifo_push(&qp->tx, &req->tx.link);
	reactor_mark(qp);
}

void request_response_done(struct target_request *req)
{
	if (req->chunk) {
		chunk_release(req->chunk);
		req->chunk = NULL;
	}
	request_free(req);
}
