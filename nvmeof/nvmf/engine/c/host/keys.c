/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys that a queue's target receives (RDMA Transport 1.0, section 2.3.2, keyed SGL descriptors): how each is
 * created and ended.
 *
 * The windows of a queue are created when it connects.  A bind is posted with its command, before it, so the key is
 * valid when the target receives it; the target invalidates it with the response, or otherwise a local invalidation
 * does, and the command is complete after that.  Runs on the thread that polls the queue's group.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>

/* ---- windows ---- */

static void keys_windows_free(struct host_queue *q)
{
	for (unsigned i = 0; q->windows && i < q->depth; i++)
		if (q->windows[i].mw)
			ibv_dealloc_mw(q->windows[i].mw);
	free(q->windows);
	q->windows = NULL;
}

/* -1 with errno: out of memory.  0 without windows if the device has no more of them. */
static int keys_windows_alloc(struct host_queue *q)
{
	q->windows = calloc(q->depth, sizeof(*q->windows));
	if (!q->windows)
		return -1;
	for (unsigned i = 0; i < q->depth; i++) {
		struct host_window *w = &q->windows[i];

		w->mw = ibv_alloc_mw(q->device->pd, IBV_MW_TYPE_2);
		if (!w->mw) {
			keys_windows_free(q);
			return 0;
		}
		w->bind.next = &q->slots[i].wr;
		w->bind.opcode = IBV_WR_BIND_MW;
		w->bind.bind_mw.mw = w->mw;
	}
	return 0;
}

/*
 * Work requests of a command are its bind, its capsule and its invalidation; further ones have ended but are not
 * retired.
 */
static void keys_send_depth(struct host_queue *q, unsigned requests)
{
	q->unretired_max = 4 * HOST_SIGNAL_EVERY;
	q->send_depth = requests * q->size + q->unretired_max + HOST_NUDGES;
	/* on this device the response alone shows that the sends have ended */
	if (q->verbs->sends_complete_inline)
		q->unretired_max = UINT32_MAX;
}

int host_keys_build(struct host_queue *queue)
{
	struct host_queue *q = queue;

	q->sent = q->retired = q->unsignalled = 0;
	/* without windows, or when the device has no more of them, each command's data is registered */
	keys_send_depth(q, 3);
	if (q->device->windows && q->send_depth <= (unsigned)q->device->attr.max_qp_wr && keys_windows_alloc(q))
		return -1;
	if (!q->windows)
		keys_send_depth(q, 1);
	return 0;
}

void host_keys_unbuild(struct host_queue *queue)
{
	for (unsigned i = 0; queue->slots && i < queue->depth; i++)
		host_keys_revoke(queue, &queue->slots[i]);
	keys_windows_free(queue);
}

/* ---- a command's key ---- */

static int keys_register(struct host_queue *q, struct host_slot *s, const struct host_data *data,
			 struct nvme_sgl *sgl)
{
	const struct host_device *d = q->device;

	s->mr = d->verbs->reg_mr(d->pd, data->addr, data->length,
				 data->to_device ? IBV_ACCESS_REMOTE_READ :
						   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!s->mr)
		return errno ? -errno : -ENOMEM;
	s->key = s->mr->rkey;
	/* the peer can invalidate windows only, so the descriptor does not request it */
	nvme_sgl_set_keyed(sgl, (uintptr_t)data->addr, data->length, s->key, NVME_SGL_KEYED);
	return 0;
}

int host_keys_give(struct host_queue *queue, struct host_slot *slot, const struct host_data *data,
		   struct nvme_sgl *sgl, struct ibv_send_wr **first)
{
	const struct host_memory *m = data->memory;
	struct host_window *w;

	if (m->source) {
		nvme_sgl_set_keyed(sgl, (uintptr_t)data->addr, data->length,
				   data->to_device ? m->source->rkey : m->mr->rkey, NVME_SGL_KEYED);
		return 0;
	}
	if (!queue->windows)
		return keys_register(queue, slot, data, sgl);
	w = &queue->windows[slot - queue->slots];
	slot->key = ibv_inc_rkey(w->mw->rkey);
	w->bind.bind_mw.rkey = slot->key;
	w->bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = m->mr,
		.addr = (uintptr_t)data->addr,
		.length = data->length,
		.mw_access_flags = data->to_device ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
	};
	nvme_sgl_set_keyed(sgl, (uintptr_t)data->addr, data->length, slot->key, NVME_SGL_KEYED_INVALIDATE);
	*first = &w->bind;
	return 0;
}

/* The window can be bound again, under its next key. */
static void keys_ended(struct host_queue *q, struct host_slot *s)
{
	q->windows[s - q->slots].mw->rkey = s->key;
	s->key = 0;
}

void host_keys_end(struct host_queue *queue, struct host_slot *slot, bool by_peer)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = (slot->wr.wr_id & ~(uint64_t)HOST_WR_KIND) | HOST_WR_INVALIDATE,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = slot->key,
	};

	if (slot->mr) {
		host_keys_revoke(queue, slot);
		return;
	}
	if (by_peer) {
		keys_ended(queue, slot);
		return;
	}
	slot->waits |= SLOT_INVALIDATE;
	slot->invalidated = ++queue->sent;

	const int ret = ibv_post_send(queue->id->qp, &wr, &bad);

	if (ret)
		host_queue_lose(queue, "cannot invalidate a key: %s", strerror(ret));
}

void host_keys_revoke(struct host_queue *queue, struct host_slot *slot)
{
	struct host_window *w;

	if (!slot->key)
		return;
	slot->key = 0;
	if (slot->mr) {
		queue->verbs->dereg_mr(slot->mr);
		slot->mr = NULL;
		return;
	}
	w = &queue->windows[slot - queue->slots];
	ibv_dealloc_mw(w->mw);
	w->mw = NULL;
}
