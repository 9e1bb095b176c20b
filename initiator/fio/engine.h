/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fio engine, inside: one state per fio job, one session per file of it, one hub per RDMA device
 * that the sessions are on.
 *
 * Everything belongs to the job's thread or process.  Nothing of the engine is opened in the
 * process that forks the jobs: a child that ends before them gets the sizes (size.c).
 */
#ifndef NVMEOF_FIO_ENGINE_H
#define NVMEOF_FIO_ENGINE_H

#include "fio.h"
#include "host/host.h"
#include "trid.h"

/* Everything but the one symbol that fio looks up stays ours: libaio, say, is in the same process. */
#pragma GCC visibility push(hidden)

struct nvmeof_options {
	void *pad;		/* fio wants no option at offset 0 */
	char *traddr, *trsvcid, *subnqn, *hostnqn;
	unsigned int nsid;
	unsigned int queue_size;	/* entries; 0: what iodepth needs */
	unsigned int crc;
	unsigned int hipri;		/* poll; else sleep between completions */
	unsigned int timeout_ms;
	unsigned int write_mode;
	unsigned int device;
	unsigned int remote_keys;	/* enum host_remote_keys */
};
enum { DEVICE_IWARP, DEVICE_SYSTEM, DEVICE_ROCE };
enum { WRITE_MODE_WRITE, WRITE_MODE_ZEROES, WRITE_MODE_VERIFY };

/* State that sessions on one RDMA device share: their queues are polled together. */
struct hub {
	struct hub *next;
	struct host_device *device;
	struct host_poll_group *group;
	struct host_memory *buffers;	/* fio's I/O buffers, registered */
	struct host_memory *ranges;	/* a DSM range for each request */
};

struct session {
	struct trid trid;
	struct host_namespace_info info;
	uint32_t piece;			/* bytes: the largest command */
	struct hub *hub;
	struct host_controller *controller;
	struct host_queue *queue;
	bool lost;
};

/*
 * An io_u under way: cut into pieces if it is longer than a command may be.  It is finished when its
 * last hold is dropped, and only then: each piece in flight has one, and so has the submission of the
 * pieces, until the last of them is out or is given up.
 */
struct request {
	struct io_u *io_u;
	struct session *session;
	struct request *next;		/* in line for queue slots */
	uint64_t lba;			/* of the next piece */
	uint64_t left;			/* bytes not yet submitted */
	uint8_t *buffer;		/* of the next piece */
	unsigned holds;
	uint16_t status;		/* the first that was not success */
	bool lost;			/* a piece went with the queue, or was not submitted */
	uint8_t opcode;
	bool to_device;
	bool fua;
	unsigned index;
	struct host_memory *memory;	/* what buffer lies in: NULL for commands without data */
	struct host_memory *bounce;	/* if the I/O buffer is not registered */
};

struct state {
	struct thread_data *td;
	struct nvmeof_options *options;
	struct hub *hubs;
	struct session *sessions;	/* by fileno */
	unsigned nsessions;
	struct request *waiting, *waiting_tail;
	struct request *requests;
	unsigned nrequests;
	struct io_u **finished;		/* a ring of nrequests, for getevents */
	unsigned finished_head, finished_count;
	struct io_u **events;		/* the result of the last getevents */
	unsigned unflushed, flush_at;	/* submitted without a doorbell; when to ring it */
	unsigned queued;		/* since the last commit */
	unsigned complaints;
};

/* ---- session.c ---- */

/* A hint about names that fio split into several; "" if there is no sign of it. */
const char *session_split(const struct thread_data *td, const struct trid *trid);
/* Get a file's address from its name and the job's options; 0, or -1 after logging an error. */
int session_trid(struct thread_data *td, const struct fio_file *f, struct trid *trid);
/* Connect, identify and disconnect; 0, or a negative errno with a sentence in text. */
int session_identify(const struct trid *trid, const struct nvmeof_options *options,
		     struct host_namespace_info *info, char *text, size_t len);
int session_open(struct state *s, struct session *session, const struct fio_file *f);
/* Register fio's buffers; 0, or -1 after logging an error. */
int session_register(struct state *s, void *addr, size_t length);
/* Disconnect all, and free their registrations. */
void session_close_all(struct state *s);

/* ---- size.c ---- */

/* session_identify in a separate process, cached for jobs with the same address. */
int size_learn(const struct trid *trid, const struct nvmeof_options *options,
	       struct host_namespace_info *info, char *text, size_t len);

/* ---- io.c ---- */

enum fio_q_status nvmeof_queue(struct thread_data *td, struct io_u *io_u);
int nvmeof_commit(struct thread_data *td);
int nvmeof_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		     const struct timespec *t);
struct io_u *nvmeof_event(struct thread_data *td, int event);

#pragma GCC visibility pop

#endif
