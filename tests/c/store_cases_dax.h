/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DAX devices and filesystems as sysfs describes them: a tree made by the test, in which /dev/zero is a dax device,
 * because it can be mapped like one, from its beginning: it is no longer than its alignment.
 */
#ifndef TESTS_STORE_CASES_DAX_H
#define TESTS_STORE_CASES_DAX_H

#include <sys/sysmacros.h>

#include "store_cases_file.h"

static char dax_root[160];

static void dax_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void dax_shell(const char *format, ...)
{
	char command[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command))
		check(false, "%s", command);
}

/* A device directory, for the character device 1:5 or the block device dev. */
static void dax_device(const char *path, const char *link)
{
	dax_shell("mkdir -p '%s/devices/%s' '%s/dev/char' '%s/dev/block' && cd '%s/devices/%s' && "
		  "echo 2097152 >size && echo 2097152 >align && "
		  "ln -sfn '../../devices/%s' '%s/dev/%s'",
		  dax_root, path, dax_root, dax_root, dax_root, path, path, dax_root, link);
}

static void dax_region(const char *region, const char *domain, const char *type)
{
	dax_shell("cd '%s/devices/%s' && rm -f persistence_domain && echo DEVTYPE=%s >uevent%s%s",
		  dax_root, region, type, domain ? " && echo >persistence_domain " : "",
		  domain ? domain : "");
}

/* A tree whose only dax device is behind a region. */
static void dax_sysfs(const char *domain)
{
	snprintf(dax_root, sizeof(dax_root), "%s/sys", folder);
	store_sysfs = dax_root;
	dax_shell("rm -rf '%s'", dax_root);
	dax_device("acpi/ndbus0/region3/dax3.0/dax3.0", "char/1:5");
	dax_region("acpi/ndbus0/region3", domain, "nd_pmem");
}

static struct store *dax_open(bool persistent)
{
	struct store_options options = { .kind = "pmem", .path = "/dev/zero", .block_size = 4096,
					 .persistent = persistent };

	err[0] = '\0';
	return store_open(&options, err, sizeof(err));
}

static void dax_case(const char *what, bool volatile_cache, const char *sentence)
{
	struct store *store = dax_open(false);

	if (check(store != NULL, "%s opens", what)) {
		check(store->volatile_write_cache == volatile_cache &&
			      strstr(store->guarantee, sentence) && store->map && store->memory_is_stable,
		      "%s: %s volatile cache, \"%s\"", what, volatile_cache ? "a" : "no",
		      store->guarantee);
		store_close(store);
	}
	store = dax_open(true);
	check(!store == volatile_cache, "%s is %s where persistence is asked for: \"%s\"", what,
	      volatile_cache ? "refused" : "taken", err);
	err[0] = '\0';
	store_close(store);
}

/* A thread that writes blocks of its own, each as often as others write theirs. */
static struct store *dax_shared;

static void *dax_writer(void *argument)
{
	uint64_t own = (uintptr_t)argument;
	uint8_t block[4096];

	for (unsigned round = 1; round <= 2000; round++) {
		memset(block, (int)(own * 50 + round % 50), sizeof(block));
		store_memory_write(dax_shared, (own * 8 + round % 8) * 4096, block, sizeof(block), false);
	}
	return NULL;
}

/* With redo slots at the end. */
static void test_dax_atomic(struct store_ring *ring)
{
	enum { WRITERS = 4 };
	struct store_options options = { .kind = "pmem", .path = "/dev/zero", .block_size = 4096,
					 .power_fail_atomic = true };
	struct store *store = store_open(&options, err, sizeof(err));
	pthread_t threads[WRITERS];
	bool good = true;

	if (!check(store && store->redo && store->size == 2 * MIB - STORE_REDO_BYTES &&
			   strstr(store->guarantee, "leaves a block old or new"),
		   "a dax device with redo slots: \"%s\"", store ? store->guarantee : ""))
		return;
	test_model(ring, store);
	test_queue(ring, store);
	dax_shared = store;
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, dax_writer, (void *)i);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < WRITERS * 8; i++)
		for (unsigned j = 0; j < 4096; j++)
			good &= store->map[i * 4096 + j] == i / 8 * 50 + (i % 8 ? 1992 + i % 8 : 2000) % 50;
	check(good, "four threads at once, each with a slot");
	close_store(ring, store);
	options.size = 2 * MIB;
	err[0] = '\0';
	store = store_open(&options, err, sizeof(err));
	check(!store && strstr(err, "power_fail_atomic"), "no room for both: \"%s\"", err);
	options.power_fail_atomic = false;
	store = store_open(&options, err, sizeof(err));
	check(store && !store->redo && strstr(store->guarantee, "may tear"), "without them: \"%s\"",
	      store ? store->guarantee : err);
	close_store(ring, store);
	err[0] = '\0';
}

static void dax_disk(const char *what, enum store_persistence wanted)
{
	struct stat st = { .st_mode = S_IFREG, .st_dev = makedev(259, 7) };

	check(store_persistence(&st) == wanted, "%s: %d", what, store_persistence(&st));
}

static void test_dax(struct store_ring *ring)
{
	static const char nd[] = "acpi/ndbus0/region3";

	dax_sysfs("cpu_cache");
	if (!store_persist_supported()) {
		skip("dax devices", "x86-64 only");
	} else {
		dax_case("a region with the caches", false, "includes the caches");
		dax_region(nd, "memory_controller", "nd_pmem");
		dax_case("a region of persistent memory", false, "persistent when it completes (devdax");
		test_dax_atomic(ring);
		dax_region(nd, NULL, "nd_pmem");
		dax_case("a region that tells nothing", true, "no persistence_domain");
		dax_region(nd, "cpu_cache", "nd_volatile");
		dax_case("a region of volatile memory", true, "volatile memory");
		dax_device("platform/hmem.0/dax0.0", "char/1:5");
		dax_case("hmem", true, "volatile memory");
		dax_device("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", "char/1:5");
		dax_region("platform/ACPI0017:00/root0/decoder0.0/region0", "cpu_cache", "cxl");
		dax_case("CXL memory", true, "volatile memory");
	}
	dax_disk("a filesystem without a device", STORE_UNKNOWN);
	dax_device("acpi/ndbus0/region3/namespace3.0/block/pmem3/pmem3p1", "block/259:7");
	dax_region(nd, "memory_controller", "nd_pmem");
	dax_disk("a filesystem on a partition of a region", STORE_PERSISTENT);
	dax_device("virtual/block/dm-0", "block/259:7");
	dax_disk("device mapper on nothing", STORE_UNKNOWN);
	dax_shell("cd '%s/devices/virtual/block/dm-0' && mkdir -p slaves && "
		  "ln -sfn ../../../../acpi/ndbus0/region3/namespace3.0/block/pmem3 slaves/pmem3",
		  dax_root);
	dax_disk("device mapper on a region", STORE_PERSISTENT);
	dax_device("virtual/block/loop0", "block/1:1");
	dax_shell("ln -sfn ../../loop0 '%s/devices/virtual/block/dm-0/slaves/loop0'", dax_root);
	dax_disk("and on another disk", STORE_UNKNOWN);
	store_sysfs = "/sys";
}

#endif
