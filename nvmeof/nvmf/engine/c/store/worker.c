/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine for places where io_uring is not permitted: two threads per ring that make the same
 * calls with preadv2 and friends.  Owns the threads and the two lists between them and the
 * reactor; an io belongs to one side at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "store_internal.h"

enum { THREADS = 2 };

struct worker {
	struct store_engine engine;
	pthread_t threads[THREADS];
	unsigned started;
	int wake_fd;
	pthread_mutex_t lock;	/* of what follows */
	pthread_cond_t more;
	struct store_list todo;
	struct store_list finished;
	unsigned unread;	/* finished; also read without the lock, as a hint */
	bool stop;
};

static struct worker *worker_of(struct store_engine *engine)
{
	return (struct worker *)engine;	/* its first member */
}

static int64_t make_call(const struct store_call *call)
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
	}
	return rc < 0 ? -errno : rc;
}

static void run(struct store_io *io)
{
	struct store_call call;

	do {
		store_call_next(io, &call);
	} while (store_call_result(io, make_call(&call)));
}

static void *work(void *argument)
{
	static const uint64_t one = 1;
	struct worker *w = argument;
	struct store_io *io;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		io = store_list_pop(&w->todo);
		if (!io) {
			if (w->stop)
				break;
			pthread_cond_wait(&w->more, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		run(io);
		pthread_mutex_lock(&w->lock);
		store_list_push(&w->finished, io);
		__atomic_store_n(&w->unread, w->unread + 1, __ATOMIC_RELEASE);
		if (w->unread == 1 && write(w->wake_fd, &one, sizeof(one)) < 0)
			continue;	/* only by overflow: readable anyway */
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void worker_begin(struct store_engine *engine, struct store_io *io)
{
	struct worker *w = worker_of(engine);

	pthread_mutex_lock(&w->lock);
	store_list_push(&w->todo, io);
	pthread_cond_signal(&w->more);
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
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->started; i++)
		pthread_join(w->threads[i], NULL);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

struct store_engine *store_worker_create(unsigned depth, int wake_fd)
{
	struct worker *w = calloc(1, sizeof(*w));
	sigset_t all, before;

	if (!w)
		return NULL;
	w->engine.name = "worker threads";
	w->engine.depth = depth;
	w->engine.begin = worker_begin;
	w->engine.poll = worker_poll;
	w->engine.push = worker_push;
	w->engine.destroy = worker_destroy;
	w->wake_fd = wake_fd;
	store_list_init(&w->todo);
	store_list_init(&w->finished);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	/* Signals are the application's; faults cannot be blocked and need not be. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (w->started < THREADS &&
	       !pthread_create(&w->threads[w->started], NULL, work, w))
		w->started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!w->started) {
		worker_destroy(&w->engine);
		return NULL;
	}
	return &w->engine;
}
