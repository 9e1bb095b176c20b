/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gates: the control thread sets statuses with which commands end instead of running.
 *
 * A gate has three statuses in one word, so that a reactor reads all of them with one load.  Without gates, a command
 * only checks a NULL pointer of the queue pair and a zero of the namespace, on cache lines that it uses anyway.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t gate_pack(const struct target_gate *gate)
{
	return (uint64_t)gate->read << 16 * GATE_READ | (uint64_t)gate->write << 16 * GATE_WRITE |
	       (uint64_t)gate->flush << 16 * GATE_FLUSH;
}

void target_namespace_gate(struct target_namespace *ns, const struct target_gate *gate)
{
	atomic_store(&ns->gate, gate_pack(gate));
}

struct target_gates *target_gates_create(struct target *target, uint32_t max_nsid)
{
	struct target_gates *gates;

	gates = calloc(1, sizeof(*gates) + ((size_t)max_nsid + 1) * sizeof(gates->gate[0]));
	if (!gates)
		return NULL;
	gates->target = target;
	gates->max_nsid = max_nsid;
	gates->next = target->gates;
	target->gates = gates;
	return gates;
}

void target_gates_destroy(struct target_gates *gates)
{
	struct target_gates **p = &gates->target->gates;

	while (*p && *p != gates)
		p = &(*p)->next;
	if (*p)
		*p = gates->next;
	free(gates);
}

void gates_free_all(struct target *target)
{
	while (target->gates)
		target_gates_destroy(target->gates);
}

int target_gates_set(struct target_gates *gates, uint32_t nsid, const struct target_gate *gate)
{
	if (!nsid || nsid > gates->max_nsid)
		return -EINVAL;
	atomic_store(&gates->gate[nsid], gate_pack(gate));
	return 0;
}

void target_qpair_gates(struct target_qpair *qp, struct target_gates *gates)
{
	atomic_store(&qp->gates, gates);
}
