/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A workaround for siw.
 *
 * libsiw interprets one key of siw's mappings, 0x90000, as "no key": a queue that the kernel puts at that offset of
 * the context's mappings cannot be created, and errno is not set.  The kernel uses the lowest free offset, so that a
 * few queues are enough to reach it, and then every further attempt fails.  An unused completion queue, created
 * before all others and large enough to extend over that offset, prevents its use.
 */
#ifndef NVMF_VERBS_SIW_H
#define NVMF_VERBS_SIW_H

#include "verbs.h"

/* Whether these are the attributes of a siw device. */
bool siw_is(const struct ibv_device_attr *attr);
/* Call it before the context is used, from any thread: if it is siw's, that key is never used on it. */
void siw_guard(const struct verbs *verbs, struct ibv_context *context);
/* Call it once for each call of siw_guard(), after the objects on the context were destroyed. */
void siw_unguard(const struct verbs *verbs, struct ibv_context *context);

#endif
