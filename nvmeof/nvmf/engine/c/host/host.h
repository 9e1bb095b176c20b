/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's data path: connected queues, submission and completion of commands.
 *
 * A queue belongs to the thread that polls it, and so does a poll group with all its queues. Connecting and
 * disconnecting block (bounded by timeout_ms), and are for control threads unless the queue is in a poll group.
 * Nothing here depends on Python; the fio engine, the benchmark and the Python client use the same functions.
 *
 * Errors: NULL or a negative errno, with a sentence in err that states what was tried and what came back (the CM
 * reject by its name and NVMe-oF status, the NVMe status by name).
 */
#ifndef NVMF_HOST_H
#define NVMF_HOST_H

#include "nvme.h"
#include "verbs/verbs.h"

/*
 * Minimum entries of an I/O queue.  nvmet derives the size of its send queue from hrqsize: with fewer entries, a large
 * Read that needs many RDMA WRITEs never fits and is never answered.
 */
enum { HOST_MIN_QUEUE = 32 };

struct host_device;	/* a verbs table, context and PD; shared by the queues of a process */
struct host_queue;

/*
 * The keys that controllers receive, with which they transfer data.
 *
 * OF_COMMANDS: one per command, for its own bytes, in its own direction, and invalid when the command is complete. It
 * is the key of a memory window of type 2B if the device has them, otherwise of a registration made for the command,
 * which takes two system calls and pins its pages each time.  On the embedded device the cost of a window was within
 * the noise; registrations reduced the rate by a third (4 KiB reads at depth 32).
 *
 * OF_BUFFERS: per buffer, one key to read all of it and one to write all of it, valid until it is freed.
 *
 * Memory that the queues themselves need, for capsules and responses, is not accessible to peers.
 */
enum host_remote_keys { HOST_KEYS_OF_COMMANDS, HOST_KEYS_OF_BUFFERS };

/* address: selects the device that routes to it.  verbs NULL: the embedded device. */
struct host_device *host_device_get(const struct verbs *verbs, enum host_remote_keys keys, char *err,
				    size_t len);
void host_device_put(struct host_device *device);

/*
 * A registered buffer: a queue of the same device transfers data to and from it without a copy.  It must only be
 * freed when no command uses it: earlier commands are complete or abandoned.
 */
struct host_memory {
	void *addr;
	size_t length;
	struct ibv_mr *mr;	/* for local access, and with keys of buffers for reads of commands into it */
	struct ibv_mr *source;	/* with keys of buffers: for data that commands write; otherwise NULL */
	struct host_device *device;
	bool owned;		/* mapped here (with huge pages if available), unmapped when freed */
};
struct host_memory *host_memory_alloc(struct host_device *device, size_t length, char *err,
				      size_t len);
struct host_memory *host_memory_register(struct host_device *device, void *addr, size_t length,
					 char *err, size_t len);
void host_memory_free(struct host_memory *memory);

/*
 * A poll group: the queues of one thread, with one completion queue and one channel for all of them, so that the cost
 * of a poll depends on the busy queues, not on the connected ones.  A queue belongs to one group for its lifetime, or
 * to none; queues may be added and removed while others have commands outstanding.  While the group's thread connects
 * a queue, completions of the others wait.
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
	uint16_t cntlid;		/* in the CM REQ: the controller's ID for I/O queues, 0 before it is known */
	uint32_t in_capsule;		/* bytes of data a capsule may carry: IOCCSZ * 16 - 64, 0 for none */
	uint32_t timeout_ms;		/* for the connection; 0: 10000 */
	struct host_poll_group *group;	/* of the same device, or NULL */
	bool notify;			/* without a group: create a completion channel (host_queue_fd) */
	const int *cancel;		/* a descriptor whose readability cancels the attempt, or NULL */
};

struct host_error {
	int cm_event;		/* enum rdma_cm_event_type that ended it, or -1 */
	int cm_status;		/* its status (28 or ECONNREFUSED: a reject by the target) */
	int reject_sts;		/* sts of an NVMe-oF reject (1..8), or 0 */
	int nvme_status;	/* status of a failed command, or 0 */
	char text[400];
};

/* A status's name; fabrics: of a fabrics command, which has its own command specific codes. */
const char *host_nvme_status_name(uint16_t status, bool fabrics);

struct host_queue *host_queue_connect(struct host_device *device,
				      const struct host_queue_options *options,
				      struct host_error *error);
/* End the connection and free the queue; outstanding commands are dropped.  Bounded. */
void host_queue_destroy(struct host_queue *queue);

/*
 * The data of a command: none (length 0), or one range of registered memory. to_device data that fits into the
 * capsule is sent in it, unless no_capsule.
 */
struct host_data {
	void *addr;
	uint32_t length;
	const struct host_memory *memory;	/* contains the range */
	bool to_device;		/* host to controller */
	bool in_capsule;	/* may go in the capsule */
};

/*
 * Submit one command: the CID, PSDT and SGL of sqe are set.  Returns the CID, -EAGAIN if the queue is full,
 * -ENOTCONN, or the reason why the command's data cannot be registered.  user is returned with the completion. With
 * more = true the doorbell waits for the next submit without it, host_queue_flush or a poll.
 */
int host_queue_submit(struct host_queue *queue, const struct nvme_sqe *sqe,
		      const struct host_data *data, void *user, bool more);
/* Ring the doorbell: send the commands that were submitted with more = true. */
void host_queue_flush(struct host_queue *queue);
void host_poll_group_flush(struct host_poll_group *group);	/* of all its queues */

struct host_completion {
	struct host_queue *queue;
	void *user;
	struct nvme_cqe cqe;	/* cqe.status >> 1 is the NVMe status */
};
/*
 * Returns completions of the queue, at most max; those of other queues of its group are kept for a later poll.
 * -ENOTCONN after the connection is lost and all completions were returned: host_queue_reason() has the reason,
 * host_queue_abandon() returns the users of commands that will never complete.
 */
int host_queue_poll(struct host_queue *queue, struct host_completion *completions, int max);
/* Returns completions of all queues of the group, at most max; never negative. */
int host_poll_group_poll(struct host_poll_group *group, struct host_completion *completions, int max);
/*
 * The next queue of the group whose connection is lost and whose completions were returned, or NULL; each is returned
 * once.  The caller abandons and destroys it; the others are not affected.
 */
struct host_queue *host_poll_group_lost(struct host_poll_group *group);
/* For a lost queue: the users of its commands, at most max, whose data is no longer accessible to peers. */
int host_queue_abandon(struct host_queue *queue, void **users, int max);
const char *host_queue_reason(const struct host_queue *queue);
unsigned host_queue_outstanding(const struct host_queue *queue);
unsigned host_queue_size(const struct host_queue *queue);
unsigned host_queue_room(const struct host_queue *queue);	/* commands that may be outstanding */

/*
 * With notify: a descriptor that is readable when a poll may find something, after arming; otherwise -1.  A queue in
 * a group has the group's.
 */
int host_queue_fd(const struct host_queue *queue);
int host_poll_group_fd(const struct host_poll_group *group);
/* Ask for one wake-up; poll once more after it before sleeping. */
int host_queue_arm(struct host_queue *queue);
int host_poll_group_arm(struct host_poll_group *group);
/* Consume the events of a readable descriptor. */
void host_queue_drain(struct host_queue *queue);
void host_poll_group_drain(struct host_poll_group *group);

/*
 * A thread that waits for the answer to a Connect calls this at once, and again after the returned number of ms,
 * until that is 0: a siw target may miss the first message (nudge.c).
 */
unsigned host_queue_nudge(struct host_queue *queue);

/* Send one command and poll until it completes (sleeping with notify): NVMe status, or a negative errno. */
int host_queue_command(struct host_queue *queue, const struct nvme_sqe *sqe,
		       const struct host_data *data, uint32_t timeout_ms, struct nvme_cqe *cqe);

/*
 * A complete controller for C programs (fio, benchmarks): admin queue, enable, one namespace, I/O queues created on
 * demand.  Keep-alive is disabled (KATO 0).
 */
struct host_controller_options {
	const char *traddr, *trsvcid, *subnqn;
	const char *hostnqn;		/* NULL: that of /etc/nvme/hostnqn, or derived from the machine-id */
	const char *hostid;		/* a UUID; NULL: that of /etc/nvme/hostid, or derived from the NQN */
	uint32_t timeout_ms;
	struct host_device *device;	/* NULL: a private device with verbs and keys */
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
	uint8_t ids[24];	/* NGUID and EUI64; zeroes: the namespace has none */
};
struct host_controller *host_controller_connect(const struct host_controller_options *options,
						struct host_error *error);
int host_controller_namespace(struct host_controller *controller, uint32_t nsid,
			      struct host_namespace_info *info, struct host_error *error);
/* group: of the controller's device, or NULL; notify: without a group, create a completion channel. */
struct host_queue *host_controller_queue(struct host_controller *controller, uint16_t size,
					 struct host_poll_group *group, bool notify,
					 struct host_error *error);
/* Number of I/O queues granted by the controller. */
unsigned host_controller_queues(const struct host_controller *controller);
struct host_device *host_controller_device(struct host_controller *controller);
void host_controller_destroy(struct host_controller *controller);	/* its queues first */

#endif
