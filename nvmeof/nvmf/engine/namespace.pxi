# SPDX-License-Identifier: BSD-3-Clause
# The namespaces of a target, and their tables (c/target/target.h).


cdef enum NamespaceState:
    NAMESPACE_FREE  # in no table
    NAMESPACE_SHOWN  # in tables
    NAMESPACE_RETIRING  # removed, perhaps still in use by a reactor
    NAMESPACE_CLOSED  # its memory is registered with a device until its Freed comes


@cython.final
cdef class Namespace:
    """A store with an NSID, for the reactors of one target."""

    cdef target_namespace *_ns
    cdef Target _target
    cdef NamespaceState _state
    cdef unsigned _shown  # tables that have it
    cdef readonly Store store
    cdef readonly uint32_t nsid
    cdef object __weakref__

    def __cinit__(self, Target target not None, uint32_t nsid, Store store not None):
        cdef char err[ERR]
        cdef int code
        err[0] = 0
        clear_errno()
        self._ns = target_namespace_create(target.get(), nsid, store.get(), err, ERR)
        code = errno
        if self._ns == NULL:
            raise failed(code, err)
        self.nsid = nsid
        self.store = store
        self._target = target
        self._state = NAMESPACE_FREE
        store._users += 1
        target._namespaces[<uintptr_t>self._ns] = self

    cdef target_namespace *get(self) except NULL:
        if self._ns == NULL or self._state == NAMESPACE_CLOSED:
            raise closed("namespace")
        return self._ns

    cdef forget(self):
        """Drop the pointer: C has freed the namespace, or is about to."""
        if self._ns != NULL:
            self._ns = NULL
            self.store._users -= 1

    @property
    def stats(self):
        cdef c_namespace_stats s
        namespace_stats(self.get(), &s)
        return {"reads": s.reads, "writes": s.writes, "read_bytes": s.read_bytes,
                "write_bytes": s.write_bytes, "errors": s.errors,
                "media_errors": s.media_errors, "throttled": s.throttled,
                "flushes": s.flushes, "compares": s.compares, "verifies": s.verifies,
                "write_zeroes": s.zeroes, "deallocates": s.deallocates,
                "checked_bytes": s.checked_bytes, "copies": s.copies,
                "copied_bytes": s.copied_bytes}

    def busy(self):
        cdef target_namespace *ns = self.get()
        cdef unsigned i
        return [target_namespace_busy(ns, i) for i in range(self._target.reactors)]

    def latency(self):
        cdef target_latency latency
        cdef int i
        target_namespace_latency(self.get(), &latency)
        return {"read": [latency.read[i] for i in range(TARGET_LATENCY_BUCKETS)],
                "write": [latency.write[i] for i in range(TARGET_LATENCY_BUCKETS)],
                "read_ns": latency.read_ns, "write_ns": latency.write_ns}

    def set_invalid(self, ranges):
        cdef target_namespace *ns = self.get()
        cdef list given = list(ranges)
        cdef Py_ssize_t count = len(given), i
        cdef target_range *made
        cdef int code
        made = <target_range *>PyMem_Malloc((count + 1) * sizeof(target_range))
        if made == NULL:
            raise MemoryError(f"{count} ranges of blocks")
        try:
            for i in range(count):
                made[i].slba, made[i].blocks = given[i]
            code = target_namespace_invalid(ns, made, <uint32_t>count)
        finally:
            PyMem_Free(made)
        if code < 0:
            raise MemoryError(f"{count} ranges of blocks")

    def gate(self, *, uint16_t read=0, uint16_t write=0, flush=None):
        cdef target_gate gate = gate_of(read, write, flush)
        target_namespace_gate(self.get(), &gate)

    def limit(self, *, uint64_t read_iops=0, uint64_t write_iops=0, uint64_t iops=0,
              uint64_t read_bandwidth=0, uint64_t write_bandwidth=0, uint64_t bandwidth=0,
              uint32_t burst_ms=100):
        cdef target_limits limits
        limits.read_iops = read_iops
        limits.write_iops = write_iops
        limits.iops = iops
        limits.read_bandwidth = read_bandwidth
        limits.write_bandwidth = write_bandwidth
        limits.bandwidth = bandwidth
        limits.burst_ms = burst_ms
        if target_namespace_limits(self.get(), &limits) < 0:
            raise MemoryError(f"limits of namespace {self.nsid}")

    def resized(self):
        target_namespace_resized(self.get())

    def rearm(self):
        if self._ns != NULL:
            target_namespace_rearm(self._ns)

    def close(self):
        cdef target_namespace *ns = self._ns
        if ns == NULL or self._state == NAMESPACE_CLOSED:
            return ns == NULL
        if self._state != NAMESPACE_FREE:
            raise EngineError(EBUSY, f"namespace {self.nsid} is in use: remove it from its tables "
                                     "and wait for its Retired")
        if not target_namespace_destroy(ns):
            self._state = NAMESPACE_CLOSED
            return False
        self._target._namespaces.pop(<uintptr_t>ns, None)
        self.forget()
        return True

    def __repr__(self):
        return f"<Namespace {self.nsid} on {self.store!r}>"


@cython.final
cdef class NamespaceTable:
    """The namespaces that some hosts of a subsystem see, by NSID."""

    cdef target_nstable *_table
    cdef Target _target
    cdef int _users  # queue pairs
    cdef dict _shown  # nsid to Namespace
    cdef readonly uint32_t max_nsid
    cdef object __weakref__

    def __cinit__(self, Target target not None, uint32_t max_nsid):
        cdef int code
        clear_errno()
        self._table = target_nstable_create(target.get(), max_nsid)
        code = errno
        if self._table == NULL:
            raise EngineError(code or EINVAL, f"cannot make a table of {max_nsid} namespaces: "
                                              f"{os.strerror(code or EINVAL)}")
        self._target = target
        self.max_nsid = max_nsid
        self._shown = {}
        target._tables.add(self)

    cdef target_nstable *get(self) except NULL:
        if self._table == NULL:
            raise closed("namespace table")
        return self._table

    @property
    def users(self):
        return self._users

    def set(self, uint32_t nsid, Namespace namespace):
        cdef target_nstable *table = self.get()
        cdef target_namespace *ns = NULL
        cdef Namespace old = self._shown.get(nsid)
        cdef int code
        if namespace is old:
            return
        if namespace is not None:
            ns = namespace.get()
            if namespace._state == NAMESPACE_RETIRING:
                raise EngineError(EBUSY, f"namespace {namespace.nsid} was removed and may still "
                                         "be in use: wait for its Retired")
        code = target_nstable_set(table, nsid, ns)
        if code < 0:
            raise EngineError(-code, f"cannot put namespace {nsid} into a table of "
                                     f"{self.max_nsid}: {os.strerror(-code)}")
        if old is not None:
            old._shown -= 1
            if not old._shown:
                old._state = NAMESPACE_RETIRING
            del self._shown[nsid]
        if namespace is not None:
            namespace._shown += 1
            namespace._state = NAMESPACE_SHOWN
            self._shown[nsid] = namespace

    def close(self):
        """Free the table, which no queue pair may use, and retire its namespaces."""
        cdef target_nstable *table = self._table
        if table == NULL:
            return
        if self._users:
            raise EngineError(EBUSY, f"the namespace table is in use by {self._users} queue pairs")
        for nsid in list(self._shown):
            self.set(nsid, None)
        self._table = NULL
        self._target._tables.discard(self)
        target_nstable_destroy(table)


@cython.final
cdef class Freed:
    """The memory of a namespace is registered with no device: its store may be closed."""

    cdef readonly Namespace namespace

    def __init__(self):
        raise TypeError("a Freed comes from Target.upcalls()")

    def __repr__(self):
        return f"<Freed {self.namespace!r}>"


cdef Freed freed_from(Namespace namespace):
    cdef Freed event = Freed.__new__(Freed)
    event.namespace = namespace
    return event


@cython.final
cdef class Faulted:
    """The store of a namespace failed a command."""

    cdef readonly Namespace namespace
    cdef readonly uint8_t opcode
    cdef readonly uint16_t status
    cdef readonly int error
    cdef readonly uint64_t offset
    cdef readonly uint64_t length

    def __init__(self):
        raise TypeError("a Faulted comes from Target.upcalls()")

    def __repr__(self):
        return f"<Faulted opcode {self.opcode:#04x} status {self.status:#06x} of {self.namespace!r}>"


cdef Faulted faulted_from(Namespace namespace):
    cdef Faulted event = Faulted.__new__(Faulted)
    cdef const target_fault *fault = target_namespace_fault(namespace._ns)
    event.namespace = namespace
    event.opcode = fault.opcode
    event.status = fault.status
    event.error = fault.error
    event.offset = fault.offset
    event.length = fault.length
    return event
