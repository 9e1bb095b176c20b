/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs table: the one interface between NVMe-oF and an RDMA device.
 *
 * A device is a table of the functions of libibverbs and librdmacm, with their structs, names and semantics.
 * verbs_system() fills it from the libraries, loaded at run time, and verbs_iwarp() from the embedded iWARP device.
 * The inline functions of <infiniband/verbs.h> are not in the table: they call through ibv_context.ops and so work on
 * either device.  They are those of the data path (ibv_post_send, ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq,
 * ibv_req_notify_cq) and ibv_alloc_mw, ibv_dealloc_mw.
 *
 * Memory windows of the embedded device are of type 2B.  Deregistering a region invalidates the windows bound to it
 * (other devices refuse), and destroying a queue pair releases its windows.
 *
 * If a shared receive queue of the embedded device is empty when a Send arrives, the connection is kept: the bytes
 * stay in the socket until a receive is posted.  All later messages of the peer wait for that Send, including Read
 * Responses and Writes, so a consumer must not hold back all receives of a queue until such a message arrives.  There
 * are no limit events: modify_srq with IBV_SRQ_LIMIT returns EOPNOTSUPP.
 *
 * All other functions of libibverbs and librdmacm must be called through the table: nothing links against the
 * libraries.
 *
 * Error convention: that of the wrapped function (NULL or -1 with errno for the rdma_* and create_* functions, a
 * positive errno for ibv_query_*, ibv_modify_qp and ibv_destroy_*).
 */
#ifndef NVMF_VERBS_H
#define NVMF_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verbs {
	const char *name;	/* "iwarp", "roce" or "system" */
	/*
	 * The destination of an RDMA READ need not be registered with REMOTE_WRITE.  True for the embedded device,
	 * which matches a Read Response with its own request; iWARP hardware and siw need the access right,
	 * InfiniBand and RoCE do not.
	 */
	bool read_sink_is_local;
	/*
	 * A SEND completes when it is posted, or at the next poll, and does not depend on later actions of a peer or
	 * a different thread.  True for the embedded device.
	 */
	bool sends_complete_inline;
	/*
	 * For send_flags: the memory of the request does not change until it is complete, and the device may read it
	 * more than once.  With this flag the embedded device sends FPDUs with a CRC without copying them; if the
	 * memory does change, they are broken.  0 if a device has no such flag.
	 */
	unsigned int send_stable;
	/*
	 * The messages of one size that the device sends with one system call, if nothing else is between them and each
	 * has at most train_message bytes.  0: it sends messages of any size together, or one by one.
	 */
	uint32_t train, train_message;
	/* Registering memory takes long and pins its pages.  False for the embedded devices. */
	bool pins_memory;
	/* Regions may be registered with VERBS_PLACE_PERSISTENTLY. */
	bool places_persistently;
	/* FLUSH and ATOMIC WRITE can be posted, and are carried out for the peer. */
	bool flushes;
	/* It reports its packets to captures.  For other devices, the engine reports its work: capture.h. */
	bool shows_packets;
	/*
	 * Whether the device of a context carries out FLUSH (of both placement types), and ATOMIC WRITE, of the peer.
	 * NULL if flushes applies to all contexts.
	 */
	bool (*serves_flush)(struct ibv_context *context);
	bool (*serves_atomic_write)(struct ibv_context *context);

	/* libibverbs */
	struct ibv_device **(*get_device_list)(int *num);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	/*
	 * ibv_create_qp and ibv_destroy_qp: a queue pair without an id, to be connected by modify_qp.  A device whose
	 * connections need the connection manager has such queue pairs, but does not connect them.  NULL on the
	 * libraries' devices, where the engine has no use for them.  bare_destroy also destroys an id's queue pair.
	 */
	struct ibv_qp *(*bare_create)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*bare_destroy)(struct ibv_qp *qp);
	/* End an id's connection and take its queue pair from it, before an id is destroyed whose queue pair stays. */
	void (*bare_release)(struct rdma_cm_id *id);

	/* librdmacm */
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*set_option)(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			    int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(struct rdma_cm_id *id);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t len);
	int (*disconnect)(struct rdma_cm_id *id);
	/* rdma_migrate_id; NULL on the libraries' devices. */
	int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *channel);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	/* rdma_get_devices: the contexts to which ids are bound, ending with NULL. */
	struct ibv_context **(*get_devices)(int *num);
	void (*free_devices)(struct ibv_context **list);
	/*
	 * The reason why the connection of a queue pair ended, as a sentence ("the peer closed the connection", "sent
	 * TERMINATE DDP tagged invalid STag (0x1234)", ...), or "" while it is up.  Valid until the queue pair is
	 * destroyed.  NULL if the device does not provide reasons.
	 */
	const char *(*end_reason)(struct ibv_qp *qp);
	/*
	 * The RDMA READs of the peer that the device has served on this queue pair, for a thread that decides whether
	 * to continue polling.  NULL if no thread of this process serves them.
	 */
	uint32_t (*reads_served)(const struct ibv_qp *qp);
	/* The bytes of the peer's RDMA WRITEs and READs on this queue pair.  NULL if the device does not count them. */
	void (*bytes)(const struct ibv_qp *qp, uint64_t *written, uint64_t *read);
	/* Release removed devices without objects; NULL if the device needs no such call. */
	void (*drop_unused)(void);
};

/*
 * Access right of a region of persistent memory, for a device with places_persistently: data of RDMA WRITEs is in the
 * persistence domain before any later request on the connection is answered.
 */
enum { VERBS_PLACE_PERSISTENTLY = 1 << 29 };

/*
 * FLUSH and ATOMIC WRITE (IBTA, volume 1, annex 19), with the numbers of rdma-core 46 and later: the headers of older
 * versions lack some.
 */
enum {
	VERBS_WR_FLUSH = 14,
	VERBS_WR_ATOMIC_WRITE = 15,
	VERBS_WC_FLUSH = 8,
	VERBS_WC_ATOMIC_WRITE = 9,
	VERBS_ACCESS_FLUSH_GLOBAL = 1 << 8,
	VERBS_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	VERBS_FLUSH_GLOBAL = 1,		/* placement types, which can be combined */
	VERBS_FLUSH_PERSISTENT = 2,
	VERBS_FLUSH_RANGE = 0,		/* selectivity levels */
	VERBS_FLUSH_MR = 1,
	VERBS_FLUSH_LEVEL_SHIFT = 4,
};

/*
 * Enlarge a completion queue of *entries, by doubling, until it has room for needed; false if the device cannot, or if that
 * is more than most.
 */
static inline bool verbs_enlarge_cq(const struct verbs *verbs, struct ibv_cq *cq, uint32_t *entries, uint64_t needed,
				    uint32_t most)
{
	uint64_t size = *entries;

	while (size < needed)
		size *= 2;
	size = size > most ? most : size;
	if (size < needed || verbs->resize_cq(cq, (int)size))
		return false;
	*entries = (uint32_t)size;
	return true;
}

/*
 * Make a work request without SGEs a FLUSH, for ibv_post_send() on a device with flushes.  (ATOMIC WRITE is one with 8
 * bytes and wr.rdma.)  The structure has no fields for it, so those of an atomic operation are used.
 */
static inline void verbs_set_flush(struct ibv_send_wr *wr, uint64_t remote_addr, uint32_t rkey, uint32_t length,
				   unsigned int type, unsigned int level)
{
	wr->opcode = (enum ibv_wr_opcode)VERBS_WR_FLUSH;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = length;
	wr->wr.atomic.swap = type | level << VERBS_FLUSH_LEVEL_SHIFT;
}

/*
 * The beginning of the objects of the embedded devices: the extended structures of libibverbs, of which ibv_qp and
 * ibv_cq are the first fields, and a pointer.  Both belong to libnvmf-verbs, and are zero without it.
 */
struct verbs_qp_head {
	struct ibv_qp_ex ex;
	struct wr_batch *batch;		/* of ibv_wr_start(), if the queue pair was created for it */
};

struct verbs_cq_head {
	struct ibv_cq_ex ex;
	struct wc_batch *batch;		/* of ibv_start_poll(), if the queue was created for it */
};

struct verbs_id_head {
	struct rdma_cm_id id;
	struct id_extra *extra;
};

/* A status in words and by name: "transport retries exceeded (RETRY_EXC_ERR)". */
const char *verbs_wc_name(enum ibv_wc_status status);

/* The embedded iWARP device: always available. */
const struct verbs *verbs_iwarp(void);

/* The embedded RoCEv2 device: always available. */
const struct verbs *verbs_roce(void);

/*
 * The libraries' devices.  Returns NULL if the libraries cannot be loaded, with a sentence in why (at most len bytes)
 * that contains the library's name and the message of the dynamic linker.  A table is also returned if the libraries
 * load but no device exists: get_device_list then says so.
 */
const struct verbs *verbs_system(char *why, size_t len);

/*
 * Options of the embedded device, for the whole process, read when a connection is created. crc: the initiator
 * requests MPA CRC and the responder requires it (default off; a peer's request for CRC is always honoured).
 * congestion: TCP congestion control for the connections, NULL for the default: "reno" over loopback, where it is
 * several times faster than BBR, and the system's setting for other machines.
 */
struct iwarp_options {
	bool crc;
	const char *congestion;
	/* MPA revision of the initiator: 2 (default; 1 in a second attempt if the peer closes at once) or 1. */
	uint16_t mpa_revision;
	uint32_t first_fpdu_delay_us;	/* pause between the MPA reply and ESTABLISHED: 2000 */
	uint32_t handshake_timeout_ms;	/* for the TCP connect and each MPA frame: 10000 */
	/*
	 * The initiator's device sends an empty RDMA WRITE at once, for applications whose responder sends first:
	 * false by default, because NVMe hosts send first.
	 */
	bool first_fpdu;
	/* Time in which a connection refused for lack of a listener is attempted again, also with RoCEv2: 0. */
	uint32_t refused_ms;
};
void iwarp_set_options(const struct iwarp_options *options);
void iwarp_get_options(struct iwarp_options *options);

/* end_reason of the embedded devices; "" for a queue pair of a different device. */
const char *iwarp_qp_end_reason(struct ibv_qp *qp);
const char *roce_qp_end_reason(struct ibv_qp *qp);

/* reads_served and bytes of the embedded iWARP device. */
uint32_t iwarp_qp_reads_served(const struct ibv_qp *qp);
void iwarp_qp_bytes(const struct ibv_qp *qp, uint64_t *written, uint64_t *read);

#endif
