# SPDX-License-Identifier: BSD-3-Clause
# Stores and the target, as declared in c/store/store.h and c/target/target.h.

cdef extern from "store/store.h" nogil:
    enum store_kind:
        STORE_RAM
        STORE_FILE
        STORE_PMEM
        STORE_NULL
        STORE_PYTHON
    struct store_options:
        const char *kind
        const char *path
        uint64_t size
        uint32_t block_size
        int direct
        bint read_only
        bint power_fail_atomic
        bint persistent
        uint32_t calls
        uint64_t bytes
        uint32_t limit_ms
        uint32_t physical_block_size
        bint volatile_write_cache
        bint deallocate
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
        uint8_t *map
    c_store *store_open(const store_options *options, char *err, size_t len)
    void store_close(c_store *s)
    int store_resize(c_store *s, uint64_t size, char *err, size_t len)
    uint16_t store_flush(c_store *s)
    uint16_t store_memory_write(c_store *s, uint64_t offset, const void *data, size_t length,
                                bint fua)
    uint16_t store_memory_check(c_store *s, uint64_t offset, size_t length)

cdef extern from "store/python.h" nogil:
    struct store_python_call:
        uint64_t number
        int op
        uint32_t flags
        uint64_t offset
        uint64_t length
        const void *data
    int store_python_fd(const c_store *s)
    bint store_python_take(c_store *s, store_python_call *call)
    void store_python_taken(c_store *s, uint64_t number)
    bint store_python_answer(c_store *s, uint64_t number, uint16_t status, int error,
                             const void *data, uint64_t length)
    void store_python_stop(c_store *s)

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
    unsigned target_qpair_nudge(target_qpair *qp)
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
        TARGET_UPCALL_DESTROYED
        TARGET_UPCALL_DEVICE
        TARGET_UPCALL_FREED
        TARGET_UPCALL_INJECTED
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
        const char *device
        const char *reason
    target_upcall *target_upcalls(c_target *t)
    const nvme_sqe *target_request_sqe(const target_request *request)
    const void *target_request_data(const target_request *request, uint32_t *len)
    void target_complete(target_request *request, uint16_t status, uint32_t dw0, uint32_t dw1,
                         const void *data, uint32_t len)
    target_namespace *target_namespace_create(c_target *t, uint32_t nsid, c_store *s, char *err,
                                              size_t len)
    bint target_namespace_destroy(target_namespace *ns)
    void target_namespace_resized(target_namespace *ns)
    int target_device_open(c_target *target, const verbs *table, ibv_context *context, char *err,
                           size_t len) nogil
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
        uint64_t copies
        uint64_t copied_bytes
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

cdef extern from "target/inject.h" nogil:
    enum target_inject_kind:
        TARGET_INJECT_DELAY
        TARGET_INJECT_HANG
        TARGET_INJECT_DROP
        TARGET_INJECT_CUT
        TARGET_INJECT_TORN
    enum:
        TARGET_INJECTIONS
        TARGET_INJECT_DELAYS
    struct target_inject_options:
        target_inject_kind kind
        uint16_t status
        uint32_t nsid
        uint64_t opcodes[4]
        uint64_t slba
        uint64_t blocks
        uint64_t threshold
        uint64_t after
        uint64_t count
        uint64_t seed
        uint64_t bandwidth
        uint32_t delay_us[256]
    int target_inject_begin(c_target *t, const target_inject_options *options, void *cookie)
    void target_inject_end(c_target *t, unsigned slot)
    void target_inject_counts(const c_target *t, unsigned slot, uint64_t *matched, uint64_t *hits)
    void target_qpair_inject(target_qpair *qp, uint32_t slots)
