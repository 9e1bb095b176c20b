# SPDX-License-Identifier: BSD-3-Clause
# Remote memory, as declared in c/memory/server.h and c/memory/client.h.

cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"

cdef extern from "memory/server.h" nogil:
    enum:
        MEMORY_MESSAGE
        MEMORY_DEPTH_MAX
        MEMORY_EVENT_NONE
        MEMORY_EVENT_MESSAGE
        MEMORY_EVENT_CLOSED
    struct memory_server:
        pass
    struct memory_conn:
        pass
    struct memory_event:
        int type
        void *cookie
        uint32_t length
        uint8_t message[1]  # MEMORY_MESSAGE of them
        char reason[200]
    struct memory_counts:
        uint64_t persists
        uint64_t persisted_bytes
        uint64_t errors
        uint64_t written_bytes
        uint64_t read_bytes
        bint counts_bytes
    memory_server *memory_server_create(unsigned spin_us, char *err, size_t len)
    void memory_server_destroy(memory_server *server)
    int memory_server_fd(const memory_server *server)
    void memory_server_event(memory_server *server, memory_event *event)
    memory_conn *memory_conn_accept(memory_server *server, const verbs *table, rdma_cm_id *id,
                                    unsigned depth, uint8_t reads, const void *data,
                                    uint8_t data_len, void *cookie, char *err, size_t len)
    int memory_conn_grant(memory_conn *conn, c_store *store, uint64_t length, bint write,
                          uint32_t *key, uint64_t *address, uint32_t *platform, char *err,
                          size_t len)
    int memory_conn_send(memory_conn *conn, const void *message, uint32_t length)
    void memory_conn_close(memory_conn *conn, const char *reason)
    memory_counts memory_conn_counts(const memory_conn *conn)
    void memory_conn_free(memory_conn *conn)

cdef extern from "memory/client.h" nogil:
    enum memory_method:
        MEMORY_WRITE_READ
        MEMORY_WRITE_FLUSH
        MEMORY_WRITE_FLUSH_TAIL
        MEMORY_WRITE_SEND
        MEMORY_FLOOR
        MEMORY_READ
        MEMORY_MAKE_PERSISTENT
    struct memory_client:
        pass
    struct memory_client_options:
        const char *traddr
        const char *trsvcid
        const char *host_traddr
        const verbs *table "verbs"
        unsigned depth
        uint32_t slot_bytes
        uint32_t timeout_ms
        const void *data
        uint8_t data_len
    struct memory_done:
        unsigned slot
        int status
    enum:
        MEMORY_BENCH_CLIENTS
    struct memory_bench_options:
        memory_method method
        uint32_t size
        unsigned depth
        unsigned read_percent
        bint sleeps
        double seconds
        unsigned npercentiles
        double percentiles[16]
    struct memory_bench_part:
        uint64_t ios
        double mean_us
        double min_us
        double max_us
        double percentile_us[16]
    struct memory_bench_result:
        memory_bench_part write
        memory_bench_part read
        double seconds
        double cpu_seconds
    memory_client *memory_client_connect(const memory_client_options *options, char *err,
                                         size_t len)
    void memory_client_free(memory_client *client)
    uint8_t memory_client_reply(const memory_client *client, const void **data)
    bint memory_client_flushes(const memory_client *client)
    void memory_client_opened(memory_client *client, uint64_t address, uint32_t key,
                              uint64_t size, uint32_t platform)
    uint8_t *memory_client_slot(const memory_client *client, unsigned slot)
    int memory_client_send(memory_client *client, const void *message, uint32_t length)
    uint32_t memory_client_message(memory_client *client, void *message)
    int memory_client_tail_at(memory_client *client, uint64_t offset)
    uint8_t *memory_client_word(const memory_client *client, unsigned slot)
    int memory_client_begin(memory_client *client, unsigned slot, memory_method method,
                            uint64_t offset, uint32_t length)
    int memory_client_poll(memory_client *client, memory_done *done, unsigned max)
    int memory_client_fd(const memory_client *client)
    void memory_client_arm(memory_client *client)
    void memory_client_drain(memory_client *client)
    const char *memory_client_why(const memory_client *client)
    int memory_client_bench(memory_client **clients, unsigned nclients,
                            const memory_bench_options *options, const c_bool *cancel,
                            memory_bench_result *result, char *err, size_t len)
