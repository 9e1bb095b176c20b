# SPDX-License-Identifier: BSD-3-Clause
# The events of an EventChannel: connect requests, and changes of connections and listeners.

cdef uint16_t REJECT_NO_RESOURCES = 6  # sts of an NVMe-oF reject

cdef tuple CM_EVENTS = (
    "ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST",
    "CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED",
    "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE",
    "TIMEWAIT_EXIT",
)


@cython.final
cdef class ConnectRequest:
    """A CM REQ, to be accepted or rejected."""

    cdef rdma_cm_id *_id
    cdef EventChannel _channel
    cdef readonly Listener listener
    cdef readonly bytes private_data
    cdef readonly uint8_t initiator_depth
    cdef readonly uint8_t responder_resources
    cdef readonly tuple peer
    cdef readonly tuple local
    cdef readonly str device
    cdef readonly bint gone
    cdef object __weakref__

    def __init__(self):
        raise TypeError("a ConnectRequest comes from EventChannel.get_event()")

    cdef rdma_cm_id *get(self) except NULL:
        if self._id == NULL:
            raise EngineError(EINVAL, "the connect request was already accepted or rejected")
        return self._id

    def accept(self, Target target not None, *, unsigned reactor, uint16_t qid,
               uint16_t recv_depth, uint16_t send_depth, uint32_t in_capsule,
               uint32_t max_transfer, uint8_t initiator_depth, uint8_t responder_resources=0):
        cdef rdma_cm_id *id = self.get()
        cdef c_target *t = target.get()
        cdef const verbs *table = self._channel._verbs
        cdef target_qpair_options options
        cdef char err[ERR]
        cdef int code
        cdef Qpair qpair
        cdef target_qpair *made
        if reactor >= target.reactors:
            raise ValueError(f"reactor {reactor} of {target.reactors}")
        qpair = Qpair.__new__(Qpair)
        qpair._target = target
        qpair.qid = qid
        qpair.reactor = reactor
        qpair.peer = self.peer
        qpair.device = self.device
        qpair._id = id
        memset(&options, 0, sizeof(options))
        options.reactor = reactor
        options.qid = qid
        options.recv_depth = recv_depth
        options.send_depth = send_depth
        options.in_capsule = in_capsule
        options.max_transfer = max_transfer
        options.initiator_depth = initiator_depth
        options.responder_resources = responder_resources
        options.cookie = <void *>qpair
        err[0] = 0
        target._qpairs.add(qpair)
        with nogil:
            clear_errno()
            made = target_qpair_accept(t, table, id, &options, err, ERR)
            code = errno
        if made == NULL:
            target._qpairs.discard(qpair)
            raise failed(code, err)
        qpair._qp = made
        qpair._channel = self._channel
        self._channel._qpairs[<uintptr_t>id] = qpair
        self.decided()
        return qpair

    def accept_memory(self, MemoryServer server not None, *, unsigned depth,
                      bytes private_data not None):
        return memory_accept(self, server, depth, private_data)

    def reject(self, bytes private_data):
        cdef rdma_cm_id *id = self.get()
        cdef const verbs *table = self._channel._verbs
        cdef const void *data = PyBytes_AS_STRING(private_data)
        if len(private_data) > 255:
            raise ValueError("private data has at most 255 bytes")
        cdef uint8_t length = <uint8_t>len(private_data)
        self.decided()
        with nogil:
            table.reject(id, data, length)
            table.destroy_id(id)

    cdef decided(self):
        self._channel._requests.pop(<uintptr_t>self._id, None)
        self._id = NULL

    cdef refuse(self):
        """Reject a request that was neither accepted nor rejected."""
        cdef nvme_rdma_cm_rej rej
        if self._id != NULL:
            rej.recfmt = 0
            rej.sts = REJECT_NO_RESOURCES
            self.reject(PyBytes_FromStringAndSize(<const char *>&rej, sizeof(rej)))

    def __repr__(self):
        return f"<ConnectRequest from {self.peer[0]}:{self.peer[1]}>"

    def __del__(self):
        if self._id != NULL and self._channel._channel != NULL:
            if not self.gone:
                warn_open(self, f"{self!r} was never accepted nor rejected")
            self.refuse()


cdef ConnectRequest request_from(EventChannel channel, rdma_cm_event *event):
    cdef ConnectRequest request = ConnectRequest.__new__(ConnectRequest)
    cdef const rdma_conn_param *conn = nvmf_event_conn(event)
    cdef const char *data = <const char *>conn.private_data
    cdef rdma_cm_id *id = event.id
    request._channel = channel
    request._id = id
    request.listener = channel._listeners.get(<uintptr_t>event.listen_id)
    request.private_data = (PyBytes_FromStringAndSize(data, conn.private_data_len)
                            if data != NULL else b"")
    request.initiator_depth = conn.initiator_depth
    request.responder_resources = conn.responder_resources
    request.peer = address_of(&id.route.addr.dst_addr)
    request.local = address_of(&id.route.addr.src_addr)
    request.device = device_of(channel, id)
    channel._requests[<uintptr_t>id] = request
    return request


@cython.final
cdef class QpairEvent:
    """An event of an accepted connection."""

    cdef readonly Qpair qpair
    cdef readonly str name
    cdef readonly int status

    def __init__(self):
        raise TypeError("a QpairEvent comes from EventChannel.get_event()")

    def __repr__(self):
        return f"<QpairEvent {self.name} status {self.status} of {self.qpair!r}>"


@cython.final
cdef class ListenerEvent:
    """An event of a listener: its device was removed."""

    cdef readonly Listener listener
    cdef readonly str name
    cdef readonly int status

    def __init__(self):
        raise TypeError("a ListenerEvent comes from EventChannel.get_event()")

    def __repr__(self):
        return f"<ListenerEvent {self.name} status {self.status} of {self.listener!r}>"


cdef str event_name(int event):
    return CM_EVENTS[event] if 0 <= event < len(CM_EVENTS) else f"event {event}"


cdef ListenerEvent listener_event_from(Listener listener, int event, int status):
    cdef ListenerEvent out = ListenerEvent.__new__(ListenerEvent)
    out.listener = listener
    out.name = event_name(event)
    out.status = status
    return out


cdef QpairEvent qpair_event_from(Qpair qpair, int event, int status):
    cdef QpairEvent out = QpairEvent.__new__(QpairEvent)
    out.qpair = qpair
    out.name = event_name(event)
    out.status = status
    return out


@cython.final
cdef class MemoryEvent:
    """An event of a memory connection."""

    cdef readonly MemoryConnection connection
    cdef readonly str name
    cdef readonly int status

    def __init__(self):
        raise TypeError("a MemoryEvent comes from EventChannel.get_event()")

    def __repr__(self):
        return f"<MemoryEvent {self.name} status {self.status} of {self.connection!r}>"


cdef MemoryEvent memory_event_from(MemoryConnection connection, int event, int status):
    cdef MemoryEvent out = MemoryEvent.__new__(MemoryEvent)
    out.connection = connection
    out.name = event_name(event)
    out.status = status
    return out
