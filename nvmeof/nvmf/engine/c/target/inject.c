/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults on purpose.
 *
 * A queue pair has a bitmap of injections.  It is 0 unless faults were requested, and then a command costs one load
 * from a cache line that is in use anyway and one branch.  An injection does not change while reactors see it; it is
 * freed after a message has passed through each reactor's mailbox.  Whether and how a command is hit depends only on
 * the seed and on the command's number among those that the injection concerns, so that a run can be repeated.
 *
 * Commands that wait are in the reactor's heap, ordered by time; those without a time are at its end.  They have not
 * begun: they hold no namespace, no buffer and no latch.  Commands of fused pairs and of Fabrics are never hit.
 *
 * A torn write runs with fewer blocks (io.c), and ends with the status of inject_torn() (request.c).
 */
#include "target/calls.h"
#include "target/inject.h"

#include <errno.h>
#include <stdlib.h>

#define NS_PER_S 1000000000ull
#define NEVER UINT64_MAX

enum { ASYNC_EVENT_REQUEST = 0x0c };	/* of an admin queue: it waits in any case */

struct injection_mail {
	struct mail mail;
	struct target_injection *of;
};

struct target_injection {
	struct target_inject_options options;
	struct target *target;
	struct target_injection *next;		/* control: in target->injections */
	unsigned slot;
	struct target_upcall spent, gone;
	_Alignas(CACHE_LINE) _Atomic uint64_t matched;
	_Atomic uint64_t hits;
	_Atomic uint64_t used_up_to;		/* ns: the time until which the admitted commands use the bandwidth */
	_Atomic unsigned left;			/* reactors that may still use it */
	struct injection_mail mail[];		/* per reactor */
};

/* ---- decisions ---- */

/* The finalizer of splitmix64: every bit of the result depends on every bit of x. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint32_t blocks_of(const struct nvme_sqe *sqe)
{
	return (sqe->cdw12 & 0xffff) + 1;
}

static bool touches(const struct target_inject_options *options, const struct nvme_sqe *sqe)
{
	uint64_t slba = sqe->cdw10 | (uint64_t)sqe->cdw11 << 32, blocks = blocks_of(sqe);

	switch (sqe->opc) {
	case NVME_OPC_FLUSH:
	case NVME_OPC_DSM:
	case NVME_OPC_COPY:
		return false;
	default:
		return slba < options->slba ? options->slba - slba < blocks
					    : slba - options->slba < options->blocks;
	}
}

static bool concerns(const struct target_inject_options *options, const struct nvme_sqe *sqe)
{
	return options->opcodes[sqe->opc >> 6] >> (sqe->opc & 63) & 1 &&
	       (!options->nsid || options->nsid == sqe->nsid) &&
	       (options->kind != TARGET_INJECT_TORN ||
		(sqe->opc == NVME_OPC_WRITE && blocks_of(sqe) > 1)) &&
	       (!options->blocks || touches(options, sqe));
}

static bool count_hit(struct target_injection *injection)
{
	uint64_t count = injection->options.count, before;

	if (count && atomic_load_explicit(&injection->hits, memory_order_relaxed) >= count)
		return false;
	before = atomic_fetch_add_explicit(&injection->hits, 1, memory_order_relaxed);
	if (count && before + 1 == count)
		target_post_upcall(injection->target, &injection->spent);
	return !count || before < count;
}

/* Time until this many bytes are within the bandwidth. */
static uint64_t take_bandwidth(struct target_injection *injection, uint64_t bytes, uint64_t now)
{
	uint64_t cost = bytes * NS_PER_S / injection->options.bandwidth;
	uint64_t used = atomic_load_explicit(&injection->used_up_to, memory_order_relaxed), next;

	do
		next = (used > now ? used : now) + cost;
	while (!atomic_compare_exchange_weak(&injection->used_up_to, &used, next));
	return next - now;
}

struct outcome {
	enum target_inject_kind kind;
	uint16_t status;
	uint8_t slot;			/* of the injection that hangs it */
	uint64_t delay;			/* ns */
};

/* The number of blocks that are written, from 1 to all but one, depends on the seed, too. */
static void tear(struct target_request *req, const struct target_inject_options *options,
		 const struct nvme_sqe *sqe, uint64_t draw)
{
	if (req->torn)
		return;
	req->torn = true;
	req->torn_blocks = 1 + (uint32_t)(mix(draw) % (blocks_of(sqe) - 1));
	req->torn_status = options->status;
}

/* Returns whether the injection hits the command; if so, adds its effects. */
static bool meet(struct target_injection *injection, struct target_request *req,
		 const struct nvme_sqe *sqe, struct outcome *outcome)
{
	const struct target_inject_options *options = &injection->options;
	uint64_t number, draw;

	if (!concerns(options, sqe))
		return false;
	number = atomic_fetch_add_explicit(&injection->matched, 1, memory_order_relaxed);
	draw = mix(options->seed + (number + 1) * 0x9e3779b97f4a7c15ull);
	if (number < options->after || draw >> 32 >= options->threshold || !count_hit(injection))
		return false;
	if (options->kind == TARGET_INJECT_TORN) {
		tear(req, options, sqe, draw);
		return true;
	}
	if (options->kind > outcome->kind) {
		outcome->kind = options->kind;
		outcome->slot = (uint8_t)injection->slot;
	}
	if (!outcome->status)
		outcome->status = options->status;
	outcome->delay += options->delay_us[draw & (TARGET_INJECT_DELAYS - 1)] * 1000ull;
	if (options->bandwidth)
		outcome->delay += take_bandwidth(injection, req->sgl_length,
						 reactor_now(req->qp->reactor));
	return true;
}

/* ---- commands ---- */

static void inject_take(struct target_request *req)
{
	heap_remove(&req->qp->reactor->injected, &req->held.node);
	req->qp->injected_count--;
	req->state = REQUEST_BEGUN;
}

static void inject_run(struct target_request *req)
{
	uint16_t status = req->held.status;

	inject_take(req);
	if (req->qp->dead)
		request_free(req);
	else if (status)
		request_respond(req, status);
	else
		capsule_begin(req);
}

static void inject_hold(struct target_request *req, const struct outcome *outcome)
{
	struct reactor *reactor = req->qp->reactor;
	bool timed = outcome->kind == TARGET_INJECT_DELAY;

	req->state = REQUEST_INJECTED;
	req->held.status = outcome->status;
	req->held.slot = outcome->slot;
	req->held.hangs = outcome->kind == TARGET_INJECT_HANG;
	req->qp->injected_count++;
	heap_push(&reactor->injected, &req->held.node,
		  timed ? reactor_now(reactor) + outcome->delay : NEVER);
}

bool inject_command(struct target_request *req, const struct nvme_sqe *sqe, uint32_t slots)
{
	struct target *target = req->qp->target;
	struct outcome outcome = { .kind = TARGET_INJECT_DELAY };
	bool hit = false;

	if (sqe->opc == NVME_OPC_FABRICS ||
	    (!req->qp->options.qid && sqe->opc == ASYNC_EVENT_REQUEST))
		return false;
	for (; slots; slots &= slots - 1) {
		unsigned slot = (unsigned)__builtin_ctz(slots);
		struct target_injection *injection =
			atomic_load_explicit(&target->injection[slot], memory_order_acquire);

		if (injection)
			hit |= meet(injection, req, sqe, &outcome);
	}
	if (!hit)
		return false;
	if (outcome.kind == TARGET_INJECT_CUT) {
		qpair_fail(req->qp, "disconnected by the target: a fault on purpose (nvmeof target "
				    "fault)");
		request_free(req);
	} else if (outcome.kind != TARGET_INJECT_DELAY || outcome.delay) {
		req->sqe = *sqe;
		inject_hold(req, &outcome);
	} else if (outcome.status) {
		request_respond(req, outcome.status);
	} else {
		return false;
	}
	return true;
}

uint16_t inject_torn(struct target_request *req, uint16_t status)
{
	req->torn = false;
	if (status || req->qp->dead)	/* it has failed for another reason */
		return status;
	if (req->torn_status)
		return req->torn_status;
	qpair_fail(req->qp, "disconnected by the target after a torn write: a fault on purpose (nvmeof "
			    "target fault)");
	return NVME_INTERNAL_ERROR;
}

bool inject_serve(struct reactor *reactor)
{
	uint64_t now = clock_ns();
	bool work = false;

	while (reactor->injected && reactor->injected->due <= now) {
		inject_run(container_of(reactor->injected, struct target_request, held.node));
		work = true;
	}
	return work;
}

uint64_t inject_left(const struct reactor *reactor)
{
	uint64_t now;

	if (!reactor->injected || reactor->injected->due == NEVER)
		return NEVER;
	now = clock_ns();
	return reactor->injected->due > now ? reactor->injected->due - now : 0;
}

void inject_cancel(struct target_request *req, uint16_t status)
{
	inject_take(req);
	request_respond(req, status);
}

static bool hangs_by(const struct target_request *req, unsigned slot)
{
	return req->state == REQUEST_INJECTED && req->held.hangs && req->held.slot == slot;
}

static void inject_release(struct target_qpair *qp, unsigned slot)
{
	for (uint32_t i = 0; qp->injected_count && i < qp->request_fresh; i++)
		if (hangs_by(&qp->requests[i], slot))
			inject_run(&qp->requests[i]);
}

void inject_drop(struct target_qpair *qp)
{
	for (uint32_t i = 0; qp->injected_count && i < qp->request_fresh; i++)
		if (qp->requests[i].state == REQUEST_INJECTED) {
			inject_take(&qp->requests[i]);
			request_free(&qp->requests[i]);
		}
}

/* ---- control ---- */

static void injection_passed(struct reactor *reactor, struct mail *mail)
{
	struct target_injection *injection = container_of(mail, struct injection_mail, mail)->of;
	struct list_link *link, *next;

	for (link = reactor->qpairs.head; link; link = next) {
		next = link->next;
		inject_release(container_of(link, struct target_qpair, reactor_link),
			       injection->slot);
	}
	if (atomic_fetch_sub(&injection->left, 1) == 1)
		target_post_upcall(injection->target, &injection->gone);
}

static int free_slot(const struct target *target)
{
	uint32_t used = 0;

	for (const struct target_injection *i = target->injections; i; i = i->next)
		used |= 1u << i->slot;
	return used == UINT32_MAX ? -ENOSPC : __builtin_ctz(~used);
}

int target_inject_begin(struct target *target, const struct target_inject_options *options,
			void *cookie)
{
	size_t bytes = sizeof(struct target_injection) +
		       target->reactors * sizeof(struct injection_mail);
	int slot = free_slot(target);
	struct target_injection *made;

	if (slot < 0)
		return slot;
	bytes = (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	made = aligned_alloc(CACHE_LINE, bytes);
	if (!made)
		return -ENOMEM;
	*made = (struct target_injection){
		.options = *options,
		.target = target,
		.next = target->injections,
		.slot = (unsigned)slot,
		.spent = { .type = TARGET_UPCALL_INJECTED, .cookie = cookie },
		.gone = { .type = (enum target_upcall_type)TARGET_UPCALL_INJECTION_GONE,
			  .cookie = made },
	};
	target->injections = made;
	atomic_store(&target->injection[slot], made);
	return slot;
}

void target_inject_end(struct target *target, unsigned slot)
{
	struct target_injection *injection = atomic_exchange(&target->injection[slot], NULL);

	if (!injection)
		return;
	atomic_store(&injection->left, target->reactors);
	for (unsigned i = 0; i < target->reactors; i++) {
		injection->mail[i].of = injection;
		reactor_mail(target->reactor[i], &injection->mail[i].mail, injection_passed);
	}
}

void injection_gone(struct target *target, struct target_injection *injection)
{
	struct target_injection **p = &target->injections;

	while (*p && *p != injection)
		p = &(*p)->next;
	if (*p)
		*p = injection->next;
	target_free_later(target, injection);
}

void target_inject_counts(const struct target *target, unsigned slot, uint64_t *matched,
			  uint64_t *hits)
{
	struct target_injection *injection = atomic_load(&target->injection[slot]);

	*matched = *hits = 0;
	if (!injection)
		return;
	*matched = atomic_load(&injection->matched);
	*hits = atomic_load(&injection->hits);
}

void target_qpair_inject(struct target_qpair *qp, uint32_t slots)
{
	atomic_store(&qp->injected, slots);
}

/* The reactors have ended. */
void injections_free_all(struct target *target)
{
	struct target_injection *injection;

	while ((injection = target->injections)) {
		target->injections = injection->next;
		free(injection);
	}
}
