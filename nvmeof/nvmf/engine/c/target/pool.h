/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: the pool of a reactor, or of a queue pair with buffers of its own, and the chunks of requests in them.
 *
 * A pool belongs to one reactor; see pool.c, and chunk.c for the use of chunks.
 */
#ifndef NVMF_TARGET_POOL_H
#define NVMF_TARGET_POOL_H

#include "target/base.h"

struct ns_local;
struct target_qpair;
struct target_request;

enum { POOL_SMALL_SIZE = 8192 };

/* An element of a queue pair's line of work to be posted: a response or a chunk. */
struct tx {
	struct fifo_link link;
	bool is_chunk;
};

/* A buffer of the pool (or a queue pair's own), and the state of its use. */
struct chunk {
	struct tx tx;
	struct target_request *req;
	uint8_t *buffer;
	uint32_t offset, length;	/* of the request's data */
	uint32_t posted;		/* bytes of it for which RDMA READs were posted */
	uint16_t reads;			/* number of its outstanding RDMA READs */
	uint16_t slots;			/* of the send queue, until its RDMA WRITE completes */
	uint8_t class;			/* enum pool_class */
	struct ns_local *sharer;	/* the namespace in whose share it counts as well, or NULL */
	uint64_t with_host;		/* ns: when its transfer got in line to be posted, or was posted; 0: neither */
	struct latch latch;		/* of its slice, while the store reads or writes it */
	struct store_io io;
} __attribute__((aligned(CACHE_LINE)));

enum pool_class { POOL_SMALL, POOL_LARGE, POOL_CLASSES };

struct pool_shelf {			/* buffers of one size */
	uint32_t size;
	uint32_t count, free_count;
	struct fifo_link *free;		/* the last used first: it is in the cache */
	struct fifo line;		/* pool_places of queue pairs that wait for a buffer */
};

struct pool_place {			/* the place of a queue pair in the line of a shelf */
	struct fifo_link link;
	struct target_qpair *qp;
	uint32_t held;			/* buffers, except those that a store uses: see pool.c */
	bool in_line;
	bool waits;			/* there was no buffer for it at its last turn */
};

struct pool {
	uint8_t *memory;
	size_t bytes;
	bool is_private;		/* belongs to one queue pair */
	struct pool_shelf shelf[POOL_CLASSES];
	struct fifo returned;		/* ns_local: its store uses fewer buffers, for which requests of it wait */
	uint32_t sharers_waiting;	/* requests in lines of namespaces */
	uint64_t next_press;		/* ns: time of the next search for hosts that hold buffers for too long */
	struct chunk *chunks;
};

#endif
