# cython: language_level=3, embedsignature=False
# SPDX-License-Identifier: BSD-3-Clause
"""The thin binding of the C engine; _engine.pyi documents its interface.

Ownership.  A Target owns its reactors, and keeps a reference to each Qpair and Namespace known to C,
from accept or creation until destroy or close, because upcalls carry borrowed references to them.
An EventChannel keeps references to its Listeners and to the Qpairs that it has accepted, and exists
longer than their CM ids.  A Command references its Qpair; a Namespace, its Store; a HostQueue, the
HostMemory of outstanding commands.  Parents close their children first.

Threads.  A Target and its objects are called from one control thread, except Command.complete and
the calls of a Store of kind "python" (any thread).  A HostQueue is used by one thread at a time.
Calls that block release the GIL.
"""

import os
import sys
import warnings
from errno import errorcode
from weakref import WeakValueDictionary

from nvmf.errors import Error

cimport cython
from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE,
                             PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject

include "capi.pxi"
include "capi_target.pxi"
include "capi_host.pxi"
include "capi_memory.pxi"

cdef enum:
    ERR = 400  # bytes for a sentence of C

include "common.pxi"
include "store.pxi"
include "target.pxi"
include "namespace.pxi"
include "qpair.pxi"
include "gate.pxi"
include "inject.pxi"
include "cm.pxi"
include "cm_event.pxi"
include "memory.pxi"
include "memory_host.pxi"
include "registered.pxi"
include "host.pxi"
include "batch.pxi"
include "spread.pxi"
include "bench.pxi"
include "sum.pxi"
