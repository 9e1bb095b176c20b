# SPDX-License-Identifier: BSD-3-Clause
# The target: reactors, upcalls, devices (c/target/target.h).  Namespaces are in namespace.pxi, queue pairs in qpair.pxi.


@cython.final
cdef class Target:
    """Reactors and their shared objects.  fileno() is readable if upcalls() has something."""

    cdef c_target *_target
    cdef readonly unsigned reactors
    cdef set _qpairs  # each Qpair from accept to destroy: upcalls carry borrowed references
    cdef dict _namespaces  # address of the target_namespace to Namespace
    cdef set _tables
    cdef set _gates
    cdef set _fences  # Fenced and Aborted that upcalls() has not returned yet
    cdef str _made
    cdef object __weakref__

    def __cinit__(self, *, reactors=1, cpus=None, spin_us=100, buffer_size=131072, buffers=128):
        cdef target_options options
        cdef char err[ERR]
        cdef int pinned[64]
        cdef int code
        cdef c_target *made
        if not 1 <= reactors <= 64:
            raise ValueError(f"a target has 1 to 64 reactors, not {reactors}")
        if cpus is not None and len(cpus) != reactors:
            raise ValueError(f"{reactors} reactors need {reactors} CPUs, not {len(cpus)}")
        memset(&options, 0, sizeof(options))
        options.reactors = reactors
        if cpus is not None:
            for index, cpu in enumerate(cpus):
                pinned[index] = cpu
            options.cpus = pinned
        options.spin_us = spin_us
        options.buffer_size = buffer_size
        options.buffers = buffers
        options.cq_entries = 4096
        self._qpairs = set()
        self._namespaces = {}
        self._tables = set()
        self._gates = set()
        self._fences = set()
        err[0] = 0
        with nogil:
            clear_errno()
            made = target_create(&options, err, ERR)
            code = errno
        if made == NULL:
            raise failed(code, err)
        self._target = made
        self.reactors = options.reactors
        self._made = made_at()

    cdef c_target *get(self) except NULL:
        if self._target == NULL:
            raise closed("target")
        return self._target

    def fileno(self):
        return target_fd(self.get())

    def upcalls(self):
        cdef target_upcall *up = target_upcalls(self.get())
        cdef target_upcall *following
        cdef list out = []
        cdef Namespace namespace
        while up != NULL:
            following = up.next
            if up.type == TARGET_UPCALL_COMMAND:
                out.append(command_from(<Qpair>up.cookie, up.request))
            elif up.type == TARGET_UPCALL_CLOSED:
                out.append(closed_from(<Qpair>up.cookie, up.reason))
            elif up.type == TARGET_UPCALL_RETIRED:
                namespace = self._namespaces.get(<uintptr_t>up.ns)
                if namespace is not None:
                    namespace._state = NAMESPACE_FREE
                    out.append(retired_from(namespace))
            elif up.type == TARGET_UPCALL_FENCED:
                out.append(fenced_from(self, <Fenced>up.cookie))
            elif up.type == TARGET_UPCALL_FAULTED:
                namespace = self._namespaces.get(<uintptr_t>up.ns)
                if namespace is not None:
                    out.append(faulted_from(namespace))
            elif up.type == TARGET_UPCALL_ABORTED:
                out.append(aborted_from(self, <Aborted>up.cookie, up.aborted))
            elif up.type == TARGET_UPCALL_DESTROYED:
                destroyed(self, <Qpair>up.cookie)
            elif up.type == TARGET_UPCALL_DEVICE:
                out.append(device_ready_from(up.device, up.reason))
            elif up.type == TARGET_UPCALL_INJECTED:
                out.append(injected_from(up.cookie))
            elif up.type == TARGET_UPCALL_FREED:
                namespace = self._namespaces.pop(<uintptr_t>up.ns, None)
                if namespace is not None:
                    namespace.forget()
                    out.append(freed_from(namespace))
            up = following
        return out

    def fence(self, qpairs, uint32_t nsid=0, cookie=None, *, uint16_t abort=0):
        fence_begin(self, list(qpairs), nsid, cookie, abort)

    def inject(self, str kind not None, *, opcodes, unsigned long number=0, uint16_t status=0,
               uint32_t nsid=0, blocks=None, double rate=1.0, uint64_t after=0,
               uint64_t count=0, uint64_t seed=0, uint64_t bandwidth=0, delays=()):
        return inject_begin(self, kind, opcodes, number, status, nsid, blocks, rate, after, count,
                            seed, bandwidth, delays)

    def injected(self, unsigned slot):
        return inject_counts(self, slot)

    def end_injection(self, unsigned slot):
        if slot < TARGET_INJECTIONS:
            target_inject_end(self.get(), slot)

    def open_devices(self, Listener listener not None):
        cdef c_target *t = self.get()
        cdef const verbs *table = listener._channel._verbs
        cdef rdma_cm_id *id = listener._id
        cdef ibv_context **every
        cdef int i = 0
        if id == NULL:
            raise closed("listener")
        if id.verbs != NULL:
            open_device(t, table, id.verbs)
            return
        every = table.get_devices(NULL)
        try:
            while every != NULL and every[i] != NULL:
                open_device(t, table, every[i])
                i += 1
        finally:
            if every != NULL:
                table.free_devices(every)

    def device_gone(self, str name not None, str kind not None="system"):
        cdef c_target *t = self.get()
        coded = os.fsencode(name)
        cdef const char *name_c = PyBytes_AS_STRING(coded)
        cdef const verbs *table = table_of(kind)
        with nogil:
            target_device_gone(t, table, name_c)

    def close(self):
        cdef c_target *t = self._target
        cdef Qpair qpair
        cdef Namespace namespace
        cdef NamespaceTable table
        cdef Gates gates
        if t == NULL:
            return
        self._target = NULL
        with nogil:
            target_destroy(t)
        # C has freed the queue pairs, the tables and the namespaces: remove all pointers to them.
        for gates in self._gates:
            gates._gates = NULL
        for qpair in self._qpairs:
            qpair.forget()
        for table in self._tables:
            table._table = NULL
        for namespace in self._namespaces.values():
            namespace.forget()
        self._qpairs = set()
        self._namespaces = {}
        self._tables = set()
        self._gates = set()
        self._fences = set()

    def __repr__(self):
        if self._target == NULL:
            return "<Target closed>"
        return f"<Target {self.reactors} reactors, {len(self._qpairs)} queue pairs>"

    def __del__(self):
        if self._target != NULL:
            warn_open(self, f"Target made at {self._made} was never closed")
            self.close()


cdef int open_device(c_target *t, const verbs *table, ibv_context *context) except -1:
    cdef char err[ERR]
    cdef int code
    err[0] = 0
    with nogil:
        code = target_device_open(t, table, context, err, ERR)
    if code < 0 and code != -EAGAIN:
        raise failed(code, err)
    return 0


@cython.final
cdef class DeviceReady:
    """A device can be used, or cannot: then error is the reason."""

    cdef readonly str device
    cdef readonly str error

    def __init__(self):
        raise TypeError("a DeviceReady comes from Target.upcalls()")

    def __repr__(self):
        return f"<DeviceReady {self.device} {self.error}>"


cdef DeviceReady device_ready_from(const char *device, const char *error):
    cdef DeviceReady event = DeviceReady.__new__(DeviceReady)
    event.device = device.decode("utf-8", "replace")
    event.error = error.decode("utf-8", "replace")
    return event
