/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many Reads or Writes of one length: keeps a queue full of them, and reports only their end.
 *
 * A batch belongs to the thread that polls its queue.  The data of its commands is contiguous in one registered
 * buffer.  Completions whose user is one of the batch's slots belong to the batch; the thread that polls passes
 * them on (host_answer_take), and continues the batch (host_batch_run).
 */
#ifndef NVMF_HOST_BATCH_H
#define NVMF_HOST_BATCH_H

#include "host/answer.h"
#include "host/host.h"

enum { HOST_BATCH_OPEN = 0xffff };	/* the status of a command without an answer */

struct host_batch;
struct host_batch_slot {
	struct host_answer answer;
	struct host_batch *batch;
	uint32_t index;			/* of the command */
};

struct host_batch {
	/* set by the caller */
	struct nvme_sqe sqe;		/* of each command, except its SLBA */
	const uint64_t *lbas;
	uint32_t count;
	uint32_t bytes;			/* data length of each */
	const struct host_memory *memory;
	uint8_t *addr;			/* data of the first */
	bool to_device, in_capsule;
	unsigned int depth;		/* maximum of outstanding commands; at least 1 */
	/* internal */
	uint16_t *status;		/* of each: HOST_BATCH_OPEN or the NVMe status */
	struct host_batch_slot *slots;
	uint32_t *free;			/* places in slots */
	unsigned int nfree;
	uint32_t next, outstanding, answered;
	bool stopped;			/* a command failed: no further commands are sent */
	int error;			/* negative errno for which commands cannot be submitted, or 0 */
};

/* Prepare a batch whose fields are set by the caller, the others zero; 0 or -ENOMEM. */
int host_batch_init(struct host_batch *batch);
void host_batch_free(struct host_batch *batch);
/* Run the commands that have not succeeded, at_once or depth of them at a time.  No command may be outstanding. */
void host_batch_start(struct host_batch *batch, unsigned int at_once);
/* The queue is lost: nothing is outstanding. */
void host_batch_abandon(struct host_batch *batch);

/* Submit as many as the depth and the queue allow. */
void host_batch_run(struct host_queue *queue, struct host_batch *batch);

static inline bool host_batch_ended(const struct host_batch *batch)
{
	return !batch->outstanding && (batch->next == batch->count || batch->stopped || batch->error);
}

/* As host_queue_poll, but polls for up to this many ns until there are completions. */
int host_batch_poll(struct host_queue *queue, struct host_completion *completions, int max, uint64_t ns);

#endif
