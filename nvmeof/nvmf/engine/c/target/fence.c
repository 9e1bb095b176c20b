/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fences: wait for the commands that had begun before a change.
 *
 * A fence passes the mailbox of each queue pair's reactor: commands that begin after that see everything that was
 * stored before the fence was created.  On the reactor, the fence marks the requests in progress and counts them down
 * as they end.  A queue pair has one active fence at a time, and later ones wait for it, so a request needs only one
 * flag.  Reactor's thread, except the functions of target.h.
 */
#include "target/calls.h"

#include <stdlib.h>

static void entry_done(struct fence_entry *entry)
{
	struct target_fence *fence = entry->fence;

	if (atomic_fetch_sub(&fence->left, 1) == 1)
		target_post_upcall(fence->target, &fence->upcall);
}

static bool concerns(const struct target_fence *fence, const struct target_request *req)
{
	return req->ns && req->state != REQUEST_RESPONDING && req->state != REQUEST_LIMITED &&
	       (!fence->nsid || req->ns->nsid == fence->nsid);
}

static void mark(struct fence_entry *entry)
{
	struct target_qpair *qp = entry->qp;

	for (uint32_t i = 0; i < qp->request_fresh; i++) {
		struct target_request *req = &qp->requests[i];

		if (!concerns(entry->fence, req))
			continue;
		if (entry->fence->abort && request_cancel(req, entry->fence->abort))
			continue;
		req->fenced = true;
		entry->left++;
	}
}

/* The first fence has nothing left to wait for: complete it, and each next fence that is then complete as well. */
static void advance(struct target_qpair *qp)
{
	struct fence_entry *entry;

	while (qp->fences.head) {
		entry = container_of(qp->fences.head, struct fence_entry, link);
		if (entry->left)
			return;
		fifo_pop(&qp->fences);
		if (qp->fences.head)
			mark(container_of(qp->fences.head, struct fence_entry, link));
		entry_done(entry);
	}
}

/* The request no longer has a namespace, or is responding: the next fence does not wait for it. */
void fence_leave(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	req->fenced = false;
	container_of(qp->fences.head, struct fence_entry, link)->left--;
	advance(qp);
}

static void fence_deliver(struct reactor *reactor, struct mail *mail)
{
	struct fence_entry *entry = container_of(mail, struct fence_entry, mail);
	struct target_qpair *qp = entry->qp;
	bool first = !qp->fences.head;

	(void)reactor;
	fifo_push(&qp->fences, &entry->link);
	if (!first)
		return;
	mark(entry);
	advance(qp);
}

struct target_fence *target_fence_create(struct target *target, struct target_qpair *const *qpairs,
					 unsigned count, uint32_t nsid, uint16_t abort,
					 void *cookie)
{
	struct target_fence *fence = calloc(1, sizeof(*fence) + count * sizeof(fence->entry[0]));

	if (!fence)
		return NULL;
	fence->target = target;
	fence->nsid = nsid;
	fence->abort = abort;
	fence->upcall = (struct target_upcall){
		.type = TARGET_UPCALL_FENCED,
		.fence = fence,
		.cookie = cookie,
	};
	fence->next = target->fences;
	target->fences = fence;
	atomic_store(&fence->left, count);
	if (!count)
		target_post_upcall(target, &fence->upcall);
	for (unsigned i = 0; i < count; i++) {
		fence->entry[i].fence = fence;
		fence->entry[i].qp = qpairs[i];
		reactor_mail(qpairs[i]->reactor, &fence->entry[i].mail, fence_deliver);
	}
	return fence;
}

void target_fence_destroy(struct target_fence *fence)
{
	struct target_fence **p = &fence->target->fences;

	while (*p && *p != fence)
		p = &(*p)->next;
	if (*p)
		*p = fence->next;
	free(fence);
}

/* The reactors have ended. */
void fences_free_all(struct target *target)
{
	while (target->fences)
		target_fence_destroy(target->fences);
}
