/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's data path: connected queues, submission and completion of commands.
 *
 * A queue belongs to the thread that polls it, and so does a poll group with all its queues.
 * Connecting and disconnecting block (bounded by timeout_ms), and are for control threads unless the
 * queue is of a poll group.  Nothing here knows Python, and the fio engine, the benchmark and the
 * Python client use the same calls.
 *
 * Errors: NULL or a negative errno, with a sentence in err that says what was tried and what came
 * back (the CM reject by its name and NVMe-oF status, the NVMe status by name).
 */
#ifndef NVMF_HOST_H
#define NVMF_HOST_H

#include "nvme.h"
#include "verbs/verbs.h"

/*
 * Entries of an I/O queue, at least: nvmet makes its send queue from hrqsize, and with a smaller one
 * a large Read that takes many RDMA WRITEs never fits and is never answered.
 */
enum { HOST_MIN_QUEUE = 32 };

struct host_device;	/* a verbs table, context and PD; shared by the queues of a process */
struct host_queue;

/*
 * Which keys the controllers are given to move data with.
 *
 * Of each command: for its own bytes, in its own direction, and not valid any longer when it is complete.
 * It is that of a memory window of type 2B if the device has them, else of a registration made for the command,
 * which takes two system calls and pins its pages each time.  A window's cost was within the noise on the embedded
 * device; registrations took a third of the rate there (4 KiB reads at depth 32).
 * Of each buffer: one to read all of it and one to write all of it, valid until it is freed.
 *
 * What the queues themselves need, capsules and responses, no peer can reach.
 */
enum host_remote_keys { HOST_KEYS_OF_COMMANDS, HOST_KEYS_OF_BUFFERS };

/* address: which device routes there.  verbs NULL: the embedded device. */
struct host_device *host_device_get(const struct verbs *verbs, enum host_remote_keys keys, char *err,
				    size_t len);
void host_device_put(struct host_device *device);

/*
 * A registered buffer: a queue of the same device moves data to and from it without a copy.  It is freed
 * when no command uses it: those that were outstanding are complete, or abandoned.
 */
struct host_memory {
	void *addr;
	size_t length;
	struct ibv_mr *mr;	/* for this end, and with keys of buffers for reads of commands into it */
	struct ibv_mr *source;	/* with keys of buffers: for what commands write; else NULL */
	struct host_device *device;
	bool owned;		/* mapped here (huge pages where there are any), unmapped when freed */
};
struct host_memory *host_memory_alloc(struct host_device *device, size_t length, char *err,
				      size_t len);
struct host_memory *host_memory_register(struct host_device *device, void *addr, size_t length,
					 char *err, size_t len);
void host_memory_free(struct host_memory *memory);

/*
 * A poll group: the queues of one thread, with one completion queue and one channel for all of them,
 * so that a poll costs what is busy and not what is connected.  A queue belongs to one group for
 * life, or to none; queues come and go while the others have commands outstanding.  While the group's
 * thread connects one, what the others complete waits.
 */
struct host_poll_group;
struct host_poll_group *host_poll_group_create(struct host_device *device, bool notify, char *err,
					       size_t len);
void host_poll_group_destroy(struct host_poll_group *group);	/* its queues first */

struct host_queue_options {
	const char *traddr;		/* IPv4 or IPv6 literal or a host name */
	const char *trsvcid;		/* "4420" */
	const char *host_traddr;	/* source address, or NULL */
	uint16_t qid;
	uint16_t size;			/* entries: hrqsize = size, hsqsize = size - 1 (admin: 32) */
	uint16_t cntlid;		/* in the CM REQ: that of the controller for I/O queues, 0 before */
	uint32_t in_capsule;		/* bytes of data a capsule may carry: IOCCSZ * 16 - 64, 0 for none */
	uint32_t timeout_ms;		/* for the connection; 0: 10000 */
	struct host_poll_group *group;	/* of the same device, or NULL */
	bool notify;			/* without a group: make a completion channel (host_queue_fd) */
	const int *cancel;		/* a descriptor that becomes readable to have it given up, or NULL */
};

struct host_error {
	int cm_event;		/* enum rdma_cm_event_type that ended it, or -1 */
	int cm_status;		/* its status (28 or ECONNREFUSED: a reject by the target) */
	int reject_sts;		/* sts of an NVMe-oF reject (1..8), or 0 */
	int nvme_status;	/* status of a failed command, or 0 */
	char text[400];
};

/* A status's name; fabrics: of a fabrics command, whose command specific codes are its own. */
const char *host_nvme_status_name(uint16_t status, bool fabrics);

struct host_queue *host_queue_connect(struct host_device *device,
				      const struct host_queue_options *options,
				      struct host_error *error);
/* Ends the connection and frees the queue; outstanding commands are forgotten. Bounded. */
void host_queue_destroy(struct host_queue *queue);

/*
 * What moves with a command.  Exactly one of: nothing (length 0); a range of registered memory.
 * to_device data that fits the capsule goes in the capsule, unless no_capsule.
 */
struct host_data {
	void *addr;
	uint32_t length;
	const struct host_memory *memory;	/* that the range lies in */
	bool to_device;		/* host to controller */
	bool in_capsule;	/* may go in the capsule */
};

/*
 * Submit one command: the CID, PSDT and SGL of sqe are filled in.  Returns the CID, or -EAGAIN
 * if the queue is full, -ENOTCONN, or why the command's data cannot be registered.  user comes back with the
 * completion.
 * With more = true the doorbell waits for the next submit without it, host_queue_flush or a poll.
 */
int host_queue_submit(struct host_queue *queue, const struct nvme_sqe *sqe,
		      const struct host_data *data, void *user, bool more);
/* The doorbell: send what was submitted with more = true. */
void host_queue_flush(struct host_queue *queue);
void host_poll_group_flush(struct host_poll_group *group);	/* of all its queues */

struct host_completion {
	struct host_queue *queue;
	void *user;
	struct nvme_cqe cqe;	/* cqe.status >> 1 is the NVMe status */
};
/*
 * Completions of the queue that have arrived, at most max; those of other queues of its group are kept
 * for a later poll.  -ENOTCONN once the connection is lost and all that could be given was:
 * host_queue_reason() says why, host_queue_abandon() gives the users of commands that will never
 * complete.
 */
int host_queue_poll(struct host_queue *queue, struct host_completion *completions, int max);
/* Completions of all queues of the group that have arrived, at most max; never negative. */
int host_poll_group_poll(struct host_poll_group *group, struct host_completion *completions, int max);
/*
 * The next queue of the group whose connection is lost and whose completions were given, or NULL: each
 * once.  It is the caller's to abandon and to destroy; the others are not disturbed.
 */
struct host_queue *host_poll_group_lost(struct host_poll_group *group);
/* Of a queue that is lost: the users of its commands, at most max, whose data no peer can reach any longer. */
int host_queue_abandon(struct host_queue *queue, void **users, int max);
const char *host_queue_reason(const struct host_queue *queue);
unsigned host_queue_outstanding(const struct host_queue *queue);
unsigned host_queue_size(const struct host_queue *queue);

/*
 * With notify: readable when a poll may have something, after arming; -1 without.  A queue of a group
 * has the group's.
 */
int host_queue_fd(const struct host_queue *queue);
int host_poll_group_fd(const struct host_poll_group *group);
/* Ask for one wake-up; poll once more after it before sleeping. */
int host_queue_arm(struct host_queue *queue);
int host_poll_group_arm(struct host_poll_group *group);
/* Take the events of a readable descriptor. */
void host_queue_drain(struct host_queue *queue);
void host_poll_group_drain(struct host_poll_group *group);

/*
 * Whoever waits for the answer to a Connect calls this at once, and again after as many ms as it
 * returned, until that is 0: siw as a target may miss what comes first (nudge.c).
 */
unsigned host_queue_nudge(struct host_queue *queue);

/* One command, polled to its end (sleeping with notify): NVMe status, or a negative errno. */
int host_queue_command(struct host_queue *queue, const struct nvme_sqe *sqe,
		       const struct host_data *data, uint32_t timeout_ms, struct nvme_cqe *cqe);

/*
 * A whole controller for C programs (fio, benchmarks): admin queue, enable, one namespace,
 * I/O queues made on demand.  Keep-alive is disabled (KATO 0).
 */
struct host_controller_options {
	const char *traddr, *trsvcid, *subnqn;
	const char *hostnqn;		/* NULL: that of /etc/nvme/hostnqn, or made from a random host ID */
	uint32_t timeout_ms;
	struct host_device *device;	/* NULL: one of its own, of verbs and keys */
	const struct verbs *verbs;	/* NULL: embedded */
	enum host_remote_keys keys;
};
struct host_controller;
struct host_namespace_info {
	uint32_t nsid;
	uint64_t blocks;
	uint32_t block_size;
	uint32_t max_transfer;	/* bytes; 0: no limit */
	bool deallocate, write_zeroes, volatile_write_cache;
};
struct host_controller *host_controller_connect(const struct host_controller_options *options,
						struct host_error *error);
int host_controller_namespace(struct host_controller *controller, uint32_t nsid,
			      struct host_namespace_info *info, struct host_error *error);
/* group: of the controller's device, or NULL; notify: without a group, make a completion channel. */
struct host_queue *host_controller_queue(struct host_controller *controller, uint16_t size,
					 struct host_poll_group *group, bool notify,
					 struct host_error *error);
/* I/O queues that the controller grants. */
unsigned host_controller_queues(const struct host_controller *controller);
struct host_device *host_controller_device(struct host_controller *controller);
void host_controller_destroy(struct host_controller *controller);	/* its queues first */

#endif
