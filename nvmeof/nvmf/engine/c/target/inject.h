/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults on purpose: commands that are delayed, fail, are never answered, end their connection, or are written in part.
 *
 * Control thread.  The caller decides which queue pairs an injection concerns.
 */
#ifndef NVMF_TARGET_INJECT_H
#define NVMF_TARGET_INJECT_H

#include "target/target.h"

enum target_inject_kind {	/* if a command meets several injections, the last one in this list decides */
	TARGET_INJECT_DELAY,	/* the command runs later, or ends with a status later */
	TARGET_INJECT_HANG,	/* it runs when the injection has ended */
	TARGET_INJECT_DROP,	/* it neither runs nor gets a response */
	TARGET_INJECT_CUT,	/* its connection ends */
	TARGET_INJECT_TORN,	/* in addition: a Write of several blocks that runs writes only the first ones */
};

enum {
	TARGET_INJECTIONS = 32,		/* maximum of those that are active at a time */
	TARGET_INJECT_DELAYS = 256,
};

struct target_inject_options {
	enum target_inject_kind kind;
	uint16_t status;		/* delay: if not 0, the command ends with it instead of running; torn: the
					 * command ends with it afterwards; if 0, its connection ends instead */
	uint32_t nsid;			/* 0: any */
	uint64_t opcodes[4];		/* bitmap of the opcodes concerned */
	uint64_t slba, blocks;		/* commands with a range that touches these blocks; blocks 0: all commands */
	uint64_t threshold;		/* share of these commands that is hit, of 2^32 */
	uint64_t after;			/* number of these commands that pass first */
	uint64_t count;			/* number of hits; 0: no limit */
	uint64_t seed;			/* decides, with the number of a command, whether and how it is hit */
	uint64_t bandwidth;		/* bytes a second, for all commands concerned together; 0: no limit */
	uint32_t delay_us[TARGET_INJECT_DELAYS];	/* the delay is one of these, each equally likely */
};

/*
 * Returns the injection's slot (0..TARGET_INJECTIONS - 1), or a negative errno: ENOSPC if there are too many, ENOMEM.
 * cookie: comes with the upcall TARGET_UPCALL_INJECTED, when count hits have been made.
 */
int target_inject_begin(struct target *target, const struct target_inject_options *options,
			void *cookie);
/* Commands that hang run now.  Clear its bit in all queue pairs first.  Its slot is free some time later. */
void target_inject_end(struct target *target, unsigned slot);
/* Get the number of commands that it concerned, and of hits. */
void target_inject_counts(const struct target *target, unsigned slot, uint64_t *matched,
			  uint64_t *hits);
/* Set the injections for commands of a queue pair that arrive from now on: bit i for slot i. */
void target_qpair_inject(struct target_qpair *qp, uint32_t slots);

#endif
