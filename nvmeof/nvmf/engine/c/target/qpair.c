/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, on the control thread: allocated, informed of changes, released and freed.  Accepting is in accept.c,
 * their memory in region.c, and their end on the reactors in close.c.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPARE_REQUESTS 32u	/* whose response has been sent but has not completed */

struct target_qpair *qpair_new(struct target *target, const struct verbs *verbs,
			       struct rdma_cm_id *id, const struct target_qpair_options *options)
{
	struct target_qpair *qp = aligned_alloc(CACHE_LINE, (sizeof(*qp) + CACHE_LINE - 1) &
								    ~(size_t)(CACHE_LINE - 1));
	uint32_t spare = options->recv_depth < SPARE_REQUESTS ? options->recv_depth : SPARE_REQUESTS;

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	qp->target = target;
	qp->verbs = verbs;
	qp->id = id;
	qp->options = *options;
	qp->reactor = target->reactor[options->reactor];
	qp->in_capsule = options->in_capsule;
	qp->max_transfer = options->max_transfer ? options->max_transfer : UINT32_MAX;
	qp->request_count = options->recv_depth + spare;
	fifo_init(&qp->tx);
	fifo_init(&qp->posted);
	fifo_init(&qp->reads);
	fifo_init(&qp->repost);
	fifo_init(&qp->pending);
	fifo_init(&qp->waiting[0]);
	fifo_init(&qp->waiting[1]);
	fifo_init(&qp->ranges);
	fifo_init(&qp->asking);
	fifo_init(&qp->fences);
	qp->pool = &qp->reactor->pool;
	for (unsigned i = 0; i < POOL_CLASSES; i++)
		qp->pool_place[i].qp = qp;
	return qp;
}

/* ---- the end ---- */

/* Free its RDMA objects; the reactor must no longer use them. */
static void release_rdma(struct target_qpair *qp)
{
	if (qp->ibqp) {
		if (!qp->disconnected && !qp->abandoned)
			qp->verbs->disconnect(qp->id);
		qp->verbs->destroy_qp(qp->id);
		qp->ibqp = NULL;
	}
	if (qp->id && !qp->abandoned)
		qp->verbs->destroy_id(qp->id);
	qp->id = NULL;
	if (qp->mr)
		qp->verbs->dereg_mr(qp->mr);
	if (qp->own_mr)
		qp->verbs->dereg_mr(qp->own_mr);
	if (qp->pool_mr)
		qp->verbs->dereg_mr(qp->pool_mr);
	if (qp->pd && qp->pd != qp->dev->pd)
		qp->verbs->dealloc_pd(qp->pd);
	qp->mr = qp->own_mr = qp->pool_mr = NULL;
	qp->pd = NULL;
}

void qpair_release_job(struct job *job)
{
	struct target_qpair *qp = container_of(job, struct target_qpair, release_job);

	release_rdma(qp);
	qp->destroyed_upcall = (struct target_upcall){
		.type = TARGET_UPCALL_DESTROYED,
		.qpair = qp,
		.cookie = qp->options.cookie,
	};
	target_post_upcall(qp->target, &qp->destroyed_upcall);
}

void qpair_clear(struct target_qpair *qp)
{
	release_rdma(qp);
	cqs_put(qp);
	srq_put(qp);
	for (uint32_t i = 0; i < qp->request_fresh; i++)
		free(qp->requests[i].data);
	if (qp->region)
		munmap(qp->region, qp->region_bytes);
	pool_free(&qp->private_pool);
}

void qpair_unlink(struct target_qpair *qp)
{
	struct target_qpair **p = &qp->target->qpairs;

	while (*p && *p != qp)
		p = &(*p)->next;
	if (*p)
		*p = qp->next;
}

/* ---- changes announced to it ---- */

void target_qpair_connected(struct target_qpair *qp, uint16_t sq_size,
			    struct target_nstable *namespaces)
{
	/* As soon as it has a table, commands may be using it. */
	if (atomic_load_explicit(&qp->table, memory_order_relaxed))
		return;
	if (!atomic_load_explicit(&qp->connected, memory_order_relaxed))
		atomic_store_explicit(&qp->sq_size, sq_size, memory_order_relaxed);
	atomic_store_explicit(&qp->table, namespaces, memory_order_release);
	atomic_store_explicit(&qp->connected, true, memory_order_release);
}

void target_qpair_show(struct target_qpair *qp, struct target_nstable *namespaces)
{
	if (atomic_load_explicit(&qp->table, memory_order_relaxed))
		atomic_store_explicit(&qp->table, namespaces, memory_order_release);
}

void target_qpair_enable(struct target_qpair *qp, bool enabled)
{
	atomic_store_explicit(&qp->enabled, enabled, memory_order_release);
}

void target_qpair_disconnect(struct target_qpair *qp)
{
	if (qp->disconnect_sent || qp->destroy_sent)
		return;
	qp->disconnect_sent = true;
	reactor_mail(qp->reactor, &qp->disconnect_mail, qpair_disconnect_deliver);
}

void target_qpair_peer_left(struct target_qpair *qp)
{
	if (!qp->disconnect_sent)
		qp->peer_left = true;	/* the mailbox orders this write before the reactor's read */
	target_qpair_disconnect(qp);
}

void target_qpair_destroy(struct target_qpair *qp)
{
	if (qp->destroy_sent)
		return;
	qp->destroy_sent = true;
	reactor_mail(qp->reactor, &qp->destroy_mail, qpair_destroy_deliver);
}

void target_qpair_stats(const struct target_qpair *qp, struct target_qpair_stats *stats)
{
	*stats = (struct target_qpair_stats){
		.commands = stat_read(&qp->commands),
		.errors = stat_read(&qp->errors),
		.read_bytes = stat_read(&qp->read_bytes),
		.write_bytes = stat_read(&qp->write_bytes),
		.malformed = stat_read(&qp->malformed),
		.waited_for_buffer = stat_read(&qp->waited_for_buffer),
		.outstanding = __atomic_load_n(&qp->active, __ATOMIC_RELAXED),
	};
}
