/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the target share: its structures, each kind in a header of its own.  Those of namespaces
 * are in namespace.h, which includes this one.
 *
 * "control" fields belong to the control thread, "reactor" fields to the thread of the reactor that
 * the thing belongs to.  Nothing has two writers but the atomics and the two queues between threads
 * (mailbox: to a reactor; upcalls: to the control thread).
 */
#ifndef NVMF_TARGET_INTERNAL_H
#define NVMF_TARGET_INTERNAL_H

#include "target/device.h"
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
	struct ns_invalid *old_invalid;	/* see invalid.c */
	struct background *ends, *memory;	/* NULL: what would be theirs is done at once */
	bool ending;
	struct freed *freed;		/* to be freed when the caller has seen the upcalls in it */
	_Atomic unsigned pressing;	/* reactors that still have to deliver their latch_press */
	uint8_t *zero;			/* TARGET_ZERO_BYTES that nobody writes */
	int event_fd;
	_Alignas(CACHE_LINE) _Atomic(struct target_upcall *) upcalls;
};

#endif
