/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: the pool of a reactor, or of a queue pair that shares none, and the chunks of requests that they carry.
 *
 * A pool belongs to one reactor; see pool.c, and chunk.c for what is done with chunks.
 */
#ifndef NVMF_TARGET_POOL_H
#define NVMF_TARGET_POOL_H

#include "target/base.h"

struct ns_local;
struct target_qpair;
struct target_request;

enum { POOL_SMALL_SIZE = 8192 };

/* What waits in a queue pair's line to be posted: a response or a chunk. */
struct tx {
	struct fifo_link link;
	bool is_chunk;
};

/* A buffer of the pool (or a queue pair's own), and what is done with it. */
struct chunk {
	struct tx tx;
	struct target_request *req;
	uint8_t *buffer;
	uint32_t offset, length;	/* of the request's data */
	uint32_t posted;		/* bytes of it whose RDMA READ was posted */
	uint16_t reads;			/* RDMA READs of it outstanding */
	uint16_t slots;			/* of the send queue, until its RDMA WRITE completes */
	uint8_t class;			/* enum pool_class */
	struct ns_local *sharer;	/* of whose share it is, too, or NULL */
	uint64_t with_host;		/* ns: when its transfer was posted; 0: it is not with the host */
	struct latch latch;		/* of its slice, while the store reads or writes it */
	struct store_io io;
} __attribute__((aligned(CACHE_LINE)));

enum pool_class { POOL_SMALL, POOL_LARGE, POOL_CLASSES };

struct pool_shelf {			/* buffers of one size */
	uint32_t size;
	uint32_t count, free_count;
	struct fifo_link *free;		/* the last used first: it is in the cache */
	struct fifo line;		/* pool_places of queue pairs that wait for one */
};

struct pool_place {			/* of a queue pair, in the line of a shelf */
	struct fifo_link link;
	struct target_qpair *qp;
	uint32_t held;			/* buffers, but for those that a store has: see pool.c */
	bool in_line;
	bool waits;			/* it found none when it was last its turn */
};

struct pool {
	uint8_t *memory;
	size_t bytes;
	bool is_private;		/* a queue pair's */
	struct pool_shelf shelf[POOL_CLASSES];
	struct fifo returned;		/* ns_local: buffers of theirs came back that others of theirs wait for */
	uint64_t next_press;		/* ns: when to look for hosts that sit on buffers */
	struct chunk *chunks;
};

#endif
