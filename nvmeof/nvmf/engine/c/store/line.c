/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines: decide which io may begin in a ring's engine, and which must wait until others end.
 *
 * Each store has its own line in each ring, so that a store whose calls never end (a disk that hangs, a server that
 * does not respond) delays only its own requests.  A store may always have STORE_LINE_OWN calls in the engine.  Calls
 * beyond those use shared places, of which a store may have up to twice as many as are free: one store alone gets the
 * depth of the ring, the second one finds a third of the places free, and so on.  Lines are served round-robin.
 *
 * The engine has enough places for STORE_LINE_STUCK stores that hang with their own calls only.
 *
 * Owns the lines of one ring; reactor's thread.  Line numbers are assigned on control threads.
 */
#include <pthread.h>

#include "store_internal.h"

/* ---- numbers: the same in every ring ---- */

static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static uint16_t line_users[STORE_LINES];

uint16_t store_line_take(void)
{
	uint16_t best = 0;

	pthread_mutex_lock(&line_lock);
	for (uint16_t i = 0; i < STORE_LINES && line_users[best]; i++)
		if (line_users[i] < line_users[best])
			best = i;
	line_users[best]++;
	pthread_mutex_unlock(&line_lock);
	return best;
}

void store_line_give(uint16_t line)
{
	pthread_mutex_lock(&line_lock);
	line_users[line]--;
	pthread_mutex_unlock(&line_lock);
}

/* ---- places ---- */

void store_lines_init(struct store_lines *lines, unsigned depth)
{
	lines->own = depth < STORE_LINE_OWN ? depth : STORE_LINE_OWN;
	lines->shared = (depth - lines->own) * 3 / 2;
	lines->depth = lines->shared + STORE_LINE_STUCK * lines->own;
	if (lines->depth > STORE_DEPTH_MOST)
		lines->depth = STORE_DEPTH_MOST;
	lines->turn_tail = &lines->turn;
	for (unsigned i = 0; i < STORE_LINES; i++)
		store_list_init(&lines->line[i].waiting);
}

static struct store_line *line_of(struct store_lines *lines, const struct store_io *io)
{
	return &lines->line[io->store->line];
}

static bool line_may_begin(const struct store_lines *lines, const struct store_line *line)
{
	unsigned over = line->active - lines->own;

	if (lines->active == lines->depth)
		return false;
	return line->active < lines->own || over < 2 * (lines->shared - lines->shared_used);
}

static void line_begin(struct store_lines *lines, struct store_line *line)
{
	if (line->active++ >= lines->own)
		lines->shared_used++;
	lines->active++;
}

static void line_push(struct store_lines *lines, struct store_line *line)
{
	line->next = NULL;
	*lines->turn_tail = line;
	lines->turn_tail = &line->next;
}

static struct store_line *line_pop(struct store_lines *lines)
{
	struct store_line *line = lines->turn;

	if (line && !(lines->turn = line->next))
		lines->turn_tail = &lines->turn;
	return line;
}

bool store_lines_enter(struct store_lines *lines, struct store_io *io)
{
	struct store_line *line = line_of(lines, io);

	/* If the line is empty, no waiting io could use a free place, so this one overtakes none. */
	if (!line->waiting.head && line_may_begin(lines, line)) {
		line_begin(lines, line);
		return true;
	}
	if (!line->waiting.head)
		line_push(lines, line);
	store_list_push(&line->waiting, io);
	return false;
}

void store_lines_leave(struct store_lines *lines, const struct store_io *io)
{
	struct store_line *line = line_of(lines, io);

	if (line->active-- > lines->own)
		lines->shared_used--;
	lines->active--;
}

struct store_io *store_lines_next(struct store_lines *lines)
{
	const struct store_line *refused = NULL;
	struct store_line *line;
	struct store_io *io = NULL;

	while (!io && lines->turn != refused && lines->active < lines->depth) {
		line = line_pop(lines);
		if (line_may_begin(lines, line)) {
			line_begin(lines, line);
			io = store_list_pop(&line->waiting);
		} else if (!refused) {
			refused = line;
		}
		if (line->waiting.head)
			line_push(lines, line);
	}
	return io;
}

/* ---- waiting requests ---- */

/* A waiting sync is the first step of a flush, and the last step of other operations. */
static bool line_untouched(const struct store_io *io)
{
	return !io->moved && (io->step != STORE_STEP_SYNC || io->op == STORE_FLUSH);
}

unsigned store_lines_waiting(const struct store_lines *lines,
			     bool (*wanted)(const struct store_io *io, const void *arg),
			     const void *arg)
{
	unsigned count = 0;

	for (const struct store_line *line = lines->turn; line; line = line->next)
		for (const struct store_io *io = line->waiting.head; io; io = io->next)
			count += line_untouched(io) && wanted(io, arg);
	return count;
}

void store_lines_cancel(struct store_lines *lines,
			bool (*wanted)(const struct store_io *io, const void *arg), const void *arg,
			struct store_list *cancelled)
{
	struct store_line *line, *turn = lines->turn, *next;

	lines->turn = NULL;
	lines->turn_tail = &lines->turn;
	for (line = turn; line; line = next) {
		struct store_list all = line->waiting;
		struct store_io *io;

		next = line->next;
		store_list_init(&line->waiting);
		while ((io = store_list_pop(&all)))
			store_list_push(line_untouched(io) && wanted(io, arg) ? cancelled
									       : &line->waiting,
					io);
		if (line->waiting.head)
			line_push(lines, line);
	}
}
