/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive singly linked lists for one thread: first in, first out, and a stack.
 */
#ifndef NVMF_UTIL_FIFO_H
#define NVMF_UTIL_FIFO_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

struct fifo_link {
	struct fifo_link *next;
};

struct fifo {
	struct fifo_link *head;
	struct fifo_link **tail;
};

static inline void fifo_init(struct fifo *f)
{
	f->head = NULL;
	f->tail = &f->head;
}

static inline void fifo_push(struct fifo *f, struct fifo_link *link)
{
	link->next = NULL;
	*f->tail = link;
	f->tail = &link->next;
}

static inline struct fifo_link *fifo_pop(struct fifo *f)
{
	struct fifo_link *link = f->head;

	if (link) {
		f->head = link->next;
		if (!f->head)
			f->tail = &f->head;
	}
	return link;
}

/* Remove link from the list if it is there.  Walks the list. */
static inline void fifo_remove(struct fifo *f, const struct fifo_link *link)
{
	struct fifo_link **at = &f->head;

	while (*at && *at != link)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = link->next;
	if (!*at)
		f->tail = at;
}

/* Move all elements to "to", which must be empty. */
static inline void fifo_move(struct fifo *to, struct fifo *from)
{
	fifo_init(to);
	if (!from->head)
		return;
	*to = *from;
	fifo_init(from);
}

static inline struct fifo_link *stack_pop(struct fifo_link **stack)
{
	struct fifo_link *link = *stack;

	if (link)
		*stack = link->next;
	return link;
}

static inline void stack_push(struct fifo_link **stack, struct fifo_link *link)
{
	link->next = *stack;
	*stack = link;
}

#endif
