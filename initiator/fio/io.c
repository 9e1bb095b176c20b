/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submits the commands of an io_u, and reaps their completions.
 *
 * Runs in the job's own thread or process.  Doorbells are rung in batches: fio queues and reaps one
 * io_u at a time by default, and a doorbell is a system call on an embedded device.
 */
#include "engine.h"

#include <poll.h>
#include <unistd.h>

enum {
	BATCH = 64,
	YIELD_EVERY = 64,	/* idle polls (tens of microseconds) between yields of the processor */
	MAX_RETRIES = 5,	/* of a command, as in the client and in Linux */
};

enum { CDW12_FUA = 1 << 30 };

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
	} else if (r->refused) {
		request_complain(s, io_u, strerror(r->refused));
		io_u->error = (unsigned)r->refused;
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

/*
 * Whether a lost request is sent again, as the client does.  All of these commands may be repeated: their results were
 * not reported to fio, which therefore expects the blocks in either state.
 */
static bool request_keep(struct state *s, const struct request *r)
{
	if (!r->lost || r->status || r->refused || r->session->state == SESSION_ENDED)
		return false;
	if (r->losses <= MAX_RETRIES)
		return true;
	request_complain(s, r->io_u, "the connection ended each time that it was sent");
	return false;
}

/* All pieces of the Write are complete: send the Flush, which has the hold of the submission. */
static void request_flush(struct state *s, struct request *r)
{
	r->flushing = true;
	r->holds = 1;
	line_add(&s->waiting, r);
}

static void request_drop(struct state *s, struct request *r)
{
	if (--r->holds)
		return;
	if (request_keep(s, r))
		line_add(&r->session->held, r);
	else if (r->flushes && !r->flushing && !r->lost && !r->status && !r->refused)
		request_flush(s, r);
	else
		request_finish(s, r);
}

/* Start a request from its first piece. */
static void request_start(struct request *r)
{
	r->holds = 1;	/* that of the submission */
	r->lost = false;
	r->lba = r->io_u->offset / r->session->info.block_size;
	r->left = r->opcode == NVME_OPC_FLUSH ? 0 : r->io_u->xfer_buflen;
	r->flushing = false;	/* after a loss, the data may be lost as well: repeat the Write */
	r->buffer = r->data;
}

/* ---- submission ---- */

static int submit_piece(struct state *s, struct request *r)
{
	const struct session *at = r->session;
	const uint8_t opcode = r->flushing ? NVME_OPC_FLUSH : r->opcode;
	struct nvme_sqe sqe = { .opc = opcode, .nsid = at->info.nsid };
	struct host_data data = { .to_device = r->to_device && !r->flushing, .in_capsule = true };
	uint64_t bytes = r->left < at->piece ? r->left : at->piece;
	const uint64_t blocks = bytes / at->info.block_size;

	if (opcode == NVME_OPC_DSM) {
		sqe.cdw11 = 4;	/* deallocate */
		bytes = r->left;
		data.length = sizeof(struct dsm_range);
	} else if (opcode != NVME_OPC_FLUSH) {
		sqe.cdw10 = (uint32_t)r->lba;
		sqe.cdw11 = (uint32_t)(r->lba >> 32);
		sqe.cdw12 = (uint32_t)(blocks - 1) | (r->fua ? CDW12_FUA : 0);
		data.length = r->memory ? (uint32_t)bytes : 0;
	}
	if (r->memory && !r->flushing) {
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

/* Submit pieces while there is room.  True if the submission has ended: all are sent, or it ended early. */
static bool submit_pieces(struct state *s, struct request *r)
{
	const bool live = r->session->state == SESSION_LIVE;
	int ret;

	/* Lost in line, and the session is connected again already: its other pieces have been abandoned (poll_lost). */
	if (r->lost && live && !r->status && r->losses <= MAX_RETRIES)
		request_start(r);
	do
		ret = live && !r->lost ? submit_piece(s, r) : -ENOTCONN;
	while (!ret && r->left);
	if (ret == -EAGAIN)
		return false;
	r->lost |= ret == -ENOTCONN;
	if (ret < 0 && ret != -ENOTCONN)
		r->refused = -ret;
	request_drop(s, r);
	return true;
}

static void submit_flush(struct state *s)
{
	for (struct hub *hub = s->hubs; hub; hub = hub->next)
		host_poll_group_flush(hub->group);
	s->unflushed = 0;
}

/* Submit the requests in line, oldest first. */
static void submit_waiting(struct state *s)
{
	struct request *r;

	while ((r = s->waiting.first)) {
		struct request *next = r->next;	/* read first: a lost request moves to the line of its session */

		if (!submit_pieces(s, r))
			return;
		s->waiting.first = next;
	}
}

void nvmeof_release(struct state *s, struct session *session)
{
	struct request *r;

	while ((r = line_take(&session->held))) {
		if (session->state == SESSION_LIVE) {
			request_start(r);
			line_add(&s->waiting, r);
		} else {
			request_finish(s, r);
		}
	}
}

enum fio_q_status nvmeof_queue(struct thread_data *td, struct io_u *io_u)
{
	struct state *s = td->io_ops_data;
	struct request *r = io_u->engine_data;

	fio_ro_check(td, io_u);
	r->io_u = io_u;
	r->session = &s->sessions[io_u->file->fileno];
	r->status = 0;
	r->refused = 0;
	r->losses = 0;
	r->to_device = false;
	/* --sync: O_SYNC, O_DSYNC */
	r->fua = (td->o.sync_io || s->options->method == METHOD_NVME_FUA) && io_u->ddir == DDIR_WRITE;
	r->flushes = s->options->method == METHOD_NVME_WRITE_FLUSH && io_u->ddir == DDIR_WRITE;
	r->memory = NULL;
	r->data = NULL;
	io_u->error = r->session->state == SESSION_ENDED ? EIO : (unsigned)request_prepare(s, r);
	if (io_u->error)
		return FIO_Q_COMPLETED;
	request_start(r);
	s->queued++;
	if (s->waiting.first || !submit_pieces(s, r))
		line_add(&s->waiting, r);
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

/* The queue and its pieces are lost. */
static void poll_lost(struct state *s, struct host_queue *queue)
{
	void *users[BATCH];
	int n;

	for (unsigned i = 0; i < s->nsessions; i++)
		if (s->sessions[i].queue == queue)
			reconnect_begin(s, &s->sessions[i], host_queue_reason(queue));
	while ((n = host_queue_abandon(queue, users, BATCH)) > 0) {
		for (int i = 0; i < n; i++) {
			struct request *r = users[i];

			r->losses += !r->lost;
			r->lost = true;
			request_drop(s, r);
		}
	}
	/* also of those in line: what was sent of them, or the Write before a Flush, may be lost with the target */
	for (struct request *r = s->waiting.first; r; r = r->next)
		if (r->session->queue == queue) {
			r->losses += !r->lost && r->flushing;
			r->lost = true;
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
	if (s->reconnecting)
		reconnect_poll(s);
	if (s->waiting.first)
		submit_waiting(s);
	return n;
}

enum { SLEEP_MS = 500, NAP_US = 10000, HUBS = 16 };

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
		if (s->reconnecting == s->nsessions)
			usleep(NAP_US);	/* nothing can complete */
		else if (!s->options->hipri && idle)
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
