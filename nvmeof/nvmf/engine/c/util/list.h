/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked lists for one thread: any element can be removed in constant time. */
#ifndef NVMF_UTIL_LIST_H
#define NVMF_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_link {
	struct list_link *next, **prev;	/* prev NULL: in no list */
};

struct list {
	struct list_link *head;
};

static inline bool list_has(const struct list_link *link)
{
	return link->prev != NULL;
}

static inline void list_push(struct list *list, struct list_link *link)
{
	link->next = list->head;
	link->prev = &list->head;
	if (link->next)
		link->next->prev = &link->next;
	list->head = link;
}

static inline void list_remove(struct list_link *link)
{
	if (!link->prev)
		return;
	*link->prev = link->next;
	if (link->next)
		link->next->prev = link->prev;
	link->prev = NULL;
}

#endif
