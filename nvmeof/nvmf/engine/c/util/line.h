/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked lines for one thread, first in, first out: any element can be removed in constant time. */
#ifndef NVMF_UTIL_LINE_H
#define NVMF_UTIL_LINE_H

#include "util/list.h"

struct line {
	struct list_link *head, **tail;
};

static inline void line_init(struct line *line)
{
	line->head = NULL;
	line->tail = &line->head;
}

static inline void line_push(struct line *line, struct list_link *link)
{
	link->next = NULL;
	link->prev = line->tail;
	*line->tail = link;
	line->tail = &link->next;
}

/* link must be in the line. */
static inline void line_remove(struct line *line, struct list_link *link)
{
	if (line->tail == &link->next)
		line->tail = link->prev;
	list_remove(link);
}

#endif
