/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latches: blocks of a namespace that commands read or write, so that each command sees whole blocks.
 *
 * A command that reads blocks holds a shared latch, from before the first byte is read until the last one has
 * arrived.  For a Read that is sent directly from the namespace, this is when the device has completed the response
 * that follows the data.  A command that changes blocks holds an exclusive latch.
 *
 * Blocks are latched in entries of LATCH_BLOCKS.  Entries are hashed: distant blocks may share an entry, which can
 * cause a wait but no error.
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

/* A latched range, or one that waits for its latch.  Embedded in the object that uses it; belongs to one reactor. */
struct latch {
	struct fifo_link link;		/* in its reactor's line */
	struct target_namespace *ns;
	void (*granted)(struct latch *latch);
	uint64_t offset, length;	/* bytes, whole blocks */
	uint64_t since;			/* ns: when it began to wait; if LATCH_WANTED, for readers alone */
	uint8_t state;			/* enum latch_state */
	bool exclusive;
};

/* The readers of an entry on one reactor, and the number of its latches that wait.  Written by that reactor only. */
struct latch_readers {
	_Atomic uint16_t block[LATCH_BLOCKS];	/* readers of a few blocks, by block */
	_Atomic uint16_t all;			/* readers of many, which count for each block */
	uint16_t waiting;
	uint32_t passed_over;			/* the pass in which a latch of this entry had to wait */
} __attribute__((aligned(64)));

struct ns_latches {
	void *memory;
	size_t bytes;
	_Atomic uint32_t *held;		/* by entry: a bit for each block exclusively held or wanted */
	bool shared;			/* by several reactors */
	uint8_t held_shift;		/* index of an entry in held: a cache line each if shared */
	_Alignas(64) _Atomic unsigned lines;	/* reactors whose line is not empty */
	_Atomic uint32_t released;	/* changes when a latch is released while others wait */
};

struct latch_span {			/* the blocks and entries of a range */
	uint64_t first, last;		/* blocks */
	uint64_t entry, end;		/* entry numbers before hashing: the next, and the one after the last */
};

/* Mail to a reactor: find its readers of a range that a writer has waited for too long. */
struct latch_press {
	struct mail mail;
	const struct target_namespace *ns;	/* may have been freed: not dereferenced */
	struct latch_span span;
	uint64_t since;			/* ns: since when */
};

/* Control thread: 0 or -ENOMEM. */
int latches_create(struct target_namespace *ns);
void latches_free(struct target_namespace *ns);

/*
 * Take a latch on [offset, offset + length); returns whether it is held now.  If not, granted is called later, when
 * it is held, on the reactor's thread.
 */
bool latch_take(struct reactor *reactor, struct latch *latch, struct target_namespace *ns,
		uint64_t offset, uint64_t length, bool exclusive, void (*granted)(struct latch *));
/* Prefetch for a latch at slba that will be taken soon: see expect.c. */
void latch_expect(struct reactor *reactor, const struct target_namespace *ns, uint64_t slba);
void latch_drop(struct reactor *reactor, struct latch *latch);	/* it is held, or LATCH_NONE: no effect */
/* Remove it from the line; returns whether it was there. */
bool latch_cancel(struct reactor *reactor, struct latch *latch);
/* Try the waiting latches again, while reactor->latching is not empty. */
void latch_serve(struct reactor *reactor);

#endif
