/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls of an io on a file, and the meaning of their results: short transfers are continued, interrupted
 * calls are repeated, and ranges that a filesystem cannot zero are written.  Only this file translates errno to an
 * NVMe status.
 * Owns nothing; uses one io at a time, on the thread that has it.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include "store_internal.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 0x02
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum {
	MOVE_MOST = 1 << 30,	/* a call's length has 32 bits */
	ATTEMPTS = 1000,
};

/* In .bss: while it is only read, all of it is the kernel's single page of zeroes. */
uint8_t store_zeroes[STORE_ZEROES] __attribute__((aligned(4096)));

static uint16_t call_status(enum store_op op, int error)
{
	switch (error) {
	case EIO:
	case ENODATA:	/* the block layer's name for a medium error */
	case EILSEQ:
	case EBADMSG:
	case EUCLEAN:
	case EHWPOISON:
		return op == STORE_READ ? NVME_UNRECOVERED_READ_ERROR : NVME_WRITE_FAULT;
	case ENOSPC:
	case EDQUOT:
		return NVME_CAPACITY_EXCEEDED;
	case EROFS:
	case EPERM:
	case EBADF:
		return NVME_NAMESPACE_WRITE_PROTECTED;
	default:
		return NVME_INTERNAL_ERROR;
	}
}

static uint64_t call_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int call_fd(const struct store *store, const void *buffer, uint64_t offset, uint64_t length)
{
	bool aligned = !((uintptr_t)buffer & (store->alignment - 1)) &&
		       !((offset | length) & (store->block_size - 1));

	return store->direct && !aligned ? store->page_cache_fd : store->fd;
}

/* The pages of the next part of a memory operation. */
static uint64_t call_pages(const struct store_io *io, uint64_t *offset)
{
	uint64_t first = io->offset + io->moved;
	uint64_t end = first + store_memory_next(io->store, io);

	*offset = first & ~UINT64_C(4095);
	return ((end + 4095) & ~UINT64_C(4095)) - *offset;
}

void store_call_next(const struct store_io *io, struct store_call *call)
{
	const struct store *store = io->store;
	bool fua = (io->flags & STORE_IO_FUA) != 0;

	*call = (struct store_call){
		.fd = store->fd,
		.offset = io->offset + io->moved,
		.length = io->length - io->moved,
		.blocks = io->attempt > 0,
	};
	switch ((enum store_step)io->step) {
	case STORE_STEP_MOVE:
		call->type = io->op == STORE_READ ? STORE_CALL_READ : STORE_CALL_WRITE;
		call->buffer = (uint8_t *)io->buffer + io->moved;
		call->length = call_least(call->length, MOVE_MOST);
		call->fd = call_fd(store, call->buffer, call->offset, call->length);
		call->direct = store->direct && call->fd == store->fd;
		if (fua && io->op == STORE_WRITE) {
			call->flags = RWF_DSYNC;
			/* Some filesystems sync buffered writes on the submitting thread. */
			call->blocks |= !call->direct;
		}
		break;
	case STORE_STEP_RANGE:
		call->type = STORE_CALL_FALLOCATE;
		/* A block device drops cached pages only if the descriptor is the one that claimed the device. */
		if (store->direct)
			call->fd = store->page_cache_fd;
		call->flags = FALLOC_FL_KEEP_SIZE;
		call->flags |= io->op == STORE_DEALLOCATE || (io->flags & STORE_IO_DEALLOCATE)
				       ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;
		break;
	case STORE_STEP_FILL:
		call->type = STORE_CALL_WRITE;
		call->buffer = store_zeroes;
		call->length = call_least(call->length, STORE_ZEROES);
		call->fd = call_fd(store, call->buffer, call->offset, call->length);
		break;
	case STORE_STEP_SYNC:
		call->type = STORE_CALL_SYNC;
		call->fd = store_sync_fd(store);
		/* A map's FUA write syncs its own range; zeroes of a file changed its extents. */
		if (io->op == STORE_FLUSH || !store->map)
			call->offset = call->length = 0;
		else
			call->offset = io->offset, call->length = io->length;
		break;
	case STORE_STEP_FAULT:
		call->type = STORE_CALL_POPULATE;
		call->length = call_pages(io, &call->offset);
		call->buffer = store->map + call->offset;
		call->flags = store->read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
		call->blocks = true;
		break;
	}
}

/* A failed sync may have dropped data that it could not write: no later sync may succeed. */
static bool call_loses_writes(const struct store_io *io, int error)
{
	if (io->step == STORE_STEP_SYNC)
		return true;
	return io->op == STORE_WRITE && (io->flags & STORE_IO_FUA) && !io->store->direct &&
	       error == EIO;
}

static bool call_finish(struct store_io *io, uint16_t status)
{
	io->status = status;
	return false;
}

static uint16_t call_mapped(const struct store_io *io)
{
	uint64_t offset, length = call_pages(io, &offset);

	store_touch(io->store, offset, length);
	return NVME_SUCCESS;
}

static bool call_failed(struct store_io *io, int error)
{
	if ((error == EAGAIN || error == EINTR) && io->attempt < ATTEMPTS) {
		io->attempt++;
		return true;
	}
	if (io->step == STORE_STEP_RANGE &&
	    (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EBUSY)) {
		io->step = STORE_STEP_FILL;
		return true;
	}
	/* Not supported before Linux 5.14: the reactor takes the page fault instead. */
	if (io->step == STORE_STEP_FAULT && error == EINVAL)
		return call_finish(io, call_mapped(io));
	if (io->step == STORE_STEP_FAULT && error == EFAULT)
		error = EIO;	/* the page cannot be read or allocated */
	__atomic_store_n(&io->store->last_error, error, __ATOMIC_RELAXED);
	if (call_loses_writes(io, error))
		__atomic_store_n(&io->store->sync_failed, 1, __ATOMIC_RELEASE);
	return call_finish(io, call_status(io->op, error));
}

static bool call_after_data(struct store_io *io)
{
	if ((io->flags & STORE_IO_FUA) && io->op == STORE_WRITE_ZEROES) {
		io->step = STORE_STEP_SYNC;
		return true;
	}
	return call_finish(io, NVME_SUCCESS);
}

bool store_call_result(struct store_io *io, int64_t result)
{
	bool write_through = (io->flags & STORE_IO_FUA) && io->op == STORE_WRITE;

	if (result < 0)
		return call_failed(io, (int)-result);
	io->attempt = 0;
	switch ((enum store_step)io->step) {
	case STORE_STEP_MOVE:
		if (result == 0)	/* the file is shorter than the store */
			return call_finish(io, io->op == STORE_READ ? NVME_UNRECOVERED_READ_ERROR
							       : NVME_WRITE_FAULT);
		io->moved += (uint64_t)result;
		if (io->moved < io->length)
			return true;
		if (write_through && __atomic_load_n(&io->store->sync_failed, __ATOMIC_ACQUIRE))
			return call_finish(io, NVME_WRITE_FAULT);
		return call_finish(io, NVME_SUCCESS);
	case STORE_STEP_FILL:
		if (result == 0)
			return call_finish(io, NVME_WRITE_FAULT);
		io->moved += (uint64_t)result;
		return io->moved < io->length ? true : call_after_data(io);
	case STORE_STEP_RANGE:
		return call_after_data(io);
	case STORE_STEP_SYNC:
		if (__atomic_load_n(&io->store->sync_failed, __ATOMIC_ACQUIRE) ||
		    store_failed(io->store))
			return call_finish(io, NVME_WRITE_FAULT);
		break;
	case STORE_STEP_FAULT:
		return call_finish(io, call_mapped(io));
	}
	return call_finish(io, NVME_SUCCESS);
}
