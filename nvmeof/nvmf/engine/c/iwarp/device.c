/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device and its context: one of each, static, for the whole process; its attributes, and the process-wide
 * options.  Any thread.
 */
#include "device.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEAD_PEER_S = 30 };	/* seconds without an answer until a connection is lost */

struct iw_dev iw_dev = {
	.device = {
		.node_type = IBV_NODE_RNIC,
		.transport_type = IBV_TRANSPORT_IWARP,
		.name = "iwarp0",
		.dev_name = "iwarp0",
	},
	.context = {
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
};

const char *iwarp_qp_end_reason(struct ibv_qp *qp)
{
	return qp && qp->context == &iw_dev.context ? iw_qp_reason(iw_qp(qp)) : "";
}

uint32_t iwarp_qp_reads_served(const struct ibv_qp *qp)
{
	return __atomic_load_n(&iw_qp((struct ibv_qp *)qp)->stream.rx.read_msn, __ATOMIC_RELAXED);
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
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &iw_dev.device;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void iw_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *iw_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context **iw_get_devices(int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &iw_dev.context;
	if (num)
		*num = list ? 1 : 0;
	return list;
}

void iw_free_devices(struct ibv_context **list)
{
	free(list);
}

struct ibv_context *iw_open_device(struct ibv_device *device)
{
	if (device != &iw_dev.device) {
		errno = ENODEV;
		return NULL;
	}
	return &iw_dev.context;
}

int iw_close_device(struct ibv_context *context)
{
	return context == &iw_dev.context ? 0 : EINVAL;
}

/* Constant for this machine, and different from real adapters: locally administered. */
static uint64_t guid(void)
{
	char host[256] = "";
	uint64_t h = 0xcbf29ce484222325u;

	gethostname(host, sizeof(host) - 1);
	for (const char *p = host; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	return (h & ~0x0300000000000000u) | 0x0200000000000000u;
}

int iw_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.0");
	attr->node_guid = attr->sys_image_guid = __builtin_bswap64(guid());
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000u;
	attr->max_qp = 1 << 20;
	attr->max_qp_wr = IW_MAX_WR;
	attr->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_SRQ_RESIZE;
	attr->max_sge = IW_MAX_SGE;
	attr->max_sge_rd = IW_MAX_SGE;
	attr->max_cq = 1 << 20;
	attr->max_cqe = IW_MAX_CQE;
	attr->max_mr = attr->max_mw = IW_MAX_STAGS;
	attr->max_pd = 1 << 20;
	attr->max_srq = 1 << 20;
	attr->max_srq_wr = IW_MAX_SRQ_WR;
	attr->max_srq_sge = IW_MAX_SGE;
	attr->max_qp_rd_atom = IW_MAX_IRD;
	attr->max_res_rd_atom = 1 << 24;
	attr->max_qp_init_rd_atom = IW_MAX_IRD;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
	return 0;
}

int iw_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = 0x80000000u;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->active_width = 2;		/* 4X */
	attr->active_speed = 4;		/* 10 Gb/s per lane */
	attr->phys_state = 5;		/* link up */
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int iw_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != 1 || index != 0)
		return EINVAL;
	memset(gid, 0, sizeof(*gid));
	iw_put64(gid->raw, guid());
	return 0;
}
