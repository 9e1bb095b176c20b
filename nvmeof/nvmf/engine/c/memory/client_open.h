/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a range of a target's memory without Python.  Hosts that must authenticate are refused. */
#ifndef NVMF_MEMORY_CLIENT_OPEN_H
#define NVMF_MEMORY_CLIENT_OPEN_H

#include "memory/client.h"

struct memory_open_options {
	struct memory_client_options connection;	/* without data */
	const char *subnqn, *hostnqn, *hostid;	/* the last two: NULL as in host_controller_options */
	uint32_t nsid;
	bool read_only;
};

struct memory_range {
	uint64_t size;
	uint32_t platform;	/* as in OPENED: 1 media, 2 placement, 4 the processor makes ranges persistent */
};

/* Connect and open; blocks for at most twice timeout_ms.  NULL with errno and a sentence. */
struct memory_client *memory_client_open(const struct memory_open_options *options, struct memory_range *range,
					 char *err, size_t len);

#endif
