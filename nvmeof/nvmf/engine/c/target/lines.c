/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines in which transfers wait: for a buffer, or for an RDMA READ to fill one with.
 *
 * A request stands in one line at most (req->line): one of the two of its queue pair, for those that fetch and
 * those that do not, or that of its namespace, while that has its share of the buffers (pool.c).  Runs on
 * the reactor's thread.
 */
#include "target/calls.h"

static bool line_is_of_queue(const struct target_qpair *qp, const struct fifo *line)
{
	return line == &qp->waiting[0] || line == &qp->waiting[1];
}

void transfer_line_enter(struct target_request *req, struct fifo *line)
{
	fifo_push(line, &req->tx.link);
	req->line = line;
	if (!line_is_of_queue(req->qp, line)) {
		req->qp->line_waiting++;
		stat_add(&req->qp->waited_for_buffer, 1);
		reactor_mark(req->qp);
	}
}

/* Whoever is the first of its line leaves it in constant time. */
void transfer_line_leave(struct target_request *req)
{
	if (!req->line)
		return;
	fifo_remove(req->line, &req->tx.link);
	if (!line_is_of_queue(req->qp, req->line)) {
		req->qp->line_waiting--;
		reactor_mark(req->qp);
	}
	req->line = NULL;
}

void transfer_kick_line(struct fifo *line)
{
	struct fifo_link *head;

	while ((head = line->head)) {
		transfer_advance(container_of(head, struct target_request, tx.link));
		if (line->head == head)
			break;
	}
}

void transfer_kick(struct target_qpair *qp)
{
	for (int i = 0; i < 2 && !qp->dead; i++)
		transfer_kick_line(&qp->waiting[i]);
}

/* ---- taking back ---- */

/* Who stood in this line, all of it, is told that its connection is dead. */
static void drop_line(struct fifo *line)
{
	struct fifo_link *link;

	while ((link = fifo_pop(line))) {
		struct target_request *req = container_of(link, struct target_request, tx.link);

		req->line = NULL;
		req->moving = TRANSFER_QUIET;
		transfer_advance(req);
	}
}

/* Take those of one queue pair out of the line of a namespace: one pass, however many they are. */
static void line_sift(struct fifo *line, struct target_qpair *qp, struct fifo *out)
{
	struct fifo rest;
	struct fifo_link *link;

	fifo_move(&rest, line);
	while ((link = fifo_pop(&rest)))
		if (container_of(link, struct target_request, tx.link)->qp == qp) {
			fifo_push(out, link);
			qp->line_waiting--;
		} else {
			fifo_push(line, link);
		}
}

static void leave_namespace_lines(struct target_qpair *qp)
{
	struct fifo mine;

	for (uint32_t i = 0; i < qp->request_fresh && qp->line_waiting; i++) {
		struct target_request *req = &qp->requests[i];

		if (req->state != REQUEST_MOVING || !req->line || line_is_of_queue(qp, req->line))
			continue;
		fifo_init(&mine);
		line_sift(req->line, qp, &mine);
		drop_line(&mine);
	}
}

/* The connection is dead: nobody in line is served. */
void transfer_drop_lines(struct target_qpair *qp)
{
	struct fifo_link *link;

	for (int i = 0; i < 2; i++)
		drop_line(&qp->waiting[i]);
	leave_namespace_lines(qp);
	while ((link = fifo_pop(&qp->reads)))
		chunk_drop(container_of(link, struct chunk, tx.link));
}

/* The first chunk of it in line for an RDMA READ, and how many there are untouched. */
static struct chunk *first_unposted(const struct target_request *req, unsigned *count)
{
	struct chunk *first = NULL;

	*count = 0;
	for (struct fifo_link *link = req->qp->reads.head; link; link = link->next) {
		struct chunk *chunk = container_of(link, struct chunk, tx.link);

		if (chunk->req != req || chunk->posted)
			continue;
		if (!(*count)++)
			first = chunk;
	}
	return first;
}

bool transfer_cancel(struct target_request *req)
{
	struct target_qpair *qp = req->qp;
	struct chunk *chunk;
	unsigned count;

	chunk = first_unposted(req, &count);
	if (count != req->outstanding)
		return false;
	transfer_line_leave(req);
	for (; chunk; chunk = first_unposted(req, &count)) {
		fifo_remove(&qp->reads, &chunk->tx.link);
		qp->fetching--;
		chunk_release(chunk);
	}
	reactor_mark(qp);
	req->moving = TRANSFER_QUIET;
	transfer_advance(req);
	return true;
}
