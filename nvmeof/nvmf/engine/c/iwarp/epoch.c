/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots of threads.  Owns the list of them, which only grows: the slot of a thread that has ended is given to the
 * next new thread.  Any thread.
 */
#include "lock.h"

#include <pthread.h>
#include <stdlib.h>

_Thread_local struct iw_epoch *iw_epoch_mine __attribute__((tls_model("initial-exec")));

static struct iw_epoch *_Atomic epochs;
static pthread_once_t epoch_once = PTHREAD_ONCE_INIT;
static pthread_key_t epoch_key;

/* The thread ends: release its slot. */
static void epoch_quit(void *epoch)
{
	iw_epoch_mine = NULL;
	atomic_store_explicit(&((struct iw_epoch *)epoch)->taken, false, memory_order_release);
}

/* A child has no other threads: their sections have ended. */
static void epoch_forked(void)
{
	for (struct iw_epoch *e = atomic_load(&epochs); e; e = e->next) {
		if (e == iw_epoch_mine)
			continue;
		atomic_store(&e->count, 0);
		atomic_store(&e->taken, false);
	}
}

static void epoch_setup(void)
{
	if (pthread_key_create(&epoch_key, epoch_quit) || pthread_atfork(NULL, NULL, epoch_forked))
		abort();	/* at the first use: the process has no resources left */
}

static struct iw_epoch *epoch_reuse(void)
{
	for (struct iw_epoch *e = atomic_load(&epochs); e; e = e->next) {
		bool no = false;

		if (atomic_compare_exchange_strong(&e->taken, &no, true))
			return e;
	}
	return NULL;
}

struct iw_epoch *iw_epoch_join(void)
{
	struct iw_epoch *e;

	pthread_once(&epoch_once, epoch_setup);
	e = epoch_reuse();
	if (!e) {
		e = aligned_alloc(IW_CACHE_LINE, sizeof(*e));
		if (!e)
			abort();	/* 64 bytes, once per thread; the thread itself needed far more */
		atomic_init(&e->count, 0);
		atomic_init(&e->taken, true);
		e->next = atomic_load(&epochs);
		while (!atomic_compare_exchange_weak(&epochs, &e->next, e))
			;
	}
	iw_epoch_mine = e;
	/* on failure the slot is merely never reused by a different thread */
	(void)pthread_setspecific(epoch_key, e);
	return e;
}

void iw_epoch_wait(void)
{
	static atomic_uint barrier;

	/*
	 * Objects made unreachable are so before a slot is read: a thread that marks its slot later does not find
	 * them. The same is true of a new thread that is not in the list yet.
	 */
#if defined(__x86_64__) || defined(__i386__)
	atomic_exchange(&barrier, 1);
#else
	(void)barrier;
	atomic_thread_fence(memory_order_seq_cst);
#endif
	for (struct iw_epoch *e = atomic_load(&epochs); e; e = e->next) {
		unsigned int count = atomic_load_explicit(&e->count, memory_order_acquire);

		for (int n = 0; count & 1 && atomic_load_explicit(&e->count, memory_order_acquire) == count;
		     n++) {
			if (n < 64)
				cpu_pause();
			else
				sched_yield();
		}
	}
}
