/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands that the control thread answers: all of the admin queue, fabrics commands, and commands that the I/O path
 * does not implement.
 *
 * Data that comes with a command is fetched first, into memory of its own: the control thread may keep a command for
 * a long time (Asynchronous Event Request), during which it holds no buffer.  The data of an answer is kept until the
 * host has taken it, which may be never: so a queue pair has a limited amount of it, and further commands that return
 * data wait.  The functions of target.h run on any thread, the rest on the reactor's thread.
 */
#include "target/calls.h"

#include <stdlib.h>
#include <string.h>

void upcall_deliver(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	req->upcall = (struct target_upcall){
		.type = TARGET_UPCALL_COMMAND,
		.qpair = qp,
		.cookie = qp->options.cookie,
		.request = req,
	};
	req->state = REQUEST_UP;
	qp->held++;
	target_post_upcall(qp->target, &req->upcall);
}

static int fctype(const struct target_request *req)
{
	return req->opcode == NVME_OPC_FABRICS ? (int)(req->sqe.nsid & 0xff) : -1;
}

/* Bit 1 of the opcode, or of the fabrics command type: controller to host. */
static bool data_to_host(const struct target_request *req)
{
	return (req->opcode == NVME_OPC_FABRICS ? fctype(req) : req->opcode) & 2;
}

/* ---- commands that return data ---- */

static bool answer_has_room(const struct target_request *req)
{
	uint32_t kept = req->qp->answer_bytes;

	return !kept || kept + req->sgl_length <= TARGET_UPCALL_BUDGET;
}

static void answer_reserve(struct target_request *req)
{
	req->answer_share = req->sgl_length;
	req->qp->answer_bytes += req->answer_share;
	upcall_deliver(req);
}

static void answer_wanted(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	if (!qp->asking.head && answer_has_room(req)) {
		answer_reserve(req);
		return;
	}
	req->state = REQUEST_ASKING;
	fifo_push(&qp->asking, &req->tx.link);
}

/* The request ends. */
void upcall_answer_taken(struct target_request *req)
{
	struct target_qpair *qp = req->qp;

	qp->answer_bytes -= req->answer_share;
	req->answer_share = 0;
	if (qp->asking.head)
		reactor_mark(qp);
}

void upcall_serve(struct target_qpair *qp)
{
	while (qp->asking.head) {
		struct target_request *req = container_of(qp->asking.head, struct target_request, tx.link);

		if (!answer_has_room(req))
			return;
		fifo_pop(&qp->asking);
		answer_reserve(req);
	}
}

void upcall_drop(struct target_qpair *qp)
{
	struct fifo_link *link;

	while ((link = fifo_pop(&qp->asking)))
		request_free(container_of(link, struct target_request, tx.link));
}

/* ---- all of them ---- */

void upcall_command(struct target_request *req, const struct nvme_sqe *sqe, bool from_host)
{
	bool early = !atomic_load_explicit(&req->qp->connected, memory_order_relaxed);

	req->sqe = *sqe;
	if (data_to_host(req) && req->sgl_count)
		answer_wanted(req);
	else if (!from_host || !req->sgl_length)
		upcall_deliver(req);
	else if (req->sgl_length > (early ? TARGET_UPCALL_EARLY : TARGET_UPCALL_MAX))
		request_respond(req, NVME_INVALID_FIELD | NVME_DNR);
	else if (req->capsule)
		upcall_deliver(req);
	else
		transfer_start(req, TRANSFER_FETCH, req->sgl_length);
}

const struct nvme_sqe *target_request_sqe(const struct target_request *request)
{
	return &request->sqe;
}

const void *target_request_data(const struct target_request *request, uint32_t *len)
{
	const void *data = request->capsule ? request->capsule : request->data;

	*len = 0;
	if (request->data)
		*len = request->data_length;
	if (request->capsule)
		*len = request->sgl_length;
	return data;
}

static void answer_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_request *req = container_of(mail, struct target_request, mail);
	struct target_qpair *qp = req->qp;

	(void)reactor;
	request_free_data(req);
	req->data = req->answer.data;
	req->mode = TRANSFER_PUSH;
	req->state = REQUEST_BEGUN;
	qp->held--;
	/* If flow control is disabled, the response to Connect says so; otherwise SQHD is set later. */
	if (!req->answer.status && fctype(req) == NVME_FCTYPE_CONNECT)
		req->cqe.sqhd = 0xffff;
	if (qp->dead) {
		request_free(req);
	} else if (req->answer.length) {
		req->capsule = NULL;
		transfer_start(req, TRANSFER_PUSH, req->answer.length);
	} else {
		request_respond(req, req->answer.status);
	}
}

void target_complete(struct target_request *request, uint16_t status, uint32_t dw0, uint32_t dw1,
		     const void *data, uint32_t len)
{
	uint8_t *copy = NULL;

	if (!request->sgl_count || !data_to_host(request))
		len = 0;
	if (len > request->sgl_length)
		len = request->sgl_length;
	if (len) {
		copy = malloc(len);
		if (copy) {
			memcpy(copy, data, len);
		} else {
			len = 0;
			status = NVME_INTERNAL_ERROR;
		}
	}
	request->answer.data = copy;
	request->answer.length = len;
	request->answer.status = status;
	request->cqe.dw0 = dw0;
	request->cqe.dw1 = dw1;
	reactor_mail(request->qp->reactor, &request->mail, answer_deliver);
}
