/* SPDX-License-Identifier: BSD-3-Clause */
/* Many Reads or Writes of one length; see batch.h. */
#include "host/batch.h"

#include "util/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum { BATCH_YIELD_EVERY = 64 };	/* polls without a completion */

int host_batch_init(struct host_batch *batch)
{
	struct host_batch *b = batch;

	b->status = malloc((b->count ? b->count : 1) * sizeof(*b->status));
	b->slots = calloc(b->depth, sizeof(*b->slots));
	b->free = calloc(b->depth, sizeof(*b->free));
	if (!b->status || !b->slots || !b->free) {
		host_batch_free(b);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < b->count; i++)
		b->status[i] = HOST_BATCH_OPEN;
	return 0;
}

void host_batch_free(struct host_batch *batch)
{
	free(batch->status);
	free(batch->slots);
	free(batch->free);
	batch->status = NULL;
	batch->slots = NULL;
	batch->free = NULL;
}

static void batch_answer(struct host_answer *answer, const struct nvme_cqe *cqe)
{
	struct host_batch_slot *slot = (struct host_batch_slot *)answer;
	struct host_batch *b = slot->batch;

	b->status[slot->index] = cqe->status >> 1;
	b->stopped |= cqe->status >> 1 != 0;
	b->free[b->nfree++] = (uint32_t)(slot - b->slots);
	b->outstanding--;
	b->answered++;
}

void host_batch_start(struct host_batch *batch, unsigned int at_once)
{
	struct host_batch *b = batch;

	for (uint32_t i = 0; i < b->count; i++)
		if (b->status[i])
			b->status[i] = HOST_BATCH_OPEN;
	for (uint32_t i = 0; i < b->depth; i++) {
		b->slots[i].answer.take = batch_answer;
		b->slots[i].batch = b;
		b->free[i] = i;
	}
	b->nfree = at_once < b->depth ? at_once : b->depth;
	b->next = b->outstanding = 0;
	b->stopped = false;
	b->error = 0;
}

void host_batch_abandon(struct host_batch *batch)
{
	batch->error = -ENOTCONN;
	batch->outstanding = 0;
}

/* Returns 0, or a negative errno if the command cannot be submitted. */
static int batch_submit(struct host_queue *queue, struct host_batch *b, uint32_t index)
{
	struct host_batch_slot *slot = &b->slots[b->free[b->nfree - 1]];
	struct host_data data = {
		.addr = b->addr + (size_t)index * b->bytes,
		.length = b->bytes,
		.memory = b->memory,
		.to_device = b->to_device,
		.in_capsule = b->in_capsule,
	};
	struct nvme_sqe sqe = b->sqe;

	sqe.cdw10 = (uint32_t)b->lbas[index];
	sqe.cdw11 = (uint32_t)(b->lbas[index] >> 32);
	slot->index = index;

	const int ret = host_queue_submit(queue, &sqe, &data, slot, true);

	if (ret < 0)
		return ret;
	b->nfree--;
	b->outstanding++;
	return 0;
}

void host_batch_run(struct host_queue *queue, struct host_batch *batch)
{
	struct host_batch *b = batch;
	bool any = false;

	while (b->nfree && b->next < b->count && !b->stopped && !b->error) {
		if (b->status[b->next] == HOST_BATCH_OPEN) {
			const int ret = batch_submit(queue, b, b->next);

			if (ret == -EAGAIN)
				break;
			if (ret) {
				b->error = ret;
				break;
			}
			any = true;
		}
		b->next++;
	}
	if (any)
		host_queue_flush(queue);
}

int host_batch_poll(struct host_queue *queue, struct host_completion *completions, int max, uint64_t ns)
{
	const uint64_t end = clock_ns() + ns;
	unsigned int idle = 0;
	int n;

	do {
		n = host_queue_poll(queue, completions, max);
		if (!n && ++idle % BATCH_YIELD_EVERY == 0)	/* the target may share the processor */
			sched_yield();
	} while (!n && clock_ns() < end);
	return n;
}
