/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, and their objects that queue pairs share: windows, completion queues, shared receive queues.
 *
 * The control thread creates them; owners are as in internal.h.
 */
#ifndef NVMF_TARGET_DEVICE_H
#define NVMF_TARGET_DEVICE_H

#include "target/base.h"

struct reactor;

enum {
	TARGET_MAX_DEVICES = 16,
	TARGET_ZERO_BYTES = 2 << 20,	/* zeroes, the data of reads of null stores */
};

/* Memory of a namespace, registered with one device, as the source of reads.  Never changes. */
struct ns_window {
	uint8_t *base;
	uint64_t mask;		/* of the offset: all ones, or 0 for a store of zeroes */
	uint64_t span;		/* bytes that may be read at once, from the masked offset */
	uint32_t lkey;
	struct ibv_mr *mr;	/* NULL: the device's zeroes */
	const struct verbs *verbs;
};

/*
 *	OPENING		the memory thread opens it
 *	READY		queue pairs can be created
 *	CLOSING		it was removed: its completion queues, windows and registrations are freed
 */
enum device_state { DEVICE_OPENING, DEVICE_READY, DEVICE_CLOSING };

/* A shared receive queue: see srq.c. */
struct target_srq {
	struct target_srq *next;	/* control */
	struct target_device *device;
	struct reactor *reactor;
	struct ibv_srq *srq;
	uint32_t in_capsule, limit;
	_Atomic uint32_t reserved;	/* entries of its queue pairs: control writes */
	struct srq_slab *slabs;		/* control, then the thread that enlarges it */
	struct job job;
	struct mail failed_mail, gone_mail;
	struct target_upcall upcall;
	/* reactor */
	uint32_t total, posted;
	struct fifo_link *spare;	/* recv: not posted; the last used first, because it is in the cache */
	uint32_t spares;
	uint64_t retry;			/* ns: it must not grow before */
	bool growing, leaving;
};

/* An RDMA device in use: control, or the memory thread while that is opening or closing it. */
struct target_device {
	struct target_device *next;
	struct target *target;
	enum device_state state;
	unsigned index;
	const struct verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char name[64];
	char why[256];			/* why it could not be opened, or "" */
	struct job job;
	struct target_upcall upcall;
	struct target_namespace **shown;	/* while it closes: those that may have windows, and NULL */
	struct ibv_device_attr attr;
	bool send_with_invalidate;
	int sink_access;		/* access flags for memory that RDMA READs write to */
	struct ns_window zero;		/* base NULL if it could not be registered */
	struct ibv_mr *zero_mr;
	struct ibv_mr **pool_mr;	/* per reactor */
	bool private_pd;		/* a protection domain for each queue pair: see region.c */
	bool gone;			/* removed: no new queue pairs; freed after the last one */
	struct target_srq *srqs;
	unsigned cqs;			/* these and completion queues that reactors still use */
};

/* A completion queue: created by control, polled by the reactor. */
struct reactor_cq {
	struct mail mail;
	struct mail gone_mail;
	struct target_upcall upcall;	/* the reactor no longer polls it */
	struct reactor_cq *next;	/* reactor */
	struct reactor_cq *sibling;	/* control: of the same reactor */
	struct reactor *reactor;
	struct target_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool sends;			/* has only completions of sends: see reactor.c */
	uint32_t entries, reserved;	/* control */
	bool armed;			/* reactor */
};

#endif
