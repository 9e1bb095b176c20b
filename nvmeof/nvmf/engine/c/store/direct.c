/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether direct I/O of a block size works on a file, and the alignment of buffers that it requires.
 * Owns nothing; control thread.  Uses the kernel's information (statx, Linux 6.1) if there is any, and always tries
 * a read, because some filesystems refuse direct I/O that they announce.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "store_internal.h"

int store_reopen(int fd, const char *path, int flags)
{
	char proc[64];
	int again;

	/* The same file, even if the path has since been given to a different one. */
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	again = open(proc, flags | O_CLOEXEC | O_NOCTTY);
	if (again < 0 && errno == ENOENT)
		again = open(path, flags | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}

static bool direct_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

/* Returns 0; alignments that are unknown are 0. */
static int direct_ask(const struct store_backing *backing, uint32_t *memory, uint32_t *offset)
{
	int sector = 0;

	*memory = *offset = 0;
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (!statx(backing->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    (stx.stx_mask & STATX_DIOALIGN)) {
		if (!stx.stx_dio_offset_align)
			return -EOPNOTSUPP;
		*memory = stx.stx_dio_mem_align;
		*offset = stx.stx_dio_offset_align;
		return 0;
	}
#endif
	if (S_ISBLK(backing->stat.st_mode) && !ioctl(backing->fd, BLKSSZGET, &sector) && sector > 0)
		*memory = *offset = (uint32_t)sector;
	return 0;
}

static int direct_try_read(int fd, uint32_t length, uint32_t alignment)
{
	uint8_t *area = aligned_alloc(4096, 3 * 4096);
	int rc = 0;

	if (!area)
		return -ENOMEM;
	/* Use exactly this alignment, not a larger one: at area + alignment, unless that is a whole page. */
	if (pread(fd, area + (alignment & 4095), length, 0) < 0)
		rc = -errno;
	free(area);
	return rc;
}

int store_direct_probe(const struct store_backing *backing, uint32_t block_size,
		       uint32_t *alignment, uint32_t *offset_alignment)
{
	uint32_t memory, offset;
	int fd, rc;

	if (backing->volatile_memory)
		return -EOPNOTSUPP;
	rc = direct_ask(backing, &memory, &offset);
	*offset_alignment = offset;
	if (rc)
		return rc;
	if (offset && block_size % offset)
		return -EINVAL;
	fd = store_reopen(backing->fd, "", O_RDONLY | O_DIRECT);
	if (fd < 0)
		return fd == -EINVAL ? -EOPNOTSUPP : fd;
	/* If it is unknown: every filesystem accepts the alignment of a block. */
	if (!direct_power_of_two(memory) || memory > 4096)
		memory = block_size;
	rc = direct_try_read(fd, block_size, memory);
	close(fd);
	*alignment = memory;
	return rc;
}
