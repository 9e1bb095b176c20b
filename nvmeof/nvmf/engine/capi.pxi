# SPDX-License-Identifier: BSD-3-Clause
# The C that all of the binding calls: libraries, verbs, NVMe.  The stores and the target are in
# capi_target.pxi, the host side in capi_host.pxi.  Declarations only, see the headers under c/ for
# what they mean.

from libc.errno cimport (EAGAIN, EBADF, EBUSY, EIO, EINVAL, ENODEV, ENOMEM, ENOSPC, ENOSYS, ENOTCONN,
                         EROFS, errno)
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
        ibv_context **(*get_devices)(int *num) noexcept nogil
        void (*free_devices)(ibv_context **devices) noexcept nogil
        int (*ack_cm_event)(rdma_cm_event *event) noexcept nogil
    const verbs *verbs_iwarp()
    const verbs *verbs_roce()
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
        unsigned mw
        unsigned cq
        unsigned srq
        unsigned qp
        unsigned cm_id
    const iwarp_live *iwarp_get_live()

cdef extern from "capture/capture.h" nogil:
    int capture_start(const char *name, char *why, size_t size)

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
