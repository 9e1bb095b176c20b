/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues: capsules of all queue pairs of a reactor, of one device and capsule size.
 *
 * Owns the queues and the memory that receives capsules, in slabs.  A shared queue has few receives at first, and
 * gets another slab when most of them are in use, until it has as many as its queue pairs could use at once: so an
 * idle connection costs no receives, and no host can permanently take receives reserved for others.  A host that
 * sends more commands than its queue has entries loses its connection.
 *
 * The device reports the number of the queue pair for which a capsule is.  Slabs are registered on the memory thread
 * (background.h), except the first.  Control thread, except functions named *_job, and the functions of the second
 * part, which run on the reactor's thread.
 */
#include "target/calls.h"
#include "util/numa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define SLAB_BYTES (1u << 20)
#define SLAB_MIN 32u
#define SLAB_MAX 256u
#define SRQ_MAX 16384u		/* receives: further queue pairs get a different queue */
#define RETRY_NS 100000000ull	/* delay after memory for a slab could not be allocated */

struct srq_slab {
	struct srq_slab *next;
	struct mail mail;
	struct target_srq *srq;
	uint8_t *memory;
	size_t bytes;
	struct ibv_mr *mr;
	struct recv *recvs;
	uint32_t count;			/* 0: there was no memory */
};

/* ---- slabs ---- */

static void slab_free(struct srq_slab *slab)
{
	if (slab->mr)
		slab->srq->device->verbs->dereg_mr(slab->mr);
	if (slab->memory)
		munmap(slab->memory, slab->bytes);
	free(slab->recvs);
	free(slab);
}

/* SQEs are adjacent, in-capsule data is on pages of its own, as in a queue pair's memory (region.c). */
static void slab_cut(struct srq_slab *slab, uint32_t stride)
{
	uint8_t *data = slab->memory + (((size_t)SQE_SIZE * slab->count + PAGE - 1) & ~(size_t)(PAGE - 1));

	for (uint32_t i = 0; i < slab->count; i++)
		slab->recvs[i] = (struct recv){
			.srq = slab->srq,
			.sqe = (struct nvme_sqe *)(void *)slab->memory + i,
			.data = data + (size_t)stride * i,
			.lkey = slab->mr->lkey,
		};
}

static struct srq_slab *slab_new(struct target_srq *srq)
{
	struct target_device *device = srq->device;
	uint32_t stride = (srq->in_capsule + PAGE - 1) & ~(PAGE - 1);
	uint32_t count = SLAB_BYTES / (stride + SQE_SIZE);
	struct srq_slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return NULL;
	slab->srq = srq;
	slab->count = count < SLAB_MIN ? SLAB_MIN : count > SLAB_MAX ? SLAB_MAX : count;
	slab->bytes = (((size_t)SQE_SIZE * slab->count + PAGE - 1) & ~(size_t)(PAGE - 1)) +
		      (size_t)stride * slab->count;
	slab->recvs = calloc(slab->count, sizeof(*slab->recvs));
	slab->memory = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab->memory == MAP_FAILED)
		slab->memory = NULL;
	if (slab->memory)
		numa_prefer(slab->memory, slab->bytes, srq->reactor->node);
	if (slab->recvs && slab->memory)
		slab->mr = device->verbs->reg_mr(device->pd, slab->memory, slab->bytes,
						 IBV_ACCESS_LOCAL_WRITE);
	if (!slab->mr) {
		slab_free(slab);
		return NULL;
	}
	slab_cut(slab, stride);
	slab->next = srq->slabs;
	srq->slabs = slab;
	return slab;
}

/* ---- creating and freeing ---- */

static void srq_free(struct target_srq *srq)
{
	struct srq_slab *slab;

	if (srq->srq)
		srq->device->verbs->destroy_srq(srq->srq);
	while ((slab = srq->slabs)) {
		srq->slabs = slab->next;
		slab_free(slab);
	}
	free(srq);
}

static struct target_srq *srq_new(struct target_device *device, struct reactor *reactor,
				  uint32_t in_capsule)
{
	uint32_t limit = (uint32_t)device->attr.max_srq_wr;
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = limit < SRQ_MAX ? limit : SRQ_MAX, .max_sge = in_capsule ? 2 : 1 },
	};
	struct target_srq *srq = calloc(1, sizeof(*srq));
	struct srq_slab *slab;

	if (!srq)
		return NULL;
	srq->device = device;
	srq->reactor = reactor;
	srq->in_capsule = in_capsule;
	srq->limit = init.attr.max_wr - SLAB_MAX;
	srq->srq = device->verbs->create_srq(device->pd, &init);
	slab = srq->srq ? slab_new(srq) : NULL;
	if (!slab) {
		srq_free(srq);
		return NULL;
	}
	srq->growing = true;
	reactor_mail(reactor, &slab->mail, srq_slab_deliver);
	srq->next = device->srqs;
	device->srqs = srq;
	device->cqs++;
	return srq;
}

bool srqs_can_be(const struct target_device *device)
{
	return !device->private_pd && device->attr.max_srq > 0 && device->attr.max_srq_wr > (int)SLAB_MAX &&
	       device->attr.max_srq_sge >= 2;
}

struct target_srq *srq_get(struct target_qpair *qp)
{
	uint32_t depth = qp->options.recv_depth;
	struct target_srq *srq;

	if (!srqs_can_be(qp->dev))
		return NULL;
	for (srq = qp->dev->srqs; srq; srq = srq->next)
		if (srq->reactor == qp->reactor && srq->in_capsule == qp->in_capsule &&
		    srq->reserved + depth <= srq->limit)
			break;
	if (!srq)
		srq = srq_new(qp->dev, qp->reactor, qp->in_capsule);
	if (!srq || srq->reserved + depth > srq->limit)
		return NULL;
	atomic_fetch_add(&srq->reserved, depth);
	return srq;
}

void srq_put(struct target_qpair *qp)
{
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->reserved, qp->options.recv_depth);
	qp->srq = NULL;
}

void srqs_free(struct target_device *device)
{
	struct target_srq *srq;

	while ((srq = device->srqs)) {
		device->srqs = srq->next;
		srq_free(srq);
	}
}

/* Its device was removed: it grows no more after the slab in progress has returned. */
static void srq_leave(struct target_srq *srq)
{
	srq->upcall = (struct target_upcall){
		.type = (enum target_upcall_type)TARGET_UPCALL_SRQ_GONE,
		.cookie = srq->device,
	};
	target_post_upcall(srq->reactor->target, &srq->upcall);
}

static void srq_leave_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_srq *srq = container_of(mail, struct target_srq, gone_mail);

	(void)reactor;
	srq->leaving = true;
	if (!srq->growing)
		srq_leave(srq);
}

void srqs_let_go(struct target_device *device)
{
	for (struct target_srq *srq = device->srqs; srq; srq = srq->next)
		reactor_mail(srq->reactor, &srq->gone_mail, srq_leave_deliver);
}

/* ---- the reactor's part ---- */

void srq_slab_deliver(struct reactor *reactor, struct mail *mail)
{
	struct srq_slab *slab = container_of(mail, struct srq_slab, mail);
	struct target_srq *srq = slab->srq;

	srq->growing = false;
	if (srq->leaving) {
		srq_leave(srq);
		return;
	}
	for (uint32_t i = 0; i < slab->count; i++)
		stack_push(&srq->spare, &slab->recvs[i].link);
	srq->spares += slab->count;
	srq->total += slab->count;
	srq_post(reactor, srq);
}

static void srq_failed_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_srq *srq = container_of(mail, struct target_srq, failed_mail);

	srq->growing = false;
	srq->retry = reactor_now(reactor) + RETRY_NS;
	if (srq->leaving)
		srq_leave(srq);
}

static void srq_grow_job(struct job *job)
{
	struct target_srq *srq = container_of(job, struct target_srq, job);
	struct srq_slab *slab = slab_new(srq);

	if (slab)
		reactor_mail(srq->reactor, &slab->mail, srq_slab_deliver);
	else
		reactor_mail(srq->reactor, &srq->failed_mail, srq_failed_deliver);
}

/* Request another slab, if few receives are left and its queue pairs could still use more. */
static void srq_look(struct reactor *reactor, struct target_srq *srq)
{
	uint32_t low = srq->total < SLAB_MAX ? srq->total / 2 : SLAB_MAX / 2;

	if (srq->posted + srq->spares >= low || srq->growing ||
	    srq->total >= atomic_load_explicit(&srq->reserved, memory_order_relaxed) ||
	    (srq->retry && reactor_now(reactor) < srq->retry))
		return;
	srq->growing = true;
	background_post(device_lane(srq->device), &srq->job, srq_grow_job);
}

void srq_post(struct reactor *reactor, struct target_srq *srq)
{
	struct ibv_recv_wr *bad = NULL;

	while (srq->spare) {
		struct recv_chain *chain = &reactor->recv_chain;
		struct fifo some;
		unsigned n;
		int rc;

		fifo_init(&some);
		for (n = 0; n < WR_BATCH && srq->spare; n++)
			fifo_push(&some, stack_pop(&srq->spare));
		build_receives(&some, chain, srq->in_capsule);
		rc = ibv_post_srq_recv(srq->srq, chain->wr, &bad);
		srq->posted += n;
		srq->spares -= n;
		if (!rc)
			continue;
		/* The queue has room for all: so the device was removed, and its queue pairs will be as well. */
		for (; bad; bad = bad->next)
			srq->posted--;
		return;
	}
}

static struct target_qpair **srq_bucket(struct reactor *reactor, uint32_t number)
{
	return &reactor->by_number[number % NUMBER_BUCKETS];
}

struct target_qpair *srq_find(struct reactor *reactor, const struct target_srq *srq, uint32_t number)
{
	struct target_qpair *qp = *srq_bucket(reactor, number);

	while (qp && (qp->number != number || qp->srq != srq))
		qp = qp->number_next;
	return qp;
}

static void srq_spare(struct recv *recv)
{
	stack_push(&recv->srq->spare, &recv->link);
	recv->srq->spares++;
}

static bool srq_is_for(const struct recv *recv, const struct target_qpair *qp)
{
	return recv->srq == qp->srq && recv->number == qp->number;
}

static void srq_take(struct target_qpair *qp, struct recv *recv)
{
	recv->qp = qp;
	if (++qp->recv_taken > qp->options.recv_depth)
		qpair_fail(qp, "the host sent more commands than its queue has entries (%u)",
			   qp->options.recv_depth);
}

void srq_join(struct target_qpair *qp)
{
	struct target_qpair **bucket = srq_bucket(qp->reactor, qp->number);
	struct fifo early;
	struct fifo_link *link;

	if (!qp->srq)
		return;
	qp->number_next = *bucket;
	*bucket = qp;
	/* Take capsules that arrived before the event that established the connection. */
	fifo_move(&early, &qp->reactor->orphans);
	while ((link = fifo_pop(&early))) {
		struct recv *recv = container_of(link, struct recv, link);

		if (srq_is_for(recv, qp)) {
			srq_take(qp, recv);
			fifo_push(&qp->pending, link);
		} else {
			fifo_push(&qp->reactor->orphans, link);
		}
	}
}

void srq_part(struct target_qpair *qp)
{
	struct target_qpair **p = srq_bucket(qp->reactor, qp->number);
	struct fifo early;
	struct fifo_link *link;

	if (!qp->srq)
		return;
	while (*p && *p != qp)
		p = &(*p)->number_next;
	if (*p)
		*p = qp->number_next;
	fifo_move(&early, &qp->reactor->orphans);
	while ((link = fifo_pop(&early))) {
		struct recv *recv = container_of(link, struct recv, link);

		if (srq_is_for(recv, qp))
			srq_spare(recv);
		else
			fifo_push(&qp->reactor->orphans, link);
	}
	srq_post(qp->reactor, qp->srq);
}

struct target_qpair *srq_received(struct reactor *reactor, struct recv *recv, uint32_t number, bool good)
{
	struct target_srq *srq = recv->srq;
	struct target_qpair *qp = srq_find(reactor, srq, number);

	srq->posted--;
	srq_look(reactor, srq);
	recv->number = number;
	if (qp) {
		srq_take(qp, recv);
	} else if (good) {
		fifo_push(&reactor->orphans, &recv->link);
	} else {
		srq_spare(recv);
		srq_post(reactor, srq);
	}
	return qp;
}
