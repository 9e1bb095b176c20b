/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target for C tests: the engine's reactors and stores behind a minimal control plane that is enough for a host's
 * bring-up.  One subsystem, one namespace, no discovery.
 *
 * mini_start and mini_stop belong to the test's thread; everything else runs on the mini target's control thread,
 * except the settings, which are atomic.
 */
#ifndef NVMF_MINI_TARGET_H
#define NVMF_MINI_TARGET_H

#include "target/inject.h"
#include "target/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINI_NQN "nqn.2026-11.io.example:mini"
enum { MINI_CNTLID = 7, MINI_MDTS = 8, MINI_NSIDS = 4, MINI_QUEUE = 1024 };

struct mini {
	const struct verbs *verbs;
	struct target *target;
	struct store *store;
	struct target_namespace *ns;
	struct target_nstable *table;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	char port[8];
	pthread_t thread;
	uint32_t cc;
	struct target_qpair *qpairs[256];
	unsigned nqpairs;
	atomic_bool stop;
	atomic_int reject;		/* sts for the next CM request, or 0 */
	atomic_int cntlid_off;		/* what is added to the controller ID in the answer to an I/O queue's Connect */
	atomic_bool drop;		/* disconnect every queue pair now */
	atomic_int drop_at;		/* or only the one accepted with this number (1, 2...), or 0 */
	atomic_uint inject;		/* the slots of injections for new I/O queues, a set of bits */
	uint32_t in_capsule;
};

static struct nvme_rdma_cm_req mini_request(const struct rdma_cm_event *ev)
{
	struct nvme_rdma_cm_req req = { 0 };

	if (ev->param.conn.private_data && ev->param.conn.private_data_len >= sizeof(req))
		memcpy(&req, ev->param.conn.private_data, sizeof(req));
	return req;
}

static void mini_accept(struct mini *m, struct rdma_cm_event *ev)
{
	const struct nvme_rdma_cm_req req = mini_request(ev);
	const struct target_qpair_options options = {
		.qid = req.qid,
		.recv_depth = (uint16_t)(req.hsqsize + 1),
		.send_depth = req.hrqsize,
		.in_capsule = req.qid ? m->in_capsule : 0,
		.max_transfer = 4096u << MINI_MDTS,
		.initiator_depth = ev->param.conn.initiator_depth,
		.responder_resources = ev->param.conn.responder_resources,
	};
	const struct nvme_rdma_cm_rej rej = { .sts = (uint16_t)atomic_exchange(&m->reject, 0) };
	char err[256] = "";
	struct target_qpair *qp = NULL;

	if (!rej.sts && m->nqpairs < 256)
		qp = target_qpair_accept(m->target, m->verbs, ev->id, &options, err, sizeof(err));
	if (qp) {
		m->qpairs[m->nqpairs++] = qp;
		if (req.qid)
			target_qpair_inject(qp, atomic_load(&m->inject));
		return;
	}
	if (err[0])
		fprintf(stderr, "mini target: %s\n", err);
	m->verbs->reject(ev->id, &rej, sizeof(rej));
}

static void mini_cm(struct mini *m)
{
	struct rdma_cm_event *ev;

	if (m->verbs->get_cm_event(m->channel, &ev))
		return;

	struct rdma_cm_id *gone = NULL;
	const unsigned before = m->nqpairs;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		mini_accept(m, ev);
		if (m->nqpairs == before)
			gone = ev->id;
	} else if (ev->event == RDMA_CM_EVENT_DISCONNECTED && ev->id->context) {
		target_qpair_disconnect(ev->id->context);
	}
	m->verbs->ack_cm_event(ev);
	if (gone)
		m->verbs->destroy_id(gone);
}

static void mini_connect(struct mini *m, struct target_qpair *qp, struct target_request *r,
			 const struct nvme_sqe *sqe)
{
	uint32_t len;
	const uint8_t *data = target_request_data(r, &len);
	const uint16_t qid = (uint16_t)(sqe->cdw10 >> 16);

	if (len != 1024) {
		target_complete(r, NVME_SGL_DATA_LENGTH_INVALID | NVME_DNR, 0, 0, NULL, 0);
	} else if (strncmp((const char *)data + 256, MINI_NQN, 256)) {
		target_complete(r, 0x182 | NVME_DNR, 1u << 16 | 256, 0, NULL, 0);
	} else {
		target_qpair_connected(qp, (uint16_t)((sqe->cdw11 & 0xffff) + 1), qid ? m->table : NULL);
		target_qpair_enable(qp, true);
		target_complete(r, 0, (uint32_t)(MINI_CNTLID + (qid ? atomic_load(&m->cntlid_off) : 0)), 0, NULL, 0);
	}
}

static void mini_fabrics(struct mini *m, struct target_qpair *qp, struct target_request *r,
			 const struct nvme_sqe *sqe)
{
	const uint64_t cap = (MINI_QUEUE - 1) | 1ull << 16 | 10ull << 24 | 1ull << 37;

	switch (sqe->nsid & 0xff) {
	case NVME_FCTYPE_CONNECT:
		mini_connect(m, qp, r, sqe);
		return;
	case NVME_FCTYPE_PROPERTY_SET:
		m->cc = sqe->cdw12;
		target_complete(r, 0, 0, 0, NULL, 0);
		return;
	case NVME_FCTYPE_PROPERTY_GET:
		if (sqe->cdw11 == 0)
			target_complete(r, 0, (uint32_t)cap, (uint32_t)(cap >> 32), NULL, 0);
		else
			target_complete(r, 0, sqe->cdw11 == 0x1c ? m->cc & 1 : m->cc, 0, NULL, 0);
		return;
	default:
		target_complete(r, NVME_INVALID_FIELD | NVME_DNR, 0, 0, NULL, 0);
	}
}

static void mini_put(uint8_t *p, size_t offset, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[offset + i] = (uint8_t)(v >> 8 * i);
}

static void mini_identify(struct mini *m, struct target_request *r, const struct nvme_sqe *sqe)
{
	uint8_t page[4096] = { 0 };

	if ((sqe->cdw10 & 0xff) == 1) {
		page[77] = MINI_MDTS;
		mini_put(page, 78, MINI_CNTLID, 2);
		mini_put(page, 520, 1 << 2 | 1 << 3, 2);
		page[525] = 1;
		mini_put(page, 536, 1 | 1 << 2 | 1 << 20, 4);
		mini_put(page, 1792, (64 + m->in_capsule) / 16, 4);
		mini_put(page, 1796, 1, 4);
	} else if (sqe->nsid == 1) {
		mini_put(page, 0, m->store->size / m->store->block_size, 8);
		page[130] = (uint8_t)__builtin_ctz(m->store->block_size);
	}
	target_complete(r, 0, 0, 0, page, sizeof(page));
}

static void mini_command(struct mini *m, struct target_qpair *qp, struct target_request *r)
{
	const struct nvme_sqe sqe = *target_request_sqe(r);

	if (sqe.opc == NVME_OPC_FABRICS)
		mini_fabrics(m, qp, r, &sqe);
	else if (sqe.opc == NVME_OPC_IDENTIFY)
		mini_identify(m, r, &sqe);
	else if (sqe.opc == 0x09)
		target_complete(r, 0, 127 | 127 << 16, 0, NULL, 0);
	else
		target_complete(r, NVME_INVALID_OPCODE | NVME_DNR, 0, 0, NULL, 0);
}

static void mini_closed(struct mini *m, struct target_qpair *qp)
{
	for (unsigned i = 0; i < m->nqpairs; i++) {
		if (m->qpairs[i] == qp) {
			m->qpairs[i] = m->qpairs[--m->nqpairs];
			break;
		}
	}
	target_qpair_destroy(qp);
}

static void *mini_run(void *arg)
{
	struct mini *m = arg;
	struct pollfd fds[2] = {
		{ .fd = m->channel->fd, .events = POLLIN },
		{ .fd = target_fd(m->target), .events = POLLIN },
	};

	while (!atomic_load(&m->stop)) {
		poll(fds, 2, 20);
		if (fds[0].revents)
			mini_cm(m);
		for (struct target_upcall *u = target_upcalls(m->target), *next; u; u = next) {
			next = u->next;
			if (u->type == TARGET_UPCALL_COMMAND)
				mini_command(m, u->qpair, u->request);
			else if (u->type == TARGET_UPCALL_CLOSED)
				mini_closed(m, u->qpair);
		}
		if (atomic_exchange(&m->drop, false))
			for (unsigned i = 0; i < m->nqpairs; i++)
				target_qpair_disconnect(m->qpairs[i]);

		const int at = atomic_exchange(&m->drop_at, 0);

		if (at > 0 && (unsigned)at <= m->nqpairs)
			target_qpair_disconnect(m->qpairs[at - 1]);
	}
	return NULL;
}

static void mini_die(const char *what, const char *err)
{
	fprintf(stderr, "mini target: %s: %s\n", what, err);
	exit(1);
}

/* The device of the next target; NULL: iWARP. */
static const struct verbs *mini_device;

/* A target on 127.0.0.1 with its own port, and with store as namespace 1. */
static struct mini *mini_start(const struct store_options *store, uint32_t in_capsule, int cpu)
{
	struct mini *m = calloc(1, sizeof(*m));
	const struct target_options options = {
		.reactors = 1,
		.cpus = &cpu,
		.spin_us = 100,
		.buffer_size = 131072,
		.buffers = 128,
		.cq_entries = 4096,
	};
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char err[300] = "";

	if (!m)
		mini_die("start", "no memory");
	m->verbs = mini_device ? mini_device : verbs_iwarp();
	m->in_capsule = in_capsule;
	m->target = target_create(&options, err, sizeof(err));
	m->store = m->target ? store_open(store, err, sizeof(err)) : NULL;
	m->ns = m->store ? target_namespace_create(m->target, 1, m->store, err, sizeof(err)) : NULL;
	m->table = m->ns ? target_nstable_create(m->target, MINI_NSIDS) : NULL;
	if (!m->table || target_nstable_set(m->table, 1, m->ns))
		mini_die("start", err);
	m->channel = m->verbs->create_event_channel();
	/* an event may be freed with its id, which another thread destroys, before it is taken */
	if (!m->channel || fcntl(m->channel->fd, F_SETFL, O_NONBLOCK) || m->verbs->create_id(m->channel, &m->listener, NULL, RDMA_PS_TCP) ||
	    m->verbs->bind_addr(m->listener, (struct sockaddr *)&a) ||
	    m->verbs->listen(m->listener, 128))
		mini_die("listen", strerror(errno));
	/* If another thread destroys an id, its events disappear, even after poll() has reported them. */
	fcntl(m->channel->fd, F_SETFL, fcntl(m->channel->fd, F_GETFL) | O_NONBLOCK);
	memcpy(&a, rdma_get_local_addr(m->listener), sizeof(a));
	snprintf(m->port, sizeof(m->port), "%u", ntohs(a.sin_port));
	if (pthread_create(&m->thread, NULL, mini_run, m))
		mini_die("start", "no thread");
	return m;
}

static void mini_stop(struct mini *m)
{
	atomic_store(&m->stop, true);
	pthread_join(m->thread, NULL);
	target_destroy(m->target);
	m->verbs->destroy_id(m->listener);
	m->verbs->destroy_event_channel(m->channel);
	store_close(m->store);
	free(m);
}

#endif
