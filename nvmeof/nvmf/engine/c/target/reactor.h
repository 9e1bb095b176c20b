/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread, the queues that it polls and the lines that it serves.
 *
 * The fields before the mailbox are set before the thread runs, or belong to control if marked so; any thread may use
 * the mailbox and the fields beside it; the rest belongs to the reactor.
 */
#ifndef NVMF_TARGET_REACTOR_H
#define NVMF_TARGET_REACTOR_H

#include "target/pool.h"

struct reactor_cq;
struct store_ring;

enum {
	CQ_BATCH = 128,			/* completions per turn: their results are sent at once */
	WR_BATCH = 256,
	NUMBER_BUCKETS = 4096,
};

struct recv_chain {			/* storage for a chain of receives */
	struct ibv_recv_wr wr[WR_BATCH];
	struct ibv_sge sge[2 * WR_BATCH];
};

struct reactor {
	struct target *target;
	unsigned index;
	int cpu, node;			/* NUMA_UNKNOWN: memory comes from any node */
	int epoll_fd, event_fd;
	pthread_t thread;
	bool started, stopping;		/* control */
	struct reactor_cq *control_cqs;	/* control */
	struct mail stop_mail;		/* control */

	_Alignas(CACHE_LINE) _Atomic(struct mail *) mailbox;
	_Atomic int sleeping;
	_Atomic bool ended;

	_Alignas(CACHE_LINE) struct reactor_cq *cqs;
	struct store_ring *ring;
	struct target_qpair *marked;	/* with work to post or a connection to end */
	struct heap_node *injected;	/* requests that are INJECTED, by time */
	struct list limited;		/* ns_local: namespaces with commands over a limit */
	struct fifo latching;		/* ns_local: namespaces in which latches wait */
	uint32_t latch_pass;		/* never 0 after the first pass */
	struct latch_press press;
	struct list qpairs;		/* accepted and not closed */
	struct fifo orphans;		/* recv: capsules that arrived before their queue pair was known */
	struct target_qpair *by_number[NUMBER_BUCKETS];	/* those that share receives */
	struct fifo halves;		/* queue pairs with the first command of a fused pair */
	struct fifo lingering;		/* queue pairs whose last responses are being sent */
	uint64_t spin_ns;
	uint32_t short_waits;		/* recent waits not much longer than spin_ns: see reactor.c */
	uint32_t responses;		/* posted and not completed */
	uint32_t awaited;		/* other sends, and queue pairs that wait for any send to complete */
	bool unfenced;			/* blocks were written that other processors may not see yet: see store.h */
	bool waited;			/* SENDS_CHECK_MS passed without completions of responses */
	uint64_t now;			/* ns, for this half of the turn; 0: not read yet */
	bool stop;
	struct pool pool;
	struct ibv_wc wc[CQ_BATCH];
	struct ibv_send_wr wr[WR_BATCH];
	struct ibv_sge sge[WR_BATCH][2];
	struct recv_chain recv_chain;
};

#endif
