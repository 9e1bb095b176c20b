/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues.  Owns the ring of completions.  A thread that polls an empty one receives for the attached queue
 * pairs (turn.c), on the application's thread.
 */
#include "cq.h"
#include "stats.h"
#include "util/fifo.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static bool member_armed(struct iw_member *member)
{
	return iw_cq_armed(container_of(member, struct iw_cq, member));
}

static void member_receive(struct iw_member *member)
{
	iw_cq_progress(container_of(member, struct iw_cq, member), true);
}

static const struct iw_member_calls member_calls = { member_armed, member_receive };

struct ibv_cq *iw_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector)
{
	uint32_t size = 16;

	if (cqe < 1 || cqe > IW_MAX_CQE || comp_vector != 0) {
		errno = EINVAL;
		return NULL;
	}
	while (size < (uint32_t)cqe)
		size *= 2;

	struct iw_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->ring = malloc(size * sizeof(*cq->ring));
	cq->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (!cq->ring || cq->epfd < 0)
		goto fail;
	cq->mask = size - 1;
	line_init(&cq->ready);
	cq->patience = 1;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = (int)size;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	cq->member.cq = &cq->cq;
	cq->member.epfd = cq->epfd;
	cq->member.calls = &member_calls;
	if (channel && iw_chan_join((struct iw_chan *)channel, &cq->member))
		goto fail;
	iw_live.cq++;
	return &cq->cq;
fail:;
	int e = errno;

	if (cq->epfd >= 0)
		close(cq->epfd);
	free(cq->ring);
	free(cq);
	errno = e;
	return NULL;
}

int iw_destroy_cq(struct ibv_cq *ibcq)
{
	struct iw_cq *cq = iw_cq(ibcq);

	if (atomic_load(&cq->users))
		return EBUSY;
	if (ibcq->channel)
		iw_chan_leave((struct iw_chan *)ibcq->channel, &cq->member);
	close(cq->epfd);
	pthread_cond_destroy(&ibcq->cond);
	pthread_mutex_destroy(&ibcq->mutex);
	free(cq->staging);
	free(cq->ring);
	free(cq);
	iw_live.cq--;
	return 0;
}

/* Double the ring; false if there is no memory. */
static bool cq_grow(struct iw_cq *cq)
{
	uint32_t head = cq->head, tail = cq->tail, size = (cq->mask + 1) * 2;
	struct ibv_wc *ring = malloc(size * sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = tail; i != head; i++)
		ring[i & (size - 1)] = cq->ring[i & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = size - 1;
	return true;
}

int iw_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct iw_cq *cq = iw_cq(ibcq);
	bool grown = true;

	if (cqe < 1 || cqe > IW_MAX_CQE)
		return EINVAL;
	/* the ring grows on demand: it is never made smaller */
	iw_lock(&cq->ring_lock);
	while (grown && cq->mask + 1 < (uint32_t)cqe)
		grown = cq_grow(cq);
	ibcq->cqe = (int)(cq->mask + 1);
	iw_unlock(&cq->ring_lock);
	return grown ? 0 : ENOMEM;
}

void iw_cq_push(struct iw_cq *cq, const struct ibv_wc *wc, unsigned int n, bool solicited)
{
	bool notify = false;

	iw_lock(&cq->ring_lock);

	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	while (head + n - atomic_load_explicit(&cq->tail, memory_order_relaxed) > cq->mask + 1)
		if (!cq_grow(cq))	/* a full ring is an error of the application */
			abort();	/* a lost completion would corrupt memory later */
	for (unsigned int i = 0; i < n; i++)
		cq->ring[head++ & cq->mask] = wc[i];
	atomic_store_explicit(&cq->head, head, memory_order_release);
	if (cq->armed == IW_ARMED ||
	    (cq->armed == IW_ARMED_SOLICITED && (solicited || wc->status != IBV_WC_SUCCESS))) {
		cq->armed = IW_DISARMED;
		notify = true;
	}
	iw_unlock(&cq->ring_lock);
	if (notify)
		iw_chan_event((struct iw_chan *)cq->cq.channel, &cq->member);
}

void iw_cq_forget(struct iw_cq *cq, uint32_t qp_num)
{
	iw_lock(&cq->ring_lock);

	uint32_t to = cq->tail;

	for (uint32_t i = cq->tail; i != cq->head; i++)
		if (cq->ring[i & cq->mask].qp_num != qp_num)
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	atomic_store(&cq->head, to);
	iw_unlock(&cq->ring_lock);
}

bool iw_cq_armed(struct iw_cq *cq)
{
	iw_lock(&cq->ring_lock);

	bool armed = cq->armed != IW_DISARMED;

	iw_unlock(&cq->ring_lock);
	return armed;
}

int iw_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct iw_cq *cq = iw_cq(ibcq);

	if (!ibcq->channel)
		return EINVAL;
	iw_lock(&cq->ring_lock);
	if (cq->armed != IW_ARMED)
		cq->armed = solicited_only ? IW_ARMED_SOLICITED : IW_ARMED;
	iw_unlock(&cq->ring_lock);
	iw_cq_nap(cq);
	iw_chan_armed((struct iw_chan *)ibcq->channel, &cq->member);
	return 0;
}

static int cq_drain(struct iw_cq *cq, int num, struct ibv_wc *wc)
{
	int n = 0;

	if (atomic_load_explicit(&cq->head, memory_order_acquire) ==
	    atomic_load_explicit(&cq->tail, memory_order_relaxed))
		return 0;
	iw_lock(&cq->ring_lock);

	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	while (n < num && tail != head)
		wc[n++] = cq->ring[tail++ & cq->mask];
	if (tail == head) {	/* start at its beginning again, which is in the cache */
		tail = 0;
		atomic_store_explicit(&cq->head, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&cq->tail, tail, memory_order_relaxed);
	iw_unlock(&cq->ring_lock);
	return n;
}

int iw_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct iw_cq *cq = iw_cq(ibcq);
	int n;

	atomic_store_explicit(&cq->polls,
			      atomic_load_explicit(&cq->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (num <= 0)
		return num ? -1 : 0;
	n = cq_drain(cq, num, wc);
	if (n)
		return n;
	iw_cq_progress(cq, false);
	return cq_drain(cq, num, wc);
}
