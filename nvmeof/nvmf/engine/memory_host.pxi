# SPDX-License-Identifier: BSD-3-Clause
# Remote memory: the host's end (c/memory/client.h).

cdef c_bool memory_cancel = False

cdef dict MEMORY_METHODS = {
    "write-read": MEMORY_WRITE_READ,
    "write-flush": MEMORY_WRITE_FLUSH,
    "write-flush-tail": MEMORY_WRITE_FLUSH_TAIL,
    "write-send": MEMORY_WRITE_SEND,
    "floor": MEMORY_FLOOR,
    "read": MEMORY_READ,
    "persist": MEMORY_MAKE_PERSISTENT,
}


def memory_bench_cancel():
    """End the running MemoryClient.bench() early; see _engine.pyi."""
    global memory_cancel
    memory_cancel = True


cdef dict _memory_part(const memory_bench_part *part, tuple percentiles, double spent,
                       uint32_t size):
    return {
        "ios": part.ios,
        "iops": part.ios / spent,
        "bytes_per_second": part.ios * size / spent,
        "mean_us": part.mean_us,
        "min_us": part.min_us,
        "max_us": part.max_us,
        "percentiles_us": {f"{percentiles[i]:g}": part.percentile_us[i]
                           for i in range(len(percentiles))},
    }


@cython.final
cdef class MemoryClient:
    """A memory connection of the host; see _engine.pyi."""

    cdef memory_client *_client
    cdef readonly unsigned depth
    cdef readonly uint32_t slot_bytes
    cdef readonly bytes reply
    cdef object __weakref__

    def __cinit__(self, *, kind="iwarp", str traddr not None, trsvcid, str host_traddr=None,
                  unsigned depth=16, uint32_t slot_bytes=65536, uint32_t timeout_ms=10000,
                  bytes private_data not None=b""):
        cdef memory_client_options options
        cdef memory_client *made
        cdef const void *data = NULL
        cdef char err[ERR]
        cdef int code
        if not 1 <= depth <= MEMORY_DEPTH_MAX:
            raise ValueError(f"depth is 1 to {MEMORY_DEPTH_MAX}, not {depth}")
        if not 1 <= slot_bytes <= 16 << 20 or slot_bytes & 7:
            raise ValueError(f"slot_bytes is a multiple of 8 up to 16 MiB, not {slot_bytes}")
        memset(&options, 0, sizeof(options))
        traddr_bytes = traddr.encode()
        trsvcid_bytes = str(trsvcid).encode()
        options.traddr = PyBytes_AS_STRING(traddr_bytes)
        options.trsvcid = PyBytes_AS_STRING(trsvcid_bytes)
        if host_traddr is not None:
            host_bytes = host_traddr.encode()
            options.host_traddr = PyBytes_AS_STRING(host_bytes)
        options.table = table_of(kind)
        options.depth = depth
        options.slot_bytes = slot_bytes
        options.timeout_ms = timeout_ms
        options.data = PyBytes_AS_STRING(private_data)
        options.data_len = <uint8_t>len(private_data)
        err[0] = 0
        with nogil:
            clear_errno()
            made = memory_client_connect(&options, err, ERR)
            code = errno
        if made == NULL:
            raise failed(code, err)
        self._client = made
        self.depth = depth
        self.slot_bytes = slot_bytes
        length = memory_client_reply(made, &data)
        self.reply = PyBytes_FromStringAndSize(<const char *>data, length)

    cdef memory_client *get(self) except NULL:
        if self._client == NULL:
            raise closed("memory connection")
        return self._client

    cdef int check(self, int code) except -1:
        if code == -ENOTCONN:
            raise failed(code, memory_client_why(self._client))
        if code < 0:
            raise EngineError(-code, f"cannot begin an operation: {os.strerror(-code)}")
        return code

    @property
    def flushes(self):
        return memory_client_flushes(self.get())

    def opened(self, uint64_t address, uint32_t key, uint64_t size, uint32_t platform=0):
        memory_client_opened(self.get(), address, key, size, platform)

    def send(self, bytes message not None):
        self.check(memory_client_send(self.get(), PyBytes_AS_STRING(message),
                                      <uint32_t>len(message)))

    def message(self):
        cdef uint8_t message[1184]  # MEMORY_MESSAGE
        cdef uint32_t length = memory_client_message(self.get(), message)
        return PyBytes_FromStringAndSize(<char *>message, length)

    def fill(self, unsigned slot, data):
        cdef memory_client *client = self.get()
        cdef const uint8_t[::1] view = data
        if slot >= self.depth or view.shape[0] > self.slot_bytes:
            raise ValueError(f"{view.shape[0]} bytes do not fit slot {slot}")
        if view.shape[0]:
            memcpy(memory_client_slot(client, slot), &view[0], view.shape[0])

    def content(self, unsigned slot, uint32_t length):
        if slot >= self.depth or length > self.slot_bytes:
            raise ValueError(f"slot {slot} does not have {length} bytes")
        return PyBytes_FromStringAndSize(<char *>memory_client_slot(self.get(), slot), length)

    def tail_at(self, uint64_t offset):
        self.check(memory_client_tail_at(self.get(), offset))

    def word(self, unsigned slot, bytes value not None):
        if slot >= self.depth or len(value) != 8:
            raise ValueError(f"{len(value)} bytes are not the word of slot {slot}")
        memcpy(memory_client_word(self.get(), slot), PyBytes_AS_STRING(value), 8)

    def begin(self, unsigned slot, method, uint64_t offset, uint32_t length):
        self.check(memory_client_begin(self.get(), slot, MEMORY_METHODS[method], offset, length))

    def poll(self):
        cdef memory_done done[32]
        cdef int count = self.check(memory_client_poll(self.get(), done, 32)), i
        return [(done[i].slot, done[i].status) for i in range(count)]

    def fileno(self):
        return memory_client_fd(self.get())

    def arm(self):
        memory_client_arm(self.get())

    def drain(self):
        memory_client_drain(self.get())

    def bench(self, *, method, uint32_t size, unsigned depth=1, double seconds=1,
              unsigned read_percent=0, percentiles=(50, 90, 99, 99.9, 99.99, 99.999),
              also=(), bint sleeps=False):
        global memory_cancel
        cdef memory_client *clients[MEMORY_BENCH_CLIENTS]
        cdef unsigned count = 0
        cdef MemoryClient other
        cdef memory_bench_options options
        cdef memory_bench_result result
        cdef char err[ERR]
        cdef int code
        memset(&options, 0, sizeof(options))
        options.method = MEMORY_METHODS[method]
        options.size = size
        options.depth = depth
        options.seconds = seconds
        options.read_percent = read_percent
        options.sleeps = sleeps
        percentiles = tuple(percentiles)
        if len(percentiles) > 16:
            raise ValueError("at most 16 percentiles")
        options.npercentiles = <unsigned>len(percentiles)
        for i in range(len(percentiles)):
            options.percentiles[i] = percentiles[i]
        others = (self, *also)
        if len(set(map(id, others))) != len(others) or len(others) > MEMORY_BENCH_CLIENTS:
            raise ValueError(f"at most {MEMORY_BENCH_CLIENTS} different connections")
        for other in others:
            clients[count] = other.get()
            count += 1
        memory_cancel = False
        err[0] = 0
        with nogil:
            code = memory_client_bench(clients, count, &options, &memory_cancel, &result, err, ERR)
        if code < 0:
            raise failed(code, err)
        spent = result.seconds or seconds
        return {
            "seconds": result.seconds,
            "cpu_seconds": result.cpu_seconds,
            "write": _memory_part(&result.write, percentiles, spent, size),
            "read": _memory_part(&result.read, percentiles, spent, size),
        }

    def close(self):
        cdef memory_client *client = self._client
        if client == NULL:
            return
        self._client = NULL
        with nogil:
            memory_client_free(client)

    def __repr__(self):
        return f"<MemoryClient {'closed' if self._client == NULL else self.depth}>"

    def __del__(self):
        if self._client != NULL:
            warn_open(self, "a MemoryClient was never closed")
            self.close()
