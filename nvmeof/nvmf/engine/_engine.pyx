# cython: language_level=3, embedsignature=False
# SPDX-License-Identifier: BSD-3-Clause
"""The binding of the engine: a thin face of c/, in the words of _engine.pyi.

Ownership.  A Target owns its reactors, and holds every Qpair and Namespace that C knows, from
accept or create until destroy or close: a pointer that comes back in an upcall is a borrowed
reference to an object that the Target's registry keeps alive.  An EventChannel holds its Listeners
and the Qpairs that came over it, and outlives their CM ids.  A Command holds its Qpair; a Namespace
its Store; a HostQueue the HostMemory of what is outstanding.  Parents close their children first.

Threads.  A Target and all that belongs to it is called from one control thread (Command.complete
from any).  A HostQueue belongs to who polls it.  Calls that block release the GIL.
"""

import os
import sys
import warnings
from errno import errorcode
from weakref import WeakValueDictionary

cimport cython
from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE,
                             PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject

include "capi.pxi"
include "capi_target.pxi"
include "capi_host.pxi"

cdef enum:
    ERR = 400  # bytes for a sentence of C

include "common.pxi"
include "store.pxi"
include "target.pxi"
include "namespace.pxi"
include "qpair.pxi"
include "gate.pxi"
include "cm.pxi"
include "cm_event.pxi"
include "host.pxi"
include "batch.pxi"
include "bench.pxi"
