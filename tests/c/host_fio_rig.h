/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue that completes, refuses and is lost as the test says, and a job on it, for the fio engine's io.c. */
#ifndef TESTS_HOST_FIO_RIG_H
#define TESTS_HOST_FIO_RIG_H

#include "../../initiator/fio/io.c"
#include "../../initiator/fio/prepare.c"
#include "../../initiator/fio/reconnect.c"
#include "check.h"

enum { PIECE = 4096, DEPTH = 4, SLOTS = 8, MANY = 64 };

unsigned int fio_errors;

/* ---- the queue ---- */

static struct {
	void *out[SLOTS];	/* users of the commands in flight, oldest first */
	unsigned nout, slots;
	unsigned ready;		/* of them, completed by the next poll */
	bool lost;		/* submits fail */
	bool told;		/* host_poll_group_lost() has returned the queue */
	uint16_t status;	/* of commands that complete */
	int reopen;		/* what an attempt to reconnect returns */
	int refuse;		/* what a submit returns, if not 0 */
	unsigned submitted;
} queue;

static struct host_queue *const the_queue = (struct host_queue *)&queue;

int host_queue_submit(struct host_queue *q, const struct nvme_sqe *sqe, const struct host_data *data,
		      void *user, bool more)
{
	(void)q;
	(void)sqe;
	(void)data;
	(void)more;
	if (queue.lost)
		return -ENOTCONN;
	if (queue.refuse)
		return queue.refuse;
	if (queue.nout == queue.slots)
		return -EAGAIN;
	queue.submitted++;
	queue.out[queue.nout++] = user;
	return 1;
}

static void *queue_take(void)
{
	void *user = queue.out[0];

	memmove(queue.out, queue.out + 1, --queue.nout * sizeof(queue.out[0]));
	return user;
}

int host_poll_group_poll(struct host_poll_group *group, struct host_completion *done, int max)
{
	int n = 0;

	(void)group;
	for (; n < max && queue.ready && queue.nout; queue.ready--, n++)
		done[n] = (struct host_completion){ .queue = the_queue, .user = queue_take(),
						    .cqe.status = (uint16_t)(queue.status << 1) };
	return n;
}

struct host_queue *host_poll_group_lost(struct host_poll_group *group)
{
	(void)group;
	if (!queue.lost || queue.told || (queue.ready && queue.nout))
		return NULL;
	queue.told = true;
	return the_queue;
}

int host_queue_abandon(struct host_queue *q, void **users, int max)
{
	int n = 0;

	(void)q;
	while (n < max && queue.nout)
		users[n++] = queue_take();
	return n;
}

const char *host_queue_reason(const struct host_queue *q)
{
	(void)q;
	return "the test has cut it";
}

int session_reopen(struct state *s, struct session *session, struct host_error *error)
{
	(void)s;
	snprintf(error->text, sizeof(error->text), "the test does not connect it");
	if (queue.reopen)
		return queue.reopen;
	queue.lost = queue.told = false;
	session->state = SESSION_LIVE;
	session->connected = 1;
	return 0;
}

void host_poll_group_flush(struct host_poll_group *group)
{
	(void)group;
}

int host_poll_group_arm(struct host_poll_group *group)
{
	(void)group;
	return 0;
}

int host_poll_group_fd(const struct host_poll_group *group)
{
	(void)group;
	return -1;
}

void host_poll_group_drain(struct host_poll_group *group)
{
	(void)group;
}

struct host_memory *host_memory_alloc(struct host_device *device, size_t length, char *err, size_t len)
{
	(void)device;
	(void)length;
	snprintf(err, len, "nothing is copied here");
	return NULL;
}

void host_memory_free(struct host_memory *memory)
{
	(void)memory;
}

/* ---- a job ---- */

struct job {
	struct thread_data td;
	struct nvmeof_options options;
	struct state state;
	struct hub hub;
	struct session session;
	struct host_memory buffers;
	struct fio_file file;
	struct request requests[DEPTH];
	struct io_u *finished[DEPTH], *events[DEPTH];
	struct io_u io_us[DEPTH];
	unsigned given[DEPTH];	/* number of times that getevents returned it */
	uint8_t data[DEPTH][MANY * PIECE];
};

static void job_make(struct job *j, unsigned slots)
{
	memset(&queue, 0, sizeof(queue));
	queue.slots = slots;
	memset(j, 0, sizeof(*j));
	j->buffers = (struct host_memory){ .addr = j->data, .length = sizeof(j->data) };
	j->hub.buffers = &j->buffers;
	j->session = (struct session){ .hub = &j->hub, .queue = the_queue, .piece = PIECE,
				       .info = { .nsid = 1, .blocks = 1 << 20, .block_size = 512 } };
	j->options.hipri = 1;
	j->state = (struct state){ .td = &j->td, .options = &j->options, .hubs = &j->hub,
				   .sessions = &j->session, .nsessions = 1, .requests = j->requests,
				   .nrequests = DEPTH, .finished = j->finished, .events = j->events,
				   .flush_at = 1 };
	j->td.io_ops_data = &j->state;
	j->td.eo = &j->options;
	for (unsigned i = 0; i < DEPTH; i++)
		j->io_us[i] = (struct io_u){ .ddir = DDIR_READ, .file = &j->file, .index = i,
					     .xfer_buf = j->data[i], .engine_data = &j->requests[i] };
}

static void job_queue(struct job *j, unsigned i, unsigned pieces)
{
	j->io_us[i].xfer_buflen = (unsigned long long)pieces * PIECE;
	j->given[i] = 0;
	CHECK(nvmeof_queue(&j->td, &j->io_us[i]) == FIO_Q_QUEUED);
	nvmeof_commit(&j->td);
}

/* Collect what has finished. */
static void job_reap(struct job *j)
{
	const struct timespec now = { 0 };
	int n;

	while ((n = nvmeof_getevents(&j->td, 0, DEPTH, &now)) > 0)
		for (int k = 0; k < n; k++)
			j->given[nvmeof_event(&j->td, k)->index]++;
}

#endif
