/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python: a store whose calls are answered by a thread of the program that embeds the engine.
 *
 * A reactor posts a call and continues.  The answering thread waits on store_python_fd(), takes the calls, and answers
 * each of them exactly once, in any order.  All functions of this header are for one answering thread per store
 * (or several that exclude each other, as threads of Python do); none of them blocks.
 *
 * Limits: at most `calls` calls with `bytes` bytes of data are with the answering thread at a time; a single larger
 * call is allowed.  Commands beyond that wait.  A command that has not been answered `limit_ms` after its submission
 * ends with Internal Error.  Its call is still with the answering thread then, and counts until it is answered: the
 * answer has no effect.  Commands that overlap such a write wait until it is answered, so that a late write cannot
 * replace a newer one.
 */
#ifndef NVMF_STORE_PYTHON_H
#define NVMF_STORE_PYTHON_H

#include "store.h"

enum {
	STORE_PYTHON_CALLS = 64,	/* the most that `calls` can be */
};

struct store_python_call {
	uint64_t number;	/* identifies the call; never used again */
	enum store_op op;
	uint32_t flags;		/* STORE_IO_* */
	uint64_t offset, length;	/* bytes */
	const void *data;	/* of a write: copy it before store_python_taken(); else NULL */
};

/* An eventfd that is readable when there may be calls to take. */
int store_python_fd(const struct store *store);
/*
 * The next call; false if there is none.  Until store_python_taken(), which must follow soon, its command cannot end.
 */
bool store_python_take(struct store *store, struct store_python_call *call);
void store_python_taken(struct store *store, uint64_t number);
/*
 * End a call.  data: of a read that succeeded; Internal Error, if its length is not that of the call.  error: errno
 * of a failure, for logs, or 0.  False if its command has ended without it.
 */
bool store_python_answer(struct store *store, uint64_t number, uint16_t status, int error,
			 const void *data, uint64_t length);
/* Any thread: from now on every command ends at once (within 0.1 s if it is under way). */
void store_python_stop(struct store *store);

#endif
