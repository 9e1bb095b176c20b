/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused Compare and Write: two commands that follow each other on a queue and are one (Base 2.0, 3.4.2).
 *
 * The first waits for the second, then the data of both is fetched, so that no host can hold others up
 * while it does not move its data.  Only then comes the namespace's turn: one reactor, its home,
 * lets one pair in at a time.  The pair's range is shown to all reactors (ns->fused) and each says
 * when the writes that it had begun before are done; those that begin from then on and overlap the
 * range are parked.  The queue's reactor compares and writes; the home takes the range back, each
 * reactor lets go what it had parked, and then the next pair's turn comes and this one is answered.
 *
 * Threads meet in mailboxes only.  Namespaces without a pair under way pay for the look at a NULL on
 * a line that commands read anyway, and for a count of store writes.  A pair is rare and takes
 * its memory when it comes, as commands for the control thread do.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_ALIGN = 4096 };

struct fused_part {
	struct mail mail;
	struct fused *fused;
};

struct fused {
	struct mail mail;		/* from its own reactor to the home or back */
	struct fifo_link link;		/* in ns->fused_line */
	struct target_request *compare, *write;	/* NULL: gone with the connection */
	struct reactor *reactor, *home;
	struct target_namespace *ns;
	uint64_t offset;		/* bytes, as length */
	uint32_t length;
	unsigned fetching;
	_Atomic unsigned left;		/* reactors that have to answer */
	uint16_t compare_status, write_status;
	struct store_io io;
	uint8_t *expected, *wanted, *found;
	struct fused_part part[];	/* per reactor */
};

/* ---- each reactor ---- */

static bool overlaps(const struct fused *f, const struct store_io *io)
{
	return io->offset < f->offset + f->length && f->offset < io->offset + io->length;
}

static void write_begin(struct ns_local *local, struct reactor *reactor, struct store_io *io)
{
	io->tag = local->phase;
	local->writing[local->phase]++;
	store_submit(reactor->ring, io->store, io);
}

void fused_store_write(struct target_request *req, struct store_io *io)
{
	struct ns_local *local = namespace_local(req);
	const struct fused *f = atomic_load_explicit(&req->ns->fused, memory_order_acquire);

	if (f && overlaps(f, io)) {
		io->next = NULL;
		*local->parked_tail = io;
		local->parked_tail = &io->next;
		return;
	}
	write_begin(local, req->qp->reactor, io);
}

static void answer(struct fused *f, struct reactor *home,
		   void (*deliver)(struct reactor *, struct mail *))
{
	if (atomic_fetch_sub(&f->left, 1) == 1)
		reactor_mail(home, &f->mail, deliver);
}

static void run_deliver(struct reactor *reactor, struct mail *mail);
static void released_deliver(struct reactor *reactor, struct mail *mail);

void fused_store_written(struct target_request *req, const struct store_io *io)
{
	struct ns_local *local = namespace_local(req);
	struct fused *f = local->draining;

	if (--local->writing[io->tag] || !f || io->tag == local->phase)
		return;
	local->draining = NULL;
	answer(f, f->reactor, run_deliver);
}

/* Whatever begins to write from now on has seen the range. */
static void shown_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused_part, mail)->fused;
	struct ns_local *local = &f->ns->local[reactor->index];

	if (local->writing[local->phase])
		local->draining = f;
	local->phase ^= 1;
	if (!local->draining)
		answer(f, f->reactor, run_deliver);
}

static void release_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused_part, mail)->fused;
	struct ns_local *local = &f->ns->local[reactor->index];
	struct store_io *io = local->parked, *next;

	local->parked = NULL;
	local->parked_tail = &local->parked;
	for (; io; io = next) {
		next = io->next;
		write_begin(local, reactor, io);
	}
	answer(f, f->home, released_deliver);
}

/* ---- the namespace's home ---- */

static void tell_all(struct fused *f, void (*deliver)(struct reactor *, struct mail *))
{
	struct target *target = f->reactor->target;

	atomic_store(&f->left, target->reactors);
	for (unsigned i = 0; i < target->reactors; i++) {
		f->part[i].fused = f;
		reactor_mail(target->reactor[i], &f->part[i].mail, deliver);
	}
}

static void next_turn(struct target_namespace *ns)
{
	struct fused *f;

	if (!ns->fused_line.head)
		return;
	f = container_of(fifo_pop(&ns->fused_line), struct fused, link);
	ns->fused_turn = true;
	atomic_store(&ns->fused, f);
	tell_all(f, shown_deliver);
}

static void ask_deliver(struct reactor *home, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused, mail);

	(void)home;
	fifo_push(&f->ns->fused_line, &f->link);
	if (!f->ns->fused_turn)
		next_turn(f->ns);
}

static void over_deliver(struct reactor *home, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused, mail);

	(void)home;
	atomic_store(&f->ns->fused, NULL);
	tell_all(f, release_deliver);
}

static void finish_deliver(struct reactor *reactor, struct mail *mail);

static void released_deliver(struct reactor *home, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused, mail);

	(void)home;
	f->ns->fused_turn = false;
	next_turn(f->ns);	/* the pair holds the namespace until it is answered */
	reactor_mail(f->reactor, &f->mail, finish_deliver);
}

/* ---- the queue's reactor ---- */

static void fused_free(struct fused *f)
{
	free(f->expected);
	free(f);
}

static void finish_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused, mail);

	(void)reactor;
	request_respond(f->compare, f->compare_status);
	request_respond(f->write, f->write_status);
	fused_free(f);
}

static void over(struct fused *f, uint16_t compare, uint16_t write)
{
	f->compare_status = compare;
	f->write_status = write;
	reactor_mail(f->home, &f->mail, over_deliver);
}

static void written(struct store_io *io, uint16_t status)
{
	over(container_of(io, struct fused, io), NVME_SUCCESS, status);
}

static void submit(struct fused *f, enum store_op op, uint8_t *buffer,
		   void (*done)(struct store_io *, uint16_t))
{
	f->io = (struct store_io){
		.op = op,
		.flags = op == STORE_WRITE && f->write->fua ? STORE_IO_FUA : 0,
		.offset = f->offset,
		.length = f->length,
		.buffer = buffer,
		.done = done,
		.store = f->ns->store,
	};
	store_submit(f->reactor->ring, f->ns->store, &f->io);
}

static void found(struct store_io *io, uint16_t status)
{
	struct fused *f = container_of(io, struct fused, io);

	if (!status && memcmp(f->found, f->expected, f->length))
		status = NVME_COMPARE_FAILURE;
	if (status)
		over(f, status, NVME_ABORTED_FAILED_FUSED);
	else
		submit(f, STORE_WRITE, f->wanted, written);
}

/* Nobody else writes there now. */
static void run_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fused *f = container_of(mail, struct fused, mail);

	(void)reactor;
	submit(f, STORE_READ, f->found, found);
}

static void fetched(struct fused *f)
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
	reactor_mail(f->home, &f->mail, ask_deliver);
}

void fused_arrived(struct target_request *req, const uint8_t *data)
{
	struct fused *f = req->fused;

	memcpy(req == f->compare ? f->expected : f->wanted, data, f->length);
	req->fused = NULL;
	fetched(f);
}

/* It ends before its data has come. */
void fused_gone(struct target_request *req)
{
	struct fused *f = req->fused;

	req->fused = NULL;
	if (req == f->compare)
		f->compare = NULL;
	else
		f->write = NULL;
	fetched(f);
}

static struct fused *fused_new(struct target_request *compare, struct target_request *write)
{
	struct target *target = write->qp->target;
	struct target_namespace *ns = write->ns;
	struct fused *f = calloc(1, sizeof(*f) + target->reactors * sizeof(f->part[0]));
	uint8_t *buffers = aligned_alloc(BUFFER_ALIGN, 3 * BUFFER_ALIGN);

	if (!f || !buffers) {
		free(f);
		free(buffers);
		return NULL;
	}
	f->compare = compare;
	f->write = write;
	f->reactor = write->qp->reactor;
	f->home = target->reactor[ns->nsid % target->reactors];
	f->ns = ns;
	f->offset = write->offset;
	f->length = write->length;
	f->expected = buffers;
	f->wanted = buffers + BUFFER_ALIGN;
	f->found = buffers + 2 * BUFFER_ALIGN;
	f->fetching = 2;
	return f;
}

static void fail(struct target_request *compare, uint16_t compare_status,
		 struct target_request *write, uint16_t write_status)
{
	request_respond(compare, compare_status);
	request_respond(write, write_status);
}

static void fetch(struct target_request *req, struct fused *f)
{
	req->fused = f;
	req->mode = TRANSFER_FUSED;	/* which cannot be taken back */
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
		fail(compare, status, write, NVME_ABORTED_FAILED_FUSED);
		return;
	}
	status = io_check_fused(write, sqe, false);
	if (status) {
		fail(compare, NVME_ABORTED_FAILED_FUSED, write, status);
		return;
	}
	if (compare->ns != write->ns || compare->offset != write->offset ||
	    compare->length != write->length) {
		status = NVME_INVALID_FIELD | NVME_DNR;
		fail(compare, status, write, status);
		return;
	}
	write->validates = false;	/* the comparison saw that nothing is marked here */
	f = fused_new(compare, write);
	if (!f) {
		fail(compare, NVME_INTERNAL_ERROR, write, NVME_INTERNAL_ERROR);
		return;
	}
	fetch(compare, f);
	fetch(write, f);
}
