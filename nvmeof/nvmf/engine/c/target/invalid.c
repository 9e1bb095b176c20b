/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid blocks: blocks marked by Write Uncorrectable cannot be read until they are written (NVM 1.0, 3.2.7).
 *
 * The control thread manages the marks; reactors read them from a sorted array, by one atomic load.  An array never
 * changes: it is replaced, and the old one is freed after a message has passed through each reactor's mailbox, because
 * then no reactor uses it.  When a command has written marked blocks, it is passed to the control thread, which
 * removes the marks and stores that before the response.  Without marks, a command only checks a NULL pointer on
 * a cache line that it reads anyway.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool invalid_find(const struct ns_invalid *invalid, uint64_t offset, uint64_t length)
{
	uint32_t low = 0, high = invalid->count;

	/* The first range that ends after offset. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (invalid->range[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < invalid->count && invalid->range[low].start < offset + length;
}

/* Copy the ranges of a deallocation for the control thread, because their buffer is reused. */
bool invalid_keep_ranges(struct target_request *req, const void *ranges)
{
	if (req->capsule)
		return true;
	if (req->data) {	/* copied when they arrived: chunk.c */
		req->data_length = req->length;
		return true;
	}
	req->data = malloc(req->length);
	if (!req->data)
		return false;	/* they stay marked: a deallocation is a hint */
	memcpy(req->data, ranges, req->length);
	req->data_length = req->length;
	return true;
}

/* ---- control ---- */

static void invalid_passed(struct reactor *reactor, struct mail *mail)
{
	struct ns_invalid *old = container_of(mail, struct invalid_mail, mail)->invalid;

	(void)reactor;
	atomic_fetch_sub(&old->left, 1);
}

static void invalid_free(struct ns_invalid *invalid)
{
	if (!invalid)
		return;
	free(invalid->range);
	free(invalid);
}

/* Free the replaced arrays that no reactor can be using. */
static void invalid_sweep(struct target *target)
{
	struct ns_invalid **p = &target->old_invalid, *old;

	while ((old = *p)) {
		if (atomic_load(&old->left)) {
			p = &old->next;
			continue;
		}
		*p = old->next;
		invalid_free(old);
	}
}

static void invalid_retire(struct target *target, struct ns_invalid *old)
{
	if (!old)
		return;
	old->next = target->old_invalid;
	target->old_invalid = old;
	atomic_store(&old->left, target->reactors);
	for (unsigned i = 0; i < target->reactors; i++) {
		old->mail[i].invalid = old;
		reactor_mail(target->reactor[i], &old->mail[i].mail, invalid_passed);
	}
}

static struct ns_invalid *invalid_new(const struct target_namespace *ns,
				      const struct target_range *ranges, uint32_t count)
{
	unsigned reactors = ns->target->reactors;
	struct ns_invalid *made = calloc(1, sizeof(*made) + reactors * sizeof(made->mail[0]));

	if (!made)
		return NULL;
	made->range = calloc(count, sizeof(made->range[0]));
	if (!made->range) {
		free(made);
		return NULL;
	}
	made->count = count;
	for (uint32_t i = 0; i < count; i++) {
		made->range[i].start = ranges[i].slba << ns->block_shift;
		made->range[i].end = (ranges[i].slba + ranges[i].blocks) << ns->block_shift;
	}
	return made;
}

int target_namespace_invalid(struct target_namespace *ns, const struct target_range *ranges,
			     uint32_t count)
{
	struct ns_invalid *made = count ? invalid_new(ns, ranges, count) : NULL;

	if (count && !made)
		return -ENOMEM;
	invalid_sweep(ns->target);
	invalid_retire(ns->target, atomic_exchange(&ns->invalid, made));
	return 0;
}

/* The namespace is retired, so that no reactor uses it. */
void invalid_forget(struct target_namespace *ns)
{
	invalid_free(atomic_exchange(&ns->invalid, NULL));
}

/* The reactors have ended. */
void invalid_free_all(struct target *target)
{
	struct ns_invalid *old;

	while ((old = target->old_invalid)) {
		target->old_invalid = old->next;
		invalid_free(old);
	}
}
