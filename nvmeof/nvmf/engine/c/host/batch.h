/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many Reads or Writes of one length: a queue is kept full of them, and only their end is told.
 *
 * A batch belongs to the thread that polls its queue.  The data of its commands lies in one registered
 * buffer, one after the other.  Completions whose user is one of the batch's slots are the batch's
 * (host_batch_answer); whoever polls tells it, and lets it go on (host_batch_run).
 */
#ifndef NVMF_HOST_BATCH_H
#define NVMF_HOST_BATCH_H

#include "host/host.h"

enum { HOST_BATCH_OPEN = 0xffff };	/* the status of a command that was not answered yet */

struct host_batch;
struct host_batch_slot {
	struct host_batch *batch;
	uint32_t index;			/* of the command */
};

struct host_batch {
	/* the caller's */
	struct nvme_sqe sqe;		/* of each command, but for its SLBA */
	const uint64_t *lbas;
	uint32_t count;
	uint32_t bytes;			/* of the data of each */
	const struct host_memory *memory;
	uint8_t *addr;			/* of the data of the first */
	bool to_device, in_capsule;
	unsigned int depth;		/* commands outstanding at most; 1 or more */
	/* its own */
	uint16_t *status;		/* of each: HOST_BATCH_OPEN, or the NVMe status */
	struct host_batch_slot *slots;
	uint32_t *free;			/* places in slots */
	unsigned int nfree;
	uint32_t next, outstanding, answered;
	bool stopped;			/* a command failed: those that were not sent are not */
	int error;			/* why commands cannot be submitted, negative */
};

/* With the caller's part filled in, and the rest zero; -ENOMEM. */
int host_batch_init(struct host_batch *batch);
void host_batch_free(struct host_batch *batch);
/* While nothing is outstanding: run what has not succeeded, so many at once, or depth. */
void host_batch_start(struct host_batch *batch, unsigned int at_once);
/* The queue is lost: nothing is outstanding any longer. */
void host_batch_abandon(struct host_batch *batch);

/* Submit as many as the depth and the queue allow. */
void host_batch_run(struct host_queue *queue, struct host_batch *batch);
void host_batch_answer(struct host_batch_slot *slot, const struct nvme_cqe *cqe);

static inline bool host_batch_ended(const struct host_batch *batch)
{
	return !batch->outstanding && (batch->next == batch->count || batch->stopped || batch->error);
}

/* host_queue_poll, which looks for so many ns until there is something. */
int host_batch_poll(struct host_queue *queue, struct host_completion *completions, int max, uint64_t ns);

#endif
