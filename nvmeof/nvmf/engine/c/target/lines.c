/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines in which transfers wait: for a buffer, or for an RDMA READ to fill one with.
 *
 * A request waits in at most one line (req->line): one of the two lines of its queue pair, for requests that fetch data
 * and for the others, or the line of its namespace while that uses its share of the buffers (pool.c).  Reactor's
 * thread.
 */
#include "target/calls.h"

static bool line_is_of_queue(const struct target_qpair *qp, const struct fifo *line)
{
	return line == &qp->waiting[0] || line == &qp->waiting[1];
}

static void line_count(struct target_qpair *qp, bool enters)
{
	qp->line_waiting += enters ? 1 : -1u;
	qp->reactor->pool.sharers_waiting += enters ? 1 : -1u;
}

void transfer_line_enter(struct target_request *req, struct fifo *line)
{
	fifo_push(line, &req->tx.link);
	req->line = line;
	if (!line_is_of_queue(req->qp, line)) {
		line_count(req->qp, true);
		stat_add(&req->qp->waited_for_buffer, 1);
		reactor_mark(req->qp);
	}
}

/* Removing the first request of a line takes constant time. */
void transfer_line_leave(struct target_request *req)
{
	if (!req->line)
		return;
	fifo_remove(req->line, &req->tx.link);
	if (!line_is_of_queue(req->qp, req->line)) {
		line_count(req->qp, false);
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

/* ---- removing requests ---- */

/* End all requests of this line, because the connection has ended. */
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

/* Remove the requests of one queue pair from the line of a namespace, in one pass. */
static void line_sift(struct fifo *line, struct target_qpair *qp, struct fifo *out)
{
	struct fifo rest;
	struct fifo_link *link;

	fifo_move(&rest, line);
	while ((link = fifo_pop(&rest)))
		if (container_of(link, struct target_request, tx.link)->qp == qp) {
			fifo_push(out, link);
			line_count(qp, false);
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

/* The connection has ended: waiting requests are not served. */
void transfer_drop_lines(struct target_qpair *qp)
{
	struct fifo_link *link;

	for (int i = 0; i < 2; i++)
		drop_line(&qp->waiting[i]);
	leave_namespace_lines(qp);
	while ((link = fifo_pop(&qp->reads)))
		chunk_drop(container_of(link, struct chunk, tx.link));
}

/* The first chunk of a request that waits for an RDMA READ, and the number of those not begun. */
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
