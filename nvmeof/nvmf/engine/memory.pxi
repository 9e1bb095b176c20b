# SPDX-License-Identifier: BSD-3-Clause
# Remote memory: the target's end (c/memory/server.h).


@cython.final
cdef class MemoryServer:
    """The thread that serves memory connections; fileno() is readable when events() has some."""

    cdef memory_server *_server
    cdef set _connections  # from accept to free: events carry borrowed references
    cdef object __weakref__

    def __cinit__(self, *, unsigned spin_us=200):
        cdef char err[ERR]
        cdef int code
        err[0] = 0
        with nogil:
            clear_errno()
            self._server = memory_server_create(spin_us, err, ERR)
            code = errno
        if self._server == NULL:
            raise failed(code, err)
        self._connections = set()

    cdef memory_server *get(self) except NULL:
        if self._server == NULL:
            raise closed("memory server")
        return self._server

    def fileno(self):
        return memory_server_fd(self.get())

    def events(self):
        cdef memory_event event
        cdef MemoryConnection connection
        cdef list out = []
        while True:
            memory_server_event(self.get(), &event)
            if event.type == MEMORY_EVENT_NONE:
                return out
            connection = <MemoryConnection>event.cookie
            if event.type == MEMORY_EVENT_MESSAGE:
                out.append((connection, PyBytes_FromStringAndSize(<char *>event.message,
                                                                  event.length), None))
            else:
                connection._over = True
                out.append((connection, None, event.reason.decode("utf-8", "replace")))

    def close(self):
        cdef memory_server *server = self._server
        if server == NULL:
            return
        if self._connections:
            raise EngineError(EBUSY, f"{len(self._connections)} memory connections are open")
        self._server = NULL
        with nogil:
            memory_server_destroy(server)

    def __repr__(self):
        return f"<MemoryServer {len(self._connections)} connections>"


@cython.final
cdef class MemoryConnection:
    """A memory connection of the target."""

    cdef memory_conn *_conn
    cdef rdma_cm_id *_id
    cdef MemoryServer _server
    cdef EventChannel _channel
    cdef Store _store  # the one whose memory was granted
    cdef bint _over
    cdef bint _granting  # a different thread is in grant(), and frees at its end what was freed meanwhile
    cdef bint _freed
    cdef public object cookie
    cdef readonly tuple peer
    cdef readonly tuple local
    cdef readonly str device
    cdef object __weakref__

    def __init__(self):
        raise TypeError("a MemoryConnection comes from ConnectRequest.accept_memory()")

    cdef memory_conn *get(self) except NULL:
        if self._conn == NULL:
            raise closed("memory connection")
        return self._conn

    def grant(self, Store store not None, uint64_t length, bint write):
        cdef memory_conn *conn = self.get()
        cdef c_store *s = store.get()
        cdef uint32_t key = 0, platform = 0
        cdef uint64_t address = 0
        cdef char err[ERR]
        cdef int code
        err[0] = 0
        self._granting = True
        with nogil:
            code = memory_conn_grant(conn, s, length, write, &key, &address, &platform, err, ERR)
        self._granting = False
        if self._freed:
            self.free()
        if code < 0:
            raise failed(code, err)
        if self._conn != NULL:
            self._store = store
        return key, address, platform

    def send(self, bytes message not None):
        cdef int code = memory_conn_send(self.get(), PyBytes_AS_STRING(message),
                                         <uint32_t>len(message))
        if code < 0:
            raise EngineError(-code, f"cannot send a message: {os.strerror(-code)}")

    def close(self, str reason not None="closed by the target"):
        coded = reason.encode()
        if self._conn != NULL and not self._over:
            memory_conn_close(self._conn, PyBytes_AS_STRING(coded))

    @property
    def counts(self):
        cdef memory_counts counts = memory_conn_counts(self.get())
        found = {"persists": counts.persists, "persisted_bytes": counts.persisted_bytes,
                 "errors": counts.errors}
        if counts.counts_bytes:
            found.update(written_bytes=counts.written_bytes, read_bytes=counts.read_bytes)
        return found

    def free(self):
        cdef memory_conn *conn = self._conn
        if conn == NULL:
            return
        if not self._over:
            raise EngineError(EBUSY, "the memory connection has not ended")
        if self._granting:
            self._freed = True
            return
        self._conn = NULL
        with nogil:
            memory_conn_free(conn)
        self._server._connections.discard(self)
        self._channel.forget_memory(self._id)
        self._store = None

    def __repr__(self):
        return f"<MemoryConnection {self.peer[0]}:{self.peer[1]}>"


cdef MemoryConnection memory_accept(ConnectRequest request, MemoryServer server, unsigned depth,
                                    bytes data):
    cdef rdma_cm_id *id = request.get()
    cdef memory_server *s = server.get()
    cdef const verbs *table = request._channel._verbs
    cdef MemoryConnection connection = MemoryConnection.__new__(MemoryConnection)
    cdef const void *data_c = PyBytes_AS_STRING(data)
    cdef uint8_t length = <uint8_t>len(data), reads = min(request.responder_resources, 16)
    cdef void *cookie = <void *>connection
    cdef memory_conn *made
    cdef char err[ERR]
    cdef int code
    if not 1 <= depth <= MEMORY_DEPTH_MAX:
        raise ValueError(f"a memory connection has 1 to {MEMORY_DEPTH_MAX} messages, not {depth}")
    connection._id = id
    connection._server = server
    connection._channel = request._channel
    connection.peer = request.peer
    connection.local = request.local
    connection.device = request.device
    err[0] = 0
    with nogil:
        clear_errno()
        made = memory_conn_accept(s, table, id, depth, reads, data_c, length, cookie, err, ERR)
        code = errno
    if made == NULL:
        raise failed(code, err)
    connection._conn = made
    server._connections.add(connection)
    request._channel._memories[<uintptr_t>id] = connection
    request.decided()
    return connection
