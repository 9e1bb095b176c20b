/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares requests: the command of an io_u, and the memory of its data.  Also the lines in which requests wait.
 *
 * Runs in the job's own thread or process.
 */
#include "engine.h"

enum { COMPLAINTS = 10 };

void request_complain(struct state *s, const struct io_u *io_u, const char *what)
{
	if (s->complaints++ < COMPLAINTS)
		log_err("nvmeof: %s of %llu bytes at %llu: %s\n", io_ddir_name(io_u->ddir),
			(unsigned long long)io_u->xfer_buflen, (unsigned long long)io_u->offset, what);
}

/* ---- lines ---- */

void line_add(struct line *line, struct request *r)
{
	r->next = NULL;
	if (line->first)
		line->last->next = r;
	else
		line->first = r;
	line->last = r;
}

struct request *line_take(struct line *line)
{
	struct request *r = line->first;

	if (r)
		line->first = r->next;
	return r;
}

/* ---- commands ---- */

/* Find the registered memory of an I/O buffer: fio's own, otherwise a copy. */
static int prepare_memory(struct state *s, struct request *r)
{
	const struct io_u *io_u = r->io_u;
	struct host_memory *m = r->session->hub->buffers;
	const uintptr_t at = (uintptr_t)io_u->xfer_buf;
	char err[256];

	if (m && at >= (uintptr_t)m->addr &&
	    at + io_u->xfer_buflen <= (uintptr_t)m->addr + m->length) {
		r->memory = m;
		r->data = io_u->xfer_buf;
		return 0;
	}
	r->bounce = host_memory_alloc(r->session->hub->device, io_u->xfer_buflen, err,
				      sizeof(err));
	if (!r->bounce) {
		request_complain(s, io_u, err);
		return ENOMEM;
	}
	if (r->to_device)
		memcpy(r->bounce->addr, io_u->xfer_buf, io_u->xfer_buflen);
	r->memory = r->bounce;
	r->data = r->bounce->addr;
	return 0;
}

static int prepare_trim(const struct state *s, struct request *r)
{
	const struct session *at = r->session;
	struct dsm_range *range = (struct dsm_range *)at->hub->ranges->addr +
				  r->index % s->nrequests;

	range->attributes = 0;
	range->blocks = (uint32_t)(r->io_u->xfer_buflen / at->info.block_size);
	range->lba = r->io_u->offset / at->info.block_size;
	r->opcode = NVME_OPC_DSM;
	r->to_device = true;
	r->memory = at->hub->ranges;
	r->data = (uint8_t *)range;
	return 0;
}

int request_prepare(struct state *s, struct request *r)
{
	const struct io_u *io_u = r->io_u;
	const struct session *at = r->session;
	const uint32_t mask = at->info.block_size - 1;

	if (ddir_sync(io_u->ddir)) {
		r->opcode = NVME_OPC_FLUSH;
		return 0;
	}
	if ((io_u->offset | io_u->xfer_buflen) & mask || !io_u->xfer_buflen) {
		request_complain(s, io_u, "it does not consist of whole blocks of the namespace (see its block size)");
		return EINVAL;
	}
	switch (io_u->ddir) {
	case DDIR_READ:
		r->opcode = NVME_OPC_READ;
		return prepare_memory(s, r);
	case DDIR_WRITE:
		if (s->options->write_mode != WRITE_MODE_WRITE) {
			r->opcode = s->options->write_mode == WRITE_MODE_ZEROES ? NVME_OPC_WRITE_ZEROES :
										    NVME_OPC_VERIFY;
			return 0;
		}
		r->opcode = NVME_OPC_WRITE;
		r->to_device = true;
		return prepare_memory(s, r);
	case DDIR_TRIM:
		return prepare_trim(s, r);
	default:
		return EINVAL;
	}
}
