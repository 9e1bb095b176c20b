/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of python stores, as seen by their answering threads (python.c) and by reactors (python_ring.c). */
#ifndef NVMF_STORE_PYTHON_INTERNAL_H
#define NVMF_STORE_PYTHON_INTERNAL_H

#include <stdatomic.h>

#include "../util/list.h"
#include "python.h"
#include "store_internal.h"

/*
 * Reactor: FREE to POSTED; POSTED or RUNNING to EXPIRED; ANSWERED to FREE.
 * Answering thread: POSTED to COPYING to RUNNING; RUNNING to COPYING to ANSWERED; EXPIRED to FREE.
 */
enum python_state {
	PYTHON_FREE,
	PYTHON_POSTED,
	PYTHON_COPYING,		/* the answering thread uses the command's buffer */
	PYTHON_RUNNING,
	PYTHON_ANSWERED,
	PYTHON_EXPIRED,		/* its command has ended; io must not be used */
};

struct python_slot {
	struct python_slot *next;	/* in store_python.posted or python_ring.answered */
	struct list_link link;		/* reactor: in python_ring.calls */
	_Atomic int state;
	_Atomic uint64_t offset, length;
	uint64_t number;
	uint64_t bytes;			/* counted in store_python.bytes */
	struct store_python *of;
	struct store_io *io;
	struct python_ring *ring;
	enum store_op op;
	uint32_t flags;
	uint16_t status;		/* of the answer */
};

struct store_python {
	unsigned calls;			/* maximum of slots in use */
	uint64_t bytes_most;
	uint64_t limit_ns;
	int event_fd;
	_Atomic bool stopped;
	_Atomic(struct python_slot *) posted;	/* the last one first */
	struct python_slot *taken;	/* answering thread: taken off posted, the oldest first */
	_Atomic uint64_t free;		/* slots, a bit each */
	_Atomic uint64_t expired;	/* slots of expired calls that change data */
	_Atomic uint64_t bytes;		/* of calls that are not free */
	struct python_slot slot[STORE_PYTHON_CALLS];
};

struct python_line {			/* of one store, or of several if there are more than STORE_LINES */
	struct list_link link;		/* in python_ring.lines, while any io waits */
	struct store_list waiting;
	unsigned active;		/* slots that this ring uses and that have not expired */
};

struct python_ring {
	_Atomic(struct python_slot *) answered;	/* the last one first */
	_Atomic unsigned answering;	/* threads that are about to write wake_fd */
	int wake_fd;
	unsigned held;			/* ios in line or in progress */
	uint64_t look;			/* ns: time of the next check of deadlines; 0: none to check */
	struct list calls;
	struct list lines;
	struct python_line line[STORE_LINES];
};

extern const struct store_ops store_python_ops;
/* Return a slot whose command has ended. */
void python_release(struct python_slot *slot);
/* Answering thread: give an answered slot back to its reactor. */
void python_give(struct python_slot *slot);

struct python_ring *python_ring_create(int wake_fd);	/* NULL: out of memory */
void python_ring_destroy(struct python_ring *ring);
/* Begin io, or put it in line.  True if ring->look has changed. */
bool python_ring_begin(struct python_ring *ring, struct store_io *io);
/* Append the calls that have ended, with io->status set.  True if ring->look has changed. */
bool python_ring_poll(struct python_ring *ring, struct store_list *finished);
/* As store_lines_waiting() and store_lines_cancel(). */
unsigned python_ring_waiting(const struct python_ring *ring,
			     bool (*wanted)(const struct store_io *io, const void *arg),
			     const void *arg);
void python_ring_cancel(struct python_ring *ring,
			bool (*wanted)(const struct store_io *io, const void *arg), const void *arg,
			struct store_list *cancelled);

#endif
