/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libnvmf-verbs: an embedded device under the symbol names and versions of libibverbs and librdmacm, for programs that
 * are linked against these.  `nvmeof verbs` preloads it (LD_PRELOAD), so that its symbols are found before the
 * libraries'; libverbs.map has their versions.
 *
 * The libraries themselves stay loaded.  Programs use functions of theirs that have nothing to do with a device
 * (ibv_wc_status_str, rdma_event_str, ...), and the libraries of adapters that programs are linked against (perftest:
 * libmlx5 and libefa) need the private symbols of exactly that libibverbs.  A replacement found by LD_LIBRARY_PATH would
 * need all of them.  Each function that takes an object of a device must be here, even if it only reports that it is
 * not supported: the library's function would treat our objects as its own.
 *
 * Nothing here calls a library: the device is an embedded one, and the table of the libraries' devices (verbs/system.c)
 * is not part of this.
 */
#ifndef NVMF_LIBVERBS_H
#define NVMF_LIBVERBS_H

#include "verbs.h"

#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

/* The device that NVMEOF_VERBS_DEVICE names ("iwarp", which is the default, or "roce"). */
const struct verbs *device(void);

/* ---- objects.c ---- */

/* Report that a function, or an attribute, is not supported. */
int unsupported(void);			/* EOPNOTSUPP, also as errno */

/* ---- completions.c: ibv_create_cq_ex and ibv_start_poll ---- */

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
void wc_batch_free(struct wc_batch *batch);

/* ---- pairs.c ---- */

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* Convert attr to that of ibv_create_qp; an errno if something in it is not supported. */
int plain_attr(const struct ibv_qp_init_attr_ex *attr, struct ibv_qp_init_attr *plain);
/* Give a new queue pair the functions of ibv_wr_start() and so on, if attr requests them; an errno. */
int pair_extend(struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr);

/* ---- requests.c: ibv_wr_start and so on ---- */

int wr_batch_new(struct ibv_qp *qp, const struct ibv_qp_cap *cap);
struct wr_batch *wr_batch_of(const struct ibv_qp *qp);
void wr_batch_free(struct wr_batch *batch);

/* ---- ids.c ---- */

/* Fields of an id in addition to those of the device's id. */
struct id_extra {
	bool sync;			/* its calls wait for their event, on a channel of its own */
	bool own_send_cq, own_recv_cq;	/* made by rdma_create_qp */
	bool has_attr;			/* of a listener of rdma_create_ep: for the queue pairs of its requests */
	struct ibv_pd *pd;
	struct ibv_qp_init_attr attr;
};

static inline struct id_extra **id_extra(struct rdma_cm_id *id)
{
	return &((struct verbs_id_head *)id)->extra;
}

#endif
