/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fio engine's io.c without fio and without a device: an I/O that is divided into pieces is returned to fio
 * exactly once, in whatever order its pieces complete, the queue is found lost and the rest of it is submitted, and
 * also if the session is connected again and it is sent a second time.
 */
#include "host_fio_rig.h"

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
