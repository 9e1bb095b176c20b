/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, and what is made on them for all queue pairs: windows, completion queues, shared receive queues.
 *
 * Control makes all of it; owners are as in internal.h.
 */
#ifndef NVMF_TARGET_DEVICE_H
#define NVMF_TARGET_DEVICE_H

#include "target/base.h"

struct reactor;

enum {
	TARGET_MAX_DEVICES = 16,
	TARGET_ZERO_BYTES = 2 << 20,	/* zeroes that reads of a null store are sent from */
};

/* Registered memory that reads of a namespace are sent from, on one device.  Never changes. */
struct ns_window {
	uint8_t *base;
	uint64_t mask;		/* of the offset: all ones, or 0 for a store of zeroes */
	uint64_t span;		/* bytes that may be read at once, from the masked offset */
	uint32_t lkey;
	struct ibv_mr *mr;	/* NULL for the device's zeroes */
	const struct verbs *verbs;
};

/*
 *	OPENING		the memory thread is at it
 *	READY		queue pairs can be made
 *	CLOSING		it was removed: its completion queues, windows and registrations go
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
	struct srq_slab *slabs;		/* control, then whoever grows it */
	struct job job;
	struct mail failed_mail, gone_mail;
	struct target_upcall upcall;
	/* reactor */
	uint32_t total, posted;
	struct fifo_link *spare;	/* recv: not posted, the last used first: it is in the cache */
	uint32_t spares;
	uint64_t retry;			/* ns: not to grow before */
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
	char why[256];			/* it could not be opened; or "" */
	struct job job;
	struct target_upcall upcall;
	struct target_namespace **shown;	/* while it closes: those that may have windows, and NULL */
	struct ibv_device_attr attr;
	bool send_with_invalidate;
	int sink_access;		/* what the memory needs that RDMA READs put data into */
	struct ns_window zero;		/* base NULL where it could not be registered */
	struct ibv_mr *zero_mr;
	struct ibv_mr **pool_mr;	/* per reactor */
	bool private_pd;		/* a protection domain for each queue pair: see region.c */
	bool gone;			/* removed: for no new queue pair, and freed after the last */
	struct target_srq *srqs;
	unsigned cqs;			/* these, and completion queues, that reactors have not let go of */
};

/* A completion queue: made by control, polled by the reactor. */
struct reactor_cq {
	struct mail mail;
	struct mail gone_mail;
	struct target_upcall upcall;	/* the reactor polls it no more */
	struct reactor_cq *next;	/* reactor */
	struct reactor_cq *sibling;	/* control: of the same reactor */
	struct reactor *reactor;
	struct target_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool sends;			/* has their completions only: see reactor.c */
	uint32_t entries, reserved;	/* control */
	bool armed;			/* reactor */
};

#endif
