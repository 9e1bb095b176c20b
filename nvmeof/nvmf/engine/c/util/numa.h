/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory near a processor.  No effect if the system has one node, or does not report its nodes. */
#ifndef NVMF_UTIL_NUMA_H
#define NVMF_UTIL_NUMA_H

#include <stddef.h>

enum { NUMA_UNKNOWN = -1 };

/* The node of a processor, from sysfs; NUMA_UNKNOWN also for a negative number. */
int numa_node_of(int cpu);

/*
 * Whole pages that are first used from now on come from this node as long as it has free ones (mbind(2),
 * MPOL_PREFERRED). This is only a preference: failures are ignored.
 */
void numa_prefer(void *memory, size_t bytes, int node);

#endif
