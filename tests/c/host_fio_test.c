/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fio engine's io.c without fio and without a device: an I/O that is divided into pieces is returned to fio
 * exactly once, in whatever order its pieces complete, the queue is found lost and the rest of it is submitted, and
 * also if the session is connected again and it is sent a second time.
 */
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

static struct job *job;

/* ---- tests ---- */

static void test_pieces(void)
{
	job_make(job, 2);
	job_queue(job, 0, 5);
	job_queue(job, 1, 1);
	CHECK(queue.nout == 2);
	for (unsigned i = 0; i < 6; i++) {
		CHECK(job->given[1] == 0);
		queue.ready = 1;
		job_reap(job);
	}
	CHECK(job->given[0] == 1 && job->given[1] == 1 && !queue.nout);
	CHECK(!job->io_us[0].error && !job->io_us[1].error);
}

/*
 * Pieces for which the queue has no slots, some that complete, and the loss: noticed by a submit first, by the poll
 * first, or by the poll alone.
 */
static void test_lost(unsigned pieces, unsigned slots, unsigned complete, bool submit_sees)
{
	bool whole = pieces <= complete;

	job_make(job, slots);
	job_queue(job, 0, pieces);
	job_queue(job, 1, 1);
	queue.ready = complete;
	queue.lost = true;
	queue.told = submit_sees;	/* the poll does not report it yet */
	job_reap(job);
	queue.told = false;
	job_reap(job);
	job_reap(job);
	CHECK(job->given[0] == 1 && job->given[1] == 1,
	      "%u pieces, %u slots, %u complete: given %u and %u times", pieces, slots, complete,
	      job->given[0], job->given[1]);
	CHECK(!queue.nout && !job->state.waiting.first && !job->state.finished_count);
	/* completed pieces succeeded, and the others failed */
	CHECK(job->io_us[0].error == (whole && pieces <= slots ? 0 : EIO));
	CHECK(job->io_us[1].error == (complete > pieces && slots > pieces ? 0 : EIO));
	/* nothing is accepted after the loss, and nothing is returned later */
	CHECK(nvmeof_queue(&job->td, &job->io_us[2]) == FIO_Q_COMPLETED && job->io_us[2].error == EIO);
	job_reap(job);
	CHECK(job->given[0] == 1 && job->given[1] == 1 && !job->given[2]);
}

static void test_status(void)
{
	job_make(job, SLOTS);
	queue.status = NVME_LBA_OUT_OF_RANGE;
	job_queue(job, 0, 3);
	queue.ready = 3;
	job_reap(job);
	CHECK(job->given[0] == 1 && job->io_us[0].error == EREMOTEIO);
}

/* A loss after some pieces are complete, then attempts that fail, then one that succeeds: nothing fails. */
static void test_reconnected(unsigned pieces, unsigned slots, unsigned complete, bool submit_sees)
{
	job_make(job, slots);
	job->options.ctrl_loss_tmo = -1;
	job->options.reconnect_delay = 3600;
	job->session.connected = clock_ns() - 3600 * second;
	job_queue(job, 0, pieces);
	job_queue(job, 1, 1);
	queue.ready = complete;
	queue.lost = true;
	queue.reopen = -1;
	queue.told = submit_sees;
	job_reap(job);
	queue.told = false;
	job_reap(job);
	job_queue(job, 2, 2);	/* is held */
	job_reap(job);
	CHECK(job->given[2] == 0 && job->state.reconnecting == 1);
	queue.reopen = 0;
	job->session.next = 0;
	for (unsigned i = 0; i < pieces + 6; i++) {
		queue.ready = SLOTS;
		job_reap(job);
	}
	for (unsigned i = 0; i < 3; i++)
		CHECK(job->given[i] == 1 && !job->io_us[i].error, "%u pieces, %u slots: given %u times",
		      pieces, slots, job->given[i]);
	CHECK(!job->state.reconnecting && !queue.nout && !job->state.waiting.first);
}

static void job_reconnects(struct job *j, unsigned slots)
{
	job_make(j, slots);
	j->options.ctrl_loss_tmo = -1;
	j->session.connected = clock_ns() - second;
}

static void job_run(struct job *j)
{
	for (unsigned i = 0; i < 16; i++) {
		queue.ready = SLOTS;
		job_reap(j);
	}
	CHECK(!j->state.reconnecting && !queue.nout && !j->state.waiting.first && !j->session.held.first);
}

/* The poll that finds the loss also connects the session again: what is in line is sent from its beginning. */
static void test_reconnected_at_once(void)
{
	job_reconnects(job, 2);
	job_queue(job, 0, 5);
	queue.lost = true;
	job_reap(job);
	CHECK(job->session.state == SESSION_LIVE);
	job_run(job);
	CHECK(job->given[0] == 1 && !job->io_us[0].error, "given %u times", job->given[0]);
	CHECK(queue.submitted == 2 + 5, "2 pieces, and all 5 again: %u", queue.submitted);

	/* each of its connections ends while its first pieces are in flight */
	job_reconnects(job, 2);
	job_queue(job, 0, 5);
	for (unsigned i = 0; i < 2 * MAX_RETRIES + 4; i++) {
		queue.lost = true;
		job_reap(job);
	}
	CHECK(job->given[0] == 1 && job->io_us[0].error == EIO && !job->session.held.first);

	/* a Flush in line: the Write before it is repeated */
	job_reconnects(job, 1);
	job->options.method = METHOD_NVME_WRITE_FLUSH;
	job->io_us[0].ddir = DDIR_WRITE;
	job_queue(job, 0, 1);
	job_queue(job, 1, 1);
	queue.ready = 1;
	queue.lost = true;
	job_reap(job);
	job_run(job);
	CHECK(job->given[0] == 1 && job->given[1] == 1 && !job->io_us[0].error && !job->io_us[1].error);
	CHECK(queue.submitted == 4, "Write, Read, Write, Flush: %u commands", queue.submitted);
}

/* A submit that fails, though the connection is not lost, fails its I/O and no other. */
static void test_refused(void)
{
	job_make(job, SLOTS);
	queue.refuse = -ENOMEM;
	job_queue(job, 0, 3);
	queue.refuse = 0;
	job_queue(job, 1, 3);
	job_run(job);
	CHECK(job->given[0] == 1 && job->io_us[0].error == ENOMEM);
	CHECK(job->given[1] == 1 && !job->io_us[1].error);

	/* and one of which a piece is in flight waits for it */
	job_make(job, 1);
	job_queue(job, 0, 2);
	CHECK(queue.nout == 1);
	queue.refuse = -EMSGSIZE;
	job_reap(job);
	CHECK(!job->given[0] && !job->state.waiting.first);
	queue.ready = 1;
	job_reap(job);
	CHECK(job->given[0] == 1 && job->io_us[0].error == EMSGSIZE);
}

/* A connection that ends each time, and a job that ends, do not keep an I/O. */
static void test_given_up(void)
{
	job_make(job, SLOTS);
	job->options.ctrl_loss_tmo = -1;
	job_queue(job, 0, 3);
	for (unsigned i = 0; i < 2 * MAX_RETRIES + 4; i++) {
		queue.lost = true;
		job_reap(job);
	}
	CHECK(job->given[0] == 1 && job->io_us[0].error == EIO && !job->session.held.first);
	queue.reopen = -1;
	job->options.reconnect_delay = 3600;
	queue.lost = true;
	job_reap(job);
	job_queue(job, 1, 1);
	job->td.terminate = true;
	job_reap(job);
	CHECK(job->given[1] == 1 && job->io_us[1].error == EIO && !job->state.reconnecting);

	/* the namespace was replaced */
	job_make(job, SLOTS);
	job->options.ctrl_loss_tmo = -1;
	queue.reopen = -2;
	job_queue(job, 0, 1);
	queue.lost = true;
	job_reap(job);
	job_reap(job);
	CHECK(job->given[0] == 1 && job->io_us[0].error == EIO && !job->state.reconnecting);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	job = calloc(1, sizeof(*job));
	CHECK(job);
	test_pieces();
	for (unsigned pieces = 1; pieces <= 4; pieces++)
		for (unsigned slots = 1; slots <= 5; slots++)
			for (unsigned complete = 0; complete <= slots; complete++)
				for (unsigned sees = 0; sees < 2; sees++)
					test_lost(pieces, slots, complete, sees);
	test_reconnected(1, 4, 0, false);
	test_reconnected(3, 2, 1, true);
	test_reconnected(3, 2, 1, false);
	test_reconnected_at_once();
	test_refused();
	test_given_up();
	test_status();
	free(job);
	return check_report();
}
