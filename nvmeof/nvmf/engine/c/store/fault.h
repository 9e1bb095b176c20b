/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A filter over a store that makes chosen requests fail or wait, for tests of what stands above.
 */
#ifndef NVMF_STORE_FAULT_H
#define NVMF_STORE_FAULT_H

#include "store.h"

struct store_fault_options {
	unsigned ops;		/* 1 << enum store_op of those that are hit; 0: all */
	uint64_t offset;	/* those that touch these bytes are; flushes always */
	uint64_t length;	/* 0: to the end */
	uint64_t after;		/* so many of them pass first */
	uint64_t count;		/* then so many are hit; 0: all */
	uint16_t status;	/* what they complete with, undone; 0: they are done as usual */
	uint32_t delay_us;	/* what they wait before that */
};

/*
 * A store in front of inner, which it owns from now on (NULL: out of memory, inner is closed).
 * It has no map, so that nothing goes around it.  options NULL: none is hit, for now.
 */
struct store *store_fault(struct store *inner, const struct store_fault_options *options);
/* Other options from here on, counted from zero; on any thread.  -EINVAL if not such a store. */
int store_fault_set(struct store *store, const struct store_fault_options *options);
/* How many were hit since the options were set. */
uint64_t store_fault_hits(struct store *store);

#endif
