/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, from the control thread: made and accepted, told things, freed.
 *
 * Owns a queue pair's memory: one mapping, registered once, of which an idle queue touches little
 * (pages are there when they are first written).
 *
 * On an iWARP adapter an RDMA READ puts its data where the peer may write from then on, as RFC 5040 lets the
 * Read Response name its sink by an STag that allows remote access.  So that no host learns a key to what is
 * another's, a queue pair on such a device has a protection domain with buffers of its own.
 */
#include "target/calls.h"
#include "util/numa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define CID_BYTES (65536 / 8)
#define SPARE_REQUESTS 32u	/* whose response has left but not completed */
#define MIN_SEND_WR 64u
#define RNR_TIMER 10	/* 0.32 ms (IBTA 1.4, table 46) */
#define PRIVATE_SMALL 128u	/* buffers of a queue pair that shares none: at most so many small ones, */
#define PRIVATE_LARGE 8u	/* and so many large ones of an I/O queue */

/* ---- memory ---- */

static size_t place(size_t *at, size_t bytes, size_t align)
{
	size_t here = (*at + align - 1) & ~(align - 1);

	*at = here + bytes;
	return here;
}

/*
 * What the device uses comes first, and only that is registered.  SQEs close together; in-capsule data on
 * pages of its own, which O_DIRECT stores can write from.  A queue pair that shares its receives has neither.
 */
static int map_region(struct target_qpair *qp)
{
	uint32_t depth = qp->srq ? 0 : qp->options.recv_depth;
	size_t stride = (qp->in_capsule + PAGE - 1) & ~(size_t)(PAGE - 1), at = 0;
	size_t own = place(&at, TARGET_OWN_BUFFER, PAGE);
	size_t cqes = place(&at, sizeof(struct nvme_cqe) * qp->request_count, CACHE_LINE);
	size_t sqes = place(&at, sizeof(struct nvme_sqe) * depth, CACHE_LINE);
	size_t data = place(&at, stride * depth, PAGE);
	size_t requests = place(&at, sizeof(struct target_request) * qp->request_count, PAGE);
	size_t recvs = place(&at, sizeof(struct recv) * depth, CACHE_LINE);
	size_t sgls = place(&at, sizeof(struct sgl_entry) * TARGET_MAX_SGL * qp->request_count,
			    CACHE_LINE);
	size_t cids = place(&at, CID_BYTES, CACHE_LINE);

	qp->registered_bytes = requests;
	qp->region_bytes = at;
	qp->region = mmap(NULL, at, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (qp->region == MAP_FAILED) {
		qp->region = NULL;
		return -ENOMEM;
	}
	numa_prefer(qp->region, qp->region_bytes, qp->reactor->node);
	qp->cqes = (void *)(qp->region + cqes);
	qp->recvs = (void *)(qp->region + recvs);
	qp->requests = (void *)(qp->region + requests);
	qp->sgls = (void *)(qp->region + sgls);
	qp->cids = (void *)(qp->region + cids);
	qp->own = (struct chunk){ .tx.is_chunk = true, .buffer = qp->region + own };
	qp->own_free = true;
	for (uint32_t i = 0; i < depth; i++) {
		struct recv *recv = &qp->recvs[i];

		recv->qp = qp;
		recv->sqe = (struct nvme_sqe *)(void *)(qp->region + sqes) + i;
		recv->data = qp->region + data + stride * i;
		fifo_push(&qp->repost, &recv->link);
	}
	return 0;
}

static struct target_qpair *qpair_new(struct target *target, const struct verbs *verbs,
				      struct rdma_cm_id *id,
				      const struct target_qpair_options *options)
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
	fifo_init(&qp->fences);
	qp->pool = &qp->reactor->pool;
	for (unsigned i = 0; i < POOL_CLASSES; i++)
		qp->pool_place[i].qp = qp;
	return qp;
}

/* ---- the end ---- */

/* The RDMA side of it; the reactor must have let go. */
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

/* ---- accept ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int check_options(const struct target *target, const struct target_qpair_options *o,
			 char *err, size_t len)
{
	const char *why = NULL;

	if (o->reactor >= target->reactors)
		why = "there is no such reactor";
	else if (!o->recv_depth)
		why = "a queue of no entries";
	else if (!o->initiator_depth)
		why = "the host allows no RDMA READs (responder resources 0)";
	if (!why)
		return 0;
	snprintf(err, len, "cannot accept queue %u: %s", o->qid, why);
	return -EINVAL;
}

static int create_ibqp(struct target_qpair *qp, char *err, size_t len)
{
	const struct ibv_device_attr *attr = &qp->dev->attr;
	uint32_t limit = attr->max_qp_wr > 0 ? (uint32_t)attr->max_qp_wr : UINT32_MAX;
	uint32_t wanted = 2u * qp->options.recv_depth;	/* data and response of each */
	struct ibv_qp_init_attr init = {
		.qp_context = qp,
		.qp_type = IBV_QPT_RC,
		.srq = qp->srq ? qp->srq->srq : NULL,
		.cap = {
			.max_recv_wr = qp->srq ? 0 : qp->options.recv_depth,
			.max_send_sge = 1,
			.max_recv_sge = qp->srq ? 0 : qp->in_capsule ? 2 : 1,
			.max_inline_data = sizeof(struct nvme_cqe),
		},
	};
	int rc;

	if (qp->options.recv_depth > limit) {
		snprintf(err, len, "queue %u: %u receives asked for, the device has %u",
			 qp->options.qid, qp->options.recv_depth, limit);
		return -EINVAL;
	}
	qp->sq_count = qp->sq_free = least(limit, wanted < MIN_SEND_WR ? MIN_SEND_WR : wanted);
	init.cap.max_send_wr = qp->sq_count;
	qp->recv_share = qp->options.recv_depth;
	qp->send_share = qp->sq_count;
	rc = cqs_get(qp, err, len);
	if (rc)
		return rc;
	init.recv_cq = qp->recv_cq->cq;
	init.send_cq = qp->send_cq->cq;
	errno = 0;	/* some providers fail without it */
	rc = qp->verbs->create_qp(qp->id, qp->pd, &init);
	if (rc) {	/* perhaps it has no inline data */
		init.cap.max_inline_data = 0;
		init.cap.max_send_wr = qp->sq_count;
		rc = qp->verbs->create_qp(qp->id, qp->pd, &init);
	}
	if (rc) {
		rc = -errno;
		snprintf(err, len, "queue %u: create_qp (%u receives, %u sends): %s",
			 qp->options.qid, qp->options.recv_depth, qp->sq_count,
			 rc ? strerror(-rc) : "the device does not say why");
		return rc ? rc : -EIO;
	}
	/*
	 * To iWARP the completion of a Send does not say that the peer has what was sent before it.
	 * siw sends what is not signalled from the memory itself, for as long as TCP keeps it, and
	 * what is signalled from a copy: a buffer that is used again must have been signalled.
	 */
	qp->signal_all = !qp->verbs->read_sink_is_local &&
			 qp->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	/*
	 * siw takes inline data with a plain Send only, and most responses are Sends with
	 * Invalidate.
	 */
	qp->inline_response = init.cap.max_inline_data >= sizeof(struct nvme_cqe) && !qp->signal_all;
	qp->ibqp = qp->id->qp;
	qp->number = qp->ibqp->qp_num;
	return 0;
}

/* Its protection domain and buffers, where it shares them with no other. */
static int make_private(struct target_qpair *qp)
{
	const struct pool *shared = &qp->reactor->pool;
	uint32_t small = least(qp->options.recv_depth, PRIVATE_SMALL);
	struct pool *pool = &qp->private_pool;

	qp->pd = qp->verbs->alloc_pd(qp->id->verbs);
	if (!qp->pd)
		return -errno;
	if (pool_create_private(pool, shared, small, qp->options.qid ? PRIVATE_LARGE : 0,
				qp->reactor->node))
		return -ENOMEM;
	qp->pool_mr = qp->verbs->reg_mr(qp->pd, pool->memory, pool->bytes, qp->dev->sink_access);
	if (!qp->pool_mr)
		return -errno;
	qp->pool = pool;
	qp->pool_lkey = qp->pool_mr->lkey;
	return 0;
}

static int register_region(struct target_qpair *qp)
{
	const struct verbs *verbs = qp->verbs;
	int sink = qp->dev->sink_access;

	qp->mr = verbs->reg_mr(qp->pd, qp->region, qp->registered_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!qp->mr)
		return -errno;
	qp->lkey = qp->own_lkey = qp->mr->lkey;
	for (struct fifo_link *link = qp->repost.head; link; link = link->next)
		container_of(link, struct recv, link)->lkey = qp->lkey;
	if (sink == IBV_ACCESS_LOCAL_WRITE)
		return 0;
	qp->own_mr = verbs->reg_mr(qp->pd, qp->own.buffer, TARGET_OWN_BUFFER, sink);
	if (!qp->own_mr)
		return -errno;
	qp->own_lkey = qp->own_mr->lkey;
	return 0;
}

static int prepare(struct target_qpair *qp, char *err, size_t len)
{
	const struct ibv_device_attr *attr;
	uint32_t reads = qp->options.initiator_depth;
	int rc = 0;

	qp->dev = device_get(qp->target, qp->verbs, qp->id->verbs, err, len);
	if (!qp->dev)
		return -errno;
	attr = &qp->dev->attr;
	if (attr->max_qp_init_rd_atom > 0)
		reads = least(reads, (uint32_t)attr->max_qp_init_rd_atom);
	qp->read_limit = qp->read_free = reads;
	qp->device = (uint8_t)qp->dev->index;
	qp->send_with_invalidate = qp->dev->send_with_invalidate;
	if (qp->dev->private_pd) {
		rc = make_private(qp);
	} else {
		qp->pd = qp->dev->pd;
		qp->pool_lkey = qp->dev->pool_mr[qp->reactor->index]->lkey;
	}
	qp->srq = srq_get(qp);
	if (!rc)
		rc = map_region(qp);
	if (!rc)
		rc = register_region(qp);
	if (rc) {
		snprintf(err, len, "queue %u: cannot register %zu bytes of capsules: %s",
			 qp->options.qid, qp->registered_bytes, strerror(-rc));
		return rc;
	}
	return create_ibqp(qp, err, len);
}

/*
 * How long a host waits that has found no receive, while a shared queue grows: the connection manager
 * sets 655 ms.  iWARP has no such timer.
 */
static void set_rnr_timer(struct target_qpair *qp)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = RNR_TIMER };

	if (qp->srq && qp->id->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		qp->verbs->modify_qp(qp->ibqp, &attr, IBV_QP_MIN_RNR_TIMER);
}

static int start(struct target_qpair *qp, char *err, size_t len)
{
	struct nvme_rdma_cm_rep rep = { .crqsize = qp->options.recv_depth };
	struct rdma_conn_param param = {
		.private_data = &rep,
		.private_data_len = sizeof(rep),
		.responder_resources = qp->options.responder_resources,
		.initiator_depth = (uint8_t)qp->read_limit,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct recv_chain chain;
	int rc;

	if (qpair_post_receives(qp, &chain)) {
		snprintf(err, len, "queue %u: the device refused a receive", qp->options.qid);
		return -EIO;
	}
	qp->id->context = qp;
	if (!qp->verbs->accept(qp->id, &param)) {
		set_rnr_timer(qp);
		reactor_mail(qp->reactor, &qp->up_mail, qpair_up_deliver);
		return 0;
	}
	rc = -errno;
	snprintf(err, len, "queue %u: accept: %s", qp->options.qid, strerror(-rc));
	return rc;
}

struct target_qpair *target_qpair_accept(struct target *target, const struct verbs *verbs,
					 struct rdma_cm_id *id,
					 const struct target_qpair_options *options, char *err,
					 size_t len)
{
	void *context = id->context;
	struct target_qpair *qp;
	int rc;

	if (check_options(target, options, err, len))
		return NULL;
	qp = qpair_new(target, verbs, id, options);
	if (!qp) {
		snprintf(err, len, "queue %u: out of memory", options->qid);
		return NULL;
	}
	qp->next = target->qpairs;
	target->qpairs = qp;
	rc = prepare(qp, err, len);
	if (!rc)
		rc = start(qp, err, len);
	if (!rc)
		return qp;

	id->context = context;
	qp->abandoned = true;	/* the id is the caller's */
	if (!qp->ibqp) {
		qpair_unlink(qp);
		qpair_clear(qp);
		free(qp);
		errno = -rc;
		return NULL;
	}
	/*
	 * The reactor may be at a completion of it just now: it lets go before the memory does, and
	 * not being up, it has not touched the id.
	 */
	qp->verbs->destroy_qp(id);
	qp->ibqp = NULL;
	qp->id = NULL;
	qp->destroy_sent = true;
	reactor_mail(qp->reactor, &qp->destroy_mail, qpair_destroy_deliver);
	errno = -rc;
	return NULL;
}

/* ---- told things ---- */

void target_qpair_connected(struct target_qpair *qp, uint16_t sq_size,
			    struct target_nstable *namespaces)
{
	/* Once there is a table, commands may be using it. */
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
		qp->peer_left = true;	/* the mailbox orders it before the reactor's look */
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
