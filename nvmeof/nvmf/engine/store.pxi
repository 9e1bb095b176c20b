# SPDX-License-Identifier: BSD-3-Clause
# Stores, the storage of namespaces (c/store/store.h).

cdef enum:
    STATUS_INTERNAL_ERROR = 0x006
    WHOLE_BYTES = 4096

cdef tuple STORE_KINDS = ("ram", "file", "pmem", "null", "python")


@cython.final
cdef class Store:
    """The storage of a namespace; raises EngineError with a sentence if it cannot be opened."""

    cdef c_store *_store
    cdef int _users  # namespaces
    cdef str _made
    cdef object __weakref__

    def __cinit__(self, kind, *, path=None, size=0, block_size=512, direct=None,
                  read_only=False, persistent=False, power_fail_atomic=True,
                  calls=0, max_bytes=0, limit_ms=0, physical_block_size=0,
                  volatile_write_cache=False, deallocate=False):
        cdef store_options options
        cdef char err[ERR]
        cdef int code
        cdef c_store *opened
        if kind not in STORE_KINDS:
            raise ValueError(f"a store is {', '.join(STORE_KINDS)}, not {kind!r}")
        kind_bytes = kind.encode("ascii")
        path_bytes = None if path is None else os.fsencode(path)
        if path_bytes is not None and b"\0" in path_bytes:
            raise ValueError(f"a path must not contain NUL: {path!r}")
        options.kind = PyBytes_AS_STRING(kind_bytes)
        options.path = NULL if path_bytes is None else PyBytes_AS_STRING(path_bytes)
        options.size = size
        options.block_size = block_size
        options.direct = -1 if direct is None else (1 if direct else 0)
        options.read_only = bool(read_only)
        options.persistent = bool(persistent)
        options.power_fail_atomic = bool(power_fail_atomic)
        options.calls = calls
        options.bytes = max_bytes
        options.limit_ms = limit_ms
        options.physical_block_size = physical_block_size
        options.volatile_write_cache = bool(volatile_write_cache)
        options.deallocate = bool(deallocate)
        err[0] = 0
        with nogil:
            clear_errno()
            opened = store_open(&options, err, ERR)
            code = errno
        if opened == NULL:
            raise failed(code, err)
        self._store = opened
        self._made = made_at()

    cdef c_store *get(self) except NULL:
        if self._store == NULL:
            raise closed("store")
        return self._store

    @property
    def kind(self):
        return STORE_KINDS[<int>self.get().kind]

    @property
    def path(self):
        cdef c_store *s = self.get()
        return None if s.path == NULL else os.fsdecode(<bytes>s.path)

    @property
    def size(self):
        return self.get().size

    @property
    def block_size(self):
        return self.get().block_size

    @property
    def physical_block_size(self):
        return self.get().physical_block_size

    @property
    def volatile_write_cache(self):
        return bool(self.get().volatile_write_cache)

    @property
    def deallocate(self):
        return bool(self.get().deallocate)

    @property
    def read_only(self):
        return bool(self.get().read_only)

    @property
    def direct(self):
        return bool(self.get().direct)

    @property
    def guarantee(self):
        cdef c_store *s = self.get()
        return "" if s.guarantee == NULL else s.guarantee.decode("utf-8", "replace")

    def resize(self, size=0):
        cdef char err[ERR]
        cdef c_store *s = self.get()
        cdef uint64_t wanted = size
        cdef int code
        err[0] = 0
        with nogil:
            code = store_resize(s, wanted, err, ERR)
        if code < 0:
            raise failed(code, err)
        return s.size

    def flush(self):
        cdef c_store *s = self.get()
        cdef uint16_t status
        with nogil:
            status = store_flush(s)
        if status:
            raise EngineError(EIO, f"cannot flush the store (status {status:#x})")

    @property
    def mapped(self):
        return self.get().map != NULL

    cdef c_store *memory(self, uint64_t offset, uint64_t length) except NULL:
        cdef c_store *s = self.get()
        if s.map == NULL:
            raise ValueError(f"a {self.kind} store that is not mapped has no bytes to use in place")
        if offset > s.size or length > s.size - offset:
            raise ValueError(f"{length} bytes at {offset} are not in the {s.size} bytes")
        return s

    def read(self, uint64_t offset, uint64_t length):
        cdef c_store *s = self.memory(offset, length)
        cdef bytes out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>length)
        cdef char *to = PyBytes_AS_STRING(out)
        cdef uint16_t status
        with nogil:
            status = store_memory_check(s, offset, length)
            if not status:
                memcpy(to, s.map + offset, length)
                status = store_memory_check(s, offset, 0)  # it may have failed meanwhile
        if status:
            raise EngineError(EIO, f"cannot read the store (status {status:#x})")
        return out

    def write(self, uint64_t offset, data):
        cdef Py_buffer view
        cdef c_store *s
        cdef const char *start
        cdef uint64_t done = 0, length, now
        cdef uint16_t status = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            length = <uint64_t>view.len
            s = self.memory(offset, length)
            if s.read_only:
                raise EngineError(EROFS, "the store is read only")
            start = <const char *>view.buf
            with nogil:
                # Pieces that redo slots can have, so that each block is whole after a power failure.
                while done < length and not status:
                    now = WHOLE_BYTES - (offset + done) % WHOLE_BYTES
                    now = min(now, length - done)
                    status = store_memory_write(s, offset + done, start + done, now,
                                                done + now == length)
                    done += now
        finally:
            PyBuffer_Release(&view)
        if status:
            raise EngineError(EIO, f"cannot write the store (status {status:#x})")

    cdef c_store *answered(self) except NULL:
        cdef c_store *s = self.get()
        if s.kind != STORE_PYTHON:
            raise ValueError(f"a {self.kind} store has no calls to answer")
        return s

    def fileno(self):
        return store_python_fd(self.answered())

    def take(self):
        cdef c_store *s = self.answered()
        cdef store_python_call call
        cdef list out = []
        while store_python_take(s, &call):
            data = None
            try:
                if call.data != NULL:
                    data = PyBytes_FromStringAndSize(<const char *>call.data,
                                                     <Py_ssize_t>call.length)
                out.append((call.number, call.op, call.flags, call.offset, call.length, data))
            except MemoryError:
                store_python_taken(s, call.number)
                store_python_answer(s, call.number, STATUS_INTERNAL_ERROR, ENOMEM, NULL, 0)
            else:
                store_python_taken(s, call.number)
        return out

    def answer(self, uint64_t number, uint16_t status=0, int error=0, data=None):
        cdef c_store *s = self.answered()
        cdef Py_buffer view
        cdef bint found
        if data is None:
            return store_python_answer(s, number, status, error, NULL, 0)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            found = store_python_answer(s, number, status, error, view.buf, <uint64_t>view.len)
        finally:
            PyBuffer_Release(&view)
        return found

    def stop(self):
        store_python_stop(self.answered())

    def close(self):
        cdef c_store *s = self._store
        if s == NULL:
            return
        if self._users:
            raise EngineError(EBUSY, "the store is in use by a namespace: close that first")
        self._store = NULL
        with nogil:
            store_close(s)

    def __repr__(self):
        if self._store == NULL:
            return "<Store closed>"
        return f"<Store {self.kind} {self.path or ''} {self.size} bytes>"

    def __del__(self):
        if self._store != NULL and self._made is not None:
            made, self._made = self._made, None  # warn once
            warn_open(self, f"Store made at {made} was never closed")

    def __dealloc__(self):
        # Not in __del__: a target that is collected together with it may use it until now.
        if self._store != NULL:
            store_close(self._store)
