/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether mapped memory survives a power failure, according to sysfs.
 *
 * Persistent memory belongs to a region of an ndbus (libnvdimm).  The attribute persistence_domain of the region says
 * which data the platform saves: "memory_controller", data that has reached the memory controller; "cpu_cache", also
 * data in caches.  A region without the attribute, or of volatile memory, guarantees nothing.  DAX devices without
 * such a region (CXL and other volatile memory, hmem) are ordinary memory.
 *
 * Owns nothing; control thread.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <dirent.h>

#include "store_internal.h"

enum { SLAVES_DEEP = 8 };	/* nested device mapper devices */

const char *store_sysfs = "/sys";

/* Read the first line of a file; false if it cannot be read. */
static bool dax_read(const char *folder, const char *name, char *line, int size)
{
	char path[PATH_MAX + 64];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	got = fgets(line, size, file) != NULL;
	fclose(file);
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return got;
}

static bool dax_region_is_volatile(const char *region)
{
	char path[PATH_MAX + 64], line[128];
	bool is = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/uevent", region);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		is |= !strcmp(line, "DEVTYPE=nd_volatile\n");
	if (file)
		fclose(file);
	return is;
}

static enum store_persistence dax_of_region(const char *region)
{
	char domain[64];

	if (dax_region_is_volatile(region))
		return STORE_VOLATILE;
	if (!dax_read(region, "persistence_domain", domain, sizeof(domain)))
		return STORE_UNKNOWN;
	if (!strcmp(domain, "cpu_cache"))
		return STORE_PERSISTENT_CACHES;
	return !strcmp(domain, "memory_controller") ? STORE_PERSISTENT : STORE_UNKNOWN;
}

/* Return the end of ".../ndbusN/regionN" in a device's path; NULL if the device belongs to no region. */
static char *dax_region_end(char *path)
{
	char *at = strstr(path, "/ndbus");

	at = at ? strchr(at + 1, '/') : NULL;
	if (!at || strncmp(at, "/region", strlen("/region")))
		return NULL;
	return at + 1 + strcspn(at + 1, "/");
}

static enum store_persistence dax_of_path(const char *link, bool block, int depth);

/* The worst persistence of the devices below a device mapper or md device. */
static enum store_persistence dax_of_slaves(const char *device, int depth)
{
	enum store_persistence worst = STORE_PERSISTENT_CACHES, one;
	char path[PATH_MAX + 64];
	struct dirent *entry;
	bool any = false;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/slaves", device);
	folder = depth < SLAVES_DEEP ? opendir(path) : NULL;
	while (folder && (entry = readdir(folder))) {
		char slave[2 * PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(slave, sizeof(slave), "%s/%s", path, entry->d_name);
		one = dax_of_path(slave, true, depth + 1);
		worst = one > worst ? one : worst;
		any = true;
	}
	if (folder)
		closedir(folder);
	return any ? worst : STORE_UNKNOWN;
}

static enum store_persistence dax_of_path(const char *link, bool block, int depth)
{
	char path[PATH_MAX], *end;

	if (!realpath(link, path))
		return STORE_UNKNOWN;
	end = dax_region_end(path);
	if (!end)
		return block ? dax_of_slaves(path, depth) : STORE_VOLATILE;
	*end = '\0';
	return dax_of_region(path);
}

enum store_persistence store_persistence(const struct stat *stat)
{
	bool file = S_ISREG(stat->st_mode);
	dev_t device = file ? stat->st_dev : stat->st_rdev;
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "%s/dev/%s/%u:%u", store_sysfs, file ? "block" : "char",
		 major(device), minor(device));
	return dax_of_path(link, file, 0);
}

static const char *const dax_guarantees[2][4] = {
	{
		"a write is persistent when it completes (fsdax, MAP_SYNC: non-temporal stores and a "
		"fence; the power-fail domain includes the caches)",
		"a write is persistent when it completes (fsdax, MAP_SYNC: non-temporal stores and a "
		"fence)",
		"nothing is known to survive a power failure: the region under the filesystem (fsdax) has "
		"no persistence_domain in sysfs",
		"a write survives the end of the target but not a power failure: the filesystem (fsdax) is on "
		"volatile memory",
	},
	{
		"a write is persistent when it completes (devdax: non-temporal stores and a fence; "
		"the power-fail domain includes the caches)",
		"a write is persistent when it completes (devdax: non-temporal stores and a fence)",
		"nothing is known to survive a power failure: the region of the device (devdax) has no "
		"persistence_domain in sysfs",
		"a write survives the end of the target but not a power failure: the device (devdax) is volatile "
		"memory",
	},
};

const char *store_dax_guarantee(bool device, enum store_persistence persistence)
{
	return dax_guarantees[device][persistence];
}
