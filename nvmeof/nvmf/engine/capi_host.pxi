# SPDX-License-Identifier: BSD-3-Clause
# The host side, as declared in c/host/host.h.

cdef extern from "host/host.h" nogil:
    struct host_device:
        pass
    struct host_queue:
        pass
    enum host_remote_keys:
        HOST_KEYS_OF_COMMANDS
        HOST_KEYS_OF_BUFFERS
    host_device *host_device_get(const verbs *v, host_remote_keys keys, char *err, size_t len)
    void host_device_put(host_device *device)
    struct host_memory:
        void *addr
        size_t length
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
        const int *cancel
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
        const host_memory *memory
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
    unsigned host_queue_room(const host_queue *queue)
    int host_queue_fd(const host_queue *queue)
    int host_queue_arm(host_queue *queue)
    void host_queue_drain(host_queue *queue)
    unsigned host_queue_nudge(host_queue *queue)

cdef extern from "host/load.h" nogil:
    struct host_load_options:
        const char *traddr
        const char *trsvcid
        const char *subnqn
        const char *hostnqn
        const char *hostid
        uint32_t nsid
        unsigned queues
        uint16_t queue_depth
        unsigned threads
        int cpu
        const verbs *table "verbs"
        host_remote_keys keys
    struct host_load_run:
        unsigned queues
        uint16_t depth
        uint32_t block_size
        bint random
        int read_percent
        bint fua
        bint flush
        double seconds
        double ramp
        uint64_t offset
        uint64_t size
        uint64_t commands
        unsigned npercentiles
        double percentiles[20]
    struct host_load_part:
        uint64_t ios
        double min_us
        double max_us
        double mean_us
        double stddev_us
        double percentile_us[20]
    struct host_load_live:
        uint64_t reads
        uint64_t writes
        uint64_t ns
    enum:
        HOST_LOAD_PERCENTILES
    struct host_load_result:
        uint64_t ios
        uint64_t bytes
        double seconds
        double cpu_seconds
        double mean_us
        double p50_us
        double p99_us
        double p999_us
        double queue_min_iops
        double queue_max_iops
        host_load_part read
        host_load_part write
    void host_bench_live(host_load_live *live)
    unsigned host_load_default_threads(unsigned queues)
    void host_bench_cancel()
    int host_bench(const host_load_options *options, const host_load_run *run,
                   host_load_result *result, host_error *error)

cdef extern from "host/batch.h" nogil:
    enum:
        HOST_BATCH_OPEN
    struct host_batch:
        nvme_sqe sqe
        const uint64_t *lbas
        uint32_t count
        uint32_t bytes
        const host_memory *memory
        uint8_t *addr
        bint to_device
        bint in_capsule
        unsigned depth
        uint16_t *status
        uint32_t answered
        bint stopped
        int error
    int host_batch_init(host_batch *batch)
    void host_batch_free(host_batch *batch)
    void host_batch_start(host_batch *batch, unsigned at_once)
    void host_batch_abandon(host_batch *batch)
    void host_batch_run(host_queue *queue, host_batch *batch)
    bint host_batch_ended(const host_batch *batch)
    int host_batch_poll(host_queue *queue, host_completion *completions, int max, uint64_t ns)

cdef extern from "host/answer.h" nogil:
    void host_answer_take(void *user, const nvme_cqe *cqe)

cdef extern from "host/spread.h" nogil:
    enum:
        HOST_SPREAD_LEGS
        HOST_SPREAD_BLOCK
    struct host_spread:
        pass
    struct host_spread_options:
        unsigned legs
        uint8_t *addr
        unsigned small
        unsigned large
        uint32_t small_bytes
        uint32_t large_bytes
    struct host_spread_leg:
        host_queue *queue
        const host_memory *memory
        uint32_t nsid
        uint8_t shift
        unsigned most
        bint paused
    struct host_spread_news:
        unsigned op
        uint32_t out
        uint32_t has
        uint32_t failed
    host_spread *host_spread_create(const host_spread_options *options)
    void host_spread_destroy(host_spread *spread)
    int host_spread_attach(host_spread *spread, unsigned index, const host_spread_leg *leg)
    void host_spread_detach(host_spread *spread, unsigned index)
    void host_spread_stop(host_spread *spread, unsigned index)
    uint32_t host_spread_attached(const host_spread *spread)
    uint32_t host_spread_stopped(const host_spread *spread)
    void host_spread_pause(host_spread *spread, unsigned index, bint paused)
    int host_spread_write(host_spread *spread, uint32_t legs, const uint64_t *offsets,
                          uint32_t count, uint32_t nbytes, const void *data, bint more)
    void host_spread_flush(host_spread *spread)
    void host_spread_run(host_spread *spread, unsigned index)
    bint host_spread_take(host_spread *spread, host_spread_news *news)
    bint host_spread_has_news(const host_spread *spread)
    uint32_t host_spread_has(const host_spread *spread, unsigned op)
