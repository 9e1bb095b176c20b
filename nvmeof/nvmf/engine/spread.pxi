# SPDX-License-Identifier: BSD-3-Clause
# The same Writes to several queues (c/host/spread.h).


@cython.final
@cython.no_gc_clear  # it would release the buffer without telling its owner
cdef class HostSpread:
    """Writes to the legs of a mirror; each leg is a HostQueue that was attached."""

    cdef host_spread *_spread
    cdef list _queues  # of the legs that are attached
    cdef list _memories
    cdef list _users  # of each operation
    cdef Py_buffer _view  # of the buffer
    cdef bint _viewed
    cdef readonly object buffer

    def __cinit__(self, unsigned legs, *, unsigned small=128, unsigned large=24,
                  uint32_t small_bytes=8192, uint32_t large_bytes=262144):
        cdef host_spread_options options
        cdef Py_buffer view
        self.buffer = bytearray(small * small_bytes + large * large_bytes)
        PyObject_GetBuffer(self.buffer, &view, PyBUF_WRITABLE)
        options.legs = legs
        options.addr = <uint8_t *>view.buf
        options.small, options.large = small, large
        options.small_bytes, options.large_bytes = small_bytes, large_bytes
        self._spread = host_spread_create(&options)
        if self._spread == NULL:
            PyBuffer_Release(&view)
            raise ValueError(f"a spread of {legs} legs with {small} operations of {small_bytes} "
                             f"bytes and {large} of {large_bytes}")
        # The buffer stays exported, so that it cannot be resized, until this object is freed.
        self._view = view
        self._viewed = True
        self._queues = [None] * legs
        self._memories = [None] * legs
        self._users = [None] * (small + large)

    @property
    def attached(self):
        return host_spread_attached(self._spread)

    @property
    def stopped(self):
        return host_spread_stopped(self._spread)

    @property
    def news(self):
        return host_spread_has_news(self._spread)

    def attach(self, unsigned leg, HostQueue queue not None, HostMemory memory not None, *,
               uint32_t nsid, uint8_t shift, unsigned most):
        cdef host_spread_leg to
        to.queue = queue.get()
        if queue._spread is not None:
            raise ValueError("the queue is a leg of a spread already")
        if not memory.is_open() or memory._device._device != queue._device._device:
            raise ValueError("the memory must be registered on the queue's device")
        to.memory = memory._memory
        to.nsid = nsid
        to.shift = shift
        to.most = most
        to.paused = queue._paused
        if host_spread_attach(self._spread, leg, &to) < 0:
            raise ValueError(f"leg {leg} is attached, or the memory is not the spread's buffer")
        queue._spread = self
        queue._leg = leg
        memory._commands += 1
        self._queues[leg] = queue
        self._memories[leg] = memory

    cdef object detach(self, unsigned leg):
        """The queue is closed, or its commands were abandoned."""
        host_spread_detach(self._spread, leg)
        (<HostMemory>self._memories[leg]).drop()
        (<HostQueue>self._queues[leg])._spread = None
        self._queues[leg] = self._memories[leg] = None

    def write(self, uint32_t legs, uint64_t offset, data, then, bint more=False):
        cdef Py_buffer view
        cdef int op
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        if view.len > 0xffffffff:
            op = -EINVAL
        else:
            op = host_spread_write(self._spread, legs, &offset, 1, <uint32_t>view.len, view.buf,
                                   more)
        PyBuffer_Release(&view)
        if op >= 0:
            self._users[op] = then
        return op

    def write_many(self, uint32_t legs, offsets, data, then, bint more=False):
        cdef Py_buffer view
        cdef Py_buffer places
        cdef int op = -EINVAL
        cdef Py_ssize_t count
        PyObject_GetBuffer(offsets, &places, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
        try:
            if places.itemsize != 8 or places.ndim != 1:
                raise ValueError("offsets are an array of unsigned 64-bit numbers")
            count = places.len // 8
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            try:
                if count < 1 or view.len % count:
                    raise ValueError("data has the same length for each offset")
                if view.len <= 0xffffffff:
                    op = host_spread_write(self._spread, legs, <const uint64_t *>places.buf,
                                           <uint32_t>count, <uint32_t>(view.len // count),
                                           view.buf, more)
            finally:
                PyBuffer_Release(&view)
        finally:
            PyBuffer_Release(&places)
        if op >= 0:
            self._users[op] = then
        return op

    def flush(self):
        host_spread_flush(self._spread)

    def has(self, unsigned op):
        return host_spread_has(self._spread, op)

    def tell(self):
        cdef host_spread_news news
        while host_spread_take(self._spread, &news):
            then = self._users[news.op]
            if not news.out:
                self._users[news.op] = None
            then(news.has, news.failed)

    def __dealloc__(self):
        host_spread_destroy(self._spread)
        if self._viewed:
            PyBuffer_Release(&self._view)
