/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches the memory that commands are about to use: see expect.c. */
#ifndef NVMF_TARGET_EXPECT_H
#define NVMF_TARGET_EXPECT_H

struct ibv_wc;
struct reactor;

enum { EXPECT_AHEAD = 2 };	/* completions between the prefetch for a command and its turn */

/* Prefetch for a completion whose turn comes soon. */
void expect_completion(struct reactor *reactor, const struct ibv_wc *wc);

#endif
