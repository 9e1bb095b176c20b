/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the target share: its structures, by owner.  Those of namespaces are in
 * namespace.h.
 *
 * "control" fields belong to the control thread, "reactor" fields to the thread of the reactor that
 * the thing belongs to.  Nothing has two writers but the atomics and the two queues between threads
 * (mailbox: to a reactor; upcalls: to the control thread).
 */
#ifndef NVMF_TARGET_INTERNAL_H
#define NVMF_TARGET_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "target/background.h"
#include "target/latch.h"
#include "target/mail.h"
#include "target/target.h"
#include "util/clock.h"
#include "util/fifo.h"
#include "util/line.h"
#include "util/list.h"
#include "util/stat.h"

#define CACHE_LINE 64
#define SQE_SIZE ((uint32_t)sizeof(struct nvme_sqe))

enum {
	TARGET_MAX_DEVICES = 16,
	TARGET_MAX_SGL = 16,		/* keyed descriptors of a command */
	TARGET_WINDOW = 8,		/* chunks of one request under way at once */
	TARGET_UPCALL_MAX = 65536,	/* bytes that a command for the control thread may carry */
	TARGET_UPCALL_EARLY = 4096,	/* the same before Connect */
	TARGET_UPCALL_BUDGET = 262144,	/* bytes of such data that one queue pair may have up */
	TARGET_OWN_BUFFER = 8192,	/* of a queue pair, for when the pool has none for it */
	POOL_SMALL_SIZE = 8192,
	TARGET_ZERO_BYTES = 2 << 20,	/* zeroes that reads of a null store are sent from */
	CQ_BATCH = 128,			/* completions of a turn: what they led to is sent at once */
	WR_BATCH = 256,
	NUMBER_BUCKETS = 4096,
};

/* ---- between threads ---- */

/* ---- devices and memory ---- */

/* Registered memory that reads of a namespace are sent from, on one device.  Never changes. */
struct ns_window {
	uint8_t *base;
	uint64_t mask;		/* of the offset: all ones, or 0 for a store of zeroes */
	uint64_t span;		/* bytes that may be read at once, from the masked offset */
	uint32_t lkey;
	struct ibv_mr *mr;	/* NULL for the device's zeroes */
	const struct verbs *verbs;
};

/*
 *	OPENING		the memory thread is at it
 *	READY		queue pairs can be made
 *	CLOSING		it was removed: its completion queues, windows and registrations go
 */
enum device_state { DEVICE_OPENING, DEVICE_READY, DEVICE_CLOSING };

/* A shared receive queue: see srq.c. */
struct target_srq {
	struct target_srq *next;	/* control */
	struct target_device *device;
	struct reactor *reactor;
	struct ibv_srq *srq;
	uint32_t in_capsule, limit;
	_Atomic uint32_t reserved;	/* entries of its queue pairs: control writes */
	struct srq_slab *slabs;		/* control, then whoever grows it */
	struct job job;
	struct mail failed_mail, gone_mail;
	struct target_upcall upcall;
	/* reactor */
	uint32_t total, posted;
	struct fifo_link *spare;	/* recv: not posted, the last used first: it is in the cache */
	uint32_t spares;
	uint64_t retry;			/* ns: not to grow before */
	bool growing, leaving;
};

/* An RDMA device in use: control, or the memory thread while that is opening or closing it. */
struct target_device {
	struct target_device *next;
	struct target *target;
	enum device_state state;
	unsigned index;
	const struct verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char name[64];
	char why[256];			/* it could not be opened; or "" */
	struct job job;
	struct target_upcall upcall;
	struct target_namespace **shown;	/* while it closes: those that may have windows, and NULL */
	struct ibv_device_attr attr;
	bool send_with_invalidate;
	int sink_access;		/* what the memory needs that RDMA READs put data into */
	struct ns_window zero;		/* base NULL where it could not be registered */
	struct ibv_mr *zero_mr;
	struct ibv_mr **pool_mr;	/* per reactor */
	bool private_pd;		/* a protection domain for each queue pair: see qpair.c */
	bool gone;			/* removed: for no new queue pair, and freed after the last */
	struct target_srq *srqs;
	unsigned cqs;			/* these, and completion queues, that reactors have not let go of */
};

/* A completion queue: made by control, polled by the reactor. */
struct reactor_cq {
	struct mail mail;
	struct mail gone_mail;
	struct target_upcall upcall;	/* the reactor polls it no more */
	struct reactor_cq *next;	/* reactor */
	struct reactor_cq *sibling;	/* control: of the same reactor */
	struct reactor *reactor;
	struct target_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool sends;			/* has their completions only: see reactor.c */
	uint32_t entries, reserved;	/* control */
	bool armed;			/* reactor */
};

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

/* ---- reactors ---- */

struct recv_chain {			/* where a chain of receives is built */
	struct ibv_recv_wr wr[WR_BATCH];
	struct ibv_sge sge[2 * WR_BATCH];
};

struct reactor {
	struct target *target;
	unsigned index;
	int cpu, node;			/* NUMA_UNKNOWN: memory is taken as it comes */
	int epoll_fd, event_fd;
	pthread_t thread;
	bool started;			/* control */
	struct reactor_cq *control_cqs;	/* control */
	struct mail stop_mail;		/* control */

	_Alignas(CACHE_LINE) _Atomic(struct mail *) mailbox;
	_Atomic int sleeping;
	_Atomic bool ended;

	_Alignas(CACHE_LINE) struct reactor_cq *cqs;
	struct store_ring *ring;
	struct target_qpair *marked;	/* with something to post or to end */
	struct list limited;		/* ns_local: namespaces with commands over a limit */
	struct fifo latching;		/* ns_local: namespaces with somebody in line for a latch */
	uint32_t latch_pass;		/* never 0, once there was one */
	struct latch_press press;
	struct list qpairs;		/* accepted, and not closed */
	struct fifo orphans;		/* recv: capsules that came before their queue pair was known */
	struct target_qpair *by_number[NUMBER_BUCKETS];	/* those that share receives */
	struct fifo halves;		/* queue pairs with the first of a fused pair */
	struct fifo lingering;		/* queue pairs whose last responses are on their way */
	uint64_t spin_ns;
	uint32_t short_waits;		/* of late, not much longer than that: see reactor.c */
	uint32_t responses;		/* posted, and not completed */
	uint32_t awaited;		/* other sends, and queue pairs that wait for any to complete */
	bool waited;			/* in vain, SENDS_CHECK_MS long, for the responses */
	uint64_t now;			/* ns, of this half of the turn; 0: nobody has asked */
	bool stop;
	struct pool pool;
	struct ibv_wc wc[CQ_BATCH];
	struct ibv_send_wr wr[WR_BATCH];
	struct ibv_sge sge[WR_BATCH];
	struct recv_chain recv_chain;
};

struct target {
	struct target_options options;
	unsigned reactors;
	struct reactor **reactor;
	struct target_device *devices;
	unsigned device_count;
	struct target_qpair *qpairs;
	struct target_namespace *namespaces;
	struct target_nstable *tables;
	struct target_gates *gates;
	struct target_fence *fences;
	struct target_abort *aborts;
	struct ns_invalid *old_invalid;	/* see invalid.c */
	struct background *ends, *memory;	/* NULL: what would be theirs is done at once */
	bool ending;
	struct freed *freed;		/* to be freed when the caller has seen the upcalls in it */
	_Atomic unsigned pressing;	/* reactors that still have to deliver their latch_press */
	uint8_t *zero;			/* TARGET_ZERO_BYTES that nobody writes */
	int event_fd;
	_Alignas(CACHE_LINE) _Atomic(struct target_upcall *) upcalls;
};

/* ---- requests and queue pairs ---- */

enum transfer {
	TRANSFER_NONE,
	TRANSFER_READ,		/* store to host */
	TRANSFER_WRITE,		/* host to store */
	TRANSFER_COMPARE,	/* host and store to memcmp */
	TRANSFER_VERIFY,	/* store to nowhere */
	TRANSFER_RANGES,	/* host to a buffer that stays: Dataset Management */
	TRANSFER_FETCH,		/* host to the control thread */
	TRANSFER_PUSH,		/* control thread to host */
	TRANSFER_FUSED,		/* host to a fused pair's memory */
};

/* How far a transfer is; transfer.c has the table. */
enum transfer_state {
	TRANSFER_QUIET,		/* what is under way goes on by itself */
	TRANSFER_STARTING,	/* chunks are being started: what ends meanwhile is only counted */
	TRANSFER_IN_LINE,	/* for a buffer or an RDMA READ */
	TRANSFER_ENDED,
};

/* The same of a command of steps; see steps.c. */
enum step_state {
	STEP_NONE,		/* between two operations */
	STEP_STARTING,		/* one is being begun */
	STEP_UNDER_WAY,
};

struct sgl_entry {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
};

/* A receive: the SQE goes to a dense array, in-capsule data to a page of its own. */
struct recv {
	struct fifo_link link;
	struct target_qpair *qp;
	struct target_srq *srq;		/* that it is of, or NULL */
	struct nvme_sqe *sqe;
	uint8_t *data;
	uint32_t length;		/* of the capsule */
	uint32_t lkey;
	uint32_t number;		/* of the queue pair that it came for, where that is shared */
};

/*
 * Where a command is on its way from its capsule to its response.
 *
 *	BEGUN		its checks run; the next state is set within the same turn
 *	HALF		the first of a fused pair, whose second has not come
 *	LIMITED		in the line of a namespace's limits (limits.c)
 *	LATCHING	in the line of a latch, with nothing else under way
 *	MOVING		its data goes through buffers (transfer.c)
 *	STEPPING	one store operation after the other (steps.c)
 *	PAIRED		half of a fused pair whose data has come (fused.c)
 *	UP		the control thread has it (upcall.c)
 *	RESPONDING	its response is in line or posted
 *	GONE		its connection ended; chunks of it are still with a store or the device
 */
enum request_state {
	REQUEST_FREE,
	REQUEST_BEGUN,
	REQUEST_HALF,
	REQUEST_LIMITED,
	REQUEST_LATCHING,
	REQUEST_MOVING,
	REQUEST_STEPPING,
	REQUEST_PAIRED,
	REQUEST_UP,
	REQUEST_RESPONDING,
	REQUEST_GONE,
};

struct target_request {
	struct tx tx;			/* its place in whatever line it stands in */
	struct target_qpair *qp;
	struct target_namespace *ns;	/* counted in use while here */
	uint64_t offset;		/* in the namespace, bytes */
	uint32_t length;		/* to move, bytes */
	uint32_t sgl_length;		/* what the SGL describes, bytes */
	uint64_t began;			/* ns: when its capsule was taken */
	uint16_t status;		/* the first failure */
	uint8_t opcode;
	uint8_t state;			/* enum request_state */
	uint8_t mode;			/* enum transfer */
	uint8_t moving;			/* enum transfer_state */
	uint8_t stepping;		/* enum step_state */
	uint8_t sgl_count;		/* keyed descriptors; 0: none or in the capsule */

	struct sgl_entry sgl;		/* the first descriptor */
	const uint8_t *source;		/* what is sent from in place, or NULL */
	uint32_t source_lkey;
	struct fifo *line;		/* that it stands in while TRANSFER_IN_LINE */
	uint16_t outstanding;		/* chunks */
	uint16_t slots;			/* of the send queue, until the response completes */
	struct nvme_cqe cqe;
	struct chunk *chunk;		/* released with the response */

	struct recv *recv;		/* kept while capsule is in use */
	uint8_t *capsule;		/* in-capsule data */
	uint32_t started, moved;	/* bytes */
	uint32_t index;
	uint32_t nsid;			/* as the command has it, as slba (or what stands there) */
	uint64_t slba;
	struct latch latch;		/* of all that it reads in place, or of the step under way */
	bool invalidate;		/* the first descriptor's key */
	bool cid_taken;			/* its CID is in the bitmap */
	bool fua;
	bool fenced;			/* qp->fence waits for it */
	bool validates;			/* it writes marked blocks: goes up when done, see invalid.c */
	bool serving;			/* its namespace is busy with it: no response was posted */
	bool admitted;			/* it was in a namespace's line, see limits.c */

	/* cold: what only some commands need */
	struct fused *fused;		/* that its data is fetched for */
	struct store_io io;
	uint32_t step, steps;
	uint64_t step_done;		/* bytes of this step, where it is done in pieces */
	struct mail mail;
	struct target_upcall upcall;
	struct nvme_sqe sqe;		/* of a command for the control thread, or over a limit */
	struct list_link over_place;	/* over a limit, and the first of its queue pair there: in the namespace's */
	struct list_link over_own;	/* line, and in the queue pair's list */
	struct fifo behind;		/* the others of its queue pair over the same limit */
	uint8_t *data;			/* fetched for it, or what it answers with */
	uint32_t data_length;		/* of what was fetched or kept for the control thread */
	struct {			/* from target_complete(): what it ends with */
		uint8_t *data;
		uint32_t length;
		uint16_t status;
	} answer;
} __attribute__((aligned(CACHE_LINE)));

enum { ERROR_WORDS = sizeof(struct target_error) / sizeof(uint64_t) };

struct error_slot {			/* a target_error: its number last, and 0 while it changes */
	uint64_t word[ERROR_WORDS];
};

struct target_qpair {
	/* reactor: hot */
	struct reactor *reactor;
	struct ibv_qp *ibqp;
	_Atomic(struct target_nstable *) table;
	_Atomic(struct target_gates *) gates;	/* NULL: none */
	_Atomic uint32_t sq_size;
	_Atomic bool connected, enabled;
	bool up;			/* accepted: until then ibqp and id are the control thread's alone */
	bool dead;			/* no more posts; what is outstanding drains */
	bool closed;			/* CLOSED went up: the reactor touches ibqp and id no more */
	bool marked;
	bool inline_response, send_with_invalidate;
	bool signal_all;		/* see qpair.c */
	bool blocked;			/* something waits for sends to complete */
	bool fused_expected;		/* the first of a pair came: the second is next */
	uint8_t device;			/* index */
	uint32_t lkey, pool_lkey, own_lkey;
	struct target_srq *srq;		/* or NULL */
	struct nvme_cqe *cqes;		/* responses, by request, where they are not posted inline */
	uint32_t in_capsule, max_transfer;
	uint16_t sqhd;
	struct target_request *requests;
	struct fifo_link *free_requests;
	uint32_t request_count, request_fresh;	/* those from fresh on were never used */
	uint32_t sq_free, sq_count;
	uint32_t read_free, read_limit;	/* RDMA READs */
	uint32_t fetching;		/* chunks */
	uint32_t line_waiting;		/* requests in lines of namespaces (pool.c) */
	uint64_t moved;			/* ns: when its host last let something through */
	bool own_free;			/* own.buffer, TARGET_OWN_BUFFER bytes of region */
	uint32_t active, held;		/* requests: in use, and of those up at the control thread */
	uint32_t recv_posted;		/* of its own; */
	uint32_t recv_taken;		/* of those that it shares: held */
	uint32_t number;
	struct target_qpair *number_next;	/* in reactor->by_number */
	struct fifo tx, reads;		/* to be posted: responses and chunks; chunks to fetch */
	struct fifo posted;		/* responses */
	struct fifo repost;		/* receives */
	struct fifo pending;		/* capsules that no request was free for */
	struct fifo waiting[2];		/* requests: for a buffer; for a buffer and an RDMA READ */
	uint64_t *cids;			/* bitmap of outstanding command identifiers */
	struct sgl_entry *sgls;		/* TARGET_MAX_SGL per request */
	struct target_qpair *mark_next;
	struct pool *pool;
	struct pool_place pool_place[POOL_CLASSES];
	struct target_request *fused_first;	/* of that pair; NULL where it was refused */
	struct fifo_link fused_link;	/* in reactor->halves, if fused_listed */
	uint64_t fused_until;		/* ns: how long it waits */
	bool fused_listed;
	uint32_t upcall_bytes;		/* of data fetched for the control thread */
	struct chunk own;

	/* reactor: counters */
	uint64_t commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer;
	uint64_t refused;		/* errors that the engine itself found: see errors.c */

	/* reactor: cold */
	struct error_slot refusals[TARGET_ERRORS];
	struct recv *recvs;
	struct list_link reactor_link;	/* in reactor->qpairs */
	struct fifo_link linger_link;
	uint64_t linger_until;
	bool lingering;			/* takes no more capsules: to be disconnected */
	bool linger_listed, disconnected, ended_here, destroying;
	bool ended;			/* the device has: what came of shared receives has been taken */
	struct list over;		/* requests: the first in line of each namespace over whose limits it is */
	struct fifo fences;		/* the first is waiting for requests, the others for it */
	char reason[256];
	struct target_upcall closed_upcall, released_upcall;

	/* control, or the thread that ends connections while a job is there */
	struct job end_job, release_job;
	struct target_upcall destroyed_upcall;
	struct ibv_pd *pd;		/* its own, or the device's */
	struct target *target;
	const struct verbs *verbs;
	struct rdma_cm_id *id;
	struct target_device *dev;
	struct reactor_cq *recv_cq, *send_cq;	/* the same, or two */
	struct target_qpair *next;
	struct target_qpair_options options;
	struct mail up_mail, disconnect_mail, destroy_mail, ended_mail;
	bool disconnect_sent, destroy_sent, closed_seen, abandoned;
	bool peer_left;			/* written before the disconnect mail, read after it */
	uint32_t recv_share, send_share;	/* of their entries */
	uint8_t *region;
	size_t region_bytes, registered_bytes;
	struct ibv_mr *mr, *own_mr;
	struct ibv_mr *pool_mr;		/* of pool, where that is private_pool */
	struct pool private_pool;
};

#endif
