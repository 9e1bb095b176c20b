/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory near a processor; see numa.h. */
#include "util/numa.h"

#include <dirent.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES = 1024 };

int numa_node_of(int cpu)
{
	const struct dirent *entry;
	char path[64];
	int node = NUMA_UNKNOWN;
	DIR *dir;

	if (cpu < 0)
		return NUMA_UNKNOWN;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", cpu);
	dir = opendir(path);
	while (dir && node < 0 && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "node%d", &node) != 1)
			node = NUMA_UNKNOWN;
	if (dir)
		closedir(dir);
	return node;
}

void numa_prefer(void *memory, size_t bytes, int node)
{
	unsigned long mask[NODES / (8 * sizeof(unsigned long))] = { 0 };
	const unsigned bits = 8 * sizeof(mask[0]);

	if (node < 0 || node >= NODES)
		return;
	mask[(unsigned)node / bits] |= 1ul << (unsigned)node % bits;
	syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES, 0u);
}
