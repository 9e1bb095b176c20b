/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches the memory that commands are about to use: see expect.c. */
#ifndef NVMF_TARGET_EXPECT_H
#define NVMF_TARGET_EXPECT_H

struct ibv_wc;
struct reactor;

enum {
	EXPECT_AHEAD = 2,	/* completions between the prefetch for a command and its turn */
	EXPECT_GROUP = 4,	/* completions whose addresses are translated at once */
};

/*
 * Begin to translate the address of a read's data, where the processor waits with prefetches (see util/fetch.h): it walks
 * several page tables at once, but waits for each one if there is other work between them.
 */
void expect_translation(struct reactor *reactor, const struct ibv_wc *wc);

/* Prefetch for a completion whose turn comes soon. */
void expect_completion(struct reactor *reactor, const struct ibv_wc *wc);

#endif
