# SPDX-License-Identifier: BSD-3-Clause
# The memory of the host side: a device, and what is registered on it (c/host/host.h).


cdef host_remote_keys remote_keys_of(name) except *:
    if name == "command":
        return HOST_KEYS_OF_COMMANDS
    if name == "buffer":
        return HOST_KEYS_OF_BUFFERS
    raise ValueError(f"remote keys are of each command or of each buffer, not {name!r}")


@cython.final
cdef class HostDevice:
    """A device for host queues and their memory; it is closed with the last of them."""

    cdef host_device *_device
    cdef readonly str kind
    cdef readonly str remote_keys
    cdef object __weakref__

    def __cinit__(self, kind="iwarp", *, remote_keys="command"):
        cdef char err[ERR]
        cdef const verbs *table = table_of(kind)
        cdef host_remote_keys keys = remote_keys_of(remote_keys)
        cdef int code
        err[0] = 0
        with nogil:
            clear_errno()
            self._device = host_device_get(table, keys, err, ERR)
            code = errno
        if self._device == NULL:
            raise failed(code, err)
        self.kind = kind
        self.remote_keys = remote_keys

    def alloc(self, Py_ssize_t length):
        """Return new registered memory, aligned to pages."""
        return memory_of(self, length, None)

    def register(self, buffer):
        """Register a writable buffer, which stays exported until the memory is closed."""
        return memory_of(self, 0, buffer)

    def __dealloc__(self):
        if self._device != NULL:
            host_device_put(self._device)


@cython.final
@cython.no_gc_clear
cdef class HostMemory:
    """Registered memory, which supports the buffer protocol (memoryview(memory))."""

    cdef host_memory *_memory
    cdef HostDevice _device
    cdef Py_buffer _view  # what was registered
    cdef bint _viewed
    cdef int _exports  # buffers of this object that are alive
    cdef int _commands  # that move data to or from it
    cdef bint _left  # by an exception: closed for callers, and freed by the last command or view
    cdef str _made
    cdef object __weakref__

    def __init__(self):
        raise TypeError("a HostMemory comes from HostDevice.alloc() or register()")

    def __len__(self):
        return <Py_ssize_t>self._memory.length if self.is_open() else 0

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if not self.is_open():
            raise BufferError("the memory is closed")
        PyBuffer_FillInfo(buffer, self, self._memory.addr, <Py_ssize_t>self._memory.length, 0,
                          flags)
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1
        self.end()

    cdef bint is_open(self):
        return self._memory != NULL and not self._left

    cdef object drop(self):
        """A command has ended."""
        self._commands -= 1
        self.end()

    cdef object end(self):
        """Free it if its caller has left it and nothing uses it."""
        if self._left and not self._commands and not self._exports:
            self.close()

    @property
    def address(self):
        """Return its address, to find which part of it a memoryview covers."""
        return 0 if self._memory == NULL else <uintptr_t>self._memory.addr

    def offset_of(self, buffer):
        """Return the offset of a contiguous buffer within this memory, or -1 if it is elsewhere."""
        cdef Py_buffer view
        cdef uintptr_t begin
        cdef uintptr_t base
        cdef Py_ssize_t out = -1
        if self._memory == NULL:
            return -1
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        begin = <uintptr_t>view.buf
        base = <uintptr_t>self._memory.addr
        if base <= begin and begin + <size_t>view.len <= base + self._memory.length:
            out = <Py_ssize_t>(begin - base)
        PyBuffer_Release(&view)
        return out

    def close(self):
        cdef host_memory *memory = self._memory
        if memory == NULL:
            return
        if self._exports:
            raise BufferError(f"{self._exports} buffers of the memory are in use")
        if self._commands:
            raise EngineError(EBUSY, f"{self._commands} commands move data to or from the memory")
        self._memory = NULL
        with nogil:
            host_memory_free(memory)
        if self._viewed:
            self._viewed = False
            PyBuffer_Release(&self._view)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
            return
        # An error of close() would replace the exception, often the timeout of a command.
        self._left = True
        self._made = None
        self.end()

    def __repr__(self):
        return f"<HostMemory {len(self)} bytes>" if self.is_open() else "<HostMemory closed>"

    def __del__(self):
        if self._memory != NULL and self._made is not None:
            made, self._made = self._made, None  # warn once
            warn_open(self, f"HostMemory made at {made} was never closed")

    def __dealloc__(self):
        # Not in __del__: a queue or memoryview collected together with it may use it until now.
        if self._memory != NULL:
            host_memory_free(self._memory)
        if self._viewed:
            PyBuffer_Release(&self._view)


cdef bint hold_owner(HostMemory memory, buffer) except -1:
    """Hold the object behind a memoryview instead of it; False if it has no larger plain buffer.

    Python 3.11 crashes when a memoryview and the last object that uses its buffer are collected in
    one cycle of garbage.
    """
    cdef Py_buffer owner
    cdef Py_buffer *view = &memory._view
    if not isinstance(buffer, memoryview):
        return False
    try:
        PyObject_GetBuffer(buffer.obj, &owner, PyBUF_WRITABLE)
    except (BufferError, TypeError, ValueError):
        return False
    if (<uintptr_t>view.buf < <uintptr_t>owner.buf or
            <uintptr_t>view.buf + view.len > <uintptr_t>owner.buf + owner.len):
        PyBuffer_Release(&owner)
        return False
    PyBuffer_Release(view)
    memory._view = owner
    return True


cdef HostMemory memory_of(HostDevice device, Py_ssize_t length, buffer):
    cdef HostMemory memory = HostMemory.__new__(HostMemory)
    cdef char err[ERR]
    cdef int code
    cdef void *addr = NULL
    if buffer is not None:
        PyObject_GetBuffer(buffer, &memory._view, PyBUF_WRITABLE)
        memory._viewed = True
        length = memory._view.len
        addr = memory._view.buf
        hold_owner(memory, buffer)
    err[0] = 0
    code = EINVAL
    if length > 0:
        with nogil:
            clear_errno()
            if addr == NULL:
                memory._memory = host_memory_alloc(device._device, length, err, ERR)
            else:
                memory._memory = host_memory_register(device._device, addr, length, err, ERR)
            code = errno
    if memory._memory == NULL:
        if memory._viewed:
            memory._viewed = False
            PyBuffer_Release(&memory._view)
        if length <= 0:
            raise ValueError("registered memory has at least one byte")
        raise failed(code, err)
    memory._device = device
    memory._made = made_at()
    return memory
