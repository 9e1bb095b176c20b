/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: a command from its capsule to its response, and the receives in which capsules arrive.
 *
 * A request belongs to the reactor of its queue pair.  While it is UP, the control thread has its upcall.
 */
#ifndef NVMF_TARGET_REQUEST_H
#define NVMF_TARGET_REQUEST_H

#include "target/pool.h"
#include "util/heap.h"

#define SQE_SIZE ((uint32_t)sizeof(struct nvme_sqe))

struct fused;
struct target_srq;

enum {
	TARGET_MAX_SGL = 16,		/* keyed descriptors of a command */
	TARGET_WINDOW = 8,		/* chunks of one request under way at once */
	TARGET_UPCALL_MAX = 65536,	/* bytes of data that a command for the control thread may carry */
	TARGET_UPCALL_EARLY = 4096,	/* the same before Connect */
	TARGET_UPCALL_BUDGET = 262144,	/* bytes of such data that one queue pair may have with the control thread, and
					   bytes of its answers that the host has not taken */
};

enum transfer {
	TRANSFER_NONE,
	TRANSFER_READ,		/* store to host */
	TRANSFER_WRITE,		/* host to store */
	TRANSFER_COMPARE,	/* host and store to memcmp */
	TRANSFER_VERIFY,	/* the store is read, the data is not used */
	TRANSFER_RANGES,	/* host to a buffer that is kept: Dataset Management, Copy */
	TRANSFER_FETCH,		/* host to the control thread */
	TRANSFER_PUSH,		/* control thread to host */
	TRANSFER_FUSED,		/* host to a fused pair's memory */
	TRANSFER_COPY,		/* store to store: Copy */
};

/* The state of a transfer; transfer.c has the table. */
enum transfer_state {
	TRANSFER_QUIET,		/* nothing to do until a chunk ends */
	TRANSFER_STARTING,	/* chunks are being started: those that end meanwhile are only counted */
	TRANSFER_IN_LINE,	/* it waits for a buffer or an RDMA READ */
	TRANSFER_ENDED,
};

/* The state of a command that consists of steps; see steps.c. */
enum step_state {
	STEP_NONE,		/* between two operations */
	STEP_STARTING,		/* an operation is being begun */
	STEP_UNDER_WAY,
	STEP_IN_LINE,		/* its queue pair has enough of them under way */
};

struct sgl_entry {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
};

/* A receive: the SQE is in a dense array, in-capsule data on a page of its own. */
struct recv {
	struct fifo_link link;
	struct target_qpair *qp;
	struct target_srq *srq;		/* its shared queue, or NULL */
	struct nvme_sqe *sqe;
	uint8_t *data;
	uint32_t length;		/* of the capsule */
	uint32_t lkey;
	uint32_t number;		/* of the queue pair that it arrived for, if the receive is shared */
};

/*
 * The states of a command, from its capsule to its response.
 *
 *	BEGUN		its checks run; the next state is set within the same turn
 *	HALF		the first of a fused pair, whose second has not arrived
 *	INJECTED	delayed, or held, by a fault on purpose (inject.c)
 *	LIMITED		in the line of a namespace's limits (limits.c)
 *	LATCHING	in the line of a latch, with nothing else in progress
 *	MOVING		its data goes through buffers (transfer.c)
 *	STEPPING	one store operation after the other (steps.c), or the flush of a Read (transfer.c)
 *	PAIRED		half of a fused pair whose data has arrived (fused.c)
 *	ASKING		it waits until the host has taken earlier answers of the control thread (upcall.c)
 *	UP		the control thread has it (upcall.c)
 *	RESPONDING	its response is in line or posted
 *	GONE		its connection ended; chunks of it are still with a store or the device
 */
enum request_state {
	REQUEST_FREE,
	REQUEST_BEGUN,
	REQUEST_HALF,
	REQUEST_INJECTED,
	REQUEST_LIMITED,
	REQUEST_LATCHING,
	REQUEST_MOVING,
	REQUEST_STEPPING,
	REQUEST_PAIRED,
	REQUEST_ASKING,
	REQUEST_UP,
	REQUEST_RESPONDING,
	REQUEST_GONE,
};

struct injected {			/* of a command that is INJECTED */
	struct heap_node node;		/* in reactor->injected */
	uint16_t status;		/* with which it ends instead of running, or 0 */
	uint8_t slot;			/* of the injection */
	bool hangs;			/* it runs when the injection has ended */
};

struct target_request {
	struct tx tx;			/* its place in the line in which it waits */
	struct target_qpair *qp;
	struct target_namespace *ns;	/* counted as in use while set */
	uint64_t offset;		/* in the namespace, bytes */
	uint32_t length;		/* to transfer, bytes */
	uint32_t sgl_length;		/* length of the SGL, bytes */
	uint64_t began;			/* ns: when its capsule was taken */
	uint16_t status;		/* the first failure */
	uint8_t opcode;
	uint8_t state;			/* enum request_state */
	uint8_t mode;			/* enum transfer */
	uint8_t moving;			/* enum transfer_state */
	uint8_t stepping;		/* enum step_state */
	uint8_t sgl_count;		/* keyed descriptors; 0: none or in the capsule */

	struct sgl_entry sgl;		/* the first descriptor */
	const uint8_t *source;		/* memory that is sent in place, or NULL */
	uint32_t source_lkey;
	struct fifo *line;		/* in which it waits while TRANSFER_IN_LINE */
	uint16_t outstanding;		/* chunks */
	uint16_t slots;			/* of the send queue, until the response completes */
	struct nvme_cqe cqe;
	struct chunk *chunk;		/* released with the response */

	struct recv *recv;		/* kept while capsule is in use */
	uint8_t *capsule;		/* in-capsule data */
	uint32_t started, moved;	/* bytes */
	uint32_t index;
	uint32_t nsid;			/* these two as in the command (slba: or the field in its place) */
	uint64_t slba;
	struct latch latch;		/* of all that it reads in place, or of the present step */
	bool invalidate;		/* the first descriptor's key */
	bool cid_taken;			/* its CID is in the bitmap */
	bool fua;
	bool fenced;			/* a fence of its queue pair waits for it */
	bool validates;			/* it writes marked blocks: passed on when it is done, see invalid.c */
	bool serving;			/* its namespace is busy with it: it has no response yet */
	bool admitted;			/* it was in a namespace's line, see limits.c */
	bool torn;			/* only torn_blocks of its blocks are written, by a fault on purpose (inject.c) */

	/* cold: only some commands use these */
	struct fused *fused;		/* the pair for which its data is fetched */
	uint32_t torn_blocks;
	uint16_t torn_status;		/* with which a torn write ends; 0: its connection ends */
	struct store_io io;
	uint32_t verified, unverified;	/* blocks of a Verify before its present piece, and bytes after it */
	uint32_t step, steps;
	uint32_t step_share;		/* of qp->range_bytes, or what it waits for */
	uint64_t step_done;		/* bytes of this step that are done, if it is done in pieces */
	uint32_t copy_failed;		/* of Copy: the lowest source range with a failure, or UINT32_MAX */
	uint32_t copy_length;		/* and the bytes that were not read or written there, */
	uint64_t copy_at;		/* and their place in the namespace */
	bool copy_wrote;		/* whether anything was written */
	struct mail mail;
	struct target_upcall upcall;
	struct nvme_sqe sqe;		/* of a command for the control thread, over a limit or injected */
	union {				/* by state */
		struct injected held;
		struct {		/* LIMITED */
			struct list_link over_place;	/* the first of its queue pair: in the namespace's line, */
			struct list_link over_own;	/* and in the queue pair's list */
			struct fifo behind;		/* the others of its queue pair over the same limit */
			uint64_t over_number;		/* of its place */
			uint8_t over_line;
		};
	};
	uint8_t *data;			/* fetched for the control thread, or its answer; or the source ranges of Copy */
	uint32_t data_length;		/* bytes of data */
	uint32_t answer_share;		/* of qp->answer_bytes */
	struct {			/* set by target_complete(): the answer */
		uint8_t *data;
		uint32_t length;
		uint16_t status;
	} answer;
} __attribute__((aligned(CACHE_LINE)));

#endif
