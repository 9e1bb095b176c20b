/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs on remote memory: method=write-read, write-flush, write-flush-tail, write-send or floor.  A file is a memory
 * connection; an io_u has the slot of its number on each of them.  A lost connection is not established again: its I/O
 * fails.
 *
 * With write-flush-tail the last 8 bytes of the range, aligned to 8, are a tail word as a log has it: it counts the
 * writes of the connection.
 *
 * Runs in the job's own thread or process, as io.c does.
 */
#include "engine.h"
#include "memory/client_open.h"

#include <endian.h>
#include <poll.h>

enum { BATCH = 32, YIELD_EVERY = 64, FILES = 64, SLEEP_MS = 500, TAIL_BYTES = 8 };

struct memory {
	struct thread_data *td;
	const struct nvmeof_options *options;
	struct memory_client *clients[FILES];	/* by fileno; NULL once lost */
	uint64_t writes[FILES];			/* by fileno: the next tail word */
	unsigned nclients, depth, queued;
	struct io_u **under_way;		/* by index */
	struct io_u **finished, **events;	/* a ring, and the last getevents */
	unsigned head, count;
};

bool memory_chosen(const struct thread_data *td)
{
	const struct nvmeof_options *o = td->eo;

	return o->method >= METHOD_WRITE_READ;
}

static bool memory_has_tail(const struct nvmeof_options *o)
{
	return o->method == METHOD_WRITE_FLUSH_TAIL;
}

uint64_t memory_file_size(const struct nvmeof_options *o, uint64_t size)
{
	if (!memory_has_tail(o))
		return size;
	return size < TAIL_BYTES ? 0 : (size - TAIL_BYTES) & ~(uint64_t)(TAIL_BYTES - 1);
}

static enum memory_method memory_method_of(const struct nvmeof_options *o)
{
	return o->method == METHOD_WRITE_READ ? MEMORY_WRITE_READ :
	       o->method == METHOD_WRITE_FLUSH ? MEMORY_WRITE_FLUSH :
	       o->method == METHOD_WRITE_FLUSH_TAIL ? MEMORY_WRITE_FLUSH_TAIL :
	       o->method == METHOD_WRITE_SEND ? MEMORY_WRITE_SEND : MEMORY_FLOOR;
}

/* Whether the target confirms the assumptions of the method, or they need not be checked. */
static bool memory_holds(const struct nvmeof_options *o, uint32_t platform, char *text, size_t len)
{
	const uint32_t needs = o->method == METHOD_WRITE_READ ? MEMORY_MEDIA | MEMORY_PLACED :
			       o->method == METHOD_WRITE_FLUSH ? MEMORY_MEDIA | MEMORY_FLUSHED :
			       memory_has_tail(o) ? MEMORY_MEDIA | MEMORY_FLUSHED | MEMORY_ATOMIC :
			       o->method == METHOD_WRITE_SEND ? MEMORY_MEDIA | MEMORY_PERSISTS : 0;

	if (o->ignore_assumptions || !(needs & ~platform))
		return true;
	snprintf(text, len, "the method makes nothing persistent there: the target does not confirm that %s "
		 "(set ignore_assumptions=1 to measure it nevertheless)",
		 !(platform & MEMORY_MEDIA) ? "the range is on media that keep their content without power" :
		 needs & MEMORY_PLACED ? "an RDMA WRITE is persistent before a following RDMA READ is answered" :
		 needs & ~platform & MEMORY_FLUSHED ? "an RDMA FLUSH makes its range persistent before it is answered" :
		 needs & MEMORY_ATOMIC ? "it carries out an ATOMIC WRITE as a whole, after the FLUSHes before it" :
		 "its processor makes a range persistent before it answers");
	return false;
}

static struct memory_client *memory_connect(const struct trid *trid, const struct nvmeof_options *o, unsigned depth,
					    uint32_t slot_bytes, bool read_only, uint64_t *size, char *text,
					    size_t len)
{
	struct memory_open_options where = {
		.connection = {
			.traddr = trid->traddr,
			.trsvcid = trid->trsvcid,
			.verbs = o->device == DEVICE_SYSTEM ? verbs_system(text, len) :
				 o->device == DEVICE_ROCE ? verbs_roce() : verbs_iwarp(),
			.depth = depth,
			.slot_bytes = slot_bytes,
			.timeout_ms = o->timeout_ms,
		},
		.subnqn = trid->subnqn,
		.hostnqn = trid->hostnqn[0] ? trid->hostnqn : NULL,
		.hostid = o->hostid && *o->hostid ? o->hostid : NULL,
		.nsid = trid->nsid,
		.read_only = read_only,
	};
	struct memory_range range;
	struct memory_client *client;

	errno = ENODEV;
	client = where.connection.verbs ? memory_client_open(&where, &range, text, len) : NULL;
	if (!client)
		return NULL;
	if ((o->method == METHOD_WRITE_FLUSH || memory_has_tail(o)) && !memory_client_flushes(client)) {
		snprintf(text, len, "method=%s needs RDMA FLUSH, which this host's device does not have: "
			 "device=roce has it", memory_has_tail(o) ? "write-flush-tail" : "write-flush");
		memory_client_free(client);
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!read_only && !memory_holds(o, range.platform, text, len)) {
		memory_client_free(client);
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (memory_has_tail(o) && memory_client_tail_at(client, memory_file_size(o, range.size))) {
		snprintf(text, len, "method=write-flush-tail needs 8 bytes for the tail word: the range has %llu",
			 (unsigned long long)range.size);
		memory_client_free(client);
		errno = EINVAL;
		return NULL;
	}
	*size = range.size;
	return client;
}

int memory_identify(const struct trid *trid, const struct nvmeof_options *options, struct host_namespace_info *info,
		    char *text, size_t len)
{
	uint64_t size;
	/* every host of the memory may read */
	struct memory_client *client = memory_connect(trid, options, 1, 8, true, &size, text, len);

	if (!client)
		return errno ? -errno : -EIO;
	memory_client_free(client);
	*info = (struct host_namespace_info){ .nsid = trid->nsid, .blocks = size, .block_size = 1 };
	return 0;
}

int memory_init(struct thread_data *td)
{
	struct memory *m = calloc(1, sizeof(*m));
	const uint32_t slot = ((uint32_t)td_max_bs(td) + 7) & ~7u;
	struct fio_file *f;
	struct trid trid;
	char text[400] = "";
	uint64_t size;
	unsigned i;

	if (!m)
		return 1;
	td->io_ops_data = m;
	m->td = td;
	m->options = td->eo;
	m->depth = td->o.iodepth;
	m->under_way = calloc(m->depth, sizeof(struct io_u *));
	m->finished = calloc(m->depth, sizeof(struct io_u *));
	m->events = calloc(m->depth, sizeof(struct io_u *));
	if (!m->under_way || !m->finished || !m->events)
		return 1;
	if (td->o.nr_files > FILES || m->depth > 128) {
		log_err("nvmeof: a job on remote memory has at most %d files and an iodepth of 128\n", FILES);
		return 1;
	}
	m->nclients = td->o.nr_files;
	for_each_file(td, f, i) {
		if (session_trid(td, f, &trid))
			return 1;
		m->clients[f->fileno] = memory_connect(&trid, td->eo, m->depth, slot, !td_write(td), &size, text,
						       sizeof(text));
		if (!m->clients[f->fileno]) {
			log_err("nvmeof: %s\n", text);
			return 1;
		}
	}
	return 0;
}

void memory_cleanup(struct thread_data *td)
{
	struct memory *m = td->io_ops_data;

	if (!m)
		return;
	for (unsigned i = 0; i < m->nclients; i++)
		if (m->clients[i])
			memory_client_free(m->clients[i]);
	free(m->under_way);
	free(m->finished);
	free(m->events);
	free(m);
	td->io_ops_data = NULL;
}

/* ---- I/O ---- */

static void memory_finish(struct memory *m, struct io_u *io_u)
{
	m->under_way[io_u->index] = NULL;
	m->finished[(m->head + m->count++) % m->depth] = io_u;
}

/* The connection and its outstanding I/O are lost. */
static void memory_lost(struct memory *m, unsigned n)
{
	log_err("nvmeof: %s\n", memory_client_why(m->clients[n]));
	memory_client_free(m->clients[n]);
	m->clients[n] = NULL;
	for (unsigned i = 0; i < m->depth; i++) {
		struct io_u *io_u = m->under_way[i];

		if (io_u && io_u->file->fileno == (int)n) {
			io_u->error = EIO;
			memory_finish(m, io_u);
		}
	}
}

enum fio_q_status memory_queue(struct thread_data *td, struct io_u *io_u)
{
	struct memory *m = td->io_ops_data;
	struct memory_client *client = m->clients[io_u->file->fileno];
	const bool reads = io_u->ddir == DDIR_READ;

	fio_ro_check(td, io_u);
	io_u->error = 0;
	if (ddir_sync(io_u->ddir))	/* completed writes are persistent */
		return FIO_Q_COMPLETED;
	if (!client || (!reads && io_u->ddir != DDIR_WRITE)) {
		io_u->error = client ? EOPNOTSUPP : EIO;
		return FIO_Q_COMPLETED;
	}
	if (!reads)
		memcpy(memory_client_slot(client, io_u->index), io_u->xfer_buf, io_u->xfer_buflen);
	if (!reads && memory_has_tail(m->options)) {
		const uint64_t word = htole64(++m->writes[io_u->file->fileno]);

		memcpy(memory_client_word(client, io_u->index), &word, sizeof(word));
	}
	if (memory_client_begin(client, io_u->index, reads ? MEMORY_READ : memory_method_of(m->options),
				io_u->offset, (uint32_t)io_u->xfer_buflen)) {
		io_u->error = EIO;	/* a lost connection is found by the next poll */
		return FIO_Q_COMPLETED;
	}
	m->under_way[io_u->index] = io_u;
	m->queued++;
	if (fio_fill_issue_time(td)) {
		fio_gettime(&io_u->issue_time, NULL);
		io_u_queued(td, io_u);
	}
	return FIO_Q_QUEUED;
}

int memory_commit(struct thread_data *td)
{
	struct memory *m = td->io_ops_data;

	if (m->queued)
		io_u_mark_submit(td, m->queued);
	m->queued = 0;
	return 0;
}

static int memory_poll(struct memory *m)
{
	struct memory_done done[BATCH];
	int total = 0;

	for (unsigned n = 0; n < m->nclients; n++) {
		const int found = m->clients[n] ? memory_client_poll(m->clients[n], done, BATCH) : 0;

		if (found < 0)
			memory_lost(m, n);
		for (int i = 0; i < found; i++) {
			struct io_u *io_u = m->under_way[done[i].slot];

			if (done[i].status)
				io_u->error = EIO;
			else if (io_u->ddir == DDIR_READ)
				memcpy(io_u->xfer_buf, memory_client_slot(m->clients[n], done[i].slot),
				       io_u->xfer_buflen);
			memory_finish(m, io_u);
		}
		total += found < 0 ? 1 : found;
	}
	return total;
}

static void memory_sleep(struct memory *m, int ms)
{
	struct pollfd fds[FILES];
	nfds_t count = 0;

	for (unsigned n = 0; n < m->nclients; n++) {
		if (!m->clients[n])
			continue;
		memory_client_arm(m->clients[n]);
		fds[count++] = (struct pollfd){ .fd = memory_client_fd(m->clients[n]), .events = POLLIN };
	}
	if (memory_poll(m))
		return;
	poll(fds, count, ms < 0 || ms > SLEEP_MS ? SLEEP_MS : ms);
	for (unsigned n = 0; n < m->nclients; n++)
		if (m->clients[n])
			memory_client_drain(m->clients[n]);
}

int memory_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *t)
{
	struct memory *m = td->io_ops_data;
	const int ms = t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1;
	struct timespec started;
	unsigned n = 0;

	if (t)
		fio_gettime(&started, NULL);
	for (unsigned idle = 0;; idle++) {
		if (memory_poll(m))
			idle = 0;
		if (m->count >= min || (t && mtime_since_now(&started) >= (uint64_t)ms))
			break;
		if (!m->options->hipri && idle)
			memory_sleep(m, ms);
		else if (idle % YIELD_EVERY == YIELD_EVERY - 1)
			sched_yield();
	}
	for (; n < max && m->count; n++, m->count--) {
		m->events[n] = m->finished[m->head];
		m->head = (m->head + 1) % m->depth;
	}
	return (int)n;
}

struct io_u *memory_event(struct thread_data *td, int event)
{
	const struct memory *m = td->io_ops_data;

	return m->events[event];
}
