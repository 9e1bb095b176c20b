# SPDX-License-Identifier: BSD-3-Clause
# Connection management of the target: event channels and listeners (<rdma/rdma_cma.h>).

cdef dict LISTEN_HINTS = {
    "EADDRNOTAVAIL": "no interface of this machine has that address",
    "EACCES": "ports below 1024 need root or CAP_NET_BIND_SERVICE",
    "EADDRINUSE": "stop what listens there, or choose another port",
    "ENODEV": "no RDMA device serves that address, but the embedded one (iwarp) would",
}


@cython.final
cdef class EventChannel:
    """A source of RDMA-CM events; fileno() is readable if get_event() has one."""

    cdef const verbs *_verbs
    cdef rdma_event_channel *_channel
    cdef dict _listeners  # address of the rdma_cm_id to Listener
    cdef dict _qpairs  # the same to Qpair, from accept to destroy
    cdef dict _memories  # the same to MemoryConnection, from accept to free
    cdef object _requests  # the same to undecided ConnectRequest, weakly
    cdef bint _closing
    cdef str _made
    cdef readonly str kind
    cdef object __weakref__

    def __cinit__(self, kind):
        cdef int code
        cdef const verbs *table = table_of(kind)
        self._listeners = {}
        self._qpairs = {}
        self._memories = {}
        self._requests = WeakValueDictionary()
        with nogil:
            clear_errno()
            self._channel = table.create_event_channel()
            code = errno
        if self._channel == NULL:
            code = code or ENODEV
            raise EngineError(code, f"cannot open an RDMA-CM event channel on the {kind} device: "
                                    f"{os.strerror(code)}")
        self._verbs = table
        self.kind = kind
        fcntl(self._channel.fd, F_SETFL, fcntl(self._channel.fd, F_GETFL) | O_NONBLOCK)
        self._made = made_at()

    cdef rdma_event_channel *get(self) except NULL:
        if self._channel == NULL or self._closing:
            raise closed("event channel")
        return self._channel

    def fileno(self):
        return self.get().fd

    def listen(self, str host, int port, int backlog=128):
        return listener_on(self, self.get(), host, port, backlog)

    def get_event(self):
        """Return the next event, acknowledged, or None."""
        cdef rdma_cm_event *event
        cdef rdma_event_channel *channel = self.get()
        cdef pollfd ready
        cdef int code
        ready.fd = channel.fd
        ready.events = POLLIN
        while True:
            ready.revents = 0
            if poll(&ready, 1, 0) <= 0:
                return None
            clear_errno()
            if self._verbs.get_cm_event(channel, &event) != 0:
                code = errno
                if code == EAGAIN:
                    return None
                raise EngineError(code or EIO, f"cannot get an RDMA-CM event: "
                                               f"{os.strerror(code or EIO)}")
            try:
                out = self.take(event)
            finally:
                self._verbs.ack_cm_event(event)
            if isinstance(out, ConnectRequest) and (<ConnectRequest>out).listener is None:
                (<ConnectRequest>out).refuse()  # its listener was closed since
            elif out is not None:
                return out

    cdef object take(self, rdma_cm_event *event):
        """Return the Python object for an event; None if it concerns no existing object."""
        cdef uintptr_t key = <uintptr_t>event.id
        cdef ConnectRequest request
        if event.event == RDMA_CM_EVENT_CONNECT_REQUEST:
            return request_from(self, event)
        qpair = self._qpairs.get(key)
        if qpair is not None:
            return qpair_event_from(qpair, event.event, event.status)
        memory = self._memories.get(key)
        if memory is not None:
            return memory_event_from(memory, event.event, event.status)
        listener = self._listeners.get(key)
        if listener is not None:
            return listener_event_from(listener, event.event, event.status)
        request = self._requests.get(key)
        if request is not None:
            request.gone = True
        return None

    cdef forget(self, rdma_cm_id *id):
        """Note that the CM id of a queue pair was destroyed."""
        self._qpairs.pop(<uintptr_t>id, None)
        self.end()

    cdef forget_memory(self, rdma_cm_id *id):
        self._memories.pop(<uintptr_t>id, None)
        self.end()

    cdef end(self):
        if self._closing and not self._qpairs and not self._memories:
            self.destroy()

    cdef destroy(self):
        cdef rdma_event_channel *channel = self._channel
        self._channel = NULL
        if channel != NULL:
            with nogil:
                self._verbs.destroy_event_channel(channel)

    def close(self):
        """Close the listeners and reject waiting requests; the channel ends with its last Qpair."""
        if self._channel == NULL or self._closing:
            return
        for listener in list(self._listeners.values()):
            listener.close()
        while True:
            try:
                event = self.get_event()
            except EngineError:
                break
            if event is None:
                break
            if isinstance(event, ConnectRequest):
                (<ConnectRequest>event).refuse()
        for request in list(self._requests.values()):
            (<ConnectRequest>request).refuse()
        self._closing = True
        self.end()

    def __repr__(self):
        return f"<EventChannel {self.kind} {len(self._listeners)} listeners>"

    def __del__(self):
        if self._channel != NULL and not self._closing:
            warn_open(self, f"EventChannel made at {self._made} was never closed")
            self.close()


@cython.final
cdef class Listener:
    """A listening address; closed by close(), or with its channel."""

    cdef rdma_cm_id *_id
    cdef EventChannel _channel
    cdef readonly tuple address
    cdef readonly str device
    cdef object __weakref__

    def __init__(self):
        raise TypeError("a Listener comes from EventChannel.listen()")

    def close(self):
        cdef rdma_cm_id *id = self._id
        cdef const verbs *table
        if id == NULL:
            return
        table = self._channel._verbs
        self._channel._listeners.pop(<uintptr_t>id, None)
        self._id = NULL
        with nogil:
            table.destroy_id(id)

    def __repr__(self):
        return f"<Listener {self.address[0]}:{self.address[1]}{'' if self._id else ' closed'}>"


cdef str device_of(EventChannel channel, rdma_cm_id *id):
    """Return the name of the device to which an id is bound; None if it is bound to all."""
    if id.verbs == NULL or id.verbs.device == NULL:
        return None
    return channel._verbs.get_device_name(id.verbs.device).decode("utf-8", "replace")


cdef object cannot_listen(str host, int port, EventChannel channel, int code, str words=None):
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    hint = LISTEN_HINTS.get(errorcode.get(code, ""), "")
    if channel.kind == "roce" and errorcode.get(code) == "EADDRINUSE":
        hint = ("each address has one UDP port 4791, and a process of another user, or the kernel's "
                "rxe, has it; or this number is that of another port: choose another address")
    return EngineError(code, f"cannot listen on {where} with the {channel.kind} device: "
                             f"{words or os.strerror(code)}{'; ' + hint if hint else ''}")


cdef Listener listener_on(EventChannel channel, rdma_event_channel *c, str host, int port,
                          int backlog):
    cdef const verbs *table = channel._verbs
    cdef rdma_cm_id *id = NULL
    cdef addrinfo hints
    cdef addrinfo *found = NULL
    cdef int code = 0
    cdef int failure
    cdef int one = 1
    cdef const char *host_c = NULL
    cdef const char *port_c
    cdef Listener listener
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is 0 to 65535, not {port}")
    host_bytes = host.encode("idna") if host else b""
    port_bytes = str(port).encode("ascii")
    if host:
        host_c = PyBytes_AS_STRING(host_bytes)
    port_c = PyBytes_AS_STRING(port_bytes)
    memset(&hints, 0, sizeof(hints))
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
    hints.ai_socktype = SOCK_STREAM
    with nogil:
        failure = getaddrinfo(host_c, port_c, &hints, &found)
    if failure != 0:
        raise cannot_listen(host, port, channel, EINVAL,
                            gai_strerror(failure).decode("utf-8", "replace"))
    with nogil:
        clear_errno()
        if table.create_id(c, &id, NULL, RDMA_PS_TCP) != 0:
            code = errno
        else:
            if found.ai_family == AF_INET6:
                table.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one))
            clear_errno()
            if table.bind_addr(id, found.ai_addr) != 0 or table.listen(id, backlog) != 0:
                code = errno
                if code == 0:
                    code = EIO
                table.destroy_id(id)
        freeaddrinfo(found)
    if code != 0:
        raise cannot_listen(host, port, channel, code)
    listener = Listener.__new__(Listener)
    listener._id = id
    listener._channel = channel
    listener.address = address_of(&id.route.addr.src_addr)
    listener.device = device_of(channel, id)
    channel._listeners[<uintptr_t>id] = listener
    return listener
