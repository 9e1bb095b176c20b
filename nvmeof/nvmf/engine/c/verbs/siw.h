/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What siw needs that no other device does.
 *
 * libsiw takes one key of siw's mappings, 0x90000, for "there is none": a queue that the kernel puts
 * at that offset of the context's mappings cannot be made, and errno says nothing.  The kernel gives
 * out the lowest offset that is free, so that a few queues are enough to come there, and once
 * they have, every attempt ends in the same way.  A completion queue that nobody uses, made before
 * all others and long enough to lie across that offset, keeps it from ever being given out.
 */
#ifndef NVMF_VERBS_SIW_H
#define NVMF_VERBS_SIW_H

#include "verbs.h"

/* The context is about to be used, from any thread: it is kept from that key, if it is siw's. */
void siw_guard(const struct verbs *verbs, struct ibv_context *context);
/* Once for each call of siw_guard(), when what was made on the context is gone. */
void siw_unguard(const struct verbs *verbs, struct ibv_context *context);

#endif
