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
#include "util/clock.h"

/* Only the symbol that fio looks up is exported, because other libraries are in the same process. */
#pragma GCC visibility push(hidden)

struct nvmeof_options {
	void *pad;		/* fio wants no option at offset 0 */
	char *traddr, *trsvcid, *subnqn, *hostnqn, *hostid;
	unsigned int nsid;
	unsigned int queue_size;	/* entries; 0: as many as iodepth needs */
	unsigned int crc;
	unsigned int hipri;		/* poll; else sleep between completions */
	unsigned int timeout_ms;
	unsigned int write_mode;
	unsigned int device;
	unsigned int remote_keys;	/* enum host_remote_keys */
	int ctrl_loss_tmo;		/* seconds; 0: do not reconnect, -1: no limit */
	unsigned int reconnect_delay;	/* seconds */
	unsigned int method;
	unsigned int ignore_assumptions;
};
enum { DEVICE_IWARP, DEVICE_SYSTEM, DEVICE_ROCE };
/* How writes become persistent; the methods from write-read on use remote memory (memory.c). */
enum { METHOD_NONE, METHOD_NVME_FUA, METHOD_NVME_WRITE_FLUSH, METHOD_WRITE_READ, METHOD_WRITE_FLUSH,
       METHOD_WRITE_FLUSH_TAIL, METHOD_WRITE_SEND, METHOD_FLOOR };
enum { WRITE_MODE_WRITE, WRITE_MODE_ZEROES, WRITE_MODE_VERIFY };

/* State that sessions on one RDMA device share: their queues are polled together. */
struct hub {
	struct hub *next;
	struct host_device *device;
	struct host_poll_group *group;
	struct host_memory *buffers;	/* fio's I/O buffers, registered */
	struct host_memory *ranges;	/* a DSM range for each request */
};

/* Requests in line, oldest first. */
struct line {
	struct request *first, *last;
};

enum session_state {
	SESSION_LIVE,
	SESSION_RECONNECTING,	/* lost: its requests are held until it is connected again */
	SESSION_ENDED,		/* lost: its requests fail */
};

struct session {
	struct trid trid;
	struct host_namespace_info info;
	uint32_t piece;			/* bytes: the largest command */
	struct hub *hub;
	struct host_controller *controller;
	struct host_queue *queue;
	enum session_state state;
	struct line held;
	uint64_t connected, next, until;	/* ns: the times of the connection, the next and the last attempt */
	uint64_t told;			/* ns: when the last failure was logged */
	unsigned attempts;		/* since the loss */
};

/*
 * An io_u in progress, divided into pieces if it is longer than the largest command.  It is finished only when
 * its last hold is dropped: each piece in flight has one, and the submission of pieces has one until the last
 * piece is submitted or submission ends early.
 */
struct request {
	struct io_u *io_u;
	struct session *session;
	struct request *next;		/* in a line: for queue slots, or held by its session */
	uint64_t lba;			/* of the next piece */
	uint64_t left;			/* bytes not yet submitted */
	uint8_t *buffer;		/* of the next piece */
	unsigned holds;
	uint16_t status;		/* the first that was not success */
	int refused;			/* errno: a piece could not be submitted, for another reason than a loss */
	bool lost;			/* a piece was lost with its queue, or was not submitted */
	unsigned losses;		/* connections that ended with a piece of it in flight */
	uint8_t *data;			/* the buffer of the first piece */
	uint8_t opcode;
	bool to_device;
	bool fua;
	bool flushes;			/* nvme-write-flush: a Flush follows the Write */
	bool flushing;			/* it is the Flush */
	unsigned index;
	struct host_memory *memory;	/* the memory that contains buffer; NULL for commands without data */
	struct host_memory *bounce;	/* if the I/O buffer is not registered */
};

struct dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t lba;
};

struct state {
	struct thread_data *td;
	struct nvmeof_options *options;
	struct hub *hubs;
	struct session *sessions;	/* by fileno */
	unsigned nsessions;
	struct line waiting;		/* for queue slots */
	unsigned reconnecting;		/* number of sessions that are reconnecting */
	struct request *requests;
	unsigned nrequests;
	struct io_u **finished;		/* a ring of nrequests, for getevents */
	unsigned finished_head, finished_count;
	struct io_u **events;		/* the result of the last getevents */
	unsigned unflushed, flush_at;	/* commands submitted without a doorbell; the number at which it is rung */
	unsigned queued;		/* since the last commit */
	unsigned complaints;
};

/* ---- session.c ---- */

/* A hint for names that fio has split at a colon; "" if there is no sign of that. */
const char *session_split(const struct thread_data *td, const struct trid *trid);
/* Get a file's address from its name and the job's options; 0, or -1 after logging an error. */
int session_trid(struct thread_data *td, const struct fio_file *f, struct trid *trid);
/* Connect, identify and disconnect; 0, or a negative errno with a sentence in text. */
int session_identify(const struct trid *trid, const struct nvmeof_options *options,
		     struct host_namespace_info *info, char *text, size_t len);
int session_open(struct state *s, struct session *session, const struct fio_file *f);
/* Connect a lost session again; 0, or -1 with error filled.  -2: its namespace has been replaced. */
int session_reopen(struct state *s, struct session *session, struct host_error *error);
/* Register fio's buffers; 0, or -1 after logging an error. */
int session_register(struct state *s, void *addr, size_t length);
/* Disconnect all sessions, and free their registrations. */
void session_close_all(struct state *s);

/* ---- size.c ---- */

/* session_identify in a separate process, cached for jobs with the same address. */
int size_learn(const struct trid *trid, const struct nvmeof_options *options,
	       struct host_namespace_info *info, char *text, size_t len);

/* ---- prepare.c ---- */

/* Log an error of an io_u, unless many were logged already. */
void request_complain(struct state *s, const struct io_u *io_u, const char *what);
/* Choose the command and the memory of a new request; 0, or an errno after logging it. */
int request_prepare(struct state *s, struct request *r);
void line_add(struct line *line, struct request *r);
struct request *line_take(struct line *line);

/* ---- reconnect.c ---- */

/* The session's connection is lost: have it connected again, or end it. */
void reconnect_begin(struct state *s, struct session *session, const char *reason);
/* Make the attempts that are due. */
void reconnect_poll(struct state *s);

/* ---- io.c ---- */

/* The session is connected again, or has ended: submit the requests it holds, or return them as failed. */
void nvmeof_release(struct state *s, struct session *session);

enum fio_q_status nvmeof_queue(struct thread_data *td, struct io_u *io_u);
int nvmeof_commit(struct thread_data *td);
int nvmeof_getevents(struct thread_data *td, unsigned int min, unsigned int max,
		     const struct timespec *t);
struct io_u *nvmeof_event(struct thread_data *td, int event);

/* ---- memory.c: the same calls, for jobs on remote memory ---- */

bool memory_chosen(const struct thread_data *td);
/* Bytes of a range of this size that a file has: with write-flush-tail it ends before the tail word. */
uint64_t memory_file_size(const struct nvmeof_options *options, uint64_t size);
int memory_identify(const struct trid *trid, const struct nvmeof_options *options, struct host_namespace_info *info,
		    char *text, size_t len);
int memory_init(struct thread_data *td);
void memory_cleanup(struct thread_data *td);
enum fio_q_status memory_queue(struct thread_data *td, struct io_u *io_u);
int memory_commit(struct thread_data *td);
int memory_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *t);
struct io_u *memory_event(struct thread_data *td, int event);

#pragma GCC visibility pop

#endif
