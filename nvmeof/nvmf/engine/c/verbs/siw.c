/* SPDX-License-Identifier: BSD-3-Clause */
/* A workaround for siw; see siw.h.  Owns the completion queue of each context that is in use. */
#include "siw.h"

#include <pthread.h>
#include <stdlib.h>

#define SIW_VENDOR_ID 0x626d74	/* "bmt" */
#define SIW_BAD_KEY 0x90000	/* bytes into the context's mappings: SIW_INVAL_UOBJ_KEY */
#define SIW_CQE_BYTES 32
#define GUARD_ENTRIES (SIW_BAD_KEY / SIW_CQE_BYTES + 1)

struct guard {
	struct guard *next;
	struct ibv_context *context;
	struct ibv_cq *cq;
	unsigned int users;
};

static struct guard *guards;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct guard **find(struct ibv_context *context)
{
	struct guard **at = &guards;

	while (*at && (*at)->context != context)
		at = &(*at)->next;
	return at;
}

bool siw_is(const struct ibv_device_attr *attr)
{
	return attr->vendor_id == SIW_VENDOR_ID;
}

static void add(const struct verbs *verbs, struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct guard *guard;

	if (verbs->query_device(context, &attr) || !siw_is(&attr))
		return;
	guard = calloc(1, sizeof(*guard));
	if (!guard)
		return;
	guard->cq = verbs->create_cq(context, GUARD_ENTRIES, NULL, NULL, 0);
	if (!guard->cq) {	/* most queues can be created without it */
		free(guard);
		return;
	}
	guard->context = context;
	guard->users = 1;
	guard->next = guards;
	guards = guard;
}

void siw_guard(const struct verbs *verbs, struct ibv_context *context)
{
	struct guard *guard;

	pthread_mutex_lock(&lock);
	guard = *find(context);
	if (guard)
		guard->users++;
	else
		add(verbs, context);
	pthread_mutex_unlock(&lock);
}

void siw_unguard(const struct verbs *verbs, struct ibv_context *context)
{
	struct guard **at, *guard;

	pthread_mutex_lock(&lock);
	at = find(context);
	guard = *at;
	if (guard && !--guard->users) {
		*at = guard->next;
		verbs->destroy_cq(guard->cq);
		free(guard);
	}
	pthread_mutex_unlock(&lock);
}
