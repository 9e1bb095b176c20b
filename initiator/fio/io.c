/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submits the commands of an io_u, and reaps their completions.
 *
 * Runs in the job's own thread or process.  Doorbells are rung in batches: fio queues and reaps one
 * io_u at a time by default, and a doorbell is a system call on an embedded device.
 */
#include "engine.h"

#include <poll.h>

enum {
	BATCH = 64,
	YIELD_EVERY = 64,	/* idle polls, a few tens of microseconds: the processor may be shared */
	COMPLAINTS = 10,
};

struct dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t lba;
};

enum { CDW12_FUA = 1 << 30 };

static void request_complain(struct state *s, const struct io_u *io_u, const char *what)
{
	if (s->complaints++ < COMPLAINTS)
		log_err("nvmeof: %s of %llu bytes at %llu: %s\n", io_ddir_name(io_u->ddir),
			(unsigned long long)io_u->xfer_buflen, (unsigned long long)io_u->offset, what);
}

static int request_errno(uint16_t status)
{
	switch (status & 0x7ff) {
	case NVME_INVALID_OPCODE: return EOPNOTSUPP;
	case NVME_INVALID_FIELD: return EINVAL;
	case NVME_INVALID_NAMESPACE: return ENODEV;
	case NVME_LBA_OUT_OF_RANGE: return EREMOTEIO;
	case NVME_CAPACITY_EXCEEDED: return ENOSPC;
	case NVME_NAMESPACE_WRITE_PROTECTED:
	case NVME_READ_ONLY_RANGE: return EROFS;
	case NVME_ACCESS_DENIED: return EACCES;
	case NVME_COMPARE_FAILURE: return EILSEQ;
	default: return EIO;
	}
}

static void request_finish(struct state *s, struct request *r)
{
	struct io_u *io_u = r->io_u;
	char text[160];

	if (r->status) {
		snprintf(text, sizeof(text), "%s (status 0x%x)",
			 host_nvme_status_name(r->status, false), r->status);
		request_complain(s, io_u, text);
		io_u->error = request_errno(r->status);
	} else if (r->lost) {
		io_u->error = EIO;
	}
	if (r->bounce) {
		if (!r->to_device && !io_u->error)
			memcpy(io_u->xfer_buf, r->bounce->addr, io_u->xfer_buflen);
		host_memory_free(r->bounce);
		r->bounce = NULL;
	}
	s->finished[(s->finished_head + s->finished_count++) % s->nrequests] = io_u;
}

static void request_drop(struct state *s, struct request *r)
{
	if (!--r->holds)
		request_finish(s, r);
}

/* ---- submission ---- */

static int submit_piece(struct state *s, struct request *r)
{
	const struct session *at = r->session;
	struct nvme_sqe sqe = { .opc = r->opcode, .nsid = at->info.nsid };
	struct host_data data = { .to_device = r->to_device, .in_capsule = true };
	uint64_t bytes = r->left < at->piece ? r->left : at->piece;
	const uint64_t blocks = bytes / at->info.block_size;

	if (r->opcode == NVME_OPC_DSM) {
		sqe.cdw11 = 4;	/* deallocate */
		bytes = r->left;
		data.length = sizeof(struct dsm_range);
	} else if (r->opcode != NVME_OPC_FLUSH) {
		sqe.cdw10 = (uint32_t)r->lba;
		sqe.cdw11 = (uint32_t)(r->lba >> 32);
		sqe.cdw12 = (uint32_t)(blocks - 1) | (r->fua ? CDW12_FUA : 0);
		data.length = r->memory ? (uint32_t)bytes : 0;
	}
	if (r->memory) {
		data.addr = r->buffer;
		data.memory = r->memory;
	}

	const int ret = host_queue_submit(at->queue, &sqe, &data, r, true);

	if (ret < 0)
		return ret;
	s->unflushed++;
	r->holds++;
	r->lba += blocks;
	r->left -= bytes;
	r->buffer += bytes;
	return 0;
}

/* Submit pieces while there is room.  True if the submission is over: all are sent, or given up. */
static bool submit_pieces(struct state *s, struct request *r)
{
	int ret;

	do
		ret = r->session->lost ? -ENOTCONN : submit_piece(s, r);
	while (!ret && r->left);
	if (ret == -EAGAIN)
		return false;
	if (ret < 0 && ret != -ENOTCONN)
		request_complain(s, r->io_u, strerror(-ret));
	r->lost |= ret < 0;
	request_drop(s, r);
	return true;
}

static void submit_flush(struct state *s)
{
	for (struct hub *hub = s->hubs; hub; hub = hub->next)
		host_poll_group_flush(hub->group);
	s->unflushed = 0;
}

/* In line, oldest first. */
static void submit_waiting(struct state *s)
{
	while (s->waiting) {
		struct request *r = s->waiting, *next = r->next;

		if (!submit_pieces(s, r))
			return;
		s->waiting = next;
	}
}

static void submit_later(struct state *s, struct request *r)
{
	r->next = NULL;
	if (s->waiting)
		s->waiting_tail->next = r;
	else
		s->waiting = r;
	s->waiting_tail = r;
}

/* The registered memory of an I/O buffer: fio's own, else a copy. */
static int queue_find_memory(struct state *s, struct request *r)
{
	const struct io_u *io_u = r->io_u;
	struct host_memory *m = r->session->hub->buffers;
	const uintptr_t at = (uintptr_t)io_u->xfer_buf;
	char err[256];

	if (m && at >= (uintptr_t)m->addr &&
	    at + io_u->xfer_buflen <= (uintptr_t)m->addr + m->length) {
		r->memory = m;
		r->buffer = io_u->xfer_buf;
		return 0;
	}
	r->bounce = host_memory_alloc(r->session->hub->device, io_u->xfer_buflen, err,
				      sizeof(err));
	if (!r->bounce) {
		request_complain(s, io_u, err);
		return ENOMEM;
	}
	if (r->to_device)
		memcpy(r->bounce->addr, io_u->xfer_buf, io_u->xfer_buflen);
	r->memory = r->bounce;
	r->buffer = r->bounce->addr;
	return 0;
}

static int queue_prepare_trim(const struct state *s, struct request *r)
{
	const struct session *at = r->session;
	struct dsm_range *range = (struct dsm_range *)at->hub->ranges->addr +
				  r->index % s->nrequests;

	range->attributes = 0;
	range->blocks = (uint32_t)(r->left / at->info.block_size);
	range->lba = r->lba;
	r->opcode = NVME_OPC_DSM;
	r->to_device = true;
	r->memory = at->hub->ranges;
	r->buffer = (uint8_t *)range;
	return 0;
}

static int queue_prepare(struct state *s, struct request *r)
{
	const struct io_u *io_u = r->io_u;
	const struct session *at = r->session;
	const uint32_t mask = at->info.block_size - 1;

	if (ddir_sync(io_u->ddir)) {
		r->opcode = NVME_OPC_FLUSH;
		r->left = 0;
		return 0;
	}
	if ((io_u->offset | io_u->xfer_buflen) & mask || !io_u->xfer_buflen) {
		request_complain(s, io_u, "not whole blocks of the namespace: see its block size");
		return EINVAL;
	}
	r->lba = io_u->offset / at->info.block_size;
	r->left = io_u->xfer_buflen;
	switch (io_u->ddir) {
	case DDIR_READ:
		r->opcode = NVME_OPC_READ;
		return queue_find_memory(s, r);
	case DDIR_WRITE:
		if (s->options->write_mode != WRITE_MODE_WRITE) {
			r->opcode = s->options->write_mode == WRITE_MODE_ZEROES ? NVME_OPC_WRITE_ZEROES :
										    NVME_OPC_VERIFY;
			return 0;
		}
		r->opcode = NVME_OPC_WRITE;
		r->to_device = true;
		return queue_find_memory(s, r);
	case DDIR_TRIM:
		return queue_prepare_trim(s, r);
	default:
		return EINVAL;
	}
}

enum fio_q_status nvmeof_queue(struct thread_data *td, struct io_u *io_u)
{
	struct state *s = td->io_ops_data;
	struct request *r = io_u->engine_data;

	fio_ro_check(td, io_u);
	r->io_u = io_u;
	r->session = &s->sessions[io_u->file->fileno];
	r->holds = 1;	/* the submission's */
	r->status = 0;
	r->lost = false;
	r->to_device = false;
	r->fua = td->o.sync_io && io_u->ddir == DDIR_WRITE;	/* --sync: O_SYNC, O_DSYNC */
	r->memory = NULL;
	r->buffer = NULL;
	io_u->error = r->session->lost ? EIO : (unsigned)queue_prepare(s, r);
	if (io_u->error)
		return FIO_Q_COMPLETED;
	s->queued++;
	if (s->waiting || !submit_pieces(s, r))
		submit_later(s, r);
	if (fio_fill_issue_time(td)) {
		fio_gettime(&io_u->issue_time, NULL);
		io_u_queued(td, io_u);
	}
	return FIO_Q_QUEUED;
}

int nvmeof_commit(struct thread_data *td)
{
	struct state *s = td->io_ops_data;

	if (s->unflushed >= s->flush_at)
		submit_flush(s);
	if (s->queued)
		io_u_mark_submit(td, s->queued);
	s->queued = 0;
	return 0;
}

/* ---- completion ---- */

/* The queue is lost: its pieces fail. */
static void poll_lost(struct state *s, struct host_queue *queue)
{
	void *users[BATCH];
	int n;

	log_err("nvmeof: %s\n", host_queue_reason(queue));
	for (unsigned i = 0; i < s->nsessions; i++)
		if (s->sessions[i].queue == queue)
			s->sessions[i].lost = true;
	while ((n = host_queue_abandon(queue, users, BATCH)) > 0) {
		for (int i = 0; i < n; i++) {
			struct request *r = users[i];

			r->lost = true;
			request_drop(s, r);
		}
	}
}

static int poll_hub(struct state *s, struct hub *hub)
{
	struct host_completion done[BATCH];
	struct host_queue *gone;
	int n = host_poll_group_poll(hub->group, done, BATCH);

	for (int i = 0; i < n; i++) {
		struct request *r = done[i].user;

		if (!r->status)
			r->status = done[i].cqe.status >> 1;
		request_drop(s, r);
	}
	for (; (gone = host_poll_group_lost(hub->group)); n++)
		poll_lost(s, gone);
	return n;
}

static int poll_all(struct state *s)
{
	int n = 0;

	for (struct hub *hub = s->hubs; hub; hub = hub->next)
		n += poll_hub(s, hub);
	s->unflushed = 0;
	if (s->waiting)
		submit_waiting(s);
	return n;
}

enum { SLEEP_MS = 500, HUBS = 16 };

/* Wait until something completes or ms have passed (-1: no limit; it polls twice a second). */
static void events_sleep(struct state *s, int ms)
{
	struct pollfd fds[HUBS];
	nfds_t n = 0;

	for (struct hub *hub = s->hubs; hub && n < HUBS; hub = hub->next) {
		host_poll_group_arm(hub->group);
		fds[n++] = (struct pollfd){ .fd = host_poll_group_fd(hub->group), .events = POLLIN };
	}
	if (poll_all(s))
		return;
	poll(fds, n, ms < 0 || ms > SLEEP_MS ? SLEEP_MS : ms);
	for (struct hub *hub = s->hubs; hub; hub = hub->next)
		host_poll_group_drain(hub->group);
}

static int events_give(struct state *s, unsigned int max)
{
	unsigned n = 0;

	while (n < max && s->finished_count) {
		s->events[n++] = s->finished[s->finished_head];
		s->finished_head = (s->finished_head + 1) % s->nrequests;
		s->finished_count--;
	}
	return (int)n;
}

int nvmeof_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		     const struct timespec *t)
{
	struct state *s = td->io_ops_data;
	struct timespec started;
	const int ms = t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1;

	if (s->finished_count >= (min ? min : 1))
		return events_give(s, max);
	if (t)
		fio_gettime(&started, NULL);
	for (unsigned idle = 0;; idle++) {
		if (poll_all(s))
			idle = 0;
		if (s->finished_count >= min)
			break;
		if (t && mtime_since_now(&started) >= (uint64_t)ms)
			break;
		if (!s->options->hipri && idle)
			events_sleep(s, ms);
		else if (idle % YIELD_EVERY == YIELD_EVERY - 1)
			sched_yield();
	}
	return events_give(s, max);
}

struct io_u *nvmeof_event(struct thread_data *td, int event)
{
	const struct state *s = td->io_ops_data;

	return s->events[event];
}
