/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations: found no matter how many there are, and freed only when they are not in use. */
#include "iwarp_pair.h"

#include "iwarp.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Steps of the longest search, and of all searches, for the entries of the table. */
static uint32_t longest_search(uint64_t *sum)
{
	const struct iw_stag_table *t = iw_stags;
	uint32_t longest = 0;

	*sum = 0;
	for (uint32_t i = 0; i <= t->mask; i++) {
		uint32_t index = t->slot[i].index, steps;

		if (!index || index >> 24)
			continue;
		steps = ((i - index) & t->mask) + 1;
		*sum += steps;
		longest = steps > longest ? steps : longest;
	}
	return longest;
}

static void many(struct ibv_pd *pd)
{
	enum { N = 200000 };
	struct ibv_mr **mr = calloc(N, sizeof(struct ibv_mr *));
	static uint8_t bytes[N];
	uint64_t sum;
	uint32_t longest;
	unsigned int bad = 0;

	for (unsigned int i = 0; i < N; i++) {
		mr[i] = v->reg_mr(pd, bytes + i, 1, IBV_ACCESS_REMOTE_READ);
		bad += !mr[i];
	}
	check(!bad, "many: %d registrations", N);
	for (unsigned int i = 0; i < N; i++)
		bad += iw_mr_look(pd, NULL, mr[i]->rkey, (uintptr_t)bytes + i, 1, IBV_ACCESS_REMOTE_READ) != IW_OK ||
		       iw_mr_look(pd, NULL, mr[i]->rkey, (uintptr_t)bytes + i + 1, 1, IBV_ACCESS_REMOTE_READ) == IW_OK ||
		       iw_mr_look(pd, NULL, mr[i]->rkey ^ 1, (uintptr_t)bytes + i, 1, 0) == IW_OK;
	check(!bad, "many: each is found, and its own");
	longest = longest_search(&sum);
	check(sum < 2 * N && longest < 128, "many: %.2f steps each, %u at most", (double)sum / N, longest);
	/* most are removed and replaced many times: the searches stay short */
	for (unsigned int i = 0; i < N - 1000; i++)
		bad += v->dereg_mr(mr[i]) != 0;
	for (unsigned int i = 0; i < N; i++) {
		struct ibv_mr *m = v->reg_mr(pd, bytes, N, IBV_ACCESS_REMOTE_READ);

		bad += !m || v->dereg_mr(m);
	}
	for (unsigned int i = N - 1000; i < N; i++)
		bad += iw_mr_look(pd, NULL, mr[i]->rkey, (uintptr_t)bytes + i, 1, IBV_ACCESS_REMOTE_READ) != IW_OK;
	check(!bad, "many: what stays is found after all that went");
	check(iw_stags->used <= (iw_stags->mask + 1) / 2 && iw_stags->used < 4 * N,
	      "many: the table does not fill up with what went (%u of %u)", iw_stags->used, iw_stags->mask + 1);
	for (unsigned int i = N - 1000; i < N; i++)
		bad += v->dereg_mr(mr[i]) != 0;
	check(!bad, "many: released");
	free(mr);
}

/* Deregistration does not need a queue pair's lock: dereg_mr returns while it is held. */
static void untouched_queue_pairs(void)
{
	struct iw_qp *qp;
	struct ibv_mr *mr;
	struct pair p;

	check(!pair_open(&p, NULL), "untouched: connects");
	qp = iw_qp(p.a.qp);
	mr = v->reg_mr(p.a.pd, p.a.mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	iw_lock(&qp->lock);
	check(!v->dereg_mr(mr), "untouched: a registration goes while a queue pair is locked");
	iw_unlock(&qp->lock);
	pair_close(&p);
}

static struct {
	iw_spin lock;
	atomic_int inside, gone;
	struct ibv_mr *mr;
} held;

static void *deregister(void *unused)
{
	v->dereg_mr(held.mr);
	atomic_store(&held.gone, 1);
	return unused;
}

static void waits(struct ibv_pd *pd)
{
	struct iw_epoch *section;
	uint8_t byte[8];
	pthread_t thread;
	int early = 0;

	held.mr = v->reg_mr(pd, byte, sizeof(byte), IBV_ACCESS_LOCAL_WRITE);
	section = iw_section_lock(&held.lock);
	pthread_create(&thread, NULL, deregister, NULL);
	/* no longer found, and not freed yet */
	while (iw_stag_find(held.mr->rkey))
		sched_yield();
	for (int i = 0; i < 2000; i++, sched_yield())
		early |= atomic_load(&held.gone);
	iw_section_unlock(section, &held.lock);
	pthread_join(thread, NULL);
	check(!early && atomic_load(&held.gone), "waits: dereg_mr returns when the section is left, not before");
}

/* Threads that use regions through their STags while others deregister them and free the memory. */
enum { READERS = 3, CHANGERS = 2, PLACES = 16, TURNS = 400, LIVES = 30 };

static struct {
	struct ibv_pd *pd;
	atomic_uint stag[PLACES];
	uint8_t *_Atomic at[PLACES];
	atomic_int stop;
	atomic_ulong used, missed, wrong;
} shared;

static void read_some(int turns)
{
	iw_spin lock = 0;

	for (int i = 0; i < turns; i++) {
		uint32_t k = (uint32_t)i * 7 % PLACES, stag = atomic_load(&shared.stag[k]);
		uint8_t *at = atomic_load(&shared.at[k]);
		struct iw_epoch *section = iw_section_lock(&lock);

		if (iw_mr_look(shared.pd, NULL, stag, (uintptr_t)at, 64, IBV_ACCESS_REMOTE_READ) == IW_OK) {
			uint8_t first = at[0];

			for (int j = 1; j < 64; j++)
				if (at[j] != first)
					atomic_fetch_add(&shared.wrong, 1);
			atomic_fetch_add(&shared.used, 1);
		} else {
			atomic_fetch_add(&shared.missed, 1);
		}
		iw_section_unlock(section, &lock);
	}
}

/* Threads start and end: their slots are reused. */
static void *short_life(void *unused)
{
	read_some(200);
	return unused;
}

static void *reader(void *unused)
{
	while (!atomic_load(&shared.stop))
		read_some(100), sched_yield();
	return unused;
}

static void *changer(void *arg)
{
	uint32_t k = (uint32_t)(uintptr_t)arg;
	struct ibv_mr *mr[PLACES] = { NULL };

	for (int i = 0; i < TURNS || atomic_load(&shared.used) < TURNS; i++, k = (k + CHANGERS) % PLACES) {
		uint8_t *old = atomic_load(&shared.at[k]), *memory = malloc(64);

		if (mr[k])
			v->dereg_mr(mr[k]);
		free(old);	/* the sanitizers would report a reader that still used it */
		memset(memory, i, 64);
		mr[k] = v->reg_mr(shared.pd, memory, 64, IBV_ACCESS_REMOTE_READ);
		atomic_store(&shared.at[k], memory);
		atomic_store(&shared.stag[k], mr[k]->rkey);
	}
	for (k = 0; k < PLACES; k++) {
		if (!mr[k])
			continue;
		v->dereg_mr(mr[k]);
		free(atomic_load(&shared.at[k]));
	}
	return NULL;
}

static unsigned int slots(void)
{
	unsigned int n = 0;

	for (const struct iw_epoch *e = iw_epoch_mine; e; e = e->next)
		n++;
	return n;
}

static void at_once(struct ibv_pd *pd)
{
	pthread_t readers[READERS], changers[CHANGERS], passing;
	unsigned int before;

	shared.pd = pd;
	for (int i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, reader, NULL);
	for (uintptr_t i = 0; i < CHANGERS; i++)
		pthread_create(&changers[i], NULL, changer, (void *)i);
	for (int i = 0; i < LIVES; i++) {
		pthread_create(&passing, NULL, short_life, NULL);
		pthread_join(passing, NULL);
	}
	for (int i = 0; i < CHANGERS; i++)
		pthread_join(changers[i], NULL);
	atomic_store(&shared.stop, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	check(!shared.wrong && shared.used, "at once: %lu uses, %lu refused, %lu of memory that was not theirs",
	      shared.used, shared.missed, shared.wrong);
	/* the list grows at its head: what is behind ours is older, so a thread that joins late shows in none */
	before = slots();
	for (int i = 0; i < LIVES; i++) {
		pthread_create(&passing, NULL, short_life, NULL);
		pthread_join(passing, NULL);
	}
	check(slots() == before && before <= READERS + CHANGERS + 8, "at once: %u slots, also after %d threads more",
	      before, LIVES);
}

void test_regs(void)
{
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_pd *pd = v->alloc_pd(v->open_device(list[0]));

	v->free_device_list(list);
	waits(pd);
	at_once(pd);
	many(pd);
	check(!v->dealloc_pd(pd), "regs: the domain is released");
	untouched_queue_pairs();
}
