/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the mock devices of the target's and of the host's fuzzers: objects that are created, counted and destroyed,
 * and memory of which only registered parts are accessed.
 */
#ifndef FUZZ_MOCK_OBJECTS_H
#define FUZZ_MOCK_OBJECTS_H

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

enum { MRS = 64, MRS_KEYS = 1 << 20 };

static struct {
	struct ibv_mr *mrs[MRS];
	unsigned count;			/* created and not destroyed */
	unsigned registered;
} mock_objects;

static void *mock_new(size_t size)
{
	void *p = calloc(1, size);

	REQUIRE(p);
	mock_objects.count++;
	return p;
}

static int mock_free(void *p)
{
	free(p);
	mock_objects.count--;
	return 0;
}

static struct ibv_mr *mock_mr(uint32_t key, uint64_t addr, uint64_t length)
{
	struct ibv_mr *mr = mock_objects.mrs[key % MRS];

	REQUIRE(mr && mr->rkey == key && addr >= (uintptr_t)mr->addr && length <= mr->length &&
		addr - (uintptr_t)mr->addr <= mr->length - length);
	return mr;
}

static struct ibv_pd *mock_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = mock_new(sizeof(*pd));

	pd->context = c;
	return pd;
}

static int mock_dealloc_pd(struct ibv_pd *pd)
{
	return mock_free(pd);
}

static struct ibv_mr *mock_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = mock_new(sizeof(*mr));

	(void)access;
	*mr = (struct ibv_mr){ .pd = pd, .addr = addr, .length = length };
	for (uint32_t i = 0; i < MRS; i++) {
		if (mock_objects.mrs[i])
			continue;
		mock_objects.mrs[i] = mr;
		/* a different key than that of the earlier region in this place; 0 is invalid */
		mr->lkey = mr->rkey = (++mock_objects.registered % MRS_KEYS) * MRS + i;
		return mr;
	}
	abort();
}

static int mock_dereg_mr(struct ibv_mr *mr)
{
	mock_objects.mrs[mr->lkey % MRS] = NULL;
	return mock_free(mr);
}

static struct ibv_comp_channel *mock_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *channel = mock_new(sizeof(*channel));

	channel->context = c;
	channel->fd = eventfd(0, EFD_NONBLOCK);
	return channel;
}

static int mock_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	return mock_free(channel);
}

static int mock_destroy_cq(struct ibv_cq *cq)
{
	return mock_free(cq);
}

static int mock_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

#endif
