# SPDX-License-Identifier: BSD-3-Clause
# The C that the binding calls: declarations only, see the headers under c/ for what they mean.

from libc.errno cimport EAGAIN, EBADF, EBUSY, EIO, EINVAL, ENODEV, ENOMEM, ENOSYS, ENOTCONN, errno
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset, strerror

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    struct sockaddr:
        unsigned short sa_family
    struct sockaddr_storage:
        unsigned short ss_family
    int AF_INET
    int AF_INET6
    int SOCK_STREAM

cdef extern from "<netinet/in.h>" nogil:
    struct sockaddr_in:
        pass
    struct sockaddr_in6:
        pass

cdef extern from "<arpa/inet.h>" nogil:
    int INET6_ADDRSTRLEN
    const char *inet_ntop(int af, const void *src, char *dst, socklen_t size)

cdef extern from "<netdb.h>" nogil:
    struct addrinfo:
        int ai_flags
        int ai_family
        int ai_socktype
        socklen_t ai_addrlen
        sockaddr *ai_addr
        addrinfo *ai_next
    int getaddrinfo(const char *node, const char *service, const addrinfo *hints, addrinfo **res)
    void freeaddrinfo(addrinfo *res)
    const char *gai_strerror(int code)
    int getnameinfo(const sockaddr *addr, socklen_t addrlen, char *host, socklen_t hostlen,
                    char *serv, socklen_t servlen, int flags)
    int AI_PASSIVE
    int AI_NUMERICSERV
    int NI_NUMERICHOST
    int NI_NUMERICSERV

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout)
    short POLLIN

cdef extern from "<fcntl.h>" nogil:
    int fcntl(int fd, int cmd, ...)
    int F_GETFL
    int F_SETFL
    int O_NONBLOCK

cdef extern from "<infiniband/verbs.h>" nogil:
    struct ibv_device:
        int node_type
        int transport_type
    struct ibv_context:
        ibv_device *device
    union ibv_gid:
        uint8_t raw[16]
    struct ibv_device_attr:
        char fw_ver[64]
        uint32_t vendor_id
        uint32_t vendor_part_id
        uint64_t max_mr_size
        int max_qp
        int max_qp_wr
        int max_sge
        int max_cq
        int max_cqe
        int max_mr
        int max_pd
        int max_qp_rd_atom
        int max_qp_init_rd_atom
        int max_srq
        uint8_t phys_port_cnt
    struct ibv_port_attr:
        int state
        int max_mtu
        int active_mtu
        int gid_tbl_len
        uint8_t link_layer

cdef extern from "<rdma/rdma_cma.h>" nogil:
    struct rdma_event_channel:
        int fd
    struct rdma_addr:
        sockaddr src_addr
        sockaddr dst_addr
    struct rdma_route:
        rdma_addr addr
    struct rdma_cm_id:
        ibv_context *verbs
        void *context
        rdma_route route
    struct rdma_conn_param:
        const void *private_data
        uint8_t private_data_len
        uint8_t responder_resources
        uint8_t initiator_depth
    struct rdma_cm_event:
        rdma_cm_id *id
        rdma_cm_id *listen_id
        int event
        int status
    enum:
        RDMA_PS_TCP
        RDMA_CM_EVENT_CONNECT_REQUEST
        RDMA_OPTION_ID
        RDMA_OPTION_ID_AFONLY

cdef extern from *:
    """
    #include <errno.h>
    #include <rdma/rdma_cma.h>
    static inline void nvmf_clear_errno(void)
    {
        errno = 0;
    }
    static inline const struct rdma_conn_param *nvmf_event_conn(const struct rdma_cm_event *event)
    {
        return &event->param.conn;
    }
    """
    void clear_errno "nvmf_clear_errno"() nogil
    const rdma_conn_param *nvmf_event_conn(const rdma_cm_event *event) nogil

cdef extern from "verbs/verbs.h" nogil:
    struct verbs:
        const char *name
        ibv_device **(*get_device_list)(int *num) noexcept nogil
        void (*free_device_list)(ibv_device **list) noexcept nogil
        const char *(*get_device_name)(ibv_device *device) noexcept nogil
        ibv_context *(*open_device)(ibv_device *device) noexcept nogil
        int (*close_device)(ibv_context *context) noexcept nogil
        int (*query_device)(ibv_context *context, ibv_device_attr *attr) noexcept nogil
        int (*query_port)(ibv_context *context, uint8_t port, ibv_port_attr *attr) noexcept nogil
        int (*query_gid)(ibv_context *context, uint8_t port, int index, ibv_gid *gid) noexcept nogil
        rdma_event_channel *(*create_event_channel)() noexcept nogil
        void (*destroy_event_channel)(rdma_event_channel *channel) noexcept nogil
        int (*create_id)(rdma_event_channel *channel, rdma_cm_id **id, void *context,
                         int ps) noexcept nogil
        int (*destroy_id)(rdma_cm_id *id) noexcept nogil
        int (*set_option)(rdma_cm_id *id, int level, int optname, void *optval,
                          size_t optlen) noexcept nogil
        int (*bind_addr)(rdma_cm_id *id, sockaddr *addr) noexcept nogil
        int (*listen)(rdma_cm_id *id, int backlog) noexcept nogil
        int (*reject)(rdma_cm_id *id, const void *private_data, uint8_t len) noexcept nogil
        int (*get_cm_event)(rdma_event_channel *channel, rdma_cm_event **event) noexcept nogil
        int (*ack_cm_event)(rdma_cm_event *event) noexcept nogil
    const verbs *verbs_iwarp()
    const verbs *verbs_system(char *why, size_t len)
    struct iwarp_options:
        bint crc
        const char *congestion
        uint16_t mpa_revision
        uint32_t first_fpdu_delay_us
        uint32_t handshake_timeout_ms
    void iwarp_set_options(const iwarp_options *options)
    void iwarp_get_options(iwarp_options *options)

cdef extern from "iwarp/stats.h" nogil:
    struct iwarp_live:
        unsigned pd
        unsigned mr
        unsigned cq
        unsigned qp
        unsigned cm_id
    const iwarp_live *iwarp_get_live()

cdef extern from "nvme.h" nogil:
    struct nvme_sqe:
        uint8_t opc
    struct nvme_cqe:
        uint32_t dw0
        uint32_t dw1
        uint16_t sqhd
        uint16_t cid
        uint16_t status
    struct nvme_rdma_cm_rej:
        uint16_t recfmt
        uint16_t sts
    enum:
        NVME_INTERNAL_ERROR

cdef extern from "store/store.h" nogil:
    enum store_kind:
        STORE_RAM
        STORE_FILE
        STORE_PMEM
        STORE_NULL
    struct store_options:
        const char *kind
        const char *path
        uint64_t size
        uint32_t block_size
        int direct
        bint read_only
    struct c_store "store":
        store_kind kind
        uint64_t size
        uint32_t block_size
        uint32_t physical_block_size
        bint volatile_write_cache
        bint deallocate
        bint read_only
        bint direct
        const char *guarantee
        char *path
    c_store *store_open(const store_options *options, char *err, size_t len)
    void store_close(c_store *s)
    int store_resize(c_store *s, uint64_t size, char *err, size_t len)
    uint16_t store_flush(c_store *s)

cdef extern from "target/target.h" nogil:
    struct c_target "target":
        pass
    struct target_qpair:
        pass
    struct target_request:
        pass
    struct target_namespace:
        pass
    struct target_nstable:
        pass
    struct target_gates:
        pass
    struct target_fence:
        pass
    struct target_abort:
        pass
    struct target_range:
        uint64_t slba
        uint64_t blocks
    struct target_options:
        unsigned reactors
        const int *cpus
        uint32_t spin_us
        uint32_t buffer_size
        uint32_t buffers
        uint32_t cq_entries
    c_target *target_create(const target_options *options, char *err, size_t len)
    void target_destroy(c_target *t)
    int target_fd(const c_target *t)
    struct target_qpair_options:
        unsigned reactor
        uint16_t qid
        uint16_t recv_depth
        uint16_t send_depth
        uint32_t in_capsule
        uint32_t max_transfer
        uint8_t initiator_depth
        uint8_t responder_resources
        void *cookie
    target_qpair *target_qpair_accept(c_target *t, const verbs *v, rdma_cm_id *id,
                                      const target_qpair_options *options, char *err, size_t len)
    void target_qpair_connected(target_qpair *qp, uint16_t sq_size, target_nstable *namespaces)
    void target_qpair_show(target_qpair *qp, target_nstable *namespaces)
    void target_qpair_enable(target_qpair *qp, bint enabled)
    void target_qpair_disconnect(target_qpair *qp)
    void target_qpair_peer_left(target_qpair *qp)
    void target_qpair_destroy(target_qpair *qp)
    struct c_qpair_stats "target_qpair_stats":
        uint64_t commands
        uint64_t errors
        uint64_t read_bytes
        uint64_t write_bytes
        uint64_t malformed
        uint64_t waited_for_buffer
        uint32_t outstanding
    void qpair_stats "target_qpair_stats"(const target_qpair *qp, c_qpair_stats *stats)
    enum:
        TARGET_ERRORS
    struct target_error:
        uint64_t number
        uint64_t when
        uint64_t lba
        uint32_t nsid
        uint16_t cid
        uint16_t status
        uint16_t location
        uint8_t opcode
    unsigned target_qpair_errors(const target_qpair *qp, uint64_t after, uint64_t *last,
                                 target_error *errors)
    enum target_upcall_type:
        TARGET_UPCALL_COMMAND
        TARGET_UPCALL_CLOSED
        TARGET_UPCALL_RETIRED
        TARGET_UPCALL_FENCED
        TARGET_UPCALL_FAULTED
        TARGET_UPCALL_ABORTED
    struct target_upcall:
        target_upcall *next
        target_upcall_type type
        target_qpair *qpair
        void *cookie
        target_request *request
        target_namespace *ns
        target_fence *fence
        target_abort *abort
        bint aborted
        const char *reason
    target_upcall *target_upcalls(c_target *t)
    const nvme_sqe *target_request_sqe(const target_request *request)
    const void *target_request_data(const target_request *request, uint32_t *len)
    void target_complete(target_request *request, uint16_t status, uint32_t dw0, uint32_t dw1,
                         const void *data, uint32_t len)
    target_namespace *target_namespace_create(c_target *t, uint32_t nsid, c_store *s, char *err,
                                              size_t len)
    void target_namespace_destroy(target_namespace *ns)
    void target_namespace_resized(target_namespace *ns)
    void target_device_gone(c_target *target, const verbs *table, const char *name) nogil
    struct c_namespace_stats "target_namespace_stats":
        uint64_t reads
        uint64_t writes
        uint64_t read_bytes
        uint64_t write_bytes
        uint64_t errors
        uint64_t media_errors
        uint64_t throttled
        uint64_t flushes
        uint64_t compares
        uint64_t verifies
        uint64_t zeroes
        uint64_t deallocates
        uint64_t checked_bytes
    void namespace_stats "target_namespace_stats"(const target_namespace *ns,
                                                  c_namespace_stats *stats)
    uint64_t target_namespace_busy(const target_namespace *ns, unsigned reactor)
    enum:
        TARGET_LATENCY_BUCKETS
    struct target_latency:
        uint64_t read[24]
        uint64_t write[24]
        uint64_t read_ns
        uint64_t write_ns
    void target_namespace_latency(const target_namespace *ns, target_latency *latency)
    struct target_fault:
        uint64_t offset
        uint64_t length
        int error
        uint16_t status
        uint8_t opcode
    const target_fault *target_namespace_fault(const target_namespace *ns)
    void target_namespace_rearm(target_namespace *ns)
    target_nstable *target_nstable_create(c_target *t, uint32_t max_nsid)
    void target_nstable_destroy(target_nstable *table)
    int target_nstable_set(target_nstable *table, uint32_t nsid, target_namespace *ns)
    struct target_limits:
        uint64_t read_iops
        uint64_t write_iops
        uint64_t iops
        uint64_t read_bandwidth
        uint64_t write_bandwidth
        uint64_t bandwidth
        uint32_t burst_ms
    int target_namespace_invalid(target_namespace *ns, const target_range *ranges, uint32_t count)
    int target_namespace_limits(target_namespace *ns, const target_limits *limits)
    struct target_gate:
        uint16_t read
        uint16_t write
        uint16_t flush
    void target_namespace_gate(target_namespace *ns, const target_gate *gate)
    target_gates *target_gates_create(c_target *t, uint32_t max_nsid)
    void target_gates_destroy(target_gates *gates)
    int target_gates_set(target_gates *gates, uint32_t nsid, const target_gate *gate)
    void target_qpair_gates(target_qpair *qp, target_gates *gates)
    target_fence *target_fence_create(c_target *t, target_qpair **qpairs, unsigned count,
                                      uint32_t nsid, uint16_t abort, void *cookie)
    void target_fence_destroy(target_fence *fence)
    target_abort *target_abort_create(target_qpair *qp, uint16_t cid, void *cookie)
    void target_abort_destroy(c_target *t, target_abort *abort)

cdef extern from "host/host.h" nogil:
    struct host_device:
        pass
    struct host_queue:
        pass
    host_device *host_device_get(const verbs *v, char *err, size_t len)
    void host_device_put(host_device *device)
    struct host_memory:
        void *addr
        size_t length
        uint32_t rkey
        uint32_t lkey
    host_memory *host_memory_alloc(host_device *device, size_t length, char *err, size_t len)
    host_memory *host_memory_register(host_device *device, void *addr, size_t length, char *err,
                                      size_t len)
    void host_memory_free(host_memory *memory)
    struct host_queue_options:
        const char *traddr
        const char *trsvcid
        const char *host_traddr
        uint16_t qid
        uint16_t size
        uint16_t cntlid
        uint32_t in_capsule
        uint32_t timeout_ms
        bint notify
    struct host_error:
        int cm_event
        int cm_status
        int reject_sts
        int nvme_status
        char text[400]
    host_queue *host_queue_connect(host_device *device, const host_queue_options *options,
                                   host_error *error)
    void host_queue_destroy(host_queue *queue)
    struct host_data:
        void *addr
        uint32_t length
        uint32_t rkey
        uint32_t lkey
        bint to_device
        bint in_capsule
    int host_queue_submit(host_queue *queue, const nvme_sqe *sqe, const host_data *data,
                          void *user, bint more)
    struct host_completion:
        void *user
        nvme_cqe cqe
    int host_queue_poll(host_queue *queue, host_completion *completions, int max)
    int host_queue_abandon(host_queue *queue, void **users, int max)
    const char *host_queue_reason(const host_queue *queue)
    unsigned host_queue_outstanding(const host_queue *queue)
    unsigned host_queue_size(const host_queue *queue)
    int host_queue_fd(const host_queue *queue)
    int host_queue_arm(host_queue *queue)
    void host_queue_drain(host_queue *queue)
    unsigned host_queue_nudge(host_queue *queue)
    struct host_bench_options:
        const char *traddr
        const char *trsvcid
        const char *subnqn
        const char *hostnqn
        uint32_t nsid
        bint random
        int read_percent
        uint32_t block_size
        uint16_t queue_depth
        uint16_t queues
        double seconds
        int cpu
        const verbs *table "verbs"
    struct host_bench_result:
        uint64_t ios
        uint64_t bytes
        double seconds
        double cpu_seconds
        double mean_us
        double p50_us
        double p99_us
        double p999_us
    void host_bench_cancel()
    int host_bench(const host_bench_options *options, host_bench_result *result,
                   host_error *error)
