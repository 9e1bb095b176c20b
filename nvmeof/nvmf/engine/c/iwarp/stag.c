/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of STags: open addressing, at most half full.  A slot whose object was removed remains part of searches
 * that pass it, until the table is rebuilt, which a searching thread does not notice: the old table is freed when no
 * thread can be using it.  Changed by control threads under iw_stags_lock.
 */
#include "stag.h"
#include "epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

enum { STAGS_MIN = 1024, STAG_GONE = 1 << 24 };	/* an index that no STag has */

struct iw_stag_table *_Atomic iw_stags;
pthread_mutex_t iw_stags_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t stags_live;

uint32_t iw_random32(void)
{
	uint32_t v;

	while (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
		;
	return v;
}

/* The first free slot for an index that is not in the table. */
static void stag_put(struct iw_stag_table *t, struct iw_stag *s)
{
	uint32_t i = s->index & t->mask, found;

	while ((found = atomic_load_explicit(&t->slot[i].index, memory_order_relaxed)) &&
	       found != STAG_GONE)
		i = (i + 1) & t->mask;
	t->used += !found;
	atomic_store_explicit(&t->slot[i].s, s, memory_order_release);
	atomic_store_explicit(&t->slot[i].index, s->index, memory_order_release);
}

/* Make room for a slot: drop the slots of removed objects, and double the size if that is not enough. */
static bool stag_room(void)
{
	struct iw_stag_table *old = atomic_load_explicit(&iw_stags, memory_order_relaxed), *t;
	uint32_t size = STAGS_MIN;

	if (old && old->used < (old->mask + 1) / 2)
		return true;
	while (size < 4 * (stags_live + 1))
		size *= 2;
	t = calloc(1, sizeof(*t) + size * sizeof(t->slot[0]));
	if (!t)
		return false;
	t->mask = size - 1;
	for (uint32_t i = 0; old && i <= old->mask; i++) {
		uint32_t index = atomic_load_explicit(&old->slot[i].index, memory_order_relaxed);

		if (index && index != STAG_GONE)
			stag_put(t, atomic_load_explicit(&old->slot[i].s, memory_order_relaxed));
	}
	atomic_store_explicit(&iw_stags, t, memory_order_release);
	iw_epoch_wait();
	free(old);
	return true;
}

uint32_t iw_stag_insert(struct iw_stag *s)
{
	uint32_t stag = 0;

	pthread_mutex_lock(&iw_stags_lock);
	if (stags_live < IW_MAX_STAGS && stag_room()) {
		do	/* 0 and MPA_RTR_READ_STAG are not used */
			stag = iw_random32();
		while (stag >> 8 == 0 || iw_stag_find(stag));
		s->index = stag >> 8;
		stag_put(atomic_load_explicit(&iw_stags, memory_order_relaxed), s);
		stags_live++;
	}
	pthread_mutex_unlock(&iw_stags_lock);
	if (!stag)
		errno = ENOMEM;
	return stag;
}

bool iw_stag_remove(struct iw_stag *s)
{
	struct iw_stag_table *t;
	bool found;

	pthread_mutex_lock(&iw_stags_lock);
	found = iw_stag_find(s->index << 8) == s;
	if (found) {
		uint32_t i = s->index & (t = atomic_load_explicit(&iw_stags, memory_order_relaxed))->mask;

		while (atomic_load_explicit(&t->slot[i].s, memory_order_relaxed) != s)
			i = (i + 1) & t->mask;
		atomic_store_explicit(&t->slot[i].index, STAG_GONE, memory_order_release);
		atomic_store_explicit(&t->slot[i].s, NULL, memory_order_release);
		stags_live--;
	}
	pthread_mutex_unlock(&iw_stags_lock);
	if (found)
		iw_epoch_wait();
	return found;
}
