/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop device: a real block device, and one that fails once its file is cut short or full. */
#ifndef TESTS_STORE_CASES_BLOCK_H
#define TESTS_STORE_CASES_BLOCK_H

#include "store_cases_file.h"

static int attach_loop(const char *path, char *device, size_t len)
{
	int control = open("/dev/loop-control", O_RDWR), file = open(path, O_RDWR), loop = -1;
	struct loop_info64 info = { .lo_flags = LO_FLAGS_AUTOCLEAR };
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);

	snprintf(device, len, "/dev/loop%d", number);
	if (number >= 0)
		loop = open(device, O_RDWR);
	if (loop >= 0 && (ioctl(loop, LOOP_SET_FD, file) || ioctl(loop, LOOP_SET_STATUS64, &info))) {
		close(loop);
		loop = -1;
	}
	close(control);
	close(file);
	return loop;
}

static void *let_go(void *fd)
{
	usleep(100000);
	close((int)(intptr_t)fd);
	return NULL;
}

/* Another one has the device, as the kernel does for a moment after a target or a namespace has ended. */
static void block_device_soon(const char *device)
{
	int other = open(device, O_RDONLY | O_EXCL);
	struct store *store;
	pthread_t thread;

	pthread_create(&thread, NULL, let_go, (void *)(intptr_t)other);
	store = open_store("file", device, 0, 4096, -1, false);
	check(other >= 0 && store, "a block device that is released soon opens (\"%s\")", err);
	store_close(store);
	pthread_join(thread, NULL);
}

static int block_device(void)
{
	unsigned failed_before = check_failures();
	static uint8_t area[64 * KIB] __attribute__((aligned(4096)));
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	char path[160], device[64];
	struct store *store, *second;
	uint16_t cut, direct_cut, written, flush, later, fua;
	int loop;

	snprintf(path, sizeof(path), "%s/loop", folder);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("none", path, "tmpfs", 0, "size=1M"))
		return 99;
	strcpy(path, make_file(path, "f", 512 * KIB));
	loop = attach_loop(path, device, sizeof(device));
	if (loop < 0)
		return 99;
	block_device_soon(device);
	store = open_store("file", device, 0, 4096, -1, false);
	if (!check(store && store->direct && store->size == 512 * KIB,
		   "a block device opens: alignment %u, physical %u, deallocate %d",
		   store ? store->alignment : 0, store ? store->physical_block_size : 0,
		   store ? store->deallocate : 0))
		return 1;
	second = open_store("file", device, 0, 4096, -1, false);
	check(!second && strstr(err, "in use"), "and is refused to a second one: \"%s\"", err);
	test_model(ring, store);
	if (run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) || truncate(path, 256 * KIB))
		return 2;
	direct_cut = run(ring, store, STORE_READ, 300 * KIB, 4096, area, 0);
	close_store(ring, store);
	ioctl(loop, BLKFLSBUF);
	store = open_store("file", device, 0, 4096, 0, false);
	if (!check(store, "it is opened again (\"%s\")", err))
		return 1;
	cut = run(ring, store, STORE_READ, 400 * KIB, 4096, area, 0);
	if (pread(loop, area, 4096, 400 * KIB) == 4096)
		skip("EIO", "this kernel's loop device reads zeroes past the end of its file");
	else
		check(cut == NVME_UNRECOVERED_READ_ERROR && direct_cut == cut,
		      "EIO is an unrecovered read error (%#x, %#x)", cut, direct_cut);
	close_store(ring, store);
	/* A sparse file that is larger than its filesystem's space: writes reach the cache only. */
	if (truncate(path, 0) || truncate(path, 4 * MIB) || ioctl(loop, LOOP_SET_CAPACITY))
		return 3;
	store = open_store("file", device, 0, 4096, 0, false);
	if (!check(store, "and once more (\"%s\")", err))
		return 1;
	memset(area, 3, sizeof(area));
	for (written = 0; store->size && written < 48; written++)
		if (run(ring, store, STORE_WRITE, written * sizeof(area), sizeof(area), area, 0))
			break;
	flush = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
	later = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
	fua = run(ring, store, STORE_WRITE, 0, 4096, area, STORE_IO_FUA);
	check(written == 48 && flush == NVME_WRITE_FAULT && later == flush && fua == flush,
	      "a flush that fails is a write fault, and no later one succeeds (%u, %#x, %#x, %#x)",
	      written, flush, later, fua);
	close_store(ring, store);
	ioctl(loop, LOOP_CLR_FD);
	close(loop);
	store_ring_destroy(ring);
	return check_failures() > failed_before;
}

#endif
