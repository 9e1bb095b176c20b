/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches the memory that commands are about to use: see expect.c. */
#ifndef NVMF_TARGET_EXPECT_H
#define NVMF_TARGET_EXPECT_H

#include <stddef.h>
#include <stdint.h>

struct ibv_wc;
struct reactor;

enum { EXPECT_AHEAD = 2 };	/* completions between the prefetch for a command and its turn */

/* Prefetch bytes that are about to be copied from, or to. */
static inline void expect_bytes(const uint8_t *at, size_t length, const int written)
{
	enum { LINE_SIZE = 64, ENOUGH = 4096 };	/* the processor prefetches the rest without help */

	if (length > ENOUGH)
		length = ENOUGH;
	for (size_t i = 0; i < length; i += LINE_SIZE) {
		if (written)
			__builtin_prefetch(at + i, 1, 2);
		else
			__builtin_prefetch(at + i, 0, 2);
	}
}

/* Prefetch for a completion whose turn comes soon. */
void expect_completion(struct reactor *reactor, const struct ibv_wc *wc);

#endif
