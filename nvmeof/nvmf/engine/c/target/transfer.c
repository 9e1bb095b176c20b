/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers: data that goes through buffers of the pool, chunk by chunk (chunk.c).
 *
 * Several chunks of a request are under way at once.  This file starts them, waits in line for the resources that they
 * need, and detects the end of the last one.  Runs on the reactor's thread.
 *
 * The states of a transfer (req->moving).  transfer_advance() is the only function that changes them.
 *
 *	state		event						next state
 *	QUIET		a chunk has ended				STARTING
 *	STARTING	all is started, or the window is full		QUIET
 *			there is no buffer, no RDMA READ to use one
 *			with, or others were first			IN_LINE (req->line)
 *			the last chunk has ended			ENDED
 *	IN_LINE		its turn has come, or a chunk has ended		STARTING
 *	ENDED		none: its end was reported, by a response, an
 *			upcall, or the end of the request
 */
#include "target/calls.h"

#include <stdlib.h>

bool transfer_fetches(const struct target_request *req)
{
	switch ((enum transfer)req->mode) {
	case TRANSFER_WRITE:
	case TRANSFER_COMPARE:
	case TRANSFER_RANGES:
	case TRANSFER_FETCH:
	case TRANSFER_FUSED:
		return !req->capsule;
	default:
		return false;
	}
}

/* The bytes that the next chunk may have: all remaining ones, or those of a source range. */
uint32_t transfer_rest(const struct target_request *req)
{
	uint32_t rest = req->length - req->started;

	if (req->mode == TRANSFER_COPY)
		copy_source(req, req->started, &rest);
	return rest;
}

/* The size of the buffer that would hold them. */
static uint32_t transfer_room(const struct target_request *req)
{
	uint32_t rest = transfer_rest(req);

	return req->mode == TRANSFER_COMPARE && rest <= UINT32_MAX / 2 ? 2 * rest : rest;
}

/* Allocate memory for data for the control thread; a queue pair may have only a limited amount. */
static bool fetch_memory(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	if (req->data)
		return true;
	if (qp->upcall_bytes && qp->upcall_bytes + req->length > TARGET_UPCALL_BUDGET)
		return false;
	req->data = malloc(req->length);
	if (req->data) {
		req->data_length = req->length;
		qp->upcall_bytes += req->length;
	} else {
		req->status = NVME_INTERNAL_ERROR;
	}
	return true;
}

/* Whether there is another chunk to start now. */
static bool has_more(const struct target_request *req)
{
	return req->started < req->length && !req->status && !req->qp->dead &&
	       req->outstanding < TARGET_WINDOW;
}

/* Start the next chunk; returns the line in which the request has to wait, or NULL if the chunk was started. */
static struct fifo *start_next(struct target_request *req)
{
	struct target_qpair *qp = req->qp;
	bool fetch = transfer_fetches(req);
	struct fifo *queue_line = &qp->waiting[fetch], *line = req->line ? req->line : queue_line;
	struct chunk *chunk;

	if (line->head && line->head != &req->tx.link)
		return line;	/* others are before it in line */
	if (fetch && qp->fetching >= qp->read_limit)
		return queue_line;
	line = pool_namespace_line(req, transfer_room(req));
	if (line)
		return line;
	if (req->mode == TRANSFER_FETCH && !fetch_memory(req))
		return queue_line;
	if (req->status)
		return NULL;
	chunk = pool_get(req, transfer_room(req));
	if (!chunk)
		return queue_line;
	chunk_start(req, chunk, fetch);
	return NULL;
}

static bool transfer_is_over(const struct target_request *req)
{
	if (req->qp->dead || req->status)
		return !req->outstanding;
	return req->moved == req->length;
}

static void transfer_flushed(struct store_io *io, uint16_t status)
{
	struct target_request *req = container_of(io, struct target_request, io);

	if (status && req->chunk) {
		chunk_release(req->chunk);
		req->chunk = NULL;
	}
	request_respond(req, status);
}

/*
 * Force Unit Access: the returned data is on non-volatile media (NVM 1.0, 3.2.4).  All of it was written before it was
 * read, so that a flush afterwards is enough; and no latch is held that writes with all the buffers may wait for.
 */
static void transfer_flush(struct target_request *req)
{
	req->state = REQUEST_STEPPING;
	req->stepping = STEP_NONE;	/* it cannot be aborted */
	req->io = (struct store_io){
		.op = STORE_FLUSH,
		.done = transfer_flushed,
		.store = req->ns->store,
	};
	store_submit(req->qp->reactor->ring, req->ns->store, &req->io);
}

static void transfer_end(struct target_request *req)
{
	if (req->mode == TRANSFER_RANGES && req->opcode == NVME_OPC_COPY)
		copy_unfetched(req);
	if (req->qp->dead)
		request_free(req);
	else if (req->mode == TRANSFER_READ && !req->status && !io_read_is_stable(req))
		transfer_flush(req);
	else if (req->mode == TRANSFER_VERIFY && !req->status)
		io_verified(req);
	else if (req->mode == TRANSFER_FETCH && !req->status)
		upcall_deliver(req);
	else if (req->mode == TRANSFER_PUSH && !req->status)
		request_respond(req, req->answer.status);
	else if (req->mode == TRANSFER_COPY)
		copy_end(req);
	else
		request_respond(req, req->status);
}

void transfer_advance(struct target_request *req)
{
	struct fifo *line = NULL;

	if (req->moving == TRANSFER_STARTING || req->moving == TRANSFER_ENDED)
		return;
	req->moving = TRANSFER_STARTING;
	while (!line && has_more(req))
		line = start_next(req);
	/* If it need not wait, it leaves its present line when its turn has come. */
	if (line != req->line && (line || req->line->head == &req->tx.link)) {
		transfer_line_leave(req);
		if (line)
			transfer_line_enter(req, line);
	}
	req->moving = req->line ? TRANSFER_IN_LINE : TRANSFER_QUIET;
	if (req->line || !transfer_is_over(req))
		return;
	req->moving = TRANSFER_ENDED;
	transfer_end(req);
}

void transfer_start(struct target_request *req, enum transfer mode, uint32_t length)
{
	req->state = REQUEST_MOVING;
	req->moving = TRANSFER_QUIET;
	req->line = NULL;
	req->mode = (uint8_t)mode;
	req->length = length;
	req->started = req->moved = 0;
	transfer_advance(req);
}
