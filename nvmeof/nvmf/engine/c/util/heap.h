/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive pairing heaps of times, for one thread: the earliest element is at the root.  Adding takes constant time,
 * and removing any element takes amortized logarithmic time.
 */
#ifndef NVMF_UTIL_HEAP_H
#define NVMF_UTIL_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_node {
	struct heap_node *child, *next;	/* the first of its children; its next sibling */
	struct heap_node *prev;		/* the sibling before it, or the parent of a first child; NULL: the root */
	uint64_t due;
};

static inline struct heap_node *heap_meld(struct heap_node *a, struct heap_node *b)
{
	struct heap_node *swap;

	if (!a || !b)
		return a ? a : b;
	if (b->due < a->due) {
		swap = a;
		a = b;
		b = swap;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	a->next = a->prev = NULL;
	return a;
}

/* Meld siblings in pairs from the first, then the pairs from the last. */
static inline struct heap_node *heap_pair(struct heap_node *first)
{
	struct heap_node *pairs = NULL, *all = NULL;

	while (first) {
		struct heap_node *second = first->next, *rest = second ? second->next : NULL;

		first->next = first->prev = NULL;
		if (second)
			second->next = second->prev = NULL;
		first = heap_meld(first, second);
		first->next = pairs;
		pairs = first;
		first = rest;
	}
	while (pairs) {
		struct heap_node *rest = pairs->next;

		pairs->next = NULL;
		all = heap_meld(all, pairs);
		pairs = rest;
	}
	return all;
}

static inline void heap_push(struct heap_node **root, struct heap_node *node, uint64_t due)
{
	*node = (struct heap_node){ .due = due };
	*root = heap_meld(*root, node);
}

static inline void heap_remove(struct heap_node **root, struct heap_node *node)
{
	struct heap_node *children = heap_pair(node->child);

	if (node == *root) {
		*root = children;
		return;
	}
	if (node->prev->child == node)
		node->prev->child = node->next;
	else
		node->prev->next = node->next;
	if (node->next)
		node->next->prev = node->prev;
	*root = heap_meld(*root, children);
}

#endif
