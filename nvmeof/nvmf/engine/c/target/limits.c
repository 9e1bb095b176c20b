/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of a namespace: commands and bytes a second, and the lines of commands over them.
 *
 * A limit is one word shared by the reactors: the time until which the admitted commands use the limit.  A command is
 * admitted if that time is at most one burst ahead of now, and advances it by the command's cost.  So there is no
 * timer, a large command is never blocked forever (it delays the next ones), and a namespace that was idle has at most
 * one burst.  If two reactors check at the same time, both may admit a command: at most one extra command per reactor,
 * which delays later ones.
 *
 * Commands over the limit wait in their reactor's lines: one for each direction that has limits of its own, which must
 * not delay the other direction, and one for commands with the common limits only.  A line has one place for each queue
 * pair, where all its commands wait.  Places are served in the order in which they were taken, a queue pair's next
 * command takes the last one, so that a deep queue gets no more than a shallow one.  Reactor's thread, except the
 * functions of target.h.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdlib.h>

#define NS_PER_S 1000000000ull
#define MIN_BURST_MS 10		/* a sleeping reactor checks once a millisecond */

enum { DIR_READ, DIR_WRITE, DIR_BOTH, DIRS = LIMIT_LINES };
enum { UNIT_COMMANDS, UNIT_BYTES, UNITS };

struct limit {
	_Atomic uint64_t rate;		/* a second; 0: none */
	_Atomic uint64_t used_up_to;	/* ns */
};

struct ns_limits {
	struct limit limit[DIRS][UNITS];
	_Atomic uint64_t burst;		/* ns */
};

/* ---- admission ---- */

static int limit_direction(const struct target_request *req)
{
	switch (req->opcode) {
	case NVME_OPC_WRITE:
	case NVME_OPC_WRITE_ZEROES:
	case NVME_OPC_COPY:
		return DIR_WRITE;
	default:
		return DIR_READ;
	}
}

/* A command for which no data is read or written costs no bandwidth. */
static uint64_t limit_units(const struct target_request *req, int unit)
{
	if (unit == UNIT_COMMANDS)
		return 1;
	if (req->opcode == NVME_OPC_VERIFY && !store_verify_reads(req->ns->store))
		return 0;
	return req->opcode == NVME_OPC_WRITE_ZEROES ? 0 : req->length;
}

static bool limit_has_room(struct limit *limit, uint64_t now, uint64_t burst)
{
	return !atomic_load_explicit(&limit->rate, memory_order_relaxed) ||
	       atomic_load_explicit(&limit->used_up_to, memory_order_relaxed) <= now + burst;
}

static void limit_charge(struct limit *limit, uint64_t count, uint64_t now)
{
	uint64_t rate = atomic_load_explicit(&limit->rate, memory_order_relaxed);
	uint64_t used = atomic_load_explicit(&limit->used_up_to, memory_order_relaxed), next;

	if (!rate)
		return;
	do
		next = (used > now ? used : now) + count * NS_PER_S / rate;
	while (!atomic_compare_exchange_weak(&limit->used_up_to, &used, next));
}

static bool limits_admit(const struct target_request *req, uint64_t now)
{
	struct ns_limits *limits = req->ns->limits;
	uint64_t burst = atomic_load_explicit(&limits->burst, memory_order_relaxed);
	int dirs[] = { limit_direction(req), DIR_BOTH };
	/* The first piece of a Verify counts as a command, later ones do not. */
	int first = req->opcode == NVME_OPC_VERIFY && req->verified ? UNIT_BYTES : UNIT_COMMANDS;

	for (int d = 0; d < 2; d++)
		for (int unit = first; unit < UNITS; unit++)
			if (!limit_has_room(&limits->limit[dirs[d]][unit], now, burst))
				return false;
	for (int d = 0; d < 2; d++)
		for (int unit = first; unit < UNITS; unit++)
			limit_charge(&limits->limit[dirs[d]][unit], limit_units(req, unit), now);
	return true;
}

static void limit_give_back(struct limit *limit, uint64_t count)
{
	uint64_t rate = atomic_load_explicit(&limit->rate, memory_order_relaxed), cost, next;
	uint64_t used = atomic_load_explicit(&limit->used_up_to, memory_order_relaxed);

	if (!rate)
		return;
	cost = count * NS_PER_S / rate;
	do
		next = used > cost ? used - cost : 0;	/* it may have been set to 0 since */
	while (!atomic_compare_exchange_weak(&limit->used_up_to, &used, next));
}

void limits_give_back(const struct target_request *req, uint64_t bytes)
{
	if (!atomic_load_explicit(&req->ns->limited, memory_order_acquire))
		return;
	limit_give_back(&req->ns->limits->limit[limit_direction(req)][UNIT_BYTES], bytes);
	limit_give_back(&req->ns->limits->limit[DIR_BOTH][UNIT_BYTES], bytes);
}

/* ---- the lines ---- */

static bool limit_is_set(const struct limit limit[UNITS])
{
	return atomic_load_explicit(&limit[UNIT_COMMANDS].rate, memory_order_relaxed) ||
	       atomic_load_explicit(&limit[UNIT_BYTES].rate, memory_order_relaxed);
}

static uint8_t limits_line(const struct target_request *req)
{
	int direction = limit_direction(req);

	return (uint8_t)(limit_is_set(req->ns->limits->limit[direction]) ? direction : DIR_BOTH);
}

static bool limits_waiting(const struct ns_local *local)
{
	return local->over[DIR_READ].head || local->over[DIR_WRITE].head || local->over[DIR_BOTH].head;
}

/* Whether others wait for a limit that the command needs: it must not overtake them. */
static bool limits_others(const struct ns_local *local, const struct target_request *req)
{
	return local->over[limits_line(req)].head ||
	       (limits_waiting(local) && limit_is_set(req->ns->limits->limit[DIR_BOTH]));
}

/* The first request in the lines, except the blocked ones (a bit each), or NULL. */
static struct target_request *limits_first(const struct ns_local *local, unsigned int blocked)
{
	struct target_request *found = NULL;

	for (unsigned int line = 0; line < LIMIT_LINES; line++) {
		struct list_link *place = local->over[line].head;
		struct target_request *first;

		if (!place || (blocked & 1u << line))
			continue;
		first = container_of(place, struct target_request, over_place);
		if (!found || first->over_number < found->over_number)
			found = first;
	}
	return found;
}

/* The request of the same queue pair that waits in the same line of the namespace, or NULL. */
static struct target_request *limits_own_place(const struct target_request *req)
{
	for (struct list_link *link = req->qp->over.head; link; link = link->next) {
		struct target_request *first = container_of(link, struct target_request, over_own);

		if (first->ns == req->ns && first->over_line == req->over_line)
			return first;
	}
	return NULL;
}

static void limits_take_place(struct ns_local *local, struct target_request *req)
{
	req->over_number = local->over_places++;
	line_push(&local->over[req->over_line], &req->over_place);
	list_push(&req->qp->over, &req->over_own);
}

static void limits_stand(struct reactor *reactor, struct ns_local *local,
			 struct target_request *req)
{
	struct target_request *first;

	req->over_line = limits_line(req);
	first = limits_own_place(req);
	req->state = REQUEST_LIMITED;
	stat_add(&local->throttled, 1);
	if (first) {
		fifo_push(&first->behind, &req->tx.link);
		return;
	}
	fifo_init(&req->behind);
	limits_take_place(local, req);
	if (!list_has(&local->limited_link))
		list_push(&reactor->limited, &local->limited_link);
}

/* Remove the first request of a queue pair from the line; its next request takes the last place. */
static void limits_leave(struct ns_local *local, struct target_request *first)
{
	struct fifo_link *link = fifo_pop(&first->behind);

	list_remove(&first->over_own);
	line_remove(&local->over[first->over_line], &first->over_place);
	if (link) {
		struct target_request *next = container_of(link, struct target_request, tx.link);

		fifo_move(&next->behind, &first->behind);
		limits_take_place(local, next);
	}
	first->state = REQUEST_BEGUN;
}

bool limits_wait(struct target_request *req, const struct nvme_sqe *sqe)
{
	struct ns_local *local = namespace_local(req);

	if (req->admitted || (!limits_others(local, req) && limits_admit(req, clock_ns())))
		return false;
	req->sqe = *sqe;
	limits_stand(req->qp->reactor, local, req);
	return true;
}

/* Begin the command again: gates, namespace and size may have changed. */
static void limits_run(struct target_request *req)
{
	if (req->qp->dead) {
		request_free(req);
		return;
	}
	namespace_put(req);
	req->validates = false;
	/* A fence does not wait for this command: after a shutdown or Disconnect it must not run. */
	if (!atomic_load_explicit(&req->qp->enabled, memory_order_acquire)) {
		request_respond(req, NVME_COMMAND_SEQUENCE_ERROR | NVME_DNR);
		return;
	}
	req->admitted = true;
	io_command(req, &req->sqe);
	req->admitted = false;	/* the request may already be used by a different command that has not begun */
}

static void limits_serve_lines(struct ns_local *local, uint64_t now)
{
	struct target_request *first;
	unsigned int blocked = 0;

	while ((first = limits_first(local, blocked))) {
		if (!local->retiring && !limits_admit(first, now)) {
			blocked |= 1u << first->over_line;
			continue;
		}
		limits_leave(local, first);
		limits_run(first);
	}
}

/* Serve each namespace with a line once; remove those with an empty line from the reactor's list. */
void limits_serve(struct reactor *reactor)
{
	struct list all = reactor->limited;
	struct list_link *link;
	uint64_t now = clock_ns();

	reactor->limited.head = NULL;
	if (all.head)
		all.head->prev = &all.head;
	while ((link = all.head)) {
		struct ns_local *local = container_of(link, struct ns_local, limited_link);

		list_remove(link);
		local->inflight++;	/* the namespace may retire with its last request: prevent that for now */
		limits_serve_lines(local, now);
		if (limits_waiting(local) && !list_has(link))
			list_push(&reactor->limited, link);
		namespace_leave(local->ns, local);
	}
}

/* Remove all requests of a queue pair whose connection has ended. */
void limits_drop(struct target_qpair *qp)
{
	while (qp->over.head) {
		struct target_request *first = container_of(qp->over.head, struct target_request,
							    over_own);
		struct ns_local *local = namespace_local(first);

		limits_leave(local, first);
		if (!limits_waiting(local))
			list_remove(&local->limited_link);
		request_free(first);	/* the namespace may retire with it */
	}
}

void limits_cancel(struct target_request *req, uint16_t status)
{
	struct ns_local *local = namespace_local(req);
	struct target_request *first = limits_own_place(req);

	if (first == req)
		limits_leave(local, req);
	else
		fifo_remove(&first->behind, &req->tx.link);
	if (!limits_waiting(local))
		list_remove(&local->limited_link);
	request_respond(req, status);
}

/* ---- from the control thread ---- */

static void limit_set(struct limit *limit, uint64_t rate)
{
	atomic_store(&limit->rate, rate);
	atomic_store(&limit->used_up_to, 0);
}

int target_namespace_limits(struct target_namespace *ns, const struct target_limits *wanted)
{
	const uint64_t rates[DIRS][UNITS] = {
		{ wanted->read_iops, wanted->read_bandwidth },
		{ wanted->write_iops, wanted->write_bandwidth },
		{ wanted->iops, wanted->bandwidth },
	};
	uint64_t burst = wanted->burst_ms < MIN_BURST_MS ? MIN_BURST_MS : wanted->burst_ms;
	struct ns_limits *limits = ns->limits;
	bool any = false;

	if (!limits)
		limits = aligned_alloc(CACHE_LINE, (sizeof(*limits) + CACHE_LINE - 1) &
							   ~(size_t)(CACHE_LINE - 1));
	if (!limits)
		return -ENOMEM;
	if (!ns->limits)	/* reactors read it once it is there */
		ns->limits = limits;
	atomic_store(&limits->burst, burst * (NS_PER_S / 1000));
	for (int d = 0; d < DIRS; d++)
		for (int unit = 0; unit < UNITS; unit++) {
			limit_set(&limits->limit[d][unit], rates[d][unit]);
			any |= rates[d][unit] != 0;
		}
	/* Waiting requests are released according to the rates, even if ns->limited is false. */
	atomic_store(&ns->limited, any);
	return 0;
}
