# SPDX-License-Identifier: BSD-3-Clause
# Stores: what stands behind a namespace (c/store/store.h).

cdef tuple STORE_KINDS = ("ram", "file", "pmem", "null")


@cython.final
cdef class Store:
    """What stands behind a namespace; raises EngineError with a sentence where it cannot open."""

    cdef c_store *_store
    cdef int _users  # namespaces
    cdef str _made
    cdef object __weakref__

    def __cinit__(self, kind, *, path=None, size=0, block_size=512, direct=None,
                  read_only=False, persistent=False, power_fail_atomic=True):
        cdef store_options options
        cdef char err[ERR]
        cdef int code
        cdef c_store *opened
        if kind not in STORE_KINDS:
            raise ValueError(f"a store is {', '.join(STORE_KINDS)}, not {kind!r}")
        kind_bytes = kind.encode("ascii")
        path_bytes = None if path is None else os.fsencode(path)
        if path_bytes is not None and b"\0" in path_bytes:
            raise ValueError(f"a path has no NUL: {path!r}")
        options.kind = PyBytes_AS_STRING(kind_bytes)
        options.path = NULL if path_bytes is None else PyBytes_AS_STRING(path_bytes)
        options.size = size
        options.block_size = block_size
        options.direct = -1 if direct is None else (1 if direct else 0)
        options.read_only = bool(read_only)
        options.persistent = bool(persistent)
        options.power_fail_atomic = bool(power_fail_atomic)
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
            raise EngineError(EIO, f"what was written cannot be made stable (status {status:#x})")

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
            made, self._made = self._made, None  # say it once
            warn_open(self, f"Store made at {made} was never closed")

    def __dealloc__(self):
        # Not before: a target that is collected with it may use it until then.
        if self._store != NULL:
            store_close(self._store)
