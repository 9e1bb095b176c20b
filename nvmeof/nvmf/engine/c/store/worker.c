/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine if io_uring is not permitted: threads that make the same calls with preadv2, pwritev2 and so on.
 * Owns the threads, and the lists between them and the reactor; an io belongs to one side at a time.
 *
 * Two threads run the calls of a ring, and a spare thread checks for progress.  A store whose calls do not end occupies
 * at most two threads.  If no thread takes the waiting calls of other stores, the spare becomes a worker and a new
 * spare is created.  Threads that were created stay.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "store_internal.h"

enum {
	THREADS = 2,
	THREADS_OF_A_STORE = 2,
	THREADS_MOST = THREADS + 1 + THREADS_OF_A_STORE * STORE_LINE_STUCK,
	STUCK_NS = 10000000,	/* time without progress while calls wait */
};

struct worker_line {
	struct store_list todo;
	struct worker_line *next;	/* round-robin */
	unsigned running;		/* threads that run its calls */
};

struct worker {
	struct store_engine engine;
	int wake_fd;
	unsigned unread;	/* finished; also read without the lock, as a hint */
	pthread_mutex_t lock;	/* protects the fields below */
	pthread_cond_t more;
	pthread_cond_t watch;	/* for the spare thread, which sleeps until no thread is idle */
	bool asleep;
	struct worker_line *turn;	/* lines with calls to run that may use a further thread */
	struct worker_line **turn_tail;
	struct store_list finished;
	uint64_t taken;		/* since the start */
	unsigned idle;		/* threads that wait for more */
	unsigned started;
	bool stop;
	pthread_t threads[THREADS_MOST];
	struct worker_line line[STORE_LINES];
};

static struct worker *worker_of(struct store_engine *engine)
{
	return (struct worker *)engine;	/* its first member */
}

static int64_t worker_call(const struct store_call *call)
{
	struct iovec iov = { .iov_base = call->buffer, .iov_len = call->length };
	int64_t rc = -1;

	switch (call->type) {
	case STORE_CALL_READ:
		rc = preadv2(call->fd, &iov, 1, (off_t)call->offset, 0);
		break;
	case STORE_CALL_WRITE:
		rc = pwritev2(call->fd, &iov, 1, (off_t)call->offset, call->flags);
		break;
	case STORE_CALL_FALLOCATE:
		rc = fallocate(call->fd, call->flags, (off_t)call->offset, (off_t)call->length);
		break;
	case STORE_CALL_SYNC:
		rc = fdatasync(call->fd);
		break;
	case STORE_CALL_POPULATE:
		rc = madvise(call->buffer, call->length, call->flags);
		break;
	}
	return rc < 0 ? -errno : rc;
}

static void worker_run(struct store_io *io)
{
	struct store_call call;

	do {
		store_call_next(io, &call);
	} while (store_call_result(io, worker_call(&call)));
}

/* ---- under the lock ---- */

static void worker_push_line(struct worker *w, struct worker_line *line)
{
	line->next = NULL;
	*w->turn_tail = line;
	w->turn_tail = &line->next;
}

/* There are calls to run: wake a worker, or the spare if no worker is idle. */
static void worker_tell(struct worker *w)
{
	if (w->idle)
		pthread_cond_signal(&w->more);
	else if (w->asleep)
		pthread_cond_signal(&w->watch);
}

/* Take the next io, of the next line; NULL if there is none for this thread. */
static struct store_io *worker_take(struct worker *w)
{
	struct worker_line *line = w->turn;
	struct store_io *io;

	if (!line)
		return NULL;
	if (!(w->turn = line->next))
		w->turn_tail = &w->turn;
	io = store_list_pop(&line->todo);
	line->running++;
	w->taken++;
	if (line->todo.head && line->running < THREADS_OF_A_STORE)
		worker_push_line(w, line);
	if (w->turn)	/* worker_begin() may have woken only this thread for two ios */
		worker_tell(w);
	return io;
}

static void worker_finish(struct worker *w, struct store_io *io)
{
	static const uint64_t one = 1;
	struct worker_line *line = &w->line[io->store->line];

	if (line->running-- == THREADS_OF_A_STORE && line->todo.head)
		worker_push_line(w, line);
	store_list_push(&w->finished, io);
	__atomic_store_n(&w->unread, w->unread + 1, __ATOMIC_RELEASE);
	if (w->unread == 1 && write(w->wake_fd, &one, sizeof(one)) < 0)
		return;	/* only if the counter would overflow: the descriptor is readable */
}

/* ---- threads ---- */

/* Under the lock, or before there are threads.  A failure is ignored: fewer threads are only slower. */
static void worker_start(struct worker *w, void *(*thread)(void *))
{
	sigset_t all, before;

	/* The application's threads handle signals; faults stay unblocked. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (w->started < THREADS_MOST &&
	    !pthread_create(&w->threads[w->started], NULL, thread, w))
		w->started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void *worker_work(void *argument)
{
	struct worker *w = argument;
	struct store_io *io;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		io = worker_take(w);
		if (!io) {
			if (w->stop)
				break;
			w->idle++;
			pthread_cond_wait(&w->more, &w->lock);
			w->idle--;
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		worker_run(io);
		pthread_mutex_lock(&w->lock);
		worker_finish(w, io);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Whether calls have waited for STUCK_NS and none of them was taken in that time. */
static bool worker_is_stuck(struct worker *w)
{
	uint64_t taken = w->taken, at = clock_ns() + STUCK_NS;
	struct timespec until = { .tv_sec = (time_t)(at / 1000000000u),
				  .tv_nsec = (long)(at % 1000000000u) };

	while (!w->stop && clock_ns() < at)
		pthread_cond_timedwait(&w->watch, &w->lock, &until);
	return !w->stop && w->turn && w->taken == taken;
}

static void *worker_spare(void *argument)
{
	struct worker *w = argument;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if (!w->turn) {
			w->asleep = true;
			pthread_cond_wait(&w->watch, &w->lock);
			w->asleep = false;
		} else if (worker_is_stuck(w)) {
			worker_start(w, worker_spare);
			break;
		}
	}
	pthread_mutex_unlock(&w->lock);
	return worker_work(w);
}

/* ---- the engine ---- */

static void worker_begin(struct store_engine *engine, struct store_io *io)
{
	struct worker *w = worker_of(engine);
	struct worker_line *line = &w->line[io->store->line];

	pthread_mutex_lock(&w->lock);
	if (!line->todo.head && line->running < THREADS_OF_A_STORE)
		worker_push_line(w, line);
	store_list_push(&line->todo, io);
	if (w->turn)
		worker_tell(w);
	pthread_mutex_unlock(&w->lock);
}

static void worker_poll(struct store_engine *engine, struct store_list *finished)
{
	struct worker *w = worker_of(engine);
	struct store_io *io;

	if (!__atomic_load_n(&w->unread, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&w->lock);
	while ((io = store_list_pop(&w->finished)))
		store_list_push(finished, io);
	__atomic_store_n(&w->unread, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&w->lock);
}

static bool worker_push(struct store_engine *engine)
{
	(void)engine;
	return true;
}

static void worker_destroy(struct store_engine *engine)
{
	struct worker *w = worker_of(engine);

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->more);
	pthread_cond_broadcast(&w->watch);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->started; i++)	/* no further ones are created */
		pthread_join(w->threads[i], NULL);
	pthread_cond_destroy(&w->watch);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

struct store_engine *store_worker_create(int wake_fd)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t clock;

	if (!w)
		return NULL;
	w->engine.name = "worker threads";
	w->engine.begin = worker_begin;
	w->engine.poll = worker_poll;
	w->engine.push = worker_push;
	w->engine.destroy = worker_destroy;
	w->wake_fd = wake_fd;
	w->turn_tail = &w->turn;
	store_list_init(&w->finished);
	for (unsigned i = 0; i < STORE_LINES; i++)
		store_list_init(&w->line[i].todo);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	pthread_cond_init(&w->watch, &clock);
	pthread_condattr_destroy(&clock);
	for (unsigned i = 0; i < THREADS; i++)
		worker_start(w, worker_work);
	if (!w->started) {
		worker_destroy(&w->engine);
		return NULL;
	}
	worker_start(w, worker_spare);
	return &w->engine;
}
