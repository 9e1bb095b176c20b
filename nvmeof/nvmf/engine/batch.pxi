# SPDX-License-Identifier: BSD-3-Clause
# Batches of Reads or Writes (c/host/batch.h).

cdef enum:
    BATCH_ROUNDS = 16  # polls of batches alone, before others on the event loop have their turn
    # Maximum time that a poll waits for the next completions.  A target takes the commands of a full queue at once, and
    # answers them at once, which takes a fraction of this; sleeping in the meantime takes longer than they do.
    BATCH_SPIN_NS = 200000


cdef class HostBatch:
    """Reads or Writes of one length, run by HostQueue.submit_batch."""

    cdef host_batch _batch
    cdef HostMemory _memory
    cdef uint64_t *_lbas
    cdef bint _running

    def __cinit__(self, sqe, lbas, HostMemory memory not None, *, size_t offset, uint32_t length,
                  bint to_device=False, bint in_capsule=True, unsigned depth=128):
        cdef Py_buffer view
        PyObject_GetBuffer(sqe, &view, PyBUF_SIMPLE)
        if view.len != sizeof(nvme_sqe):
            PyBuffer_Release(&view)
            raise ValueError("a submission queue entry has 64 bytes")
        memcpy(&self._batch.sqe, view.buf, sizeof(nvme_sqe))
        PyBuffer_Release(&view)
        if not memory.is_open():
            raise ValueError("data must be in registered memory that is not closed")
        # A copy, so that what is sent has been checked, even if the array changes meanwhile.
        PyObject_GetBuffer(lbas, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
        try:
            if view.itemsize != 8 or view.ndim != 1:
                raise ValueError("LBAs are an array of unsigned 64-bit numbers")
            count = view.len // 8
            self._lbas = <uint64_t *>PyMem_Malloc(max(view.len, 1))
            if self._lbas == NULL:
                raise MemoryError(f"a batch of {count} commands")
            memcpy(self._lbas, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        if not 0 < count <= 0xffffffff or not length or not depth:
            raise ValueError("a batch has at least one command, which transfers data")
        if offset > memory._memory.length or count * length > memory._memory.length - offset:
            raise ValueError(f"{count} times {length} bytes at {offset} are not in a memory of "
                             f"{memory._memory.length}")
        self._memory = memory
        self._batch.lbas = self._lbas
        self._batch.count = count
        self._batch.bytes = length
        self._batch.memory = memory._memory
        self._batch.addr = <uint8_t *>memory._memory.addr + offset
        self._batch.to_device = to_device
        self._batch.in_capsule = in_capsule
        self._batch.depth = min(depth, count)
        if host_batch_init(&self._batch) < 0:
            raise MemoryError(f"a batch of {count} commands")

    @property
    def depth(self):
        return self._batch.depth

    @property
    def answered(self):
        return self._batch.answered

    def stop(self):
        """Submit no further commands."""
        self._batch.stopped = True

    def left(self):
        """Return (index, NVMe status, or None without an answer) of each failed command."""
        cdef uint32_t index
        out = []
        for index in range(self._batch.count):
            status = self._batch.status[index]
            if status:
                out.append((index, None if status == HOST_BATCH_OPEN else status))
        return out

    def succeeded(self, uint32_t index):
        """Note that a command was run in a different way."""
        if index >= self._batch.count:
            raise IndexError(index)
        self._batch.status[index] = 0

    @property
    def error(self):
        """The errno with which submission failed, or 0."""
        return -self._batch.error

    def __len__(self):
        return self._batch.count

    def __dealloc__(self):
        host_batch_free(&self._batch)
        PyMem_Free(self._lbas)
