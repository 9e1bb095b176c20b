/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A filter above a store that makes selected requests fail or wait, to test the layers above it.
 */
#ifndef NVMF_STORE_FAULT_H
#define NVMF_STORE_FAULT_H

#include "store.h"

struct store_fault_options {
	unsigned ops;		/* affected operations, 1 << enum store_op; 0: all */
	uint64_t offset;	/* only requests that touch these bytes, and flushes */
	uint64_t length;	/* 0: to the end */
	uint64_t after;		/* number of such requests that pass first */
	uint64_t count;		/* number of requests affected after that; 0: all */
	uint16_t status;	/* their status, without being executed; 0: they are executed */
	uint32_t delay_us;	/* delay before that */
};

/*
 * Return a filter above inner, which it owns from now on (NULL: out of memory, and inner was closed).
 * It has no map, so that no request bypasses it.  options NULL: no request is affected yet.
 */
struct store *store_fault(struct store *inner, const struct store_fault_options *options);
/* Replace the options and reset the counts; any thread.  -EINVAL if the store is not a filter. */
int store_fault_set(struct store *store, const struct store_fault_options *options);
/* Number of requests affected since the options were set. */
uint64_t store_fault_hits(struct store *store);

#endif
