/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background threads: see background.h.  Owns the thread, a stack of jobs that any thread pushes to without
 * a lock, and a semaphore with their number.
 */
#include "target/background.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "util/clock.h"
#include "util/fifo.h"
#include "util/stat.h"

struct background {
	_Atomic(struct job *) posted;	/* the newest first */
	sem_t count;
	pthread_t thread;
	_Atomic bool ended;
	bool stop;			/* used by the thread only */
};

static struct job *background_take(struct background *b)
{
	struct job *job = atomic_exchange(&b->posted, NULL), *next, *oldest = NULL;

	for (; job; job = next) {
		next = job->next;
		job->next = oldest;
		oldest = job;
	}
	return oldest;
}

static void *background_main(void *arg)
{
	struct background *b = arg;

	while (!b->stop) {
		struct job *job, *next;

		while (sem_wait(&b->count) && errno == EINTR)
			;
		for (job = background_take(b); job; job = next) {
			next = job->next;	/* the job may free the object that contains it */
			job->run(job);
		}
	}
	atomic_store(&b->ended, true);
	return NULL;
}

struct background *background_start(const char *name)
{
	struct background *b = calloc(1, sizeof(*b));
	sigset_t all, before;
	int rc;

	if (!b)
		return NULL;
	sem_init(&b->count, 0, 0);
	/* The application's threads handle signals. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);	/* memory that has failed: blocked, it would end the process */
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&b->thread, NULL, background_main, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		sem_destroy(&b->count);
		free(b);
		errno = rc;
		return NULL;
	}
	pthread_setname_np(b->thread, name);
	return b;
}

void background_post(struct background *b, struct job *job, void (*run)(struct job *job))
{
	job->run = run;
	if (!b) {
		run(job);
		return;
	}
	job->next = atomic_load_explicit(&b->posted, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&b->posted, &job->next, job))
		;
	sem_post(&b->count);
}

struct stop_job {
	struct job job;
	struct background *background;
};

static void stop_run(struct job *job)
{
	container_of(job, struct stop_job, job)->background->stop = true;
}

int background_stop(struct background *b, uint64_t deadline)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	struct stop_job *stop = malloc(sizeof(*stop));

	if (!stop)
		return -ENOMEM;
	stop->background = b;
	background_post(b, &stop->job, stop_run);
	while (!atomic_load(&b->ended)) {
		if (clock_ns() >= deadline)
			return -ETIMEDOUT;	/* the thread still uses stop */
		nanosleep(&pause, NULL);
	}
	pthread_join(b->thread, NULL);
	sem_destroy(&b->count);
	free(stop);
	free(b);
	return 0;
}
