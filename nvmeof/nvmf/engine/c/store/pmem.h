/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by pmem.c and pmem_tail.c: how a file is mapped, and the end of the file. */
#ifndef NVMF_STORE_PMEM_H
#define NVMF_STORE_PMEM_H

#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store_internal.h"

#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static inline int pmem_protection(const struct store *store)
{
	return store->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
}

static inline int pmem_map_flags(const struct store *store, const struct stat *stat)
{
	if (S_ISCHR(stat->st_mode) || !store->memory_is_stable)
		return MAP_SHARED;
	return MAP_SHARED_VALIDATE | MAP_SYNC;
}

static inline uint64_t pmem_align(const struct store_backing *backing)
{
	return S_ISCHR(backing->stat.st_mode) ? store_sysfs_number(&backing->stat, "align", 2 << 20)
					      : (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Control thread; each returns 0, or a negative errno with a sentence. */
/* Before the size of the namespace is known: map the end, and reserve it if redo slots need it. */
int pmem_tail_open(struct store *store, const struct store_backing *backing, bool wanted, char *err,
		   size_t len);
/* When all is mapped: repeat interrupted writes, and create redo slots if they are wanted. */
int pmem_tail_recover(struct store *store, bool wanted, char *err, size_t len);
/* Map the end again after the file was truncated and extended. */
int pmem_tail_again(struct store *store, const struct stat *stat, char *err, size_t len);
void pmem_tail_close(struct store *store);

#endif
