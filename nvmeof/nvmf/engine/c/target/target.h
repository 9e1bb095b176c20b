/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's data path: reactors, queue pairs, capsules, the I/O commands of namespaces.
 *
 * Everything here is called from the control thread (Python) unless it says otherwise.  Reactors
 * run I/O commands by themselves and hand every other capsule to the control thread through the
 * upcall list, whose eventfd is target_fd().  No call here waits for a reactor, but for
 * target_destroy().
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
	uint32_t spin_us;		/* how long a reactor polls after its last work: 100; see reactor.c */
	uint32_t buffer_size;		/* bytes, a power of two from 4096: 131072 */
	uint32_t buffers;		/* per reactor: 128 */
	uint32_t fused_wait_ms;		/* for the second of a fused pair: 10000 */
	uint32_t cq_entries;		/* per reactor and device: 4096 (grown by new CQs as needed) */
};

struct target *target_create(const struct target_options *options, char *err, size_t len);
/*
 * Disconnects everything, waits for the reactors to end (bounded: 7 s), frees all: queue pairs with
 * their cm ids, requests, namespaces and tables too.  Nothing of it may be used after.
 */
void target_destroy(struct target *target);
int target_fd(const struct target *target);

/* ---- queue pairs ---- */

struct target_qpair_options {
	unsigned reactor;		/* index */
	uint16_t qid;
	uint16_t recv_depth;		/* capsules the host may have outstanding (hsqsize + 1) */
	uint16_t send_depth;		/* responses the host can take (hrqsize): for information */
	uint32_t in_capsule;		/* bytes of in-capsule data accepted: IOCCSZ * 16 - 64; 0 for admin */
	uint32_t max_transfer;		/* bytes: what MDTS says; 0: no limit */
	uint8_t initiator_depth;	/* from the CM REQ: RDMA READs the target may have outstanding */
	uint8_t responder_resources;
	void *cookie;			/* comes back in every upcall */
};

/*
 * Make the queue pair on the reactor's completion queue, post its receives and accept the
 * connection with the CM REP of crqsize = recv_depth.  On failure the id is the caller's, to reject.
 * Sets id->context to the queue pair.
 */
struct target_qpair *target_qpair_accept(struct target *target, const struct verbs *verbs,
					 struct rdma_cm_id *id,
					 const struct target_qpair_options *options, char *err,
					 size_t len);
/*
 * After Connect succeeded and before it is completed.  sq_size: entries, for SQHD (0: flow control
 * disabled, SQHD is 0xffff in Connect's own response and 0 later: see the RDMA transport).
 * namespaces: for I/O queues; NULL for admin queues, whose commands all go up.  An I/O queue whose
 * host has to authenticate has NULL at first, and gets its namespaces by a second call.
 */
void target_qpair_connected(struct target_qpair *qp, uint16_t sq_size,
			    struct target_nstable *namespaces);
/*
 * I/O commands that come from now on see these namespaces; those under way may still use the table
 * before, which must stay until the queue pair is destroyed.
 */
void target_qpair_show(struct target_qpair *qp, struct target_nstable *namespaces);
/* Whether I/O commands run (CC.EN and CSTS.RDY); refused with Command Sequence Error otherwise. */
void target_qpair_enable(struct target_qpair *qp, bool enabled);
/*
 * End the connection: rdma_disconnect, drain, then one TARGET_UPCALL_CLOSED, whenever it was that
 * ended it.  Responses completed before leave first (within 100 ms).  Idempotent.  Call it too on
 * RDMA_CM_EVENT_DISCONNECTED.
 */
void target_qpair_disconnect(struct target_qpair *qp);
/* The same on RDMA_CM_EVENT_DISCONNECTED, for a truthful reason. */
void target_qpair_peer_left(struct target_qpair *qp);
/*
 * After CLOSED and after every request of it was completed.  It must not be used again; DESTROYED comes up
 * when the QP and the cm id are gone.
 */
void target_qpair_destroy(struct target_qpair *qp);

/*
 * Make a device ready before the first connection comes to it: 0 if it is, -EAGAIN if DEVICE will come up.
 * context: that of an id of the device.  A connection that comes before is refused with errno EAGAIN.
 */
int target_device_open(struct target *target, const struct verbs *verbs, struct ibv_context *context,
		       char *err, size_t len);
/*
 * The device of this name was removed.  What the target holds of it is freed when its last queue
 * pair is gone (disconnect them); a device that comes back is another one, of the same name or not.
 */
void target_device_gone(struct target *target, const struct verbs *verbs, const char *name);

struct target_qpair_stats {
	uint64_t commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer;
	uint32_t outstanding;
};
void target_qpair_stats(const struct target_qpair *qp, struct target_qpair_stats *stats);

/*
 * Commands that the engine itself ended with an error since Connect, counted from 1.  Those that
 * the control thread answered are not among them, nor miscompares.
 */
enum { TARGET_ERRORS = 16 };		/* so many of a queue pair are remembered */
struct target_error {
	uint64_t number;
	uint64_t when;			/* ns, CLOCK_MONOTONIC */
	uint64_t lba;			/* the command's first; 0 where it has none */
	uint32_t nsid;
	uint16_t cid, status;
	uint16_t location;		/* of the parameter: byte, and bit << 8; ffff: of none */
	uint8_t opcode;
};
/* Those after a number, the oldest first: how many; last: the number of the last one there was. */
unsigned target_qpair_errors(const struct target_qpair *qp, uint64_t after, uint64_t *last,
			     struct target_error errors[TARGET_ERRORS]);

/*
 * Take back the I/O command with this CID, if nothing of it was done yet: it then ends with Command
 * Abort Requested.  One ABORTED upcall follows, before or after the command's response has left.
 * NULL: out of memory.
 */
struct target_abort *target_abort_create(struct target_qpair *qp, uint16_t cid, void *cookie);
void target_abort_destroy(struct target *target, struct target_abort *abort);	/* after ABORTED */

/* ---- upcalls ---- */

enum target_upcall_type {
	TARGET_UPCALL_COMMAND = 1,	/* request: answer with target_complete, sooner or later */
	TARGET_UPCALL_CLOSED = 2,	/* qpair: reason says why */
	TARGET_UPCALL_RETIRED = 3,	/* namespace: no reactor uses it any more */
	TARGET_UPCALL_FENCED = 4,	/* fence: what it waited for has ended */
	TARGET_UPCALL_FAULTED = 5,	/* namespace: its store failed a command, see target_fault */
	TARGET_UPCALL_ABORTED = 6,	/* abort: aborted says whether */
	TARGET_UPCALL_DESTROYED = 7,	/* cookie: the queue pair and its cm id are gone */
	TARGET_UPCALL_DEVICE = 8,	/* device: ready, or reason says why it cannot be used */
	TARGET_UPCALL_FREED = 9,	/* namespace: no device has its store's memory, and it is gone */
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
	const char *reason;		/* a sentence; "": CLOSED: nobody told the device why it ended,
					   DEVICE: nothing is wrong.  Valid until the next
					   target_upcalls() or, of a qpair, until it is destroyed */
};

/*
 * All upcalls so far, oldest first, and the eventfd reset.  An upcall is embedded in what it is
 * about and needs no free: read next before acting on it, and none after the next call of this.
 */
struct target_upcall *target_upcalls(struct target *target);

const struct nvme_sqe *target_request_sqe(const struct target_request *request);
/* Data that came with the command (fetched by RDMA READ or in-capsule); len 0 where none. */
const void *target_request_data(const struct target_request *request, uint32_t *len);
/*
 * Complete it: data (copied) is sent first where len > 0, and must not be longer than the
 * command's SGL (the rest is cut).  status as in nvme.h.  The request must not be used again.
 * Any thread.
 */
void target_complete(struct target_request *request, uint16_t status, uint32_t dw0, uint32_t dw1,
		     const void *data, uint32_t len);

/* ---- namespaces ---- */

struct target_namespace *target_namespace_create(struct target *target, uint32_t nsid,
						 struct store *store, char *err, size_t len);
/*
 * In no table, and RETIRED if it was in one.  It must not be used again.  true: it is gone, and its store is
 * the caller's to close.  false: that is so when FREED has come up; a device has its memory registered.
 */
bool target_namespace_destroy(struct target_namespace *ns);
/* The new size of a store that was resized, seen by the next command. */
void target_namespace_resized(struct target_namespace *ns);

struct target_namespace_stats {
	uint64_t reads, writes, read_bytes, write_bytes;
	uint64_t errors;		/* commands that failed, for whatever reason */
	uint64_t media_errors;		/* of them, those that the store failed */
	uint64_t throttled;		/* commands that waited, being over a limit */
	uint64_t flushes;		/* that the store was asked for */
	uint64_t compares, verifies, zeroes, deallocates;	/* Write Zeroes, Dataset Management */
	uint64_t checked_bytes;		/* of Compare and Verify */
};
void target_namespace_stats(const struct target_namespace *ns, struct target_namespace_stats *stats);
/* How long commands on it were under way on a reactor (index), ns, those that are now included. */
uint64_t target_namespace_busy(const struct target_namespace *ns, unsigned reactor);

/*
 * How long Reads and Writes that succeeded took, from the capsule's being taken to the response's
 * being posted: [0] counts those under 1 us, [i] those from 2^(i-1) to 2^i us, the last the rest.  The
 * clock is read twice a turn of the reactor, not for each command.
 */
enum { TARGET_LATENCY_BUCKETS = 24 };
struct target_latency {
	uint64_t read[TARGET_LATENCY_BUCKETS], write[TARGET_LATENCY_BUCKETS];
	uint64_t read_ns, write_ns;	/* sums */
};
void target_namespace_latency(const struct target_namespace *ns, struct target_latency *latency);

/* A second; 0: no limit.  burst_ms (10 at least): so much of each may be used at once after a rest. */
struct target_limits {
	uint64_t read_iops, write_iops, iops;
	uint64_t read_bandwidth, write_bandwidth, bandwidth;	/* bytes */
	uint32_t burst_ms;
};
/*
 * Let Read, Compare and Verify (read), and Write and Write Zeroes (write) wait in line, each queue
 * pair in its turn, where they are over a limit, on whatever queue they came.  In force at once.
 * -ENOMEM.
 */
int target_namespace_limits(struct target_namespace *ns, const struct target_limits *limits);

/* Logical blocks. */
struct target_range {
	uint64_t slba, blocks;
};
/*
 * Blocks that cannot be read: sorted ranges that neither overlap nor touch, in place of those before.
 * Read, Compare and Verify of one end with Unrecovered Read Error.  A Write, Write Zeroes or
 * deallocation of one that begins from now on goes up as a COMMAND when all of it is done, with the ranges
 * of a deallocation as its data: the control thread takes its blocks out, and completes it.  -ENOMEM.
 */
int target_namespace_invalid(struct target_namespace *ns, const struct target_range *ranges,
			     uint32_t count);

/*
 * The command whose failure a FAULTED upcall is about.  Another such upcall of the namespace
 * comes only after target_namespace_rearm(), however many commands fail.
 */
struct target_fault {
	uint64_t offset, length;	/* bytes; 0 for a flush */
	int error;			/* errno of the store's last failure; 0 where there is none */
	uint16_t status;		/* what the host got */
	uint8_t opcode;
};
const struct target_fault *target_namespace_fault(const struct target_namespace *ns);
void target_namespace_rearm(struct target_namespace *ns);

/*
 * What some hosts of a subsystem see: NSID to namespace, for 1..max_nsid.  A namespace may be in
 * several tables, as those have that differ by what is masked.  NULL with errno: EINVAL where
 * max_nsid is 0.
 */
struct target_nstable *target_nstable_create(struct target *target, uint32_t max_nsid);
void target_nstable_destroy(struct target_nstable *table);	/* when no queue pair uses it */
/*
 * ns NULL takes the namespace out.  When it is in no table any more, one RETIRED upcall follows as
 * soon as no reactor uses it.
 */
int target_nstable_set(struct target_nstable *table, uint32_t nsid, struct target_namespace *ns);

/* ---- gates: I/O commands that end with a status instead of running ---- */

/*
 * The status (nvme.h, with NVME_DNR where it applies) that commands of each group end with, 0: they
 * run.  The groups are those of reservations (Base 2.0, 8.19), with Flush apart, which goes with
 * the writes there and is allowed where a namespace is write protected:
 *   read	Read, Compare, Verify
 *   write	Write, Write Zeroes, Write Uncorrectable, Dataset Management
 *   flush	Flush; of all namespaces (FFFFFFFFh): the first such status ends it, but for Invalid
 *		Namespace, which hides the namespace from it
 * Other commands go up and are the control thread's to judge.
 */
struct target_gate {
	uint16_t read, write, flush;
};

/* For every host.  From any queue, a command that has not begun yet meets it. */
void target_namespace_gate(struct target_namespace *ns, const struct target_gate *gate);

/* Gates by NSID (1..max_nsid), for the queue pairs that they are given to: those of a controller. */
struct target_gates *target_gates_create(struct target *target, uint32_t max_nsid);
void target_gates_destroy(struct target_gates *gates);	/* when no queue pair has it */
/* -EINVAL where there is no such NSID.  They count before the namespace's own. */
int target_gates_set(struct target_gates *gates, uint32_t nsid, const struct target_gate *gate);
/* At any time, once: its commands that have not begun yet meet the gates. */
void target_qpair_gates(struct target_qpair *qp, struct target_gates *gates);

/*
 * Wait for the I/O commands that these queue pairs have begun on a namespace (nsid 0: on any), which
 * may have met an older gate: one FENCED upcall when each has ended (its response is in line) or gone
 * with its connection.  abort: not 0, what can be taken back ends with this status.  A host that
 * does not move its data holds the rest up for as long as it is connected.  NULL: out of memory.
 */
struct target_fence *target_fence_create(struct target *target, struct target_qpair *const *qpairs,
					 unsigned count, uint32_t nsid, uint16_t abort,
					 void *cookie);
void target_fence_destroy(struct target_fence *fence);	/* after FENCED */

#endif
