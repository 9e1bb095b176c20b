/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device and its context: one of each, static, for the whole process; its attributes, and the process-wide
 * options.  Any thread.
 */
#include "device.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define GUID_SEED 0xcbf29ce484222325u

enum { DEAD_PEER_S = 30 };	/* seconds without an answer until a connection is lost */

struct iw_device iw_dev = {
	.device = {
		.node_type = IBV_NODE_RNIC,
		.transport_type = IBV_TRANSPORT_IWARP,
		.name = "iwarp0",
		.dev_name = "iwarp0",
	},
	.ext = {
		.sz = sizeof(struct verbs_context),
		.context = {
			.abi_compat = __VERBS_ABI_IS_EXTENDED,
			.device = &iw_dev.device,
			.ops = {
				.alloc_mw = iw_alloc_mw,
				.dealloc_mw = iw_dealloc_mw,
				.poll_cq = iw_poll_cq,
				.req_notify_cq = iw_req_notify_cq,
				.post_send = iw_post_send,
				.post_recv = iw_post_recv,
				.post_srq_recv = iw_post_srq_recv,
			},
			.cmd_fd = -1,
			.async_fd = -1,
			.num_comp_vectors = 1,
			.mutex = PTHREAD_MUTEX_INITIALIZER,
		},
	},
};

const char *iwarp_qp_end_reason(struct ibv_qp *qp)
{
	return qp && qp->context == &iw_dev.ext.context ? iw_qp_reason(iw_qp(qp)) : "";
}

uint32_t iwarp_qp_reads_served(const struct ibv_qp *qp)
{
	return __atomic_load_n(&iw_qp((struct ibv_qp *)qp)->stream.rx.read_msn, __ATOMIC_RELAXED);
}

void iwarp_qp_bytes(const struct ibv_qp *qp, uint64_t *written, uint64_t *read)
{
	const struct iw_rx *rx = &iw_qp((struct ibv_qp *)qp)->stream.rx;

	*written = stat_read(&rx->written);
	*read = stat_read(&rx->read);
}

static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;
static char congestion[16];
static struct iwarp_options options = {
	.mpa_revision = 2,
	.first_fpdu_delay_us = 2000,
	.handshake_timeout_ms = 10000,
};

void iwarp_set_options(const struct iwarp_options *o)
{
	pthread_mutex_lock(&options_lock);
	options = *o;
	if (o->congestion) {
		/* a copy: the caller's string may be freed */
		strncpy(congestion, o->congestion, sizeof(congestion) - 1);
		options.congestion = congestion;
	}
	pthread_mutex_unlock(&options_lock);
}

void iwarp_get_options(struct iwarp_options *o)
{
	pthread_mutex_lock(&options_lock);
	*o = options;
	pthread_mutex_unlock(&options_lock);
}

/* Set TCP options for the data path. */
int iw_tune_socket(int fd)
{
	int one = 1, quiet = DEAD_PEER_S / 2, probe = DEAD_PEER_S / 6, lost = DEAD_PEER_S * 1000;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return -1;
	/* a peer whose machine is down sends nothing: this replaces the transport timeout of other RC devices */
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &quiet, sizeof(quiet));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe, sizeof(probe));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof(lost));
	return 0;
}

struct ibv_device **iw_get_device_list(int *num)
{
	return iw_device_list(&iw_dev, num);
}

struct ibv_context **iw_get_devices(int *num)
{
	return iw_context_list(&iw_dev, num);
}

struct ibv_context *iw_open_device(struct ibv_device *device)
{
	return iw_device_open(&iw_dev, device);
}

int iw_close_device(struct ibv_context *context)
{
	return iw_device_close(&iw_dev, context);
}

int iw_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	iw_device_attributes(GUID_SEED, attr);
	attr->max_qp_wr = IW_MAX_WR;
	attr->max_sge = attr->max_sge_rd = attr->max_srq_sge = IW_MAX_SGE;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = IW_MAX_IRD;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	return 0;
}

int iw_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	return iw_device_gid(GUID_SEED, port, index, gid);
}
