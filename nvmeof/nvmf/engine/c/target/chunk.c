/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks: a chunk has a buffer for a slice of a request's data, which is fetched by RDMA READ, read from or written to
 * the store, and sent by RDMA WRITE, according to the request's mode.
 *
 * The end of a chunk is reported to its transfer (transfer_advance).  Reactor's thread.
 */
#include "target/calls.h"

#include "capture/capture.h"

#include <stdlib.h>
#include <string.h>

/* For Compare, the second half of the buffer receives the data of the store. */
static uint32_t chunk_room(const struct chunk *chunk)
{
	const struct target_request *req = chunk->req;
	uint32_t size = chunk_is_own(chunk) ? TARGET_OWN_BUFFER : req->qp->pool->shelf[chunk->class].size;

	return req->mode == TRANSFER_COMPARE ? size / 2 : size;
}

void chunk_release(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	struct target_qpair *qp = req->qp;

	pool_put(qp, chunk);
	if (qp->waiting[0].head || qp->waiting[1].head)
		reactor_mark(qp);
	if (--req->outstanding == 0 && req->state == REQUEST_GONE)
		request_free(req);
}

/* The transfer of this chunk has ended, successfully or not. */
static void chunk_end(struct chunk *chunk, uint16_t status)
{
	struct target_request *req = chunk->req;

	if (status && !req->status)
		req->status = status;
	req->moved += chunk->length;
	chunk_release(chunk);
	transfer_advance(req);
}

/* ---- between a chunk and the store ---- */

static uint8_t *chunk_host_data(const struct chunk *chunk)
{
	return chunk->req->capsule ? chunk->req->capsule + chunk->offset : chunk->buffer;
}

static void chunk_send(struct chunk *chunk)
{
	struct target_request *req = chunk->req;

	req->moved += chunk->length;
	if (chunk->length == req->length) {
		req->chunk = chunk;	/* sent with the response */
	} else {
		chunk->with_host = reactor_now(req->qp->reactor);
		fifo_push(&req->qp->tx, &chunk->tx.link);
		reactor_mark(req->qp);
	}
	transfer_advance(req);
}

static void chunk_stored(struct store_io *io, uint16_t status);

static void chunk_submit(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	struct store *store = req->ns->store;

	if (chunk->io.op == STORE_WRITE && namespace_copies(req))
		chunk_stored(&chunk->io, namespace_copy(req, chunk->io.offset, chunk->io.buffer, chunk->length));
	else
		store_submit(req->qp->reactor->ring, store, &chunk->io);
}

static void chunk_latched(struct latch *latch)
{
	struct chunk *chunk = container_of(latch, struct chunk, latch);

	if (chunk->req->qp->dead)
		chunk_stored(&chunk->io, NVME_ABORTED_SQ_DELETED);
	else
		chunk_submit(chunk);
}

/* offset: in the namespace. */
static void chunk_store_at(struct chunk *chunk, enum store_op op, uint8_t *buffer, uint64_t offset, uint32_t flags)
{
	struct target_request *req = chunk->req;

	chunk->io = (struct store_io){
		.op = op,
		.flags = flags | (op == STORE_WRITE && req->fua ? STORE_IO_FUA : 0),
		.offset = offset,
		.length = chunk->length,
		.buffer = buffer,
		.done = chunk_stored,
		.store = req->ns->store,
	};
	chunk->latch.state = LATCH_NONE;
	pool_lend(chunk, true);
	/* A request with a latch on its whole range must not wait for requests that wait for that latch. */
	if (req->latch.state == LATCH_HELD || !req->ns->latched ||
	    latch_take(req->qp->reactor, &chunk->latch, req->ns, chunk->io.offset, chunk->length,
		       op == STORE_WRITE, chunk_latched))
		chunk_submit(chunk);
}

static void chunk_store(struct chunk *chunk, enum store_op op, uint8_t *buffer)
{
	chunk_store_at(chunk, op, buffer, chunk->req->offset + chunk->offset, 0);
}

/* Memory is read, and then written, when the chunk has its turn: a capsule of 64 bytes may ask for a megabyte. */
static void chunk_copy(struct chunk *chunk)
{
	chunk_store_at(chunk, STORE_READ, chunk->buffer, copy_source(chunk->req, chunk->offset, NULL), STORE_IO_PIECE);
}

static void chunk_copied(struct chunk *chunk)
{
	if (chunk->io.op == STORE_READ) {
		chunk_store(chunk, STORE_WRITE, chunk->buffer);
		return;
	}
	chunk->req->copy_wrote = true;
	chunk_end(chunk, NVME_SUCCESS);
}

static void chunk_stored(struct store_io *io, uint16_t status)
{
	struct chunk *chunk = container_of(io, struct chunk, io);
	struct target_request *req = chunk->req;

	latch_drop(req->qp->reactor, &chunk->latch);
	pool_lend(chunk, false);
	if (req->qp->dead || status) {
		if (req->mode == TRANSFER_COPY)
			copy_failed(chunk);
		chunk_end(chunk, status);
		return;
	}
	switch ((enum transfer)req->mode) {
	case TRANSFER_READ:
		chunk_send(chunk);
		break;
	case TRANSFER_COMPARE:
		if (memcmp(chunk_host_data(chunk), io->buffer, chunk->length))
			status = NVME_COMPARE_FAILURE;
		chunk_end(chunk, status);
		break;
	case TRANSFER_COPY:
		chunk_copied(chunk);
		break;
	default:
		chunk_end(chunk, status);
		break;
	}
}

/* The request of the chunk that this io belongs to, or NULL. */
struct target_request *chunk_io_of(const struct store_io *io)
{
	return io->done == chunk_stored ? container_of(io, struct chunk, io)->req : NULL;
}

static void chunk_write(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	uint8_t *data = chunk_host_data(chunk);

	if (req->capsule && !namespace_copies(req)) {
		memcpy(chunk->buffer, data, chunk->length);
		data = chunk->buffer;
	}
	chunk_store(chunk, STORE_WRITE, data);
}

/* Use a copy that the host cannot write to, so that the checked data is the data used (region.c). */
static void ranges_arrived(struct chunk *chunk)
{
	struct target_request *req = chunk->req;

	req->chunk = chunk;
	if (req->qp->pool->is_private) {
		req->data = malloc(req->length);
		if (!req->data) {
			req->status = NVME_INTERNAL_ERROR;
			steps_end(req);
			return;
		}
		memcpy(req->data, chunk->buffer, req->length);
	}
	io_ranges_arrived(req, req->data ? req->data : chunk->buffer);
}

/* The whole slice has arrived from the host. */
static void chunk_arrived(struct chunk *chunk)
{
	struct target_request *req = chunk->req;

	switch ((enum transfer)req->mode) {
	case TRANSFER_WRITE:
		chunk_write(chunk);
		break;
	case TRANSFER_COMPARE:
		chunk_store(chunk, STORE_READ, chunk->buffer + chunk_room(chunk));
		break;
	case TRANSFER_FETCH:
		memcpy(req->data + chunk->offset, chunk->buffer, chunk->length);
		chunk_end(chunk, NVME_SUCCESS);
		break;
	case TRANSFER_FUSED:
		fused_arrived(req, chunk->buffer);
		chunk_release(chunk);
		break;
	case TRANSFER_RANGES:
		ranges_arrived(chunk);
		break;
	default:
		chunk_end(chunk, NVME_INTERNAL_ERROR);
		break;
	}
}

/* ---- beginning and advancing ---- */

void chunk_start(struct target_request *req, struct chunk *chunk, bool fetch)
{
	struct target_qpair *qp = req->qp;
	uint32_t rest = transfer_rest(req), room;

	chunk->req = req;
	room = chunk_room(chunk);
	chunk->offset = req->started;
	chunk->length = rest < room ? rest : room;
	chunk->posted = 0;
	chunk->reads = 0;
	req->started += chunk->length;
	req->outstanding++;
	if (fetch) {
		qp->fetching++;
		chunk->with_host = reactor_now(qp->reactor);
		fifo_push(&qp->reads, &chunk->tx.link);
		reactor_mark(qp);
	} else if (req->mode == TRANSFER_READ || req->mode == TRANSFER_VERIFY) {
		chunk_store(chunk, STORE_READ, chunk->buffer);
	} else if (req->mode == TRANSFER_COPY) {
		chunk_copy(chunk);
	} else if (req->mode == TRANSFER_PUSH) {
		memcpy(chunk->buffer, req->data + chunk->offset, chunk->length);
		chunk_send(chunk);
	} else {
		chunk_arrived(chunk);
	}
}

/* ---- completions ---- */

static void chunk_fetched(struct chunk *chunk)
{
	struct target_qpair *qp = chunk->req->qp;

	chunk->with_host = 0;
	if (capture_on() && !qp->dead)
		record_fetched(chunk);
	qp->fetching--;
	if (qp->waiting[1].head)
		reactor_mark(qp);
	if (qp->dead)
		chunk_end(chunk, NVME_TRANSIENT_TRANSPORT_ERROR);
	else
		chunk_arrived(chunk);
}

void chunk_read(struct chunk *chunk)
{
	chunk->reads--;
	if (!chunk->reads && chunk->posted == chunk->length)
		chunk_fetched(chunk);
}

void chunk_drop(struct chunk *chunk)
{
	chunk->posted = chunk->length;
	if (!chunk->reads)
		chunk_fetched(chunk);
}

void chunk_written(struct chunk *chunk)
{
	struct target_request *req = chunk->req;
	bool more = req->state == REQUEST_MOVING;

	chunk_release(chunk);
	if (more)
		transfer_advance(req);
}
