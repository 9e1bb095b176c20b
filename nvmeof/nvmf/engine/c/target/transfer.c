/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers: data that goes through buffers of the pool, chunk by chunk.
 *
 * A chunk holds one buffer and carries one slice of a request: fetched by RDMA READ, read from or
 * written to the store, sent by RDMA WRITE, as the request's mode says.  Several chunks of a request
 * are under way at once.  A request that finds no buffer, or no RDMA READ to use one with, stands
 * in its queue pair's line; transfer_kick() goes on with it.  Runs on the reactor's thread.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>

static void pump(struct target_request *req);

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

/* The second half of a comparison's buffer is for what the store has. */
static uint32_t chunk_size(const struct chunk *chunk)
{
	const struct target_request *req = chunk->req;
	uint32_t size = chunk_is_own(chunk) ? TARGET_OWN_BUFFER : req->qp->reactor->pool.buffer_size;

	return req->mode == TRANSFER_COMPARE ? size / 2 : size;
}

void transfer_chunk_release(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	struct target_qpair *qp = req->qp;

	pool_put(qp, chunk);
	if (qp->waiting[0].head || qp->waiting[1].head)
		reactor_mark(qp);
	if (--req->outstanding == 0 && req->orphan)
		request_free(req);
}

static void done(struct target_request *req)
{
	if (req->mode == TRANSFER_FETCH && !req->status)
		upcall_deliver(req);
	else if (req->mode == TRANSFER_PUSH && !req->status)
		request_respond(req, req->answer);
	else
		request_respond(req, req->status);
}

/* Whether it has come to its end. */
void transfer_check(struct target_request *req)
{
	if (req->responding || req->waiting || req->pumping)
		return;
	if (req->qp->dead) {
		if (!req->outstanding)
			request_free(req);
	} else if (req->status ? !req->outstanding : req->moved == req->length) {
		done(req);
	}
}

/* The slice of this chunk is where it should be, or never will. */
static void chunk_finish(struct chunk *chunk, uint16_t status)
{
	struct target_request *req = chunk->req;

	if (status && !req->status)
		req->status = status;
	req->moved += chunk->length;
	transfer_chunk_release(chunk);
	pump(req);
}

/* ---- between the chunk and the store ---- */

static uint8_t *host_data(const struct chunk *chunk)
{
	return chunk->req->capsule ? chunk->req->capsule + chunk->offset : chunk->buffer;
}

static void chunk_send(struct chunk *chunk)
{
	struct target_request *req = chunk->req;

	req->moved += chunk->length;
	if (chunk->length == req->length) {
		req->chunk = chunk;	/* goes with the response */
	} else {
		fifo_push(&req->qp->tx, &chunk->tx.link);
		reactor_mark(req->qp);
	}
	pump(req);
}

static void store_done(struct store_io *io, uint16_t status)
{
	struct chunk *chunk = container_of(io, struct chunk, io);
	struct target_request *req = chunk->req;

	if (io->op == STORE_WRITE)
		fused_store_written(req, io);
	if (req->qp->dead || status) {
		chunk_finish(chunk, status);
		return;
	}
	switch ((enum transfer)req->mode) {
	case TRANSFER_READ:
		chunk_send(chunk);
		break;
	case TRANSFER_COMPARE:
		if (memcmp(host_data(chunk), io->buffer, chunk->length))
			status = NVME_COMPARE_FAILURE;
		chunk_finish(chunk, status);
		break;
	default:
		chunk_finish(chunk, status);
		break;
	}
}

/* Whose chunk it is for, if it is for one. */
struct target_request *transfer_io_of(const struct store_io *io)
{
	return io->done == store_done ? container_of(io, struct chunk, io)->req : NULL;
}

static void store_begin(struct chunk *chunk, enum store_op op, uint8_t *buffer)
{
	struct target_request *req = chunk->req;

	chunk->io = (struct store_io){
		.op = op,
		.flags = op == STORE_WRITE && req->fua ? STORE_IO_FUA : 0,
		.offset = req->offset + chunk->offset,
		.length = chunk->length,
		.buffer = buffer,
		.done = store_done,
		.store = req->ns->store,
	};
	if (op == STORE_WRITE)
		fused_store_write(req, &chunk->io);
	else
		store_submit(req->qp->reactor->ring, req->ns->store, &chunk->io);
}

/* All of the slice has come from the host. */
static void chunk_arrived(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	struct store *store = req->ns ? req->ns->store : NULL;

	switch ((enum transfer)req->mode) {
	case TRANSFER_WRITE:
		if (namespace_copies(req)) {
			chunk_finish(chunk, store_memory_write(store, req->offset + chunk->offset,
							       host_data(chunk), chunk->length,
							       req->fua));
		} else {
			if (req->capsule)
				memcpy(chunk->buffer, host_data(chunk), chunk->length);
			store_begin(chunk, STORE_WRITE, chunk->buffer);
		}
		break;
	case TRANSFER_COMPARE:
		store_begin(chunk, STORE_READ, chunk->buffer + chunk_size(chunk));
		break;
	case TRANSFER_FETCH:
		memcpy(req->data + chunk->offset, chunk->buffer, chunk->length);
		chunk_finish(chunk, NVME_SUCCESS);
		break;
	case TRANSFER_FUSED:
		fused_arrived(req, chunk->buffer);
		transfer_chunk_release(chunk);
		break;
	case TRANSFER_RANGES:
		req->chunk = chunk;
		io_ranges_arrived(req, chunk->buffer);
		break;
	default:
		chunk_finish(chunk, NVME_INTERNAL_ERROR);
		break;
	}
}

/* ---- progress ---- */

static void chunk_start(struct target_request *req, struct chunk *chunk, bool fetch)
{
	struct target_qpair *qp = req->qp;
	uint32_t rest = req->length - req->started, size;

	chunk->req = req;
	size = chunk_size(chunk);
	chunk->offset = req->started;
	chunk->length = rest < size ? rest : size;
	chunk->posted = 0;
	chunk->reads = 0;
	req->started += chunk->length;
	req->outstanding++;
	if (fetch) {
		qp->fetching++;
		fifo_push(&qp->reads, &chunk->tx.link);
		reactor_mark(qp);
	} else if (req->mode == TRANSFER_READ || req->mode == TRANSFER_VERIFY) {
		store_begin(chunk, STORE_READ, chunk->buffer);
	} else if (req->mode == TRANSFER_PUSH) {
		memcpy(chunk->buffer, req->data + chunk->offset, chunk->length);
		chunk_send(chunk);
	} else {
		chunk_arrived(chunk);
	}
}

/* Memory for what goes up to the control thread, of which a queue pair may have only so much. */
static bool fetch_memory(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	if (req->data)
		return true;
	if (qp->upcall_bytes && qp->upcall_bytes + req->length > TARGET_UPCALL_BUDGET)
		return false;
	req->data = malloc(req->length);
	if (req->data)
		qp->upcall_bytes += req->length;
	else
		req->status = NVME_INTERNAL_ERROR;
	return true;
}

static bool start_next(struct target_request *req, struct fifo *line, bool fetch)
{
	struct target_qpair *qp = req->qp;
	struct chunk *chunk;

	if (line->head && line->head != &req->tx.link)
		return false;	/* others were first */
	if (fetch && qp->fetching >= qp->read_limit)
		return false;
	if (req->mode == TRANSFER_FETCH && !fetch_memory(req))
		return false;
	if (req->status)
		return true;
	chunk = pool_get(qp);
	if (!chunk)
		return false;
	chunk_start(req, chunk, fetch);
	return true;
}

static void pump(struct target_request *req)
{
	struct target_qpair *qp = req->qp;
	bool fetch = transfer_fetches(req), blocked = false;
	struct fifo *line = &qp->waiting[fetch];

	if (req->pumping)
		return;
	req->pumping = true;
	while (!blocked && req->started < req->length && !req->status && !qp->dead &&
	       !req->responding && req->outstanding < TARGET_WINDOW)
		blocked = !start_next(req, line, fetch);
	if (blocked && !req->waiting) {
		fifo_push(line, &req->tx.link);
		req->waiting = true;
	} else if (!blocked && req->waiting && line->head == &req->tx.link) {
		fifo_pop(line);
		req->waiting = false;
	}
	req->pumping = false;
	transfer_check(req);
}

void transfer_start(struct target_request *req, enum transfer mode, uint32_t length)
{
	req->mode = (uint8_t)mode;
	req->length = length;
	req->started = req->moved = 0;
	pump(req);
}

void transfer_kick(struct target_qpair *qp)
{
	for (int i = 0; i < 2; i++) {
		struct fifo_link *head;

		while (!qp->dead && (head = qp->waiting[i].head)) {
			pump(container_of(head, struct target_request, tx.link));
			if (qp->waiting[i].head == head)
				break;
		}
	}
}

/* ---- completions ---- */

static void fetched(struct chunk *chunk)
{
	struct target_qpair *qp = chunk->req->qp;

	chunk->with_host = 0;
	qp->fetching--;
	if (qp->waiting[1].head)
		reactor_mark(qp);
	if (qp->dead)
		chunk_finish(chunk, NVME_TRANSIENT_TRANSPORT_ERROR);
	else
		chunk_arrived(chunk);
}

void transfer_chunk_read(struct chunk *chunk)
{
	chunk->reads--;
	if (!chunk->reads && chunk->posted == chunk->length)
		fetched(chunk);
}

void transfer_chunk_drop(struct chunk *chunk)
{
	chunk->posted = chunk->length;
	if (!chunk->reads)
		fetched(chunk);
}

void transfer_chunk_written(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	bool more = !req->responding;

	transfer_chunk_release(chunk);
	if (more)
		pump(req);
}
