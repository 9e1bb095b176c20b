/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's data path: reactors, queue pairs, capsules, the I/O commands of namespaces.
 *
 * All functions are called on the control thread (Python) unless stated otherwise.  Reactors execute I/O commands by
 * themselves and pass every other capsule to the control thread through the upcall list, whose eventfd is
 * target_fd().  No function here waits for a reactor, except target_destroy().
 *
 * Errors: a negative errno (or NULL) and a sentence in err.
 */
#ifndef NVMF_TARGET_H
#define NVMF_TARGET_H

#include "nvme.h"
#include "store/store.h"
#include "verbs/verbs.h"

struct target;
struct target_qpair;
struct target_request;
struct target_namespace;
struct target_nstable;
struct target_gates;
struct target_fence;
struct target_abort;

struct target_options {
	unsigned reactors;		/* 1..64 */
	const int *cpus;		/* one per reactor, -1 = not pinned; or NULL */
	uint32_t spin_us;		/* time for which a reactor polls after its last work: 100; see reactor.c */
	uint32_t buffer_size;		/* bytes, a power of two from 4096: 131072 */
	uint32_t buffers;		/* per reactor: 128 */
	uint32_t fused_wait_ms;		/* time to wait for the second command of a fused pair: 10000 */
	uint32_t cq_entries;		/* per reactor and device: 4096 (more CQs are added as needed) */
};

struct target *target_create(const struct target_options *options, char *err, size_t len);
/*
 * Disconnect all connections, wait for the reactors to end (at most 7 s), and free everything: also queue pairs with
 * their cm ids, requests, namespaces and tables.  Nothing of the target may be used afterwards.
 */
void target_destroy(struct target *target);
int target_fd(const struct target *target);

/* ---- queue pairs ---- */

struct target_qpair_options {
	unsigned reactor;		/* index */
	uint16_t qid;
	uint16_t recv_depth;		/* capsules the host may have outstanding (hsqsize + 1) */
	uint16_t send_depth;		/* responses the host can take (hrqsize): informative */
	uint32_t in_capsule;		/* bytes of in-capsule data accepted: IOCCSZ * 16 - 64; 0 for admin */
	uint32_t max_transfer;		/* bytes: the limit given by MDTS; 0: no limit */
	uint8_t initiator_depth;	/* from the CM REQ: RDMA READs the target may have outstanding */
	uint8_t responder_resources;
	void *cookie;			/* returned in every upcall */
};

/*
 * Create the queue pair on the reactor's completion queue, post its receives and accept the connection with a CM REP
 * of crqsize = recv_depth.  On failure the caller keeps the id, to reject it. Sets id->context to the queue pair.
 */
struct target_qpair *target_qpair_accept(struct target *target, const struct verbs *verbs,
					 struct rdma_cm_id *id,
					 const struct target_qpair_options *options, char *err,
					 size_t len);
/*
 * Call it after Connect succeeded and before it is completed.  sq_size: entries, for SQHD (0: flow control is
 * disabled, SQHD is 0xffff in Connect's own response and 0 later: see the RDMA transport). namespaces: for I/O
 * queues; NULL for admin queues, whose commands all go to the control thread.  For an I/O queue whose host must
 * authenticate, it is NULL at first, and a second call sets the namespaces.
 */
void target_qpair_connected(struct target_qpair *qp, uint16_t sq_size,
			    struct target_nstable *namespaces);
/*
 * I/O commands that arrive from now on see these namespaces; those in progress may still use the previous table,
 * which must stay until the queue pair is destroyed.
 */
void target_qpair_show(struct target_qpair *qp, struct target_nstable *namespaces);
/* Set whether I/O commands are executed (CC.EN and CSTS.RDY); if not, they end with Command Sequence Error. */
void target_qpair_enable(struct target_qpair *qp, bool enabled);
/*
 * End the connection: rdma_disconnect, drain, then exactly one TARGET_UPCALL_CLOSED, no matter when and why it ended.
 * Earlier completed responses are sent first (within 100 ms).  Idempotent.
 */
void target_qpair_disconnect(struct target_qpair *qp);
/* The same on RDMA_CM_EVENT_DISCONNECTED, so that the reason given is correct. */
void target_qpair_peer_left(struct target_qpair *qp);
/*
 * Call it when the connection was accepted, and again after the number of milliseconds that it returns, until that is
 * 0: a siw device may miss the first capsule (nudge.c).
 */
unsigned target_qpair_nudge(struct target_qpair *qp);
/*
 * Call it after CLOSED and after all its requests were completed.  The queue pair must not be used again; DESTROYED
 * follows when the QP and the cm id have been freed.
 */
void target_qpair_destroy(struct target_qpair *qp);

/*
 * Prepare a device before its first connection: 0 if it is ready, -EAGAIN if the upcall DEVICE will follow. context:
 * that of an id of the device.  A connection that arrives earlier is refused with errno EAGAIN.
 */
int target_device_open(struct target *target, const struct verbs *verbs, struct ibv_context *context,
		       char *err, size_t len);
/*
 * The device of this name was removed.  The target's objects of it are freed when its last queue pair is gone
 * (disconnect them); a device that is added later is a new device, even if it has the same name.
 */
void target_device_gone(struct target *target, const struct verbs *verbs, const char *name);

struct target_qpair_stats {
	uint64_t commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer;
	uint32_t outstanding;
};
void target_qpair_stats(const struct target_qpair *qp, struct target_qpair_stats *stats);

/*
 * Commands that the engine itself ended with an error since Connect, counted from 1.  Not included: commands that the
 * control thread answered, and failed Compares.
 */
enum { TARGET_ERRORS = 16 };		/* number of entries that a queue pair keeps */
struct target_error {
	uint64_t number;
	uint64_t when;			/* ns, CLOCK_MONOTONIC */
	uint64_t lba;			/* the command's first block; 0 if it has none */
	uint32_t nsid;
	uint16_t cid, status;
	uint16_t location;		/* of the parameter: byte, and bit << 8; ffff: no parameter */
	uint8_t opcode;
};
/* Copy the entries after a number, the oldest first; returns their count; last: the number of the newest entry. */
unsigned target_qpair_errors(const struct target_qpair *qp, uint64_t after, uint64_t *last,
			     struct target_error errors[TARGET_ERRORS]);

/*
 * Abort the I/O command with this CID, if it has had no effect yet: it then ends with Command Abort Requested.  One
 * ABORTED upcall follows, before or after the command's response has been sent. NULL: out of memory.
 */
struct target_abort *target_abort_create(struct target_qpair *qp, uint16_t cid, void *cookie);
void target_abort_destroy(struct target *target, struct target_abort *abort);	/* after ABORTED */

/* ---- upcalls ---- */

enum target_upcall_type {
	TARGET_UPCALL_COMMAND = 1,	/* request: answer with target_complete, at any time */
	TARGET_UPCALL_CLOSED = 2,	/* qpair: reason has the cause */
	TARGET_UPCALL_RETIRED = 3,	/* namespace: no reactor uses it */
	TARGET_UPCALL_FENCED = 4,	/* fence: the commands that it waited for have ended */
	TARGET_UPCALL_FAULTED = 5,	/* namespace: its store failed a command, see target_fault */
	TARGET_UPCALL_ABORTED = 6,	/* abort: aborted says whether */
	TARGET_UPCALL_DESTROYED = 7,	/* cookie: the queue pair and its cm id were freed */
	TARGET_UPCALL_DEVICE = 8,	/* device: ready, or reason says why it cannot be used */
	TARGET_UPCALL_INJECTED = 10,	/* cookie: an injection has made its last hit, see inject.h */
	TARGET_UPCALL_FREED = 9,	/* namespace: no device has its store's memory registered, and it was freed */
};

struct target_upcall {
	struct target_upcall *next;
	enum target_upcall_type type;
	struct target_qpair *qpair;
	void *cookie;
	struct target_request *request;
	struct target_namespace *ns;
	struct target_fence *fence;
	struct target_abort *abort;
	bool aborted;
	const char *device;		/* its name */
	const char *reason;		/* a sentence; "": CLOSED: the device knows no reason,
					   DEVICE: nothing is wrong.  Valid until the next
					   target_upcalls() or, of a qpair, until it is destroyed */
};

/*
 * Returns all upcalls so far, oldest first, and resets the eventfd.  An upcall is embedded in the object that it
 * concerns and must not be freed: read next before handling it, and do not use any after the next call of this
 * function.
 */
struct target_upcall *target_upcalls(struct target *target);

const struct nvme_sqe *target_request_sqe(const struct target_request *request);
/* Data that came with the command (fetched by RDMA READ or in-capsule); len is 0 if there is none. */
const void *target_request_data(const struct target_request *request, uint32_t *len);
/*
 * Complete the request: if len > 0, data (copied) is sent first; it should not be longer than the command's SGL (the
 * rest is cut).  status: as in nvme.h.  The request must not be used again. Any thread.
 */
void target_complete(struct target_request *request, uint16_t status, uint32_t dw0, uint32_t dw1,
		     const void *data, uint32_t len);

/* ---- namespaces ---- */

struct target_namespace *target_namespace_create(struct target *target, uint32_t nsid,
						 struct store *store, char *err, size_t len);
/*
 * The namespace must be in no table, and RETIRED if it was in one.  It must not be used again.  true: it was freed,
 * and the caller closes its store.  false: this is so after the upcall FREED; a device has its memory registered.
 */
bool target_namespace_destroy(struct target_namespace *ns);
/* Announce the new size of a resized store; the next command sees it. */
void target_namespace_resized(struct target_namespace *ns);

struct target_namespace_stats {
	uint64_t reads, writes, read_bytes, write_bytes;
	uint64_t errors;		/* failed commands, for any reason */
	uint64_t media_errors;		/* commands that failed in the store */
	uint64_t throttled;		/* commands that waited because of a limit */
	uint64_t flushes;		/* requested from the store */
	uint64_t compares, verifies, zeroes, deallocates;	/* Write Zeroes, Dataset Management */
	uint64_t checked_bytes;		/* bytes of Compare and Verify */
	uint64_t copies, copied_bytes;
};
void target_namespace_stats(const struct target_namespace *ns, struct target_namespace_stats *stats);
/* Returns the time in ns in which commands on it were in progress on a reactor (index), including present ones. */
uint64_t target_namespace_busy(const struct target_namespace *ns, unsigned reactor);

/*
 * Times that successful Reads and Writes took, from taking the capsule to posting the response: [0] counts those
 * under 1 us, [i] those from 2^(i-1) to 2^i us, the last one all longer times.  The clock is read twice per turn of
 * the reactor, not for each command.
 */
enum { TARGET_LATENCY_BUCKETS = 24 };
struct target_latency {
	uint64_t read[TARGET_LATENCY_BUCKETS], write[TARGET_LATENCY_BUCKETS];
	uint64_t read_ns, write_ns;	/* sums */
};
void target_namespace_latency(const struct target_namespace *ns, struct target_latency *latency);

/* Per second; 0: no limit.  burst_ms (at least 10): after a rest, this much of each may be used at once. */
struct target_limits {
	uint64_t read_iops, write_iops, iops;
	uint64_t read_bandwidth, write_bandwidth, bandwidth;	/* bytes */
	uint32_t burst_ms;
};
/*
 * Make Read, Compare and Verify (read), and Write, Write Zeroes and Copy (write) wait in line, with queue pairs served in
 * turn, if they exceed a limit, on any queue.  Takes effect at once. -ENOMEM.
 */
int target_namespace_limits(struct target_namespace *ns, const struct target_limits *limits);

enum {
	TARGET_COPY_BYTES = 1 << 20,	/* of one Copy: MCL, and MSSRL */
	TARGET_COPY_RANGES = 128,	/* MSRC, which is 0's based */
};

/* A range of logical blocks. */
struct target_range {
	uint64_t slba, blocks;
};
/*
 * Set the blocks that cannot be read: sorted ranges that neither overlap nor touch; they replace the earlier ones. A
 * Read, Compare, Verify or Copy of such a block ends with Unrecovered Read Error.  A Write, Write Zeroes or deallocation of
 * one that begins from now on, or a Copy to it, becomes a COMMAND upcall when it is done, a Copy as a Write of its
 * destination, a deallocation with its ranges as data: the control thread removes its blocks from the ranges and completes it.  -ENOMEM.
 */
int target_namespace_invalid(struct target_namespace *ns, const struct target_range *ranges,
			     uint32_t count);

/*
 * The command whose failure a FAULTED upcall reports.  The next such upcall of the namespace comes only after
 * target_namespace_rearm(), no matter how many commands fail.
 */
struct target_fault {
	uint64_t offset, length;	/* bytes; 0 for a flush */
	int error;			/* errno of the store's last failure; 0 if there is none */
	uint16_t status;		/* the status that the host received */
	uint8_t opcode;
};
const struct target_fault *target_namespace_fault(const struct target_namespace *ns);
void target_namespace_rearm(struct target_namespace *ns);

/*
 * The namespaces that some hosts of a subsystem see: NSID to namespace, for 1..max_nsid.  A namespace may be in
 * several tables, because tables may differ in the namespaces that are masked.  NULL with errno EINVAL if max_nsid is
 * 0.
 */
struct target_nstable *target_nstable_create(struct target *target, uint32_t max_nsid);
void target_nstable_destroy(struct target_nstable *table);	/* when no queue pair uses it */
/*
 * ns NULL removes the namespace.  When it is in no table, one RETIRED upcall follows as soon as no reactor uses it.
 */
int target_nstable_set(struct target_nstable *table, uint32_t nsid, struct target_namespace *ns);

/* ---- gates: I/O commands that end with a status instead of running ---- */

/*
 * The status (nvme.h, with NVME_DNR if it applies) with which commands of each group end; 0: they
 * run.  The groups are those of reservations (Base 2.0, 8.19), except that Flush, a write there, is a
 * group of its own, because write protected namespaces permit it:
 *   read	Read, Compare, Verify
 *   write	Write, Write Zeroes, Write Uncorrectable, Dataset Management, Copy
 *   flush	Flush; a Flush of all namespaces (FFFFFFFFh) ends with the first such status, except
 *		Invalid Namespace, with which it skips the namespace
 * Other commands go to the control thread, which decides about them.
 */
struct target_gate {
	uint16_t read, write, flush;
};

/* Set the gate for all hosts; it applies to commands on any queue that have not begun yet. */
void target_namespace_gate(struct target_namespace *ns, const struct target_gate *gate);

/* Gates by NSID (1..max_nsid), for the queue pairs to which they are given: those of a controller. */
struct target_gates *target_gates_create(struct target *target, uint32_t max_nsid);
void target_gates_destroy(struct target_gates *gates);	/* when no queue pair has it */
/* -EINVAL if there is no such NSID.  They are checked before the namespace's own. */
int target_gates_set(struct target_gates *gates, uint32_t nsid, const struct target_gate *gate);
/* Give the queue pair its gates, at any time, but once; they apply to commands that have not begun yet. */
void target_qpair_gates(struct target_qpair *qp, struct target_gates *gates);

/*
 * Wait for the I/O commands that these queue pairs have begun on a namespace (nsid 0: on any), which may have passed
 * an older gate: one FENCED upcall when each has ended (its response is in line) or its connection has.  abort: if
 * not 0, commands that can be aborted end with this status.  A host that does not transfer its data delays the fence
 * as long as it is connected.  NULL: out of memory.
 */
struct target_fence *target_fence_create(struct target *target, struct target_qpair *const *qpairs,
					 unsigned count, uint32_t nsid, uint16_t abort,
					 void *cookie);
void target_fence_destroy(struct target_fence *fence);	/* after FENCED */

#endif
