/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same Writes to several queues (the legs of a mirror): one call submits them on all legs, and the answers are
 * counted here.  The owner gets one report when every leg has answered, and a report of each failed leg at once.
 *
 * The memory of a spread is one range, registered for the device of each leg, and divided into operations: small ones
 * and large ones.  An operation writes data to one or several places, and is in use until it was reported with no
 * leg outstanding.
 *
 * A spread and the queues of its legs belong to one thread; a queue may be destroyed by a different one, between
 * host_spread_stop and host_spread_detach.  The thread that polls a queue passes on the completions
 * whose user is part of a spread (host_answer_take), and continues the leg (host_spread_run).  A command costs no
 * allocation and no lock, and its cost does not depend on the number of others.
 */
#ifndef NVMF_HOST_SPREAD_H
#define NVMF_HOST_SPREAD_H

#include "host/answer.h"
#include "host/host.h"

enum { HOST_SPREAD_LEGS = 16, HOST_SPREAD_BLOCK = 512 };

struct host_spread;

struct host_spread_options {
	unsigned legs;
	uint8_t *addr;			/* small * small_bytes + large * large_bytes */
	unsigned small, large;		/* operations */
	uint32_t small_bytes, large_bytes;	/* multiples of HOST_SPREAD_BLOCK */
};

/* NULL: no memory, or inconsistent options. */
struct host_spread *host_spread_create(const struct host_spread_options *options);
void host_spread_destroy(struct host_spread *spread);	/* no leg is attached */

/* The queue and the namespace of a leg; its Writes have Force Unit Access set. */
struct host_spread_leg {
	struct host_queue *queue;
	const struct host_memory *memory;	/* the spread's, registered for the queue's device */
	uint32_t nsid;
	uint8_t shift;			/* a block is 1 << shift bytes */
	unsigned most;			/* commands outstanding on the queue; at least 1 */
	bool paused;			/* nothing is submitted */
};
int host_spread_attach(struct host_spread *spread, unsigned index, const struct host_spread_leg *leg);
/*
 * The queue is about to be destroyed, perhaps by a different thread: it is not used from now on.  What is outstanding
 * stays so until the leg is detached, because the peer may still read its data.
 */
void host_spread_stop(struct host_spread *spread, unsigned index);
/* The queue's commands were abandoned: the outstanding ones have failed, and no command is outstanding. */
void host_spread_detach(struct host_spread *spread, unsigned index);
/* The legs that can be written to, and those that were stopped and not detached. */
uint32_t host_spread_attached(const struct host_spread *spread);
uint32_t host_spread_stopped(const struct host_spread *spread);
void host_spread_pause(struct host_spread *spread, unsigned index, bool paused);

/*
 * Write data, count times bytes, to these offsets (bytes, multiples of the blocks of all legs) on each of the legs, a
 * set of bits.  Returns the operation; -EAGAIN if none is free, -EINVAL for legs or lengths that are not possible.
 * more: the doorbells wait for host_spread_flush() or a poll.
 */
int host_spread_write(struct host_spread *spread, uint32_t legs, const uint64_t *offsets, uint32_t count,
		      uint32_t bytes, const void *data, bool more);
void host_spread_flush(struct host_spread *spread);
/* Submit commands that did not fit into the queue of a leg. */
void host_spread_run(struct host_spread *spread, unsigned index);

/* Sets of legs. */
struct host_spread_news {
	unsigned op;
	uint32_t out, has, failed;	/* outstanding; the data is persistent; it may be there, or in part */
};
/* The next operation with a leg that failed since it was reported, or without legs outstanding. */
bool host_spread_take(struct host_spread *spread, struct host_spread_news *news);
bool host_spread_has_news(const struct host_spread *spread);
/* The legs that have the data of an operation that is in use. */
uint32_t host_spread_has(const struct host_spread *spread, unsigned op);

#endif
