/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that the target's files call in each other, by file.  Reactor's thread, unless stated otherwise.
 */
#ifndef NVMF_TARGET_CALLS_H
#define NVMF_TARGET_CALLS_H

#include "target/namespace.h"

/* ---- target.c (control) ---- */
void target_post_upcall(struct target *target, struct target_upcall *upcall);	/* any thread */
/* Create a target without threads: for tests, which call reactor_poll() themselves. */
struct target *target_make(const struct target_options *options, char *err, size_t len);
/*
 * Internal: the reactor no longer uses a queue pair or a completion queue (in cookie); the objects of a device (in
 * cookie) are freed.
 */
enum {
	TARGET_UPCALL_RELEASED = 100,
	TARGET_UPCALL_CQ_GONE,
	TARGET_UPCALL_SRQ_GONE,		/* cookie: the device */
	TARGET_UPCALL_DEVICE_CLOSED,
	TARGET_UPCALL_INJECTION_GONE,	/* cookie: the injection */
};
/* Free the memory that contains an upcall, after the caller has seen the upcall. */
void target_free_later(struct target *target, void *memory);
void target_drain_upcalls(struct target *target);

/* ---- device.c (control) ---- */
/* Return the device of a connection; NULL with errno: EAGAIN while it is being opened. */
struct target_device *device_get(struct target *target, const struct verbs *verbs,
				 struct ibv_context *context, char *err, size_t len);
/* The thread for jobs of its memory; NULL: they run at once. */
struct background *device_lane(const struct target_device *device);
void device_opened(struct target_device *device);
void device_closed(struct target_device *device);
void device_cqs_gone(struct target_device *device);
void device_srq_gone(struct target_device *device);
void device_free_all(struct target *target);
void device_let_go(struct target *target);

/* ---- cq.c (control) ---- */
/* Reserve and release qp->recv_share and qp->send_share entries of completion queues. */
int cqs_get(struct target_qpair *qp, char *err, size_t len);
void cqs_put(struct target_qpair *qp);
void cqs_let_go(struct target_device *device);
void cqs_free_all(struct target *target);
void cq_gone(struct reactor_cq *rcq);

/* ---- srq.c (control) ---- */
/* Reserve (or return NULL) and release qp->options.recv_depth receives of qp->in_capsule bytes. */
struct target_srq *srq_get(struct target_qpair *qp);
void srq_put(struct target_qpair *qp);
bool srqs_can_be(const struct target_device *device);
void srqs_let_go(struct target_device *device);
void srqs_free(struct target_device *device);

/* ---- srq.c (reactor) ---- */
void srq_slab_deliver(struct reactor *reactor, struct mail *mail);
void srq_post(struct reactor *reactor, struct target_srq *srq);
/* Add or remove a queue pair, to find it by its number. */
void srq_join(struct target_qpair *qp);
void srq_part(struct target_qpair *qp);
/* The queue pair of this capsule; NULL: not known yet, and the capsule is kept. */
struct target_qpair *srq_find(struct reactor *reactor, const struct target_srq *srq, uint32_t number);
struct target_qpair *srq_received(struct reactor *reactor, struct recv *recv, uint32_t number,
				  bool good);

/* ---- window.c (control, or the memory thread) ---- */
void windows_open(struct target_namespace *ns);
void windows_open_device(struct target_device *device);
void windows_snapshot(struct target_device *device);
void windows_close_device(struct target_device *device);
void windows_close(struct target_namespace *ns);

/* ---- reactor_control.c (control) ---- */
struct reactor *reactor_create(struct target *target, unsigned index, char *err, size_t len);
int reactor_start(struct reactor *reactor, char *err, size_t len);
void reactor_stop_begin(struct reactor *reactor);	/* so that several end at the same time */
int reactor_stop(struct reactor *reactor, uint64_t deadline);
void reactor_free(struct reactor *reactor);

/* ---- reactor.c ---- */
void *reactor_main(void *reactor);		/* its thread's function; returns when told to stop */
void reactor_mail(struct reactor *reactor, struct mail *mail,
		  void (*deliver)(struct reactor *, struct mail *));	/* any thread */
void reactor_wake(struct reactor *reactor);	/* any thread */
bool reactor_poll(struct reactor *reactor);	/* one iteration: whether there was work */
bool reactor_deliver(struct reactor *reactor);
void reactor_add_cq(struct reactor *reactor, struct reactor_cq *rcq);
void reactor_remove_cq(struct reactor *reactor, struct reactor_cq *rcq);
void reactor_drain_cq(struct reactor *reactor, struct reactor_cq *rcq);	/* all present completions */

/* ---- pool.c ---- */
int pool_create(struct pool *pool, uint32_t buffer_size, uint32_t count, int node);
void pool_free(struct pool *pool);
/* Create a pool for a queue pair without shared buffers; its buffers are as large as those of like. */
int pool_create_private(struct pool *pool, const struct pool *like, uint32_t small, uint32_t large,
			int node);
struct chunk *pool_get(struct target_request *req, uint32_t bytes);	/* NULL: wait until called again */
/* The line of the namespace in which the request must wait for a buffer of this size, or NULL. */
struct fifo *pool_namespace_line(const struct target_request *req, uint32_t bytes);
/* The store begins to use the buffer (to_store), or has stopped using it. */
void pool_lend(const struct chunk *chunk, bool to_store);
bool pool_has_line(const struct reactor *reactor);
void pool_put(struct target_qpair *qp, struct chunk *chunk);
void pool_leave_line(struct target_qpair *qp);
void pool_serve(struct reactor *reactor);
void pool_press(struct reactor *reactor);	/* occasionally, while a request waits */

/* ---- region.c (control) ---- */
int region_map(struct target_qpair *qp);
int region_register(struct target_qpair *qp);
/* The protection domain and buffers of a queue pair that has its own. */
int region_make_private(struct target_qpair *qp);

/* ---- qpair.c (control), close.c ---- */
struct target_qpair *qpair_new(struct target *target, const struct verbs *verbs,
			       struct rdma_cm_id *id, const struct target_qpair_options *options);
void qpair_unlink(struct target_qpair *qp);
void qpair_release_job(struct job *job);	/* its RDMA objects; then the upcall DESTROYED */
/* Everything except its own memory; the reactor has ended or no longer uses it. */
void qpair_clear(struct target_qpair *qp);
void qpair_end_job(struct job *job);		/* the end of its connection */
/* End the connection; the first reason is kept. */
void qpair_fail(struct target_qpair *qp, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void qpair_fail_post(struct target_qpair *qp, const char *what, int rc);
void qpair_fail_wc(struct target_qpair *qp, const char *what, enum ibv_wc_status status);
void qpair_break(struct target_qpair *qp);
void qpair_drain(struct target_qpair *qp);
void qpair_up_deliver(struct reactor *reactor, struct mail *mail);
void qpair_nudge_deliver(struct reactor *reactor, struct mail *mail);
void nudge_completed(struct target_qpair *qp);
void qpair_disconnect_deliver(struct reactor *reactor, struct mail *mail);
void qpair_destroy_deliver(struct reactor *reactor, struct mail *mail);
bool qpair_linger(struct reactor *reactor);

/* ---- post.c ---- */
void qpair_flush(struct target_qpair *qp);
int qpair_post_receives(struct target_qpair *qp, struct recv_chain *chain);
/* Build a chain of at most WR_BATCH receives to be posted again; returns their number. */
unsigned build_receives(struct fifo *repost, struct recv_chain *chain, uint32_t in_capsule);

/* ---- completion.c ---- */
int completion_take(struct reactor *reactor, const struct ibv_wc *wc);

/* ---- request.c ---- */
struct target_request *request_alloc(struct target_qpair *qp);
void request_free(struct target_request *req);
void request_free_data(struct target_request *req);
void request_respond(struct target_request *req, uint16_t status);
void request_response_done(struct target_request *req);
void request_took(struct target_request *req);

/* ---- errors.c ---- */
/* Record a command that the engine ends with an error; returns whether the error log has an entry. */
bool error_record(struct target_request *req, uint16_t status);

/* ---- record.c: only while something is captured ---- */
void record_capsule(const struct target_qpair *qp, const struct recv *recv);
/* Work requests that are about to be posted. */
void record_posts(const struct target_qpair *qp, const struct ibv_send_wr *wr);
/* A chunk whose RDMA READs are complete. */
void record_fetched(const struct chunk *chunk);

/* ---- capsule.c, upcall.c, io.c ---- */
/* Execute a checked command whose SQE is in req->sqe. */
void capsule_begin(struct target_request *req);
void capsule_received(struct target_qpair *qp, struct recv *recv);
void upcall_command(struct target_request *req, const struct nvme_sqe *sqe, bool from_host);
void upcall_deliver(struct target_request *req);
void upcall_answer_taken(struct target_request *req);	/* its share of qp->answer_bytes is free */
void upcall_serve(struct target_qpair *qp);	/* begin those for which there is room now */
void upcall_drop(struct target_qpair *qp);	/* the connection has ended */
void io_command(struct target_request *req, const struct nvme_sqe *sqe);
/* Whether what a Read returns need not be made stable before its response. */
static inline bool io_read_is_stable(const struct target_request *req)
{
	return !req->fua || !req->ns->store->volatile_write_cache;
}
/* Check one command of a fused pair; returns an NVMe status. */
uint16_t io_check_fused(struct target_request *req, const struct nvme_sqe *sqe, bool compare);
void io_ranges_arrived(struct target_request *req, const void *ranges);
/* Continue a Verify after one of its pieces. */
void io_verified(struct target_request *req);

/* ---- copy.c ---- */
void copy_command(struct target_request *req, const struct nvme_sqe *sqe);
void copy_ranges_arrived(struct target_request *req, const void *ranges);
/* The place in the namespace of the bytes for this offset of the destination, and how many are left in the source range. */
uint64_t copy_source(const struct target_request *req, uint32_t offset, uint32_t *rest);
void copy_failed(const struct chunk *chunk);	/* it was not read or written */
void copy_end(struct target_request *req);
void copy_unfetched(struct target_request *req);	/* it ends before its source ranges have arrived */

/* ---- steps.c ---- */
void steps_start(struct target_request *req, uint32_t steps);
void steps_end(struct target_request *req);
void steps_serve(struct target_qpair *qp);	/* begin those for which there is room now */
void steps_cancel(struct target_request *req);	/* its state is STEP_IN_LINE */
void steps_drop(struct target_qpair *qp);	/* the connection has ended */

/* ---- lines.c ---- */
void transfer_line_enter(struct target_request *req, struct fifo *line);
void transfer_line_leave(struct target_request *req);
void transfer_kick(struct target_qpair *qp);
void transfer_kick_line(struct fifo *line);	/* requests */
void transfer_drop_lines(struct target_qpair *qp);
/* Cancel a request of which nothing has begun; if that is so, it ends with its status. */
bool transfer_cancel(struct target_request *req);

/* ---- transfer.c ---- */
void transfer_start(struct target_request *req, enum transfer mode, uint32_t length);
void transfer_advance(struct target_request *req);	/* a chunk has ended, or is next in its line */
bool transfer_fetches(const struct target_request *req);	/* whether its data is fetched by RDMA READ */
uint32_t transfer_rest(const struct target_request *req);	/* bytes that the next chunk may have */

/* ---- chunk.c ---- */
/* Begin as much of the request's remaining data as fits into the chunk.  fetch: read it from the host first. */
void chunk_start(struct target_request *req, struct chunk *chunk, bool fetch);
struct target_request *chunk_io_of(const struct store_io *io);	/* the request of the chunk of this io, or NULL */
void chunk_read(struct chunk *chunk);	/* an RDMA READ of it has completed */
void chunk_written(struct chunk *chunk);	/* an RDMA WRITE of it has completed */
void chunk_drop(struct chunk *chunk);	/* remove it from qp->reads; the connection has ended */
void chunk_release(struct chunk *chunk);

/* ---- namespace.c ---- */
void namespace_free(struct target_namespace *ns);
void namespace_free_all(struct target *target);
void namespace_unused(struct target_namespace *ns, struct ns_local *local);
void namespace_failed(const struct target_request *req, uint16_t status);

/* ---- gate.c (control), fence.c ---- */
enum gate_group { GATE_READ, GATE_WRITE, GATE_FLUSH };

void gates_free_all(struct target *target);
void fences_free_all(struct target *target);
void fence_leave(struct target_request *req);

/* ---- fused_capsule.c ---- */
bool fused_capsule(struct target_request *req, const struct nvme_sqe *sqe, uint16_t *status);
void fused_missing(struct target_qpair *qp);
void fused_wait_no_more(struct target_qpair *qp);
void fused_serve(struct reactor *reactor);	/* while reactor->halves is not empty */
bool fused_cancel(struct target_request *req, uint16_t status);

/* ---- fused.c ---- */
void fused_begin(struct target_request *compare, struct target_request *write,
		 const struct nvme_sqe *sqe);
void fused_arrived(struct target_request *req, const uint8_t *data);
void fused_gone(struct target_request *req);

/* ---- invalid.c ---- */
bool invalid_find(const struct ns_invalid *invalid, uint64_t offset, uint64_t length);
bool invalid_keep_ranges(struct target_request *req, const void *ranges);
void invalid_forget(struct target_namespace *ns);
void invalid_free_all(struct target *target);

/* ---- limits.c ---- */
/* Returns whether the request now waits in line; then io_command() is called again later. */
bool limits_wait(struct target_request *req, const struct nvme_sqe *sqe);
/* The command moves fewer bytes than it was admitted for. */
void limits_give_back(const struct target_request *req, uint64_t bytes);
void limits_serve(struct reactor *reactor);
void limits_drop(struct target_qpair *qp);
void limits_cancel(struct target_request *req, uint16_t status);

/* ---- inject.c ---- */
/* Returns whether a fault on purpose has taken over the command.  slots: qp->injected. */
bool inject_command(struct target_request *req, const struct nvme_sqe *sqe, uint32_t slots);
bool inject_serve(struct reactor *reactor);	/* whether there was work */
uint64_t inject_left(const struct reactor *reactor);	/* ns until there is; UINT64_MAX: nothing waits */
uint16_t inject_torn(struct target_request *req, uint16_t status);	/* the status that a torn write ends with */
void inject_drop(struct target_qpair *qp);
void inject_cancel(struct target_request *req, uint16_t status);
void injection_gone(struct target *target, struct target_injection *injection);	/* control */
void injections_free_all(struct target *target);

/* ---- abort.c ---- */
void aborts_free_all(struct target *target);
/* Cancel a request of which nothing was done; if that is so, it ends with status. */
bool request_cancel(struct target_request *req, uint16_t status);

#include "target/inline.h"

#endif
