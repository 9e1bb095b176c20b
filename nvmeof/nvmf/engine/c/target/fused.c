/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused Compare and Write: two consecutive commands of a queue that act as one (Base 2.0, 3.4.2).
 *
 * The first command waits for the second, and the data of both is fetched before any latch is taken, so that a host
 * that does not transfer its data cannot delay others.  Then the pair holds an exclusive latch on its block from
 * before the comparison until after the write.  Because pairs are rare, their memory is allocated when they arrive,
 * as for commands of the control thread.  Reactor's thread.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>

enum { FUSED_ALIGN = 4096 };

struct fused {
	struct target_request *compare, *write;	/* NULL: ended with the connection */
	struct reactor *reactor;
	unsigned fetching;		/* of the two */
	struct latch latch;
	struct store_io io;
	uint8_t *expected, *wanted, *found;
};

static void fused_free(struct fused *f)
{
	free(f->expected);
	free(f);
}

static void fused_respond(struct target_request *compare, uint16_t compare_status,
			  struct target_request *write, uint16_t write_status)
{
	request_respond(compare, compare_status);
	request_respond(write, write_status);
}

static void fused_end(struct fused *f, uint16_t compare, uint16_t write)
{
	latch_drop(f->reactor, &f->latch);
	fused_respond(f->compare, compare, f->write, write);
	fused_free(f);
}

static void fused_submit(struct fused *f, enum store_op op, uint8_t *buffer,
			 void (*done)(struct store_io *, uint16_t))
{
	const struct target_request *write = f->write;

	f->io = (struct store_io){
		.op = op,
		.flags = op == STORE_WRITE && write->fua ? STORE_IO_FUA : 0,
		.offset = write->offset,
		.length = write->length,
		.buffer = buffer,
		.done = done,
		.store = write->ns->store,
	};
	store_submit(f->reactor->ring, write->ns->store, &f->io);
}

static void fused_written(struct store_io *io, uint16_t status)
{
	fused_end(container_of(io, struct fused, io), NVME_SUCCESS, status);
}

static void fused_found(struct store_io *io, uint16_t status)
{
	struct fused *f = container_of(io, struct fused, io);

	if (!status && memcmp(f->found, f->expected, f->write->length))
		status = NVME_COMPARE_FAILURE;
	if (status)
		fused_end(f, status, NVME_ABORTED_FAILED_FUSED);
	else
		fused_submit(f, STORE_WRITE, f->wanted, fused_written);
}

static void fused_latched(struct latch *latch)
{
	struct fused *f = container_of(latch, struct fused, latch);

	fused_submit(f, STORE_READ, f->found, fused_found);
}

/* The transfer of the data of one command has ended, successfully or not. */
static void fused_fetched(struct fused *f)
{
	if (--f->fetching)
		return;
	if (!f->compare || !f->write) {		/* the connection has ended */
		if (f->compare)
			request_free(f->compare);
		if (f->write)
			request_free(f->write);
		fused_free(f);
		return;
	}
	if (latch_take(f->reactor, &f->latch, f->write->ns, f->write->offset, f->write->length, true,
		       fused_latched))
		fused_latched(&f->latch);
}

void fused_arrived(struct target_request *req, const uint8_t *data)
{
	struct fused *f = req->fused;

	memcpy(req == f->compare ? f->expected : f->wanted, data, req->length);
	req->state = REQUEST_PAIRED;
	req->fused = NULL;
	fused_fetched(f);
}

/* The command ends before its data has arrived. */
void fused_gone(struct target_request *req)
{
	struct fused *f = req->fused;

	req->fused = NULL;
	if (req == f->compare)
		f->compare = NULL;
	else
		f->write = NULL;
	fused_fetched(f);
}

static struct fused *fused_new(struct target_request *compare, struct target_request *write)
{
	struct fused *f = calloc(1, sizeof(*f));
	uint8_t *buffers = aligned_alloc(FUSED_ALIGN, 3 * FUSED_ALIGN);

	if (!f || !buffers) {
		free(f);
		free(buffers);
		return NULL;
	}
	f->compare = compare;
	f->write = write;
	f->reactor = write->qp->reactor;
	f->expected = buffers;
	f->wanted = buffers + FUSED_ALIGN;
	f->found = buffers + 2 * FUSED_ALIGN;
	f->fetching = 2;
	return f;
}

static void fused_fetch(struct target_request *req, struct fused *f)
{
	req->fused = f;
	if (req->capsule)
		fused_arrived(req, req->capsule);
	else
		transfer_start(req, TRANSFER_FUSED, req->length);
}

void fused_begin(struct target_request *compare, struct target_request *write,
		 const struct nvme_sqe *sqe)
{
	uint16_t status = io_check_fused(compare, &compare->sqe, true);
	struct fused *f;

	if (status) {
		fused_respond(compare, status, write, NVME_ABORTED_FAILED_FUSED);
		return;
	}
	status = io_check_fused(write, sqe, false);
	if (status) {
		fused_respond(compare, NVME_ABORTED_FAILED_FUSED, write, status);
		return;
	}
	if (compare->ns != write->ns || compare->offset != write->offset ||
	    compare->length != write->length) {
		status = NVME_INVALID_FIELD | NVME_DNR;
		fused_respond(compare, status, write, status);
		return;
	}
	write->validates = false;	/* the comparison has checked that the block is not marked */
	f = fused_new(compare, write);
	if (!f) {
		fused_respond(compare, NVME_INTERNAL_ERROR, write, NVME_INTERNAL_ERROR);
		return;
	}
	fused_fetch(compare, f);
	fused_fetch(write, f);
}
