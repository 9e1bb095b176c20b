# SPDX-License-Identifier: BSD-3-Clause
# Gates, fences and aborts of the target.


cdef target_gate gate_of(uint16_t read, uint16_t write, flush) except *:
    cdef target_gate gate
    gate.read = read
    gate.write = write
    gate.flush = write if flush is None else flush
    return gate


@cython.final
cdef class Gates:
    """The statuses with which I/O commands end instead of running, by NSID."""

    cdef target_gates *_gates
    cdef Target _target
    cdef int _users  # queue pairs
    cdef bint _closing  # with the last of them
    cdef readonly uint32_t max_nsid
    cdef object __weakref__

    def __cinit__(self, Target target not None, uint32_t max_nsid):
        self._gates = target_gates_create(target.get(), max_nsid)
        if self._gates == NULL:
            raise MemoryError(f"gates of {max_nsid} namespaces")
        self._target = target
        self.max_nsid = max_nsid
        target._gates.add(self)

    cdef target_gates *get(self) except NULL:
        if self._gates == NULL or self._closing:
            raise closed("table of gates")
        return self._gates

    def set(self, uint32_t nsid, *, uint16_t read=0, uint16_t write=0, flush=None):
        cdef target_gate gate = gate_of(read, write, flush)
        if target_gates_set(self.get(), nsid, &gate) < 0:
            raise EngineError(EINVAL, f"there is no gate {nsid}: there are 1 to {self.max_nsid}")

    def close(self):
        self._closing = True
        self.put()

    cdef put(self):
        """Free the table if it was closed and no queue pair uses it any longer."""
        cdef target_gates *gates = self._gates
        if gates == NULL or self._users or not self._closing:
            return
        self._gates = NULL
        self._target._gates.discard(self)
        target_gates_destroy(gates)


@cython.final
cdef class Fenced:
    """The commands that a Target.fence() waited for have ended."""

    cdef target_fence *_fence
    cdef readonly uint32_t nsid
    cdef readonly object cookie

    def __init__(self):
        raise TypeError("a Fenced comes from Target.upcalls()")

    def __repr__(self):
        return f"<Fenced {f'namespace {self.nsid}' if self.nsid else 'every namespace'}>"


cdef int fence_begin(Target target, list qpairs, uint32_t nsid, cookie,
                     uint16_t abort) except -1:
    cdef c_target *t = target.get()
    cdef Fenced fenced = Fenced.__new__(Fenced)
    cdef Py_ssize_t count = len(qpairs), i
    cdef target_qpair **of = NULL
    cdef Qpair qpair
    of = <target_qpair **>PyMem_Malloc((count + 1) * sizeof(target_qpair *))
    if of == NULL:
        raise MemoryError(f"a fence of {count} queue pairs")
    try:
        for i in range(count):
            qpair = qpairs[i]
            of[i] = qpair.get()
        fenced.nsid = nsid
        fenced.cookie = cookie
        fenced._fence = target_fence_create(t, of, <unsigned>count, nsid, abort, <void *>fenced)
    finally:
        PyMem_Free(of)
    if fenced._fence == NULL:
        raise MemoryError(f"a fence of {count} queue pairs")
    target._fences.add(fenced)
    return 0


cdef Fenced fenced_from(Target target, Fenced fenced):
    target._fences.discard(fenced)
    target_fence_destroy(fenced._fence)
    fenced._fence = NULL
    return fenced


@cython.final
cdef class Aborted:
    """The result of a Qpair.abort()."""

    cdef target_abort *_abort
    cdef readonly bint aborted
    cdef readonly object cookie

    def __init__(self):
        raise TypeError("an Aborted comes from Target.upcalls()")

    def __repr__(self):
        return f"<Aborted {'' if self.aborted else 'not '}aborted>"


cdef int abort_begin(Target target, target_qpair *qp, uint16_t cid, cookie) except -1:
    cdef Aborted aborted = Aborted.__new__(Aborted)
    aborted.cookie = cookie
    aborted._abort = target_abort_create(qp, cid, <void *>aborted)
    if aborted._abort == NULL:
        raise MemoryError("out of memory for an abort")
    target._fences.add(aborted)
    return 0


cdef Aborted aborted_from(Target target, Aborted aborted, bint whether):
    target._fences.discard(aborted)
    target_abort_destroy(target._target, aborted._abort)
    aborted._abort = NULL
    aborted.aborted = whether
    return aborted
