# SPDX-License-Identifier: BSD-3-Clause
# Queue pairs of the target, and the upcalls of reactors about them.


@cython.final
cdef class Qpair:
    """A queue pair of the target."""

    cdef target_qpair *_qp
    cdef rdma_cm_id *_id
    cdef Target _target
    cdef EventChannel _channel
    cdef NamespaceTable _table
    cdef Gates _gates
    cdef set _tables  # that commands under way may use: this one and those before
    cdef int _commands  # handed up and not completed
    cdef bint _closed
    cdef dict _last  # stats as they were when it was destroyed
    cdef public object cookie
    cdef readonly uint16_t qid
    cdef readonly unsigned reactor
    cdef readonly tuple peer
    cdef readonly str device
    cdef object __weakref__

    def __init__(self):
        raise TypeError("a Qpair comes from ConnectRequest.accept()")

    cdef target_qpair *get(self) except NULL:
        if self._qp == NULL:
            raise closed("queue pair")
        return self._qp

    @property
    def stats(self):
        if self._qp == NULL:
            return dict(self._last) if self._last else stats_dict(NULL)
        return stats_dict(self._qp)

    def errors(self, uint64_t after=0):
        cdef target_error found[16]
        cdef uint64_t last = 0
        cdef unsigned count, i
        if self._qp == NULL:
            return after, []
        count = target_qpair_errors(self._qp, after, &last, found)
        return last, [{"when": found[i].when / 1e9, "lba": found[i].lba, "nsid": found[i].nsid,
                       "cid": found[i].cid, "status": found[i].status,
                       "location": found[i].location, "opcode": found[i].opcode}
                      for i in range(count)]

    def connected(self, uint16_t sq_size, NamespaceTable namespaces):
        cdef target_qpair *qp = self.get()
        if self._table is not None:
            raise EngineError(EBUSY, "the queue pair is already connected")
        if namespaces is not None:
            target_qpair_connected(qp, sq_size, namespaces.get())
            namespaces._users += 1
            self._table = namespaces
            self._tables = {namespaces}
        else:
            target_qpair_connected(qp, sq_size, NULL)

    def gate(self, Gates gates not None):
        cdef target_qpair *qp = self.get()
        if self._gates is gates:
            return
        if self._gates is not None:
            raise EngineError(EBUSY, "the queue pair already has other gates")
        target_qpair_gates(qp, gates.get())
        gates._users += 1
        self._gates = gates

    def show(self, NamespaceTable namespaces not None):
        cdef target_qpair *qp = self.get()
        if self._table is None:
            raise EngineError(EINVAL, "only a connected I/O queue has namespaces")
        target_qpair_show(qp, namespaces.get())
        if namespaces not in self._tables:
            namespaces._users += 1
            self._tables.add(namespaces)
        self._table = namespaces

    def abort(self, uint16_t cid, cookie=None):
        abort_begin(self._target, self.get(), cid, cookie)

    def inject(self, uint32_t slots):
        target_qpair_inject(self.get(), slots)

    def enable(self, bint enabled):
        target_qpair_enable(self.get(), enabled)

    def disconnect(self, *, bint peer_left=False):
        if self._qp == NULL:
            return
        if peer_left:
            target_qpair_peer_left(self._qp)
        else:
            target_qpair_disconnect(self._qp)

    def nudge(self):
        return target_qpair_nudge(self._qp) / 1000 if self._qp != NULL else 0.0

    def destroy(self):
        cdef target_qpair *qp = self._qp
        if qp == NULL:
            return
        if not self._closed:
            raise EngineError(EBUSY, "the queue pair is still open: disconnect it and wait for "
                                     "its Closed")
        if self._commands:
            raise EngineError(EBUSY, f"{self._commands} commands of the queue pair were not "
                                     "completed")
        self._last = stats_dict(qp)
        self._qp = NULL
        self.release_tables()  # no command of it is under way
        target_qpair_destroy(qp)  # the target keeps this object until it is done: destroyed()

    cdef forget(self):
        """Drop the pointer: C has freed it, with its QP and CM id."""
        self._qp = NULL
        self.release_tables()
        if self._channel is not None:
            channel = self._channel
            self._channel = None
            (<EventChannel>channel).forget(self._id)
        self._id = NULL

    cdef release_tables(self):
        cdef NamespaceTable table
        if self._table is not None:
            for table in self._tables:
                table._users -= 1
            self._table = self._tables = None
        if self._gates is not None:
            self._gates._users -= 1
            self._gates.put()
            self._gates = None

    def __repr__(self):
        state = "destroyed" if self._qp == NULL else "closed" if self._closed else "open"
        return f"<Qpair qid {self.qid} of {self.peer[0]}:{self.peer[1]} {state}>"


cdef destroyed(Target target, Qpair qpair):
    """Forget a queue pair that C has freed, some time after destroy()."""
    target._qpairs.discard(qpair)
    qpair.forget()


cdef dict stats_dict(target_qpair *qp):
    cdef c_qpair_stats s
    memset(&s, 0, sizeof(s))
    if qp != NULL:
        qpair_stats(qp, &s)
    return {"commands": s.commands, "errors": s.errors, "read_bytes": s.read_bytes,
            "write_bytes": s.write_bytes, "malformed": s.malformed,
            "waited_for_buffer": s.waited_for_buffer, "outstanding": s.outstanding}


@cython.final
cdef class Command:
    """A capsule passed on by a reactor; complete() must be called exactly once."""

    cdef target_request *_request
    cdef readonly Qpair qpair
    cdef readonly bytes sqe
    cdef readonly bytes data

    def __init__(self):
        raise TypeError("a Command comes from Target.upcalls()")

    def complete(self, uint16_t status=0, uint32_t dw0=0, uint32_t dw1=0, data=b""):
        cdef target_request *request = self._request
        cdef Py_buffer view
        if request == NULL:
            raise ValueError("the command is already completed")
        if self.qpair._target._target == NULL:
            self._request = NULL  # the target was closed, and its requests with it
            return
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        self._request = NULL
        self.qpair._commands -= 1
        target_complete(request, status, dw0, dw1, view.buf, <uint32_t>view.len)
        PyBuffer_Release(&view)

    def __repr__(self):
        return f"<Command opcode {self.sqe[0]:#04x} on {self.qpair!r}>"

    def __del__(self):
        if self._request != NULL and self.qpair._target._target != NULL:
            warn_open(self, f"{self!r} was never completed")
            self.complete(NVME_INTERNAL_ERROR)


cdef Command command_from(Qpair qpair, target_request *request):
    cdef Command command = Command.__new__(Command)
    cdef uint32_t length = 0
    cdef const void *data = target_request_data(request, &length)
    command.qpair = qpair
    command.sqe = PyBytes_FromStringAndSize(<const char *>target_request_sqe(request), 64)
    command.data = PyBytes_FromStringAndSize(<const char *>data, length) if length else b""
    command._request = request
    qpair._commands += 1
    return command


@cython.final
cdef class Closed:
    """The connection of a queue pair has ended; no further commands arrive from it."""

    cdef readonly Qpair qpair
    cdef readonly str reason

    def __init__(self):
        raise TypeError("a Closed comes from Target.upcalls()")

    def __repr__(self):
        return f"<Closed {self.qpair!r}: {self.reason}>"


cdef Closed closed_from(Qpair qpair, const char *reason):
    cdef Closed event = Closed.__new__(Closed)
    event.qpair = qpair
    event.reason = "" if reason == NULL else reason.decode("utf-8", "replace")
    qpair._closed = True
    return event


@cython.final
cdef class Retired:
    """No reactor uses a namespace any longer."""

    cdef readonly Namespace namespace

    def __init__(self):
        raise TypeError("a Retired comes from Target.upcalls()")

    def __repr__(self):
        return f"<Retired {self.namespace!r}>"


cdef Retired retired_from(Namespace namespace):
    cdef Retired event = Retired.__new__(Retired)
    event.namespace = namespace
    return event
