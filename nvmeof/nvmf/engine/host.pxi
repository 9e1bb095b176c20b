# SPDX-License-Identifier: BSD-3-Clause
# The queues of the host side (c/host/host.h); registered.pxi has their memory.

cdef enum:
    POLL_MAX = 128  # a full queue of the usual depth: its next commands then go out in one call

cdef class HostSpread


@cython.final
cdef class HostQueue:
    """A connected queue.  Not thread-safe: the thread that submits also polls."""

    cdef host_queue *_queue
    cdef HostDevice _device
    cdef dict _pending  # CID to (user, HostMemory or None)
    cdef dict _batches  # HostBatch to user
    cdef HostSpread _spread  # of which it is a leg, or None
    cdef unsigned _leg
    cdef bint _paused, _stopped
    cdef str _made
    cdef str _reason
    cdef readonly uint16_t qid
    cdef readonly unsigned size
    cdef readonly unsigned room
    cdef object __weakref__

    def __cinit__(self, HostDevice device not None, *, str traddr not None, trsvcid="4420",
                  host_traddr=None, uint16_t qid=0, uint16_t size=32, uint16_t cntlid=0,
                  uint32_t in_capsule=0, uint32_t timeout_ms=10000, int cancel=-1):
        cdef host_queue_options options
        cdef host_error error
        cdef host_queue *queue
        cdef int code
        traddr_bytes = traddr.encode()
        trsvcid_bytes = str(trsvcid).encode()
        host_bytes = b"" if host_traddr is None else host_traddr.encode()
        memset(&options, 0, sizeof(options))
        options.traddr = PyBytes_AS_STRING(traddr_bytes)
        options.trsvcid = PyBytes_AS_STRING(trsvcid_bytes)
        options.host_traddr = PyBytes_AS_STRING(host_bytes) if host_bytes else NULL
        options.qid = qid
        options.size = size
        options.cntlid = cntlid
        options.in_capsule = in_capsule
        options.timeout_ms = timeout_ms
        options.notify = True
        options.cancel = &cancel
        memset(&error, 0, sizeof(error))
        error.cm_event = -1
        with nogil:
            clear_errno()
            queue = host_queue_connect(device._device, &options, &error)
            code = errno
        if queue == NULL:
            raise connect_failed(code, &error)
        self._queue = queue
        self._device = device
        self._pending = {}
        self._batches = {}
        self._paused = self._stopped = False
        self._reason = ""
        self.qid = qid
        self.size = host_queue_size(queue)
        self.room = host_queue_room(queue)
        self._made = made_at()

    cdef host_queue *get(self) except NULL:
        if self._queue == NULL:
            raise closed("queue")
        return self._queue

    @property
    def outstanding(self):
        return 0 if self._queue == NULL else host_queue_outstanding(self._queue)

    @property
    def reason(self):
        """The reason for the loss of the connection, or ""."""
        cdef const char *why
        if self._queue != NULL:
            why = host_queue_reason(self._queue)
            self._reason = "" if why == NULL else why.decode("utf-8", "replace")
        return self._reason

    def fileno(self):
        return host_queue_fd(self.get())

    cdef object lost(self, int code, str what):
        why = self.reason
        if code == ENOTCONN and why:
            return EngineError(code, f"{what}: the connection was lost: {why}")
        return EngineError(code, f"{what}: {os.strerror(code)}")

    def submit(self, sqe, user, HostMemory memory=None, size_t offset=0, uint32_t length=0,
               bint to_device=False, bint in_capsule=True):
        cdef host_queue *queue = self.get()
        cdef nvme_sqe entry
        cdef host_data data
        cdef host_data *moved = NULL
        cdef Py_buffer view
        cdef int cid
        PyObject_GetBuffer(sqe, &view, PyBUF_SIMPLE)
        if view.len != sizeof(entry):
            PyBuffer_Release(&view)
            raise ValueError("a submission queue entry has 64 bytes")
        memcpy(&entry, view.buf, sizeof(entry))
        PyBuffer_Release(&view)
        if length:
            if memory is None or not memory.is_open():
                raise ValueError("data must be in registered memory that is not closed")
            if offset > memory._memory.length or length > memory._memory.length - offset:
                raise ValueError(f"{length} bytes at {offset} are not in a memory of "
                                 f"{memory._memory.length}")
            if memory._device._device != self._device._device:
                raise ValueError("the memory is registered on another device than the queue's")
            data.addr = <char *>memory._memory.addr + offset
            data.length = length
            data.to_device = to_device
            data.in_capsule = in_capsule
            data.memory = memory._memory
            moved = &data
        held = (user, memory if length else None)
        cid = host_queue_submit(queue, &entry, moved, <void *>held, False)
        if cid < 0:
            if cid == -EAGAIN:
                raise BlockingIOError(EAGAIN, f"the queue has {self.size} commands outstanding")
            raise self.lost(-cid, f"cannot submit a command to queue {self.qid}")
        self._pending[cid] = held
        if length:
            memory._commands += 1
        return cid

    cdef object release(self, held):
        """Return the user of a command that was outstanding, and release its memory."""
        if held[1] is not None:
            (<HostMemory>held[1]).drop()
        return held[0]

    def poll(self, int limit=POLL_MAX):
        cdef host_queue *queue = self.get()
        cdef host_completion completions[POLL_MAX]
        cdef nvme_cqe *cqe
        cdef list out = []
        cdef int most = min(max(limit, 1), POLL_MAX)
        cdef int index
        cdef int count = host_queue_poll(queue, completions, most)
        cdef int rounds = 0
        while True:
            if count < 0:
                if out:
                    return out  # and the next poll raises
                raise self.lost(-count, f"queue {self.qid}")
            for index in range(count):
                cqe = &completions[index].cqe
                held = self._pending.pop(cqe.cid, None) if self._pending else None
                if held is not None:
                    out.append((self.release(held), cqe.status >> 1, cqe.dw0, cqe.dw1))
                elif completions[index].user != NULL and (self._batches or
                                                          self._spread is not None):
                    host_answer_take(completions[index].user, cqe)
            if self._spread is not None:
                host_spread_run(self._spread._spread, self._leg)
                if host_spread_has_news(self._spread._spread):
                    self._spread.tell()
                    queue = self.get()
            if not self._batches:
                if out or not count or self._spread is None:
                    return out
                count = host_queue_poll(queue, completions, most)
                continue
            self.run_batches(out)
            rounds += 1
            if out or not count or rounds == BATCH_ROUNDS:
                return out
            with nogil:
                count = host_batch_poll(queue, completions, most, BATCH_SPIN_NS)

    cdef object run_batches(self, list out):
        """Submit commands of batches while there is room; return users of ended batches."""
        cdef HostBatch batch
        for batch in list(self._batches):
            if not self._paused:
                host_batch_run(self._queue, &batch._batch)
            if host_batch_ended(&batch._batch):
                out.append((self.end_batch(batch), 0, 0, 0))

    cdef object end_batch(self, HostBatch batch):
        batch._running = False
        batch._memory.drop()
        return self._batches.pop(batch)

    def submit_batch(self, HostBatch batch not None, user, unsigned at_once=0):
        self.get()
        if batch._running:
            raise ValueError("the batch is already running")
        if not batch._memory.is_open():
            raise ValueError("data must be in registered memory that is not closed")
        if batch._memory._device._device != self._device._device:
            raise ValueError("the memory is registered on another device than the queue's")
        host_batch_start(&batch._batch, at_once or batch._batch.depth)
        batch._running = True
        batch._memory._commands += 1
        self._batches[batch] = user
        if not self._paused:
            host_batch_run(self._queue, &batch._batch)

    def pause_batches(self, bint paused):
        self._paused = paused
        if self._spread is not None:
            host_spread_pause(self._spread._spread, self._leg, paused)

    def arm(self):
        cdef int code = host_queue_arm(self.get())
        if code < 0:
            raise self.lost(-code, f"cannot arm queue {self.qid}")

    def drain(self):
        host_queue_drain(self.get())

    def nudge(self):
        return host_queue_nudge(self.get()) / 1000

    def abandon(self):
        cdef host_queue *queue = self.get()
        cdef void *users[POLL_MAX]
        while host_queue_abandon(queue, users, POLL_MAX) == POLL_MAX:
            pass
        return self.forget()

    cdef list forget(self):
        """Return the users of all outstanding commands, and release their memory."""
        cdef HostBatch batch
        if self._spread is not None and not self._stopped:
            self._spread.detach(self._leg)
        users = [self.release(held) for held in self._pending.values()]
        self._pending.clear()
        for batch in list(self._batches):
            host_batch_abandon(&batch._batch)
            users.append(self.end_batch(batch))
        return users

    def stop_spread(self):
        if self._spread is not None:
            host_spread_stop(self._spread._spread, self._leg)
            self._stopped = True

    def end_spread(self):
        if self._queue == NULL and self._spread is not None:
            self._spread.detach(self._leg)

    def close(self):
        cdef host_queue *queue = self._queue
        if queue == NULL:
            return
        self.reason  # kept for later callers
        if self._spread is not None and not self._stopped:
            host_spread_stop(self._spread._spread, self._leg)
        self._queue = NULL
        with nogil:
            host_queue_destroy(queue)
        self.forget()

    def __repr__(self):
        if self._queue == NULL:
            return f"<HostQueue qid {self.qid} closed>"
        return f"<HostQueue qid {self.qid} {self.outstanding}/{self.size}>"

    def __del__(self):
        if self._queue != NULL:
            warn_open(self, f"HostQueue made at {self._made} was never closed")
            self.close()
