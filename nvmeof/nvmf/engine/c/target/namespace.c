/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces, and the tables through which hosts see them, on the control thread.
 *
 * Reactors look a namespace up with one atomic load and count their requests in progress on it in a cache line of
 * their own.  A namespace is removed in these steps: clear its entry in the last table that contains it, pass every
 * reactor's mailbox once, and wait on each reactor until its count is zero.  Then no reactor can reach it, and the
 * upcall RETIRED is posted.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- namespaces ---- */

struct target_namespace *target_namespace_create(struct target *target, uint32_t nsid,
						 struct store *store, char *err, size_t len)
{
	size_t size = sizeof(struct target_namespace) + target->reactors * sizeof(struct ns_local);
	struct target_namespace *ns;
	struct ns_barrier *barrier;

	if (!nsid || nsid == 0xffffffff) {
		snprintf(err, len, "invalid namespace ID %u", nsid);
		errno = EINVAL;
		return NULL;
	}
	ns = aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
	barrier = calloc(target->reactors, sizeof(*barrier));
	if (!ns || !barrier) {
		free(ns);
		free(barrier);
		snprintf(err, len, "namespace %u: out of memory", nsid);
		errno = ENOMEM;
		return NULL;
	}
	memset(ns, 0, size);
	ns->target = target;
	ns->reactors = target->reactors;
	ns->nsid = nsid;
	ns->store = store;
	ns->block_shift = (uint8_t)__builtin_ctz(store->block_size);
	ns->memory = store->map != NULL;
	ns->latched = store->kind != STORE_NULL;
	ns->barrier = barrier;
	atomic_store(&ns->blocks, store->size >> ns->block_shift);
	for (unsigned i = 0; i < target->reactors; i++) {
		ns->local[i].ns = ns;
		for (int line = 0; line < LIMIT_LINES; line++)
			line_init(&ns->local[i].over[line]);
		fifo_init(&ns->local[i].pool_line);
	}
	if (latches_create(ns)) {
		latches_free(ns);
		free(ns);
		free(barrier);
		snprintf(err, len, "namespace %u: out of memory", nsid);
		errno = ENOMEM;
		return NULL;
	}
	windows_open(ns);
	ns->next = target->namespaces;
	target->namespaces = ns;
	return ns;
}

/* Free what remains when no device has its memory registered. */
void namespace_free(struct target_namespace *ns)
{
	invalid_forget(ns);
	latches_free(ns);
	free(ns->barrier);
	free(ns->limits);
	ns->barrier = NULL;
	ns->limits = NULL;
}

static void namespace_close_job(struct job *job)
{
	struct target_namespace *ns = container_of(job, struct target_namespace, close_job);

	windows_close(ns);
	ns->freed_upcall = (struct target_upcall){ .type = TARGET_UPCALL_FREED, .ns = ns };
	target_post_upcall(ns->target, &ns->freed_upcall);
}

bool target_namespace_destroy(struct target_namespace *ns)
{
	struct target *target = ns->target;
	struct target_namespace **p = &target->namespaces;
	bool pinned = false;

	while (*p && *p != ns)
		p = &(*p)->next;
	if (*p)
		*p = ns->next;
	for (const struct target_device *device = target->devices; device; device = device->next)
		pinned |= device->verbs->pins_memory;
	if (pinned && target->memory) {
		background_post(target->memory, &ns->close_job, namespace_close_job);
		return false;
	}
	windows_close(ns);
	namespace_free(ns);
	free(ns);
	return true;
}

/* The reactors have ended. */
void namespace_free_all(struct target *target)
{
	gates_free_all(target);
	fences_free_all(target);
	aborts_free_all(target);
	invalid_free_all(target);
	while (target->tables)
		target_nstable_destroy(target->tables);
	while (target->namespaces)
		target_namespace_destroy(target->namespaces);
	target_drain_upcalls(target);
}

void target_namespace_resized(struct target_namespace *ns)
{
	atomic_store(&ns->blocks, ns->store->size >> ns->block_shift);
}

void target_namespace_stats(const struct target_namespace *ns, struct target_namespace_stats *stats)
{
	*stats = (struct target_namespace_stats){ 0 };
	for (unsigned i = 0; i < ns->reactors; i++) {
		const struct ns_local *local = &ns->local[i];

		stats->reads += stat_read(&local->reads);
		stats->writes += stat_read(&local->writes);
		stats->read_bytes += stat_read(&local->read_bytes);
		stats->write_bytes += stat_read(&local->write_bytes);
		stats->errors += stat_read(&local->errors);
		stats->media_errors += stat_read(&local->media_errors);
		stats->throttled += stat_read(&local->throttled);
		stats->flushes += stat_read(&local->flushes);
		stats->compares += stat_read(&local->compares);
		stats->verifies += stat_read(&local->verifies);
		stats->zeroes += stat_read(&local->zeroes);
		stats->deallocates += stat_read(&local->deallocates);
		stats->checked_bytes += stat_read(&local->checked_bytes);
		stats->copies += stat_read(&local->copies);
		stats->copied_bytes += stat_read(&local->copied_bytes);
	}
}

uint64_t target_namespace_busy(const struct target_namespace *ns, unsigned reactor)
{
	const struct ns_local *local = &ns->local[reactor];
	uint64_t since = __atomic_load_n(&local->busy_since, __ATOMIC_RELAXED);
	uint64_t now = since ? clock_ns() : 0;

	return stat_read(&local->busy_ns) + (now > since ? now - since : 0);
}

void target_namespace_latency(const struct target_namespace *ns, struct target_latency *latency)
{
	*latency = (struct target_latency){ 0 };
	for (unsigned i = 0; i < ns->reactors; i++) {
		const struct target_latency *local = &ns->local[i].latency;

		for (unsigned k = 0; k < TARGET_LATENCY_BUCKETS; k++) {
			latency->read[k] += stat_read(&local->read[k]);
			latency->write[k] += stat_read(&local->write[k]);
		}
		latency->read_ns += stat_read(&local->read_ns);
		latency->write_ns += stat_read(&local->write_ns);
	}
}

/* ---- store failures ---- */

/* Reactor.  If several commands fail at the same time, only the first is reported. */
void namespace_failed(const struct target_request *req, uint16_t status)
{
	struct target_namespace *ns = req->ns;

	if (atomic_load_explicit(&ns->faulted, memory_order_relaxed) ||
	    atomic_exchange(&ns->faulted, true))
		return;
	ns->fault = (struct target_fault){
		.offset = req->length ? req->offset : 0,
		.length = req->length,
		.error = __atomic_exchange_n(&ns->store->last_error, 0, __ATOMIC_RELAXED),
		.status = status,
		.opcode = req->opcode,
	};
	ns->fault_upcall = (struct target_upcall){ .type = TARGET_UPCALL_FAULTED, .ns = ns };
	target_post_upcall(ns->target, &ns->fault_upcall);
}

const struct target_fault *target_namespace_fault(const struct target_namespace *ns)
{
	return &ns->fault;
}

void target_namespace_rearm(struct target_namespace *ns)
{
	atomic_store(&ns->faulted, false);
}

/* ---- tables ---- */

struct target_nstable *target_nstable_create(struct target *target, uint32_t max_nsid)
{
	struct target_nstable *table;

	if (!max_nsid) {
		errno = EINVAL;
		return NULL;
	}
	table = calloc(1, sizeof(*table) + ((size_t)max_nsid + 1) * sizeof(table->ns[0]));
	if (!table)
		return NULL;
	table->target = target;
	table->max_nsid = max_nsid;
	table->next = target->tables;
	target->tables = table;
	return table;
}

void target_nstable_destroy(struct target_nstable *table)
{
	struct target_nstable **p = &table->target->tables;

	while (*p && *p != table)
		p = &(*p)->next;
	if (*p)
		*p = table->next;
	for (uint32_t i = 1; i <= table->max_nsid; i++) {
		struct target_namespace *ns = atomic_load(&table->ns[i]);

		if (ns)
			ns->tables--;
	}
	free(table);
}

/* On a reactor: it has no request in progress on the namespace, and cannot find it again. */
void namespace_unused(struct target_namespace *ns, struct ns_local *local)
{
	store_ring_forget(ns->target->reactor[local - ns->local]->ring, ns->store);
	local->retiring = false;
	if (atomic_fetch_sub(&ns->barriers_left, 1) == 1)
		target_post_upcall(ns->target, &ns->upcall);
}

static void barrier_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_namespace *ns = container_of(mail, struct ns_barrier, mail)->ns;
	struct ns_local *local = &ns->local[reactor->index];

	if (local->inflight)
		local->retiring = true;
	else
		namespace_unused(ns, local);
}

static void namespace_retire_now(struct target_namespace *ns)
{
	struct target *target = ns->target;

	ns->retiring = true;
	ns->upcall = (struct target_upcall){ .type = TARGET_UPCALL_RETIRED, .ns = ns };
	atomic_store(&ns->barriers_left, target->reactors);
	for (unsigned i = 0; i < target->reactors; i++) {
		ns->barrier[i].ns = ns;
		reactor_mail(target->reactor[i], &ns->barrier[i].mail, barrier_deliver);
	}
}

int target_nstable_set(struct target_nstable *table, uint32_t nsid, struct target_namespace *ns)
{
	struct target_namespace *old;

	if (!nsid || nsid > table->max_nsid || (ns && ns->nsid != nsid))
		return -EINVAL;
	if (ns && (ns->retiring || atomic_load(&table->ns[nsid]) == ns))
		return -EBUSY;
	if (ns)
		ns->tables++;
	old = atomic_exchange(&table->ns[nsid], ns);
	if (old && !--old->tables)
		namespace_retire_now(old);
	return 0;
}
