/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sysfs tells of DAX devices and filesystems: a tree of our own, in which /dev/zero is a dax device,
 * since that can be mapped as one.
 */
#ifndef TESTS_STORE_CASES_DAX_H
#define TESTS_STORE_CASES_DAX_H

#include <sys/sysmacros.h>

#include "store_rig.h"

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

/* A device directory, as the character device 1:5 or the block device that dev is. */
static void dax_device(const char *path, const char *link)
{
	dax_shell("mkdir -p '%s/devices/%s' '%s/dev/char' '%s/dev/block' && cd '%s/devices/%s' && "
		  "echo 4194304 >size && echo 2097152 >align && "
		  "ln -sfn '../../devices/%s' '%s/dev/%s'",
		  dax_root, path, dax_root, dax_root, dax_root, path, path, dax_root, link);
}

static void dax_region(const char *region, const char *domain, const char *type)
{
	dax_shell("cd '%s/devices/%s' && rm -f persistence_domain && echo DEVTYPE=%s >uevent%s%s",
		  dax_root, region, type, domain ? " && echo >persistence_domain " : "",
		  domain ? domain : "");
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

static void dax_disk(const char *what, enum store_persistence wanted)
{
	struct stat st = { .st_mode = S_IFREG, .st_dev = makedev(259, 7) };

	check(store_persistence(&st) == wanted, "%s: %d", what, store_persistence(&st));
}

static void test_dax(void)
{
	static const char nd[] = "acpi/ndbus0/region3";

	snprintf(dax_root, sizeof(dax_root), "%s/sys", folder);
	store_sysfs = dax_root;
	dax_device("acpi/ndbus0/region3/dax3.0/dax3.0", "char/1:5");
	if (!store_persist_supported()) {
		skip("dax devices", "x86-64 only");
	} else {
		dax_region(nd, "cpu_cache", "nd_pmem");
		dax_case("a region with the caches", false, "has the caches");
		dax_region(nd, "memory_controller", "nd_pmem");
		dax_case("a region of persistent memory", false, "persistent when it completes (devdax");
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
