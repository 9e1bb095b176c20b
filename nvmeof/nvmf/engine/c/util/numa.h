/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory near a processor.  Where the system has one node, or does not say, nothing is done. */
#ifndef NVMF_UTIL_NUMA_H
#define NVMF_UTIL_NUMA_H

#include <stddef.h>

enum { NUMA_UNKNOWN = -1 };

/* The node of a processor, from sysfs; NUMA_UNKNOWN for a negative number, too. */
int numa_node_of(int cpu);

/*
 * Whole pages that are touched from now on come from this node while it has any (mbind(2), MPOL_PREFERRED).
 * A request only: what it cannot have it does without.
 */
void numa_prefer(void *memory, size_t bytes, int node);

#endif
