/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's internal structures, in a header for each kind.  Those of namespaces are in namespace.h, which includes
 * this one.
 *
 * "control" fields belong to the control thread, "reactor" fields to the thread of the reactor that
 * owns the object.  Only atomics and the two queues between threads have several writers (mailbox: to a reactor;
 * upcalls: to the control thread).
 */
#ifndef NVMF_TARGET_INTERNAL_H
#define NVMF_TARGET_INTERNAL_H

#include "target/device.h"
#include "target/inject.h"
#include "target/qpair.h"
#include "target/reactor.h"

struct target {
	struct target_options options;
	unsigned reactors;
	struct reactor **reactor;
	struct target_device *devices;
	unsigned device_count;
	struct target_qpair *qpairs;
	struct target_namespace *namespaces;
	struct target_nstable *tables;
	struct target_gates *gates;
	struct target_fence *fences;
	struct target_abort *aborts;
	struct target_injection *injections;	/* also those that have ended */
	_Atomic(struct target_injection *) injection[TARGET_INJECTIONS];	/* by slot */
	struct ns_invalid *old_invalid;	/* see invalid.c */
	struct background *ends, *memory;	/* NULL: their jobs are done at once */
	bool ending;
	struct freed *freed;		/* to be freed after the caller has seen its upcalls */
	_Atomic unsigned pressing;	/* reactors that have not delivered their latch_press yet */
	uint8_t *zero;			/* TARGET_ZERO_BYTES, read only */
	int event_fd;
	_Alignas(CACHE_LINE) _Atomic(struct target_upcall *) upcalls;
};

#endif
