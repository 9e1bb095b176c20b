/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latches: blocks of a namespace that commands read or write, so that each sees whole blocks.
 *
 * A shared latch is held by whatever reads blocks, from before the first byte is read until the last one
 * is where it should be.  For a Read that is sent straight from the namespace, that is when the device
 * has completed the response behind it.  An exclusive latch is held by whatever changes blocks.
 *
 * Blocks are latched in entries of LATCH_BLOCKS.  Entries are hashed: distant blocks may share one, which
 * costs a wait and nothing else.
 */
#ifndef NVMF_TARGET_LATCH_H
#define NVMF_TARGET_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/mail.h"
#include "util/fifo.h"

struct target_namespace;

enum {
	LATCH_BLOCKS = 16,
	LATCH_ENTRIES = 4096,		/* a power of two */
	LATCH_PIECE = 16 << 20,		/* bytes: the longest range that is latched exclusively */
};

enum latch_state {
	LATCH_NONE,
	LATCH_IN_LINE,			/* waits, and holds nothing */
	LATCH_WANTED,			/* waits, and keeps others from beginning to read */
	LATCH_HELD,
};

/* One range, latched or to be.  Embedded in what latches it; belongs to one reactor. */
struct latch {
	struct fifo_link link;		/* in its reactor's line */
	struct target_namespace *ns;
	void (*granted)(struct latch *latch);
	uint64_t offset, length;	/* bytes, whole blocks */
	uint64_t since;			/* ns: when it began to wait */
	uint8_t state;			/* enum latch_state */
	bool exclusive;
};

/* What a reactor reads of an entry, and how many of its own wait for it.  Written by that reactor only. */
struct latch_readers {
	_Atomic uint16_t block[LATCH_BLOCKS];	/* readers of a few blocks, by block */
	_Atomic uint16_t all;			/* readers of many, which count for each block */
	uint16_t waiting;
	uint32_t passed_over;			/* the pass in which one of them could not be served */
} __attribute__((aligned(64)));

struct ns_latches {
	void *memory;
	size_t bytes;
	_Atomic uint32_t *held;		/* by entry: a bit for each block exclusively held or wanted */
	bool shared;			/* by several reactors */
	uint8_t held_shift;		/* index of an entry in held: a cache line each if shared */
	_Alignas(64) _Atomic unsigned lines;	/* reactors whose line is not empty */
	_Atomic uint32_t released;	/* changes when a latch is released while somebody waits */
};

struct latch_span {			/* of a range */
	uint64_t first, last;		/* blocks */
	uint64_t entry, end;		/* entries, not reduced to the table: the next, and behind the last */
};

/* Mail to a reactor: who of it reads what somebody has waited to write for too long? */
struct latch_press {
	struct mail mail;
	const struct target_namespace *ns;	/* may be gone: not looked into */
	struct latch_span span;
};

/* Control thread: 0 or -ENOMEM. */
int latches_create(struct target_namespace *ns);
void latches_free(struct target_namespace *ns);

/*
 * Take a latch on [offset, offset + length): whether it is held now.  If not, granted is called when it
 * is, on the reactor's thread, in a later turn.
 */
bool latch_take(struct reactor *reactor, struct latch *latch, struct target_namespace *ns,
		uint64_t offset, uint64_t length, bool exclusive, void (*granted)(struct latch *));
/* A latch that begins at slba will be asked for soon: see expect.c. */
void latch_expect(struct reactor *reactor, const struct target_namespace *ns, uint64_t slba);
void latch_drop(struct reactor *reactor, struct latch *latch);	/* held, or LATCH_NONE: nothing */
/* Take it out of the line, if it is there: whether it was. */
bool latch_cancel(struct reactor *reactor, struct latch *latch);
/* Try those in line again, while reactor->latching has any. */
void latch_serve(struct reactor *reactor);

#endif
